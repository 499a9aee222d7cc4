import { connect } from "@kit/core";
import { createSemaphore, type Permit, type Semaphore } from "@kit/semaphore";

await using redis = await connect();
const accounts = new Map<string, Semaphore>();

/** At most five sessions for each account, on all machines together: a semaphore per account. */
function sessionsOf(account: string): Semaphore {
  let sessions = accounts.get(account);
  if (!sessions) accounts.set(account, (sessions = createSemaphore(redis, `sessions:${account}`, { permits: 5 })));
  return sessions;
}

const open: Permit[] = [];
for (let device = 1; device <= 6; device++) {
  const session = await sessionsOf("ann").tryAcquire({ holder: `device ${device}` });
  if (session) open.push(session);
  else console.log(`device ${device} is refused`); // prints: device 6 is refused
}
console.log(open.length); // prints: 5

// Another account has five of its own.
console.log((await sessionsOf("bob").inspect()).free); // prints: 5

await open[0]?.release();
const sixth = await sessionsOf("ann").tryAcquire({ holder: "device 6" });
console.log(sixth?.holder); // prints: device 6

// Permits that are still held are released.
for (const sessions of accounts.values()) await sessions.close({ timeoutMs: 0 });
