import { connect } from "@kit/core";
import { createSemaphore, PermitLostError } from "@kit/semaphore";

await using redis = await connect();
// No process holds a session between two requests: it ends after half an hour without one.
await using sessions = createSemaphore(redis, "web-sessions", {
  permits: 1_000_000,
  permitsPerTenant: 5,
  leaseMs: 30 * 60_000,
  renew: false,
});

/** For the session store, not for the cookie: with this text anyone can end the session. */
async function signIn(account: string): Promise<string | null> {
  const permit = await sessions.tryAcquire({ tenant: account });
  return permit && permit.handOver();
}

/** On each request: starts the half hour again. */
async function seen(session: string): Promise<string> {
  const permit = await sessions.resume(session);
  return permit.handOver();
}

async function signOut(session: string): Promise<void> {
  const permit = await sessions.resume(session);
  await permit.release();
}

const session = await signIn("ann");
if (session === null) throw new Error("Ann has five sessions already");
const later = await seen(session);
console.log((await sessions.inspect()).used); // prints: 1

await signOut(later);
await seen(session).catch((error: unknown) => {
  if (!(error instanceof PermitLostError)) throw error;
  console.log("signed out, or gone after half an hour"); // prints: signed out, or gone after half an hour
});
