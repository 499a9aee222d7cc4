import type { KitError } from "@kit/core";
import type { Leaser } from "@kit/core/leasing";
import { onAbort, withCaller } from "@kit/core/toolkit";
import type { Lease } from "./lease.js";
import { LeaseSet, releaseAll } from "./lease-set.js";
import type { ResolvedLock } from "./options.js";
import type { Held } from "./scripts/index.js";

type LockLeaser = Leaser<ResolvedLock, Held, Lease>;

const mostNames = 100;

/**
 * The names without duplicates, in the order in which every caller takes them. The common order prevents deadlocks.
 *
 * @throws {TypeError | RangeError} `names` is not a list, or not of 1 to 100 names.
 * @throws {KitError} `KIT_NAME`: a name cannot be a key.
 */
const inOrder = (leaser: LockLeaser, names: readonly string[]): string[] => {
  if (!Array.isArray(names)) throw new TypeError(`Expected \`names\` to be a list of names, got ${typeof names}`);
  const distinct = [...new Set(names)];
  if (distinct.length === 0 || distinct.length > mostNames)
    throw new RangeError(
      `Expected \`names\` to have 1 to ${String(mostNames)} different names, got ${String(distinct.length)}`,
    );
  for (const name of distinct) leaser.commands.kind.keyOf(name);
  return distinct.sort((one, other) => (one < other ? -1 : 1));
};

/** A name that was not free. */
interface Refused {
  readonly name: string;
  /** The error for a caller that does not wait. */
  readonly error: () => KitError;
}

/**
 * Tries all names in one round trip, and returns the leases before the first name that was not free. Later ones are released, so that no
 * caller holds them while it waits.
 */
const tryNames = async (
  leaser: LockLeaser,
  names: readonly string[],
  resolved: ResolvedLock,
  startedAt: number,
): Promise<{ readonly leases: readonly Lease[]; readonly refused: Refused | undefined }> => {
  const { kind } = leaser.commands;
  const refusals = new Map<string, Refused>();
  const tries = names.map((name) => {
    const refused = (...[request, seen]: Parameters<typeof kind.timeoutError>): null => {
      refusals.set(name, { name, error: () => kind.timeoutError(request, seen) });
      return null;
    };
    // A lease that is released immediately must not keep its lock taken.
    return leaser.acquire(name, { ...resolved, minHoldMs: 0 }, refused, startedAt);
  });
  const ended = await Promise.allSettled(tries);
  const granted = ended.map((one) => (one.status === "fulfilled" ? one.value : null));
  for (const one of ended)
    if (one.status === "rejected") {
      releaseAll(granted);
      throw one.reason;
    }
  const leases: Lease[] = [];
  for (const lease of granted) {
    if (!lease) break;
    leases.push(lease);
  }
  releaseAll(granted.slice(leases.length));
  return { leases, refused: refusals.get(names[leases.length] ?? "") };
};

/** Waits in the queue of a name. Stops when a lease of `held` is lost, because the set would be useless. */
const waitFor = async (
  leaser: LockLeaser,
  name: string,
  resolved: ResolvedLock,
  startedAt: number,
  held: readonly Lease[],
): Promise<Lease> => {
  const giveUp = new AbortController();
  const stops = [resolved.signal, ...held.map(({ signal }) => signal)].map((signal) =>
    onAbort(signal, () => giveUp.abort(signal?.reason)),
  );
  try {
    return await leaser.acquire(name, { ...resolved, minHoldMs: 0, signal: giveUp.signal }, undefined, startedAt);
  } finally {
    for (const stop of stops) stop();
  }
};

/** @throws the loss of a lease that ended before the last one was granted; then all are released. */
const setOf = (leases: readonly Lease[]): LeaseSet => {
  const set = new LeaseSet(leases);
  set.assertHeld();
  return set;
};

/**
 * Takes the leases of all names, or none. While it waits for a name, it holds the earlier names and none of the later ones. `waitMs` and
 * `signal` apply to all of them together.
 *
 * @throws all errors of {@link Leaser.acquire}, or the loss of a lease that was taken; the other leases are released in the background.
 */
export const acquireAll = async (
  leaser: LockLeaser,
  names: readonly string[],
  resolved: ResolvedLock,
): Promise<LeaseSet> => {
  const ordered = inOrder(leaser, names);
  const startedAt = performance.now();
  const held: Lease[] = [];
  try {
    for (;;) {
      const { leases, refused } = await tryNames(leaser, ordered.slice(held.length), resolved, startedAt);
      held.push(...leases);
      if (!refused) break;
      if (resolved.waitMs === 0) throw refused.error();
      held.push(await waitFor(leaser, refused.name, resolved, startedAt, held));
    }
    return setOf(held);
  } catch (error) {
    releaseAll(held);
    throw withCaller(error);
  }
};

/** Tries once to take all names or none. Returns null if one was not free. */
export const tryAcquireAll = async (
  leaser: LockLeaser,
  names: readonly string[],
  resolved: ResolvedLock,
): Promise<LeaseSet | null> => {
  const ordered = inOrder(leaser, names);
  const { leases, refused } = await tryNames(leaser, ordered, resolved, performance.now());
  if (!refused) return setOf(leases);
  releaseAll(leases);
  return null;
};
