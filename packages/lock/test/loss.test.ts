import { eventually, FaultProxy, useRedis } from "@kit/testing";
import {
  aborted,
  block,
  callsOf,
  clock,
  cutOffRenewed,
  rejection,
  renewedTwice,
  sentTwice,
  watchStalls,
} from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Lease, type Lock, LockLostError, type LockOptions } from "../src/index.js";
import { enqueue, fixtureOf, next } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
const key = (): string => fixture.keysOf(name).lease;
const evals = (): Promise<number> => callsOf(redis.server, "evalsha");

/** How many keys of the server have expired. */
const expired = async (): Promise<string | undefined> =>
  /expired_keys:(\d+)/.exec(String(await redis.server.call("INFO", "stats")))?.[1];

const msLeft = (): Promise<number> => fixture.db.pttl(key());

/** When the signal aborted, and how late this process was for everything meanwhile. */
const abortedAt = async (lease: Lease): Promise<{ at: number; lateMs: number }> => {
  const stalls = watchStalls();
  await aborted(lease.signal);
  return { at: clock(), lateMs: stalls.end().worst };
};

describe("a server that falls silent", () => {
  it("costs the lease before it can have ended, by the local clock", async () => {
    const lock = fixture.make({ leaseMs: 3_000 });
    const lease = await lock.acquire(name);
    const node = redis.server.nodes[0]!;
    const { renewedAt, ends } = await cutOffRenewed([lease], msLeft, {
      cut: () => node.pause(),
      mend: () => node.resume(),
    });
    const { at, lateMs } = await abortedAt(lease);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(at - lateMs).toBeLessThanOrEqual(ends[0]!);
    expect(at - renewedAt).toBeGreaterThan(2_500);
    expect(lease.signal.reason).toMatchObject({ reason: "deadline", resource: name, fencingToken: lease.fencingToken });
    node.resume();
    expect(await lease.release()).toBe("not-held");
    await eventually(async () => expect(await fixture.db.exists(key())).toBe(0));
  });

  it("costs the lease in time also behind a link that is half open, and lock and client recover", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    const lock = fixture.on(client, { leaseMs: 3_000, deadlineMs: 300 });
    const lease = await eventually(() => lock.acquire(name));
    const { ends } = await cutOffRenewed([lease], msLeft, {
      cut: () => {
        proxy.up.hole = true;
        proxy.down.hole = true;
      },
      mend: () => proxy.heal(),
    });
    const { at, lateMs } = await abortedAt(lease);
    expect(at - lateMs).toBeLessThanOrEqual(ends[0]!);
    expect(proxy.stats.droppedBytes).toBeGreaterThan(0);
    proxy.heal();
    const again = await eventually(() => lock.acquire(name, { waitMs: 2_000 }), { timeoutMs: 20_000 });
    expect(BigInt(again.fencingToken)).toBeGreaterThan(BigInt(lease.fencingToken));
  });

  it("gives back at once what it still holds for us when only its replies are too late", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    const lock = fixture.on(client, { leaseMs: 2_000, deadlineMs: 200 });
    const lease = await eventually(() => lock.acquire(name));
    // From here on the server knows the scripts, and runs them without our hearing of it.
    await eventually(() => lease.extend());
    await eventually(async () => (await lock.acquire("warm-up")).release());
    proxy.down.latencyMs = 2_200;
    expect(await aborted(lease.signal)).toMatchObject({ reason: "deadline" });
    // As far as the server knows it was renewed shortly before, and would not expire for more than a second.
    const expiries = await expired();
    await eventually(async () => expect(await fixture.db.exists(key())).toBe(0));
    expect(await expired()).toBe(expiries);
    proxy.resetAll();
  });

  it("costs nothing when it speaks again in time", async () => {
    const lock = fixture.make({ leaseMs: 6_000, deadlineMs: 200 });
    const lease = await eventually(() => lock.acquire(name));
    const [node] = redis.server.nodes;
    const before = await evals();
    const failed = next(lock, "error");
    node!.pause();
    expect(await failed).toMatchObject({ retryable: true });
    node!.resume();
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(4_000));
    expect(await evals()).toBeGreaterThan(before);
    expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
  });
});

describe("a renewal that fails", () => {
  it("is no loss: while the server says BUSY the lease is tried again", async () => {
    const lock = fixture.make({ leaseMs: 3_000 });
    const lease = await lock.acquire(name);
    const codes: string[] = [];
    lock.on("error", ({ code }) => codes.push(code));
    await redis.server.call("CONFIG", "SET", "lua-time-limit", "20");
    redis.defer(() => redis.server.call("CONFIG", "SET", "lua-time-limit", "5000"));
    const busy = rejection(redis.connect().eval("while true do end", 0));
    await eventually(() => expect(codes).toContain("KIT_BUSY"));
    await redis.server.call("SCRIPT", "KILL");
    await busy;
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(2_500));
    expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
  });

  it("is no loss: a key that holds something else for a moment is not a verdict", async () => {
    const lease = await fixture.make({ leaseMs: 6_000 }).acquire(name);
    const owner = (await fixture.db.get(key()))!;
    const before = await evals();
    await fixture.db.multi().del(key()).rpush(key(), "stranger").pexpire(key(), 60_000).exec();
    await eventually(async () => expect((await evals()) - before).toBeGreaterThanOrEqual(2));
    await fixture.db.set(key(), owner, "PX", 3_000);
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(4_000));
    expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
  });

  it("is an error of extend when the key holds something else", async () => {
    const lease = await fixture.make().acquire(name);
    await fixture.db.multi().del(key()).rpush(key(), "stranger").pexpire(key(), 5_000).exec();
    expect(await rejection(lease.extend())).toMatchObject({ code: "KIT_KEY_TYPE", key: key() });
    expect(lease.isHeld).toBe(true);
  });
});

describe("a blocked event loop", () => {
  it("makes assertHeld throw first thing when the lease is over", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name, { leaseMs: 2_000 });
    const lost = next(lock, "lost");
    lease.assertHeld();
    block(2_050);
    expect(lease.isHeld).toBe(false);
    expect(lease.remainingMs).toBe(0);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: "KIT_LOCK_LOST", reason: "deadline" }));
    expect(lease.signal.aborted).toBe(true);
    expect(await lost).toEqual({ name, fencingToken: lease.fencingToken, reason: "deadline" });
    expect(await lease.release()).toBe("not-held");
  });

  it("costs nothing when it ends in time", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 3_000 });
    for (let round = 0; round < 3; round++) {
      block(1_200);
      lease.assertHeld();
      await eventually(() => expect(lease.remainingMs).toBeGreaterThan(2_000));
    }
    expect(lease.signal.aborted).toBe(false);
  });

  it("does not make a push that waited in the socket look fresher than it is", async () => {
    const lock = fixture.make();
    const holder = await lock.acquire(name);
    const other = fixture.on(redis.connect());
    const waiting = other.acquire(name, { leaseMs: 2_000, renew: false });
    await fixture.untilWaiting(name, 1);
    const released = redis.server.call("DEL", key());
    await released;
    await lock.forceRelease(name);
    holder.stopRenewal();
    const beating = lock.tryAcquire(name);
    block(300);
    await beating;
    const lease = await waiting;
    const left = await fixture.db.pttl(key());
    expect(lease.remainingMs).toBeLessThanOrEqual(left + 5);
  });
});

describe("clocks", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each([3_600_000, -3_600_000])(
    "renews at once when the wall clock jumps by %i ms, and loses nothing",
    async (jump) => {
      const lease = await fixture.make().acquire(name, { leaseMs: 60_000 });
      await fixture.db.pexpire(key(), 30_000);
      const now = Date.now.bind(Date);
      vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
      await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(50_000));
      expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
      expect(lease.remainingMs).toBeGreaterThan(50_000);
    },
  );
});

describe("maxHoldMs", () => {
  it("ends renewal so that nobody holds the lock longer", async () => {
    const lock = fixture.make({ leaseMs: 600, maxHoldMs: 800 });
    const startedAt = clock();
    const lease = await lock.acquire(name);
    expect(await aborted(lease.signal)).toMatchObject({ reason: "max-hold" });
    expect(clock() - startedAt).toBeGreaterThan(700);
    await eventually(async () => expect(await fixture.db.exists(key())).toBe(0));
  });

  it("bounds the server's lease too", async () => {
    const lock = fixture.make({ leaseMs: 10_000, maxHoldMs: 3_000 });
    const lease = await lock.acquire(name);
    expect(await fixture.db.pttl(key())).toBeLessThanOrEqual(3_000);
    await lease.extend(5_000);
    expect(await fixture.db.pttl(key())).toBeLessThanOrEqual(3_000);
    expect(lease.remainingMs).toBeLessThanOrEqual(3_000);
    await lease.release();
  });
});

describe("renewal", () => {
  it("comes at once on a new connection, long before it is due", async () => {
    const lock = fixture.on(fixture.connect());
    await lock.acquire(name, { leaseMs: 600_000 });
    await fixture.db.pexpire(key(), 60_000);
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(60_000));
  });

  it.each([
    ["that is off", { renew: false }],
    ["that maxHoldMs has ended", { maxHoldMs: 600_000 }],
  ] as const)(
    "%s does not hide that the lease is gone: a new connection looks it up, and extends nothing",
    async (_, options) => {
      const lock = fixture.on(fixture.connect());
      const lease = await lock.acquire(name, { leaseMs: 600_000, ...options });
      await fixture.db.pexpire(key(), 60_000);
      const { remainingMs } = lease;
      const before = await evals();
      await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
      await eventually(async () => expect(await evals()).toBeGreaterThan(before));
      expect(await msLeft()).toBeLessThanOrEqual(60_000);
      expect(lease.isHeld).toBe(true);
      expect(lease.remainingMs).toBeGreaterThan(remainingMs - 60_000);
      await fixture.db.del(key());
      await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
      await aborted(lease.signal);
      expect(lease.signal.reason).toMatchObject({ reason: "expired" });
    },
  );

  it("takes one command for a hundred leases", async () => {
    const lock = fixture.make({ leaseMs: 3_600 });
    const leases = await Promise.all(
      Array.from({ length: 100 }, (_, index) => lock.acquire(`${name} ${String(index)}`)),
    );
    const before = await evals();
    const renewals = await renewedTwice(leases);
    // They fall due together only as far as they were taken together.
    expect((await evals()) - before).toBeLessThanOrEqual(renewals / 10);
    expect(leases.every(({ isHeld }) => isHeld)).toBe(true);
    await Promise.all(leases.map((lease) => lease.release()));
  });

  it("goes on with the length that an extend asked for", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 2_000 });
    await lease.extend(3_000);
    await fixture.db.pexpire(key(), 2_000);
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(2_100));
    expect(lease.leaseMs).toBe(3_000);
  });

  it("does not come back by an extend after stopRenewal", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 2_000 });
    lease.stopRenewal();
    await lease.extend(400);
    expect(await aborted(lease.signal)).toMatchObject({ reason: "stopped" });
  });
});

describe("using", () => {
  const losing = (lock: Lock, end: () => Promise<string>): Promise<string> =>
    lock.using(name, async ({ signal }) => {
      await fixture.db.del(key());
      await aborted(signal);
      return await end();
    });

  it("rejects with the loss after the routine has ended, not before", async () => {
    const lock = fixture.make({ leaseMs: 3_000 });
    let hasEnded = false;
    const error = await rejection(
      losing(lock, async () => {
        await fixture.db.ping();
        hasEnded = true;
        return "done";
      }),
    );
    expect(error).toMatchObject({ name: "LockLostError", code: "KIT_LOCK_LOST", reason: "expired", resource: name });
    expect(hasEnded).toBe(true);
  });

  it("rejects with the routine's error when it fails after the loss", async () => {
    const own = new Error("the routine's own");
    expect(await rejection(losing(fixture.make({ leaseMs: 3_000 }), () => Promise.reject(own)))).toBe(own);
  });

  it("rejects with the loss when another got the lock unnoticed", async () => {
    const lock = fixture.make();
    const error = await rejection(lock.using(name, () => fixture.db.set(key(), "somebody|else", "PX", 5_000)));
    expect(error).toMatchObject({ code: "KIT_LOCK_LOST" });
    expect(await fixture.db.get(key())).toBe("somebody|else");
  });

  it("keeps the result when only the release finds no server, and says so by an event", async () => {
    const options: LockOptions = { deadlineMs: 1_000 };
    const lock = fixture.make(options);
    const [node] = redis.server.nodes;
    const failed = next(lock, "error");
    const result = await lock.using(name, () => {
      node!.pause();
      return "done";
    });
    node!.resume();
    expect(result).toBe("done");
    expect(await failed).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    await eventually(async () => expect(await fixture.db.exists(key())).toBe(0));
  });
});

describe("a release by force whose reply is lost", () => {
  it.each(["nobody waits", "another waits"])("still says whose lock it took: %s", async (who) => {
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    const lock = fixture.on(client);
    // From here on the server has the scripts.
    await (await lock.acquire("warm-up")).release();
    expect(await lock.forceRelease("warm-up")).toBeNull();
    const others = fixture.make();
    await others.acquire(name, { holder: "hangs" });
    const next = who === "another waits" ? await enqueue(others, name) : undefined;
    const send = client.call.bind(client) as (...command: unknown[]) => Promise<unknown>;
    let calls = 0;
    client.call = (...command: unknown[]) => {
      // The first is a look.
      if (++calls === 2) proxy.down.cutNext = 1;
      return send(...command);
    };
    expect(await lock.forceRelease(name)).toBe("hangs");
    expect(proxy.stats.resets).toBe(1);
    await (await next?.promise)?.release();
  });
});

describe("a renewal of which a copy comes late", () => {
  it("takes nothing from an extension that was made meanwhile", async () => {
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    const lease = await fixture.on(client).acquire(name, { leaseMs: 6_000 });
    // From here on the server has the script.
    await lease.extend();
    const before = await evals();
    await sentTwice(proxy, client, 1_500, async () => {
      let least = Infinity;
      await eventually(() => {
        least = Math.min(least, lease.remainingMs);
        if (lease.remainingMs < least + 1_000) throw new Error("not renewed yet");
      });
    });
    await lease.extend(60_000);
    await eventually(async () => expect(await evals()).toBeGreaterThanOrEqual(before + 3));
    expect(await fixture.db.pttl(key())).toBeGreaterThan(30_000);
    expect(await lease.release()).toBe("released");
  });
});
