import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute } from "./transaction.js";

/** The pause of a waiter between two tries, as in the classic code. */
const POLL_MS = 1;

/**
 * "Redis in Action", chapter 6: `SETNX lock:<name> <uuid>`, tried each millisecond until `acquireTimeoutMs` has
 * passed. Resolves to the token, or null.
 *
 * Known faults: no time limit on the lock, so that a crashed holder keeps it for ever; every waiter polls, in no order;
 * no fencing token.
 */
export async function acquireLock(
  redis: Redis,
  name: string,
  acquireTimeoutMs = 10_000,
  prefix = "",
): Promise<string | null> {
  const key = classicKeys(prefix).lock(name);
  const token = randomUUID();
  const end = Date.now() + acquireTimeoutMs;
  while (Date.now() < end) {
    if ((await redis.setnx(key, token)) === 1) return token;
    await sleep(POLL_MS);
  }
  return null;
}

/**
 * "Redis in Action", chapter 6: `WATCH`, `GET`, and if the token is still ours `MULTI DEL EXEC`. Resolves to false when
 * the lock was no longer ours. Needs a dedicated connection, since it uses `WATCH`.
 *
 * Known faults:
 *
 * - three round trips (four with the acquire)
 * - retried at once and without bound while other clients write the key, for example by the `EXPIRE` of a waiter
 * - the holder learns of a lost lock only after its work
 */
export async function releaseLock(redis: Redis, name: string, token: string, prefix = ""): Promise<boolean> {
  const key = classicKeys(prefix).lock(name);
  for (;;) {
    await redis.watch(key);
    if ((await redis.get(key)) !== token) {
      await redis.unwatch();
      return false;
    }
    if ((await execute(redis.multi().del(key))) !== null) return true;
  }
}

/**
 * The same lock by a later command: `SET lock:<name> <uuid> EX <seconds> NX`, tried each millisecond. Released by
 * {@link releaseLock}.
 *
 * Known faults: as {@link acquireLockWithTimeout}, without the crash window and without the repair.
 */
export async function acquireLockBySet(
  redis: Redis,
  name: string,
  acquireTimeoutMs = 10_000,
  lockTimeoutSeconds = 10,
  prefix = "",
): Promise<string | null> {
  const key = classicKeys(prefix).lock(name);
  const token = randomUUID();
  const end = Date.now() + acquireTimeoutMs;
  while (Date.now() < end) {
    if ((await redis.set(key, token, "EX", Math.ceil(lockTimeoutSeconds), "NX")) === "OK") return token;
    await sleep(POLL_MS);
  }
  return null;
}

/**
 * The most common first attempt at a lock: `SETNX` without an owner, then `EXPIRE`, tried each millisecond. Released by
 * {@link releaseOwnerlessLock}.
 *
 * Known faults, the four classic symptoms:
 *
 * 1. a holder that was too slow releases the lock of the next one
 * 2. a crashed holder is not detected, and one that crashed before `EXPIRE` holds the lock for ever
 * 3. several clients hold the lock at once
 * 4. each of them works as if it was the only holder
 */
export async function acquireOwnerlessLock(
  redis: Redis,
  name: string,
  acquireTimeoutMs = 10_000,
  lockTimeoutSeconds = 10,
  prefix = "",
): Promise<boolean> {
  const key = classicKeys(prefix).lock(name);
  const end = Date.now() + acquireTimeoutMs;
  while (Date.now() < end) {
    if ((await redis.setnx(key, "1")) === 1) {
      await redis.expire(key, Math.ceil(lockTimeoutSeconds));
      return true;
    }
    await sleep(POLL_MS);
  }
  return false;
}

/** Deletes the lock, even if another client holds it by now. */
export async function releaseOwnerlessLock(redis: Redis, name: string, prefix = ""): Promise<void> {
  await redis.del(classicKeys(prefix).lock(name));
}
