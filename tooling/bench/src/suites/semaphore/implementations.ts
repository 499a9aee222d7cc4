// The libraries, each behind the same small interface and with the settings under which it is measured.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  acquireFairSemaphore,
  acquireSemaphore,
  acquireSemaphoreWithLock,
  releaseFairSemaphore,
  releaseSemaphore,
} from "@tooling/classic";
import { pinned } from "../../pins.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";
import { connected, reconnecting } from "../../clients.js";
import { type Caller, foreverMs, inWords, perName, pushed } from "../../loops/caller.js";

/** The arguments with which every implementation of a case is opened. */
export interface SemaphoreSetup {
  readonly permits: number;
  readonly leaseMs: number;
  /** The error of each process's wall clock, by the index of the process. Processes beyond the list have none. */
  readonly clocksOffMs?: readonly number[];
}

/** A library in this process: makes callers. */
type MakeCaller = () => Caller;
type Definition = AnyDefinition<MakeCaller, SemaphoreSetup>;

const kit: Definition = {
  id: "kit",
  settings: "defaults but deadlineMs: 20000; renewed each third of the lease, in order of arrival",
  open: async (url, { permits, leaseMs }, connect) => {
    const { createSemaphore } = await import("@kit/semaphore");
    const redis = await connect(url);
    const semaphoreOf = perName((name) => createSemaphore(redis, name, { permits, leaseMs, deadlineMs: 20_000 }));
    const using: Caller["using"] = async (name, routine) => {
      const permit = await semaphoreOf(name).acquire();
      try {
        await routine();
      } finally {
        await permit.release();
      }
    };
    return () => ({ using });
  },
};

const redisSemaphore = (id: string, isDefaults: boolean, retryInterval: number): Definition => ({
  id,
  peer: pinned("redis-semaphore"),
  isDefaults,
  settings: `Semaphore, one object per caller, renewed; ${inWords({ retryInterval, acquireTimeout: foreverMs })}`,
  open: async (url, { permits, leaseMs }) => {
    const { Semaphore } = await import("redis-semaphore");
    const redis = await connected(url);
    const caller = (): Caller => {
      const semaphoreOf = perName(
        (name) =>
          new Semaphore(redis, name, permits, {
            lockTimeout: leaseMs,
            acquireTimeout: foreverMs,
            retryInterval,
            // The default listener throws out of a timer, which ends the process.
            onLockLost: () => undefined,
          }),
      );
      const using: Caller["using"] = async (name, routine) => {
        const semaphore = semaphoreOf(name);
        await semaphore.acquire();
        try {
          await routine();
        } finally {
          await semaphore.release();
        }
      };
      return { using };
    };
    return caller;
  },
});

const classic = (
  way: string,
  pollMs: number,
  about: string,
  acquire: typeof acquireSemaphore,
  release: typeof releaseSemaphore,
): Definition => ({
  id: `classic ${way}`,
  settings: `${about}, tried every ${String(pollMs)} ms; a connection per caller; has no renewal`,
  open: (url, { permits, leaseMs }) => {
    const caller = (): Caller => {
      // The race-free variant needs WATCH, whose state belongs to the connection.
      const redis = reconnecting(url);
      const using: Caller["using"] = async (name, routine) => {
        const tryOnce = (): Promise<string | null> =>
          acquire(redis, name, permits, { timeoutSeconds: leaseMs / 1_000 });
        let token = await tryOnce();
        while (token === null) {
          await sleep(pollMs);
          token = await tryOnce();
        }
        try {
          await routine();
        } finally {
          await release(redis, name, token);
        }
      };
      return { using };
    };
    return caller;
  },
});

const takeOne = `
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
return redis.call("ZADD", KEYS[1], now + ARGV[3], ARGV[1])`;

/** The floor of a permit that expires: one script to acquire it, one command to release it. */
const rawPair: Definition = {
  id: "raw pair",
  peer: "floor",
  settings: "EVALSHA that expires by the server's time, counts and adds, then ZREM; no waiting or renewal",
  open: async (url, { permits, leaseMs }) => {
    const redis = await connected(url);
    const sha = String(await redis.script("LOAD", takeOne));
    const using: Caller["using"] = async (name, routine) => {
      const token = randomUUID();
      if ((await redis.evalsha(sha, 1, name, token, permits, leaseMs)) !== 1)
        throw new Error("a raw pair has no rivals");
      await routine();
      await redis.zrem(name, token);
    };
    return () => ({ using });
  },
};

const takeOrQueue = `
if redis.call("INCR", KEYS[1]) <= tonumber(ARGV[3]) then return 1 end
redis.call("DECR", KEYS[1])
redis.call("RPUSH", KEYS[2], ARGV[1] .. " " .. ARGV[2])
return 0`;

const handOn = `
local head = redis.call("LPOP", KEYS[2])
if not head then return redis.call("DECR", KEYS[1]) end
local token, inbox = head:match("(.*) (.*)")
return redis.call("PUBLISH", inbox, token)`;

/**
 * The floor of a hand-off: one script to acquire or to queue, one that passes the permit to the next waiter and notifies
 * it.
 */
const rawPush: Definition = {
  id: "raw push",
  peer: "floor",
  settings: "EVALSHA counts or queues; EVALSHA one way and PUBLISH to message; no leases, checks or crash safety",
  open: async (url, { permits }) => {
    const caller = await pushed(url, takeOrQueue, handOn, permits);
    return () => caller;
  },
};

export const implementations = catalogOf<MakeCaller, SemaphoreSetup>([
  kit,
  // 1 ms is the shortest timer of Node; 10 ms is the library's default.
  redisSemaphore("redis-semaphore", false, 1),
  redisSemaphore("redis-semaphore defaults", true, 10),
  classic("basic", 1, "one MULTI of ZREMRANGEBYSCORE ZADD ZRANK", acquireSemaphore, releaseSemaphore),
  classic("fair", 1, "two MULTI, counter and owners", acquireFairSemaphore, releaseFairSemaphore),
  classic("race-free", 1, "the fair one under SETNX", acquireSemaphoreWithLock, releaseFairSemaphore),
  rawPair,
  rawPush,
]);
