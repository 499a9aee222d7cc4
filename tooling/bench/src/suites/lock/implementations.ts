// The libraries, each behind the same small interface and with the settings under which it is measured.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { acquireLockBySet, releaseLock } from "@tooling/classic";
import { pinned } from "../../pins.js";
import { catalogOf } from "../../implementation.js";
import { connected, reconnecting } from "../../clients.js";
import { foreverMs, inWords, perName, pushed } from "../../loops/caller.js";
import {
  compareAndDelete,
  type Definition,
  type LockCaller,
  type LockImplementation,
  type LockSetup,
  neverTold,
  toldBy,
} from "./lock-caller.js";
import { quorumDefinitions } from "./quorum.js";
import { readWriteDefinitions } from "./read-write.js";
import { severalNamesDefinitions } from "./several-names.js";

const kit: Definition = {
  id: "kit",
  settings: "defaults but deadlineMs: 20000; renewed each third of the lease, fencing on, in order of arrival",
  open: async (url, { leaseMs, renew }, connect) => {
    const { createLock } = await import("@kit/lock");
    const { keyspace } = await import("@kit/core");
    const lock = createLock(await connect(url), { leaseMs, renew, deadlineMs: 20_000 });
    const using: LockCaller["using"] = async (name, routine) => {
      const lease = await lock.acquire(name);
      try {
        await routine({ onLost: (listener) => toldBy(lease.signal).onLost(listener) });
      } finally {
        await lease.release();
      }
    };
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => keyspace("lock").key(name, "lease") };
  },
};

interface Retries {
  readonly retryDelay: number;
  readonly retryJitter: number;
}

/** The libraries' default of ten tries gives up long before the lock is free. */
const retriesOf = (retries: Retries, { defaultRetries }: LockSetup): Retries & { readonly retryCount: number } => ({
  ...retries,
  retryCount: defaultRetries ? 10 : -1,
});

const thresholdOf = ({ leaseMs, renewEachThird }: LockSetup): { readonly automaticExtensionThreshold?: number } =>
  renewEachThird ? { automaticExtensionThreshold: Math.round((leaseMs * 2) / 3) } : {};

const refreshOf = ({ leaseMs, renew, renewEachThird }: LockSetup): { readonly refreshInterval?: number } =>
  renew ? (renewEachThird ? { refreshInterval: Math.round(leaseMs / 3) } : {}) : { refreshInterval: 0 };

const redlock4 = (id: string, isDefaults: boolean, retries: Retries): Definition => ({
  id,
  peer: pinned("redlock4"),
  isDefaults,
  settings: (setup) => `${inWords(retriesOf(retries, setup))}; has no renewal`,
  open: async (url, setup) => {
    const { leaseMs } = setup;
    const { default: Redlock4 } = await import("redlock4");
    const redlock = new Redlock4([await connected(url)], retriesOf(retries, setup));
    const using: LockCaller["using"] = async (name, routine) => {
      const held = await redlock.lock(name, leaseMs);
      try {
        await routine(neverTold);
      } finally {
        await held.unlock();
      }
    };
    return { caller: () => ({ using }), renews: false, leaseKey: (name) => name };
  },
});

const redlock5 = (id: string, isDefaults: boolean, retries: Retries): Definition => ({
  id,
  peer: pinned("redlock5"),
  isDefaults,
  settings: (setup) => `using(), renewed; ${inWords({ ...retriesOf(retries, setup), ...thresholdOf(setup) })}`,
  open: async (url, setup) => {
    const { leaseMs, renew } = setup;
    const { default: Redlock5 } = await import("redlock5");
    const redlock = new Redlock5([await connected(url)], { ...retriesOf(retries, setup), ...thresholdOf(setup) });
    const using: LockCaller["using"] = async (name, routine) => {
      if (renew) {
        await redlock.using([name], leaseMs, async (signal) => routine(toldBy(signal)));
        return;
      }
      const held = await redlock.acquire([name], leaseMs);
      try {
        await routine(neverTold);
      } finally {
        await held.release();
      }
    };
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => name };
  },
});

const redisSemaphore = (id: string, isDefaults: boolean, retryInterval: number): Definition => ({
  id,
  peer: pinned("redis-semaphore"),
  isDefaults,
  settings: (setup) => `Mutex, renewed; ${inWords({ retryInterval, acquireTimeout: foreverMs, ...refreshOf(setup) })}`,
  open: async (url, setup) => {
    const { Mutex } = await import("redis-semaphore");
    const redis = await connected(url);
    const caller = (): LockCaller => {
      const listeners = new Set<() => void>();
      const mutexOf = perName(
        (name) =>
          new Mutex(redis, name, {
            lockTimeout: setup.leaseMs,
            acquireTimeout: foreverMs,
            retryInterval,
            ...refreshOf(setup),
            onLockLost: () => {
              for (const listener of listeners) listener();
            },
          }),
      );
      const using: LockCaller["using"] = async (name, routine) => {
        const mutex = mutexOf(name);
        await mutex.acquire();
        try {
          await routine({ onLost: (listener) => listeners.add(listener) });
        } finally {
          await mutex.release();
        }
      };
      return { using };
    };
    return { caller, renews: true, leaseKey: (name) => `mutex:${name}` };
  },
});

const universal = (
  id: string,
  isDefaults: boolean,
  performance: "lean" | "standard",
  retryDelay: number,
): Definition => ({
  id,
  peer: pinned("redlock-universal"),
  isDefaults,
  settings: `using(), renewed; ${inWords({ performance, retryDelay, retryAttempts: 1e9 })}`,
  open: async (url, { leaseMs, renew }) => {
    const { createLock: createUniversal, IoredisAdapter } = await import("redlock-universal");
    const adapter = new IoredisAdapter(await connected(url));
    const caller = (): LockCaller => {
      const lockOf = perName((name) =>
        createUniversal({
          adapter,
          key: name,
          ttl: leaseMs,
          retryAttempts: 1e9,
          retryDelay,
          performance,
        }),
      );
      const using: LockCaller["using"] = async (name, routine) => {
        const lock = lockOf(name);
        if (renew) {
          await lock.using(async (signal) => routine(signal ? toldBy(signal) : neverTold));
          return;
        }
        const held = await lock.acquire();
        try {
          await routine(neverTold);
        } finally {
          await lock.release(held);
        }
      };
      return { using };
    };
    return { caller, renews: true, leaseKey: (name) => name };
  },
});

const classic: Definition = {
  id: "classic",
  settings: "SET NX EX each millisecond, WATCH GET MULTI DEL EXEC; a connection per caller; has no renewal",
  open: async (url, { leaseMs }) => {
    const caller = (): LockCaller => {
      // The state of WATCH belongs to the connection.
      const redis = reconnecting(url);
      return {
        using: async (name, routine) => {
          const token = await acquireLockBySet(redis, name, foreverMs, leaseMs / 1_000);
          if (token === null) throw new Error("classic gave up");
          try {
            await routine(neverTold);
          } finally {
            await releaseLock(redis, name, token);
          }
        },
      };
    };
    return { caller, renews: false, leaseKey: (name) => `lock:${name}` };
  },
};

/** A waiter reads the remaining lease and retries when it ends: one timer, one command. */
const rawTimer: Definition = {
  id: "raw timer",
  peer: "floor",
  settings: "SET NX PX, else PTTL, a timer of that length, and SET NX PX again; no renewal or fencing",
  open: async (url, { leaseMs }) => {
    const redis = await connected(url);
    const using: LockCaller["using"] = async (name, routine) => {
      while ((await redis.set(name, "held", "PX", leaseMs, "NX")) !== "OK") await sleep(await redis.pttl(name));
      await routine(neverTold);
    };
    return { caller: () => ({ using }), renews: false, leaseKey: (name) => name };
  },
};

/** The floor of a lock that expires: one command to acquire it, one script to release it. */
const rawPair: Definition = {
  id: "raw pair",
  peer: "floor",
  settings: "SET NX PX, then compare-and-delete by EVALSHA; no waiting, renewal or fencing",
  open: async (url, { leaseMs }) => {
    const redis = await connected(url);
    const sha = String(await redis.script("LOAD", compareAndDelete));
    const using: LockCaller["using"] = async (name, routine) => {
      const token = randomUUID();
      if ((await redis.set(name, token, "PX", leaseMs, "NX")) !== "OK") throw new Error("a raw pair has no rivals");
      await routine(neverTold);
      await redis.evalsha(sha, 1, name, token);
    };
    return { caller: () => ({ using }), renews: false, leaseKey: (name) => name };
  },
};

const takeOrQueue = `
if redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[3], "NX") then return 1 end
redis.call("RPUSH", KEYS[2], ARGV[1] .. " " .. ARGV[2])
return 0`;

const handOn = `
local head = redis.call("LPOP", KEYS[2])
if not head then return redis.call("DEL", KEYS[1]) end
local token, inbox = head:match("(.*) (.*)")
redis.call("SET", KEYS[1], token, "PX", ARGV[1])
return redis.call("PUBLISH", inbox, token)`;

/**
 * The floor of a hand-over: one script to acquire or to queue, one that passes the lock to the next waiter and notifies
 * it.
 */
const rawPush: Definition = {
  id: "raw push",
  peer: "floor",
  settings:
    "EVALSHA takes or queues; EVALSHA one way and PUBLISH to message; no checks, renewal, fencing or crash safety",
  open: async (url, { leaseMs }) => {
    const bare = await pushed(url, takeOrQueue, handOn, leaseMs);
    const using: LockCaller["using"] = (name, routine) => bare.using(name, () => routine(neverTold));
    return { caller: () => ({ using }), renews: false, leaseKey: (name) => name };
  },
};

const renewOne = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`;

/** Renews as most libraries do: one script for each lock, each third of its lease. */
const scriptPerLock: Definition = {
  id: "one script per lock",
  settings: "compare-and-PEXPIRE by EVALSHA for each lock, each third of the lease",
  open: async (url, { leaseMs }) => {
    const redis = await connected(url);
    const sha = String(await redis.script("LOAD", renewOne));
    const using: LockCaller["using"] = async (name, routine) => {
      const token = randomUUID();
      await redis.set(name, token, "PX", leaseMs, "NX");
      const timer = setInterval(() => void redis.evalsha(sha, 1, name, token, leaseMs), Math.round(leaseMs / 3));
      await routine(neverTold);
      clearInterval(timer);
      await redis.del(name);
    };
    return { caller: () => ({ using }), renews: true, leaseKey: (name) => name };
  },
};

/** The libraries' default polling interval, in milliseconds. */
const usual: Retries = { retryDelay: 200, retryJitter: 100 };
/** The shortest timer of Node, which minimises the time between a release and the next try. */
const keen: Retries = { retryDelay: 1, retryJitter: 0 };

export const implementations = catalogOf<LockImplementation, LockSetup>([
  kit,
  redlock4("redlock4", false, keen),
  redlock4("redlock4 defaults", true, usual),
  redlock5("redlock5", false, keen),
  redlock5("redlock5 defaults", true, usual),
  redisSemaphore("redis-semaphore", false, 1),
  redisSemaphore("redis-semaphore defaults", true, 10),
  universal("redlock-universal", false, "lean", 1),
  universal("redlock-universal defaults", true, "standard", 100),
  classic,
  rawPair,
  rawPush,
  rawTimer,
  scriptPerLock,
  ...readWriteDefinitions,
  ...severalNamesDefinitions,
  ...quorumDefinitions,
]);
