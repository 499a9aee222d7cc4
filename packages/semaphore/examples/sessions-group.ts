import { connect } from "@kit/core";
import { createSemaphore, type Permit } from "@kit/semaphore";

await using redis = await connect();
// At most five sessions for each account, and eight in all: a group, whose tenants are the accounts.
const sessions = createSemaphore(redis, "sessions", { permits: 8, permitsPerTenant: 5 });

const open: Permit[] = [];
for (let device = 1; device <= 6; device++) {
  const session = await sessions.tryAcquire({ tenant: "ann", holder: `device ${device}` });
  if (session) open.push(session);
  else console.log(`device ${device} is refused`); // prints: device 6 is refused
}

// Ann's sixth waits for one of hers, and does not hold up others.
const sixth = sessions.acquire({ tenant: "ann", holder: "device 6" });
const bob = await sessions.acquire({ tenant: "bob", waitMs: 1_000 });
console.log(bob.tenant); // prints: bob

await open[0]?.release();
console.log((await sixth).holder); // prints: device 6
const { used, free } = await sessions.inspect({ tenant: "ann" });
console.log(used, free); // prints: 5 0

// Permits that are still held are released.
await sessions.close({ timeoutMs: 0 });
