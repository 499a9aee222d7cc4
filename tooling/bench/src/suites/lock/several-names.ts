// Several names at once: by `acquireAll`, by one acquire after the other, by a peer, and by the fewest commands.
import { randomUUID } from "node:crypto";
import { pinned } from "../../pins.js";
import { connected } from "../../clients.js";
import { compareAndDelete, type Definition, type LockImplementation, neverTold, type Routine } from "./lock-caller.js";

type UsingAll = (names: readonly string[], routine: Routine) => Promise<void>;

const implementationOf = (usingAll: UsingAll): LockImplementation => ({
  caller: () => ({ using: (name, routine) => usingAll([name], routine), usingAll }),
  renews: false,
  leaseKey: (name) => name,
});

const kit: Definition = {
  id: "acquireAll",
  peer: "kit",
  settings: "usingAll; defaults but deadlineMs: 20000; a fencing token a name",
  open: async (url, { leaseMs, renew }, connect) => {
    const { createLock } = await import("@kit/lock");
    const lock = createLock(await connect(url), { leaseMs, renew, deadlineMs: 20_000 });
    return implementationOf((names, routine) => lock.usingAll(names, () => routine(neverTold)));
  },
};

const inTurn: Definition = {
  id: "acquires in turn",
  settings: "createLock, one acquire after the other, then one release after the other",
  open: async (url, { leaseMs, renew }, connect) => {
    const { createLock } = await import("@kit/lock");
    const lock = createLock(await connect(url), { leaseMs, renew, deadlineMs: 20_000 });
    return implementationOf(async (names, routine) => {
      const leases = [];
      for (const name of names) leases.push(await lock.acquire(name));
      await routine(neverTold);
      for (const lease of leases) await lease.release();
    });
  },
};

const redlock5: Definition = {
  id: "redlock5 of several",
  peer: pinned("redlock5"),
  settings: "using() of all names, renewed: one script takes them, which must lie in one slot",
  open: async (url, { leaseMs }) => {
    const { default: Redlock5 } = await import("redlock5");
    const redlock = new Redlock5([await connected(url)]);
    return implementationOf((names, routine) => redlock.using([...names], leaseMs, async () => routine(neverTold)));
  },
};

const rawPairs: Definition = {
  id: "raw pairs",
  peer: "floor",
  settings: "SET NX PX for each name in one write, then compare-and-delete by EVALSHA for each in one write",
  open: async (url, { leaseMs }) => {
    const redis = await connected(url);
    const sha = String(await redis.script("LOAD", compareAndDelete));
    return implementationOf(async (names, routine) => {
      const token = randomUUID();
      const taken = await Promise.all(names.map((name) => redis.set(name, token, "PX", leaseMs, "NX")));
      if (taken.some((one) => one !== "OK")) throw new Error("raw pairs have no rivals");
      await routine(neverTold);
      await Promise.all(names.map((name) => redis.evalsha(sha, 1, name, token)));
    });
  },
};

export const severalNamesDefinitions: readonly Definition[] = [kit, inTurn, redlock5, rawPairs];
