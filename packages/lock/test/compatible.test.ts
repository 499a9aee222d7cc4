import { contract, eventually, useRedis } from "@kit/testing";
import { defineScript } from "@kit/core";
import { rejection, renewedTwice, scriptCalls, timed, watched } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock4 from "redlock4";
import Redlock5 from "redlock5";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { type CompatibleLock, type CompatibleLockOptions, createCompatibleLock } from "../src/compatible/index.js";
import * as scripts from "../src/compatible/scripts/index.js";
import { createLock } from "../src/index.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const connect = (): Redis => redis.connect();

let name: string;
beforeEach(() => {
  name = `${redis.prefix}:chest`;
});

const lockOn = (client: Redis, options: CompatibleLockOptions = {}): CompatibleLock => {
  const lock = createCompatibleLock(client, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
  redis.defer(() => lock.close({ timeoutMs: 0 }));
  return lock;
};
const make = (options?: CompatibleLockOptions): CompatibleLock => lockOn(redis.client, options);

describe("every script", () => {
  it("keeps the contract of scripts", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });

  const terms = { leaseMs: 30_000, notAfter: 0 };
  const acquire = (token: string, more: Partial<typeof terms> = {}): Promise<scripts.AcquireReply> =>
    scripts.acquire.run(redis.client, { lease: name }, { token, terms: { ...terms, ...more } });

  it("takes a free key as SET with NX and PX does", async () => {
    expect(await acquire("a")).toMatchObject({ state: "granted", msLeft: 30_000 });
    expect(await redis.client.get(name)).toBe("a");
    expect(await redis.client.pttl(name)).toBeGreaterThan(20_000);
  });

  it("gives a token that has it the first reply again, with the rest of the lease", async () => {
    await acquire("a");
    await redis.client.pexpire(name, 15_000);
    const { state, msLeft } = await acquire("a");
    expect(state).toBe("granted");
    expect(msLeft).toBeLessThanOrEqual(15_000);
  });

  it("leaves a key that another has", async () => {
    await redis.client.set(name, "another");
    expect(await acquire("a")).toMatchObject({ state: "held", msLeft: -1 });
    expect(await redis.client.get(name)).toBe("another");
  });

  it("takes nothing when it comes too late", async () => {
    const [seconds] = await redis.client.time();
    expect(await acquire("a", { notAfter: Number(seconds) * 1_000 - 1 })).toMatchObject({ state: "late" });
    expect(await redis.client.exists(name)).toBe(0);
  });

  it("removes the key for its holder alone", async () => {
    await redis.client.set(name, "another");
    const release = (token: string): Promise<string> => scripts.release.run(redis.client, { lease: name }, { token });
    expect(await release("a")).toBe("not-held");
    expect(await redis.client.get(name)).toBe("another");
    expect(await release("another")).toBe("released");
    expect(await redis.client.exists(name)).toBe(0);
  });

  it("leaves a key of another type as it is", async () => {
    await redis.client.rpush(name, "x");
    for (const call of [acquire("a"), scripts.release.run(redis.client, { lease: name }, { token: "a" })])
      expect(await rejection(call)).toMatchObject({ code: "KIT_KEY_TYPE" });
    expect(await redis.client.lrange(name, 0, -1)).toEqual(["x"]);
  });
});

/** A way to hold the lock of the test; resolves with a function that releases it. */
type Member = () => Promise<() => Promise<unknown>>;

const ours = (options?: CompatibleLockOptions): Member => {
  const lock = lockOn(connect(), options);
  return async () => {
    const lease = await lock.acquire(name);
    return () => lease.release();
  };
};
/** The new lock alone, and the release of a roll-over that holds both. */
const alone = (): Member => {
  const lock = createLock(connect(), { prefix: redis.prefix, deadlineMs: 10_000 });
  redis.defer(() => lock.close({ timeoutMs: 0 }));
  return async () => {
    const lease = await lock.acquire(name);
    return () => lease.release();
  };
};
const both = (): Member => {
  const [first, second] = [alone(), ours()];
  return async () => {
    const releases = [await first(), await second()];
    return async () => {
      for (const release of releases.toReversed()) await release();
    };
  };
};
const settings = { retryCount: -1, retryDelay: 20, retryJitter: 10 };
const redlock4 = (resource: string): Member => {
  const redlock = new Redlock4([connect()], settings);
  return async () => {
    const lock = await redlock.lock(resource, 30_000);
    return () => lock.unlock();
  };
};
const redlock5 = (resource: string): Member => {
  const redlock = new Redlock5([connect()], settings);
  return async () => {
    const lock = await redlock.acquire([resource], 30_000);
    return () => lock.release();
  };
};
const mutex = (key: string): Member => {
  const client = connect();
  return async () => {
    const lock = new Mutex(client, key, { lockTimeout: 30_000, acquireTimeout: 120_000, retryInterval: 10 });
    await lock.acquire();
    return () => lock.release();
  };
};

/** Enters and leaves in the order in which the server saw them: `turns` of each member, and more until `isEnough`. */
const historyOf = async (
  members: Readonly<Record<string, Member>>,
  turns: number,
  isEnough: (history: readonly string[]) => boolean = () => true,
  work: (key: string) => Promise<unknown> = async () => undefined,
): Promise<readonly string[]> => {
  const key = `${name}:history`;
  const soFar: string[] = [];
  const loops = Object.entries(members).map(async ([who, acquire]) => {
    const client = connect();
    for (let turn = 0; turn < turns || !isEnough(soFar); turn++) {
      const release = await acquire();
      soFar.push(`${who} enters`);
      await client.rpush(key, `${who} enters`);
      await work(key);
      const length = await client.rpush(key, `${who} leaves`);
      soFar.push(`${who} leaves`);
      await release();
      // A member that came in again at once would leave the others no chance.
      await seen(async () => (await client.llen(key)) - length, 100);
    }
  });
  await Promise.all(loops);
  return await redis.client.lrange(key, 0, -1);
};

/** Waits until a number is above 0; for so long at most. */
const seen = async (count: () => Promise<number>, timeoutMs: number): Promise<void> => {
  const check = async (): Promise<void> => {
    if ((await count()) <= 0) throw new Error("not yet");
  };
  await eventually(check, { timeoutMs }).catch(() => undefined);
};

/** The entries at which another was inside. */
const overlapsOf = (history: readonly string[]): readonly string[] => {
  const inside = new Set<string>();
  return history.filter((entry) => {
    const [who = "", what] = entry.split(" ");
    if (what === "leaves") inside.delete(who);
    const isOverlap = inside.size > 0;
    if (what === "enters") inside.add(who);
    return isOverlap;
  });
};

/** Pairs of members of which the second had the lock right after the first. */
const handOffsOf = (history: readonly string[]): ReadonlySet<string> => {
  const order = history.filter((entry) => entry.endsWith("enters")).map((entry) => entry.split(/[-\d ]/)[0]);
  return new Set(order.slice(1).map((who, index) => `${order[index]} ${who}`));
};

const bothWays: readonly string[] = ["old new", "new old"];

describe("a fleet of old and new holders", () => {
  const turns = 20;
  const fleets: Readonly<Record<string, () => Readonly<Record<string, Member>>>> = {
    "redlock 4": () => ({ "old-1": redlock4(name), "old-2": redlock4(name), "new-1": ours(), "new-2": ours() }),
    "redlock 5": () => ({ "old-1": redlock5(name), "old-2": redlock5(name), "new-1": ours(), "new-2": ours() }),
    "redis-semaphore": () => ({
      "old-1": mutex(name),
      "old-2": mutex(name),
      "new-1": ours({ keyPrefix: "mutex:" }),
      "new-2": ours({ keyPrefix: "mutex:" }),
    }),
    "redlock 5, beside the release that holds both locks": () => ({
      "old-1": redlock5(name),
      "old-2": redlock5(name),
      "new-1": both(),
      "new-2": both(),
    }),
    "the release that holds both locks, beside the new lock": () => ({
      "old-1": both(),
      "old-2": both(),
      "new-1": alone(),
      "new-2": alone(),
    }),
    "all of them": () => ({
      "old-1": redlock4(`mutex:${name}`),
      "old-2": redlock5(`mutex:${name}`),
      "old-3": mutex(name),
      "new-1": ours({ keyPrefix: "mutex:" }),
      "new-2": ours({ keyPrefix: "mutex:" }),
    }),
  };

  it.each(Object.keys(fleets))("of %s has one holder at a time, and each side follows the other", async (kind) => {
    const members = fleets[kind]!();
    const history = await historyOf(members, turns, (soFar) => bothWays.every((way) => handOffsOf(soFar).has(way)));
    expect(overlapsOf(history)).toEqual([]);
    for (const who of Object.keys(members))
      expect(history.filter((entry) => entry === `${who} leaves`).length).toBeGreaterThanOrEqual(turns);
    expect(await redis.client.exists(name, `mutex:${name}`)).toBe(0);
  });

  it("overlaps if a release does not compare the token", async () => {
    const broken = defineScript({
      name: "broken.release",
      source: scripts.release.source.replace("~= token", "== nil"),
      keys: ["lease"],
      args: ["token"],
      reply: Number,
    });
    const careless = ours();
    const late: Member = async () => {
      const release = await careless();
      return async () => {
        await release();
        // A second release, as after a lost reply: by now another holds the lock.
        await seen(() => redis.client.exists(name), 500);
        await broken.run(redis.client, { lease: name }, { token: "of an earlier lease" });
      };
    };
    // Each stays until another comes in, or for so long that one would have.
    const members = { "new-1": ours(), "new-2": ours(), "new-3": late };
    const isSeen = (soFar: readonly string[]): boolean => overlapsOf(soFar).length > 2;
    const history = await historyOf(members, 1, isSeen, async (key) => {
      const length = await redis.client.llen(key);
      await seen(async () => (await redis.client.llen(key)) - length, 100);
    });
    expect(overlapsOf(history)).not.toEqual([]);
  });
});

describe("a compatible lock and a holder of redlock", () => {
  const old = (): Redlock5 => new Redlock5([connect()], { retryCount: 0 });

  it("exclude each other at a single try, in both directions", async () => {
    const held = await old().acquire([name], 30_000);
    expect(await make().tryAcquire(name)).toBeNull();
    expect(await rejection(make().acquire(name, { waitMs: 100 }))).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
    await held.release();
    const lease = await make().tryAcquire(name);
    expect(await redis.client.get(name)).toBe(lease?.token);
    await rejection(old().acquire([name], 30_000));
    expect(await lease?.release()).toBe("released");
    await (await old().acquire([name], 30_000)).release();
  });

  it("a lease is renewed as long as it is held", async () => {
    const lease = await make({ leaseMs: 2_000 }).acquire(name);
    const waiting = watched(new Redlock5([connect()], { ...settings }).acquire([name], 30_000));
    await renewedTwice([lease]);
    expect(waiting.isSettled).toBe(false);
    await lease.release();
    await (await waiting.promise).release();
  });

  it("each takes the lock when the lease of the other is over, and is not ended by its late release", async () => {
    const held = await old().acquire([name], 30_000);
    const waiting = make().acquire(name);
    await redis.client.pexpire(name, 1);
    const lease = await waiting;
    await rejection(held.release());
    expect(await redis.client.get(name)).toBe(lease.token);

    const next = new Redlock5([connect()], { ...settings }).acquire([name], 30_000);
    await redis.client.pexpire(name, 1);
    const { extend, release } = await next.then((lock) => ({
      extend: () => lock.extend(30_000),
      release: () => lock.release(),
    }));
    expect(await lease.release()).toBe("not-held");
    await extend();
    await release().catch(() => undefined);
  });

  it("a lease that another has taken is lost, with its signal", async () => {
    const lease = await make({ leaseMs: 6_000 }).acquire(name);
    await redis.client.set(name, "another", "PX", 30_000);
    // A renewal finds it.
    await eventually(() => expect(lease.signal.reason).toMatchObject({ code: "KIT_LOCK_LOST", reason: "taken" }));
  });
});

describe("a waiter", () => {
  it("gets a lock that is released in another process, without a message", async () => {
    const held = await make().acquire(name);
    const lock = lockOn(connect());
    const waiting = new Promise((resolve) => lock.once("waiting", resolve));
    const wait = timed(lock.acquire(name));
    expect(await waiting).toEqual({ name });
    await held.release();
    const { value: lease } = await wait;
    expect(await lease.release()).toBe("released");
  });

  it("leaves nothing when it gives up, whatever its try finds at that moment", async () => {
    const lock = make();
    for (let round = 0; round < 30; round++) {
      const held = await make().acquire(name);
      const ending = new AbortController();
      const waiting = rejection(lock.acquire(name, { signal: ending.signal }).then((lease) => lease.release()));
      await new Promise((resolve) => lock.once("waiting", resolve));
      // The release and the abort cross the next try.
      const released = held.release();
      setTimeout(() => ending.abort(new Error("gave up")), round * 2);
      await released;
      await waiting.catch(() => undefined);
    }
    await eventually(async () => expect(await redis.client.exists(name)).toBe(0));
  });

  it("continues through an outage that ends within waitMs", async () => {
    const held = await make().acquire(name);
    const client = connect();
    const lock = lockOn(client, { deadlineMs: 300 });
    const waiting = watched(lock.acquire(name, { waitMs: 120_000 }));
    await new Promise((resolve) => lock.once("waiting", resolve));
    const failed = new Promise((resolve) => lock.once("error", resolve));
    redis.server.nodes[0]!.pause();
    await failed;
    redis.server.nodes[0]!.resume();
    await held.release();
    expect(await (await waiting.promise).release()).toBe("released");
  });

  it("polls for all waiters of its process at once", async () => {
    const held = await make().acquire(name);
    const lock = lockOn(connect());
    const waits = Array.from({ length: 20 }, () => lock.acquire(name).then((lease) => lease.release()));
    let waiting = 0;
    lock.on("waiting", () => waiting++);
    await eventually(() => expect(waiting).toBe(20));
    const before = await scriptCalls(redis.server.nodes);
    const { ms, value: calls } = await timed(
      eventually(async () => {
        const count = (await scriptCalls(redis.server.nodes)) - before;
        expect(count).toBeGreaterThan(40);
        return count;
      }),
    );
    // One that polls by itself would do so every 50 ms; here they are twenty.
    expect(calls / ms).toBeLessThan(4 / 50);
    await held.release();
    expect(await Promise.all(waits)).toEqual(waits.map(() => "released"));
  });
});
