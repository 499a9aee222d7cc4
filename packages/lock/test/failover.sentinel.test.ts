import { connect, type Connection } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Lock, LockLostError } from "../src/index.js";
import { aborted, benchOf, enqueue, rejection } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel" });
const bench = benchOf(redis);
const name = "chest";

/** A client that kit made. */
const owned = async (): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/** Waits until the replicas have all that the master has now. */
const inStep = async (): Promise<void> => {
  const [master] = redis.server.nodes as [RedisNode];
  const offset = async (node: RedisNode, field: string): Promise<number> =>
    Number(new RegExp(`${field}:(\\d+)`).exec(String(await node.call("INFO", "replication")))?.[1]);
  const wanted = await offset(master, "master_repl_offset");
  for (const replica of redis.server.replicas)
    await eventually(async () => expect(await offset(replica, "slave_repl_offset")).toBeGreaterThanOrEqual(wanted));
};

/** As if the last of what the master did had not reached its replicas when it died. */
const lostOnReplicas = async (...commands: readonly string[][]): Promise<void> => {
  await inStep();
  for (const replica of redis.server.replicas) {
    await replica.call("CONFIG", "SET", "replica-read-only", "no");
    for (const command of commands) await replica.call(...command);
  }
};

/** Kills the master, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<RedisNode> => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 15_000 });
  return redis.server.master();
};

const works = async (lock: Lock): Promise<void> => {
  await (await lock.acquire("afterwards", { waitMs: 10_000 })).release();
};

describe("a lock whose master fails", () => {
  it("keeps its holders, and serves who waits in order, on clients that are borrowed and owned", async () => {
    const borrowed = [bench.connect(), bench.connect()].map((client) => bench.on(client)) as [Lock, Lock];
    const ours = [bench.on(await owned()), bench.on(await owned())] as [Lock, Lock];
    const work = async ([holding, waiting]: [Lock, Lock], resource: string) => ({
      resource,
      holding,
      held: await holding.acquire(resource),
      first: await enqueue(waiting, resource, { waitMs: 30_000 }),
      second: await enqueue(waiting, resource, { waitMs: 30_000 }),
    });
    const all = [await work(borrowed, name), await work(ours, "another")];
    await inStep();
    const master = await failOver();
    for (const { resource, holding, held, first, second } of all) {
      // Renewed on the new master: it cannot have more than it had when the old one died.
      await eventually(
        async () => expect(await master.call("PTTL", bench.keysOf(resource).lease)).toBeGreaterThan(9_000),
        { timeoutMs: 10_000 },
      );
      expect([held.isHeld, first.isSettled, second.isSettled]).toEqual([true, false, false]);
      expect(await held.release()).toBe("released");
      const next = await first.promise;
      expect(second.isSettled).toBe(false);
      await next.release();
      const last = await second.promise;
      const tokens = [held, next, last].map(({ fencingToken }) => BigInt(fencingToken));
      expect(tokens[0]! < tokens[1]! && tokens[1]! < tokens[2]!).toBe(true);
      await last.release();
      expect(await holding.tryAcquire(resource).then((lease) => lease?.release())).toBe("released");
    }
  });

  it("tells the holder whose lease went with it, and grants the next a larger fencing token", async () => {
    const holding = bench.on(await owned(), { leaseMs: 8_000 });
    const other = bench.on(await owned());
    const held = await holding.acquire(name);
    const { lease, fence } = bench.keysOf(name);
    await lostOnReplicas(["DEL", lease, fence]);
    await failOver();
    expect(await aborted(held.signal)).toBeInstanceOf(LockLostError);
    const next = await other.acquire(name, { waitMs: 10_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(await held.release()).toBe("not-held");
    expect(next.isHeld).toBe(true);
    await next.release();
  });

  it("hands out larger fencing tokens also when the last one was ahead of the new master's clock", async () => {
    const lock = bench.on(await owned());
    const { fence } = bench.keysOf(name);
    const before = await lock.acquire(name);
    await before.release();
    await inStep();
    // As from a clock that was an hour ahead.
    const ahead = (BigInt(before.fencingToken) + 3_600_000_000n).toString();
    const [master] = redis.server.nodes as [RedisNode];
    await master.call("SET", fence, `1:${ahead}`, "PX", "600000");
    await inStep();
    const granted = await lock.acquire(name);
    expect(BigInt(granted.fencingToken)).toBe(BigInt(ahead) + 1n);
    await inStep();
    await failOver();
    await granted.release();
    const next = await lock.acquire(name, { waitMs: 10_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(granted.fencingToken));
    await next.release();
  });

  it("takes a waiter whose place was lost with it into the line again, without an error", async () => {
    const [holding, waiting] = [bench.on(await owned()), bench.on(await owned())];
    const held = await holding.acquire(name);
    const waiter = await enqueue(waiting, name, { waitMs: 60_000 });
    const { queue, waiters } = bench.keysOf(name);
    await lostOnReplicas(["DEL", queue, waiters]);
    const master = await failOver();
    await eventually(async () => expect(await master.call("ZCARD", queue)).toBe(1), { timeoutMs: 20_000 });
    expect(waiter.isSettled).toBe(false);
    await held.release();
    await (await waiter.promise).release();
  });

  it("rejects in time, typed, who asks while there is no master", async () => {
    const lock = bench.on(await owned(), { deadlineMs: 500 });
    await works(lock);
    const [old] = redis.server.nodes as [RedisNode];
    await old.kill();
    redis.defer(() => old.start());
    const startedAt = performance.now();
    expect(await rejection(lock.acquire(name, { waitMs: 0 }))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    await eventually(() => works(lock), { timeoutMs: 15_000 });
  });
});

describe("a lock whose master is stopped and goes on", () => {
  it("is held by one at a time by the word of the new master, and the old one grants nothing to our clients", async () => {
    const [holding, waiting] = [bench.on(await owned()), bench.on(await owned())];
    const idle = bench.on(await owned());
    await works(idle);
    const held = await holding.acquire(name);
    const waiter = await enqueue(waiting, name, { waitMs: 30_000 });
    await inStep();
    const [old] = redis.server.nodes as [RedisNode];
    const pausedAt = performance.now();
    old.pause();
    await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 15_000 });
    const master = await redis.server.master();
    await eventually(() => expect(performance.now() - pausedAt).toBeGreaterThan(6_000), { timeoutMs: 10_000 });
    old.resume();
    const scripts = async (node: RedisNode): Promise<number> =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await node.call("INFO", "commandstats")))?.[1] ?? 0);
    const before = await scripts(old);
    const other = await idle.tryAcquire("other");
    expect(await master.call("EXISTS", bench.keysOf("other").lease)).toBe(1);
    await other?.release();
    expect(held.isHeld).toBe(true);
    await held.release();
    const next = await waiter.promise;
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    await next.release();
    // It took none of all that, and whatever it had in its sockets came before it was resumed.
    expect(await scripts(old)).toBe(before);
  });
});

describe("a lock behind Sentinels", () => {
  it("does what it does on a single server", async () => {
    const lock = bench.on(await owned());
    const lease = await lock.acquire(name);
    expect(await lock.tryAcquire(name)).toBeNull();
    const waiter = await enqueue(lock, name);
    expect(await lock.inspect(name)).toMatchObject({ waiters: 1 });
    await lease.extend();
    await lease.release();
    await (await waiter.promise).release();
    expect(await lock.using(name, ({ fencingToken }) => fencingToken)).toMatch(/^\d+$/);
  });
});
