import { connect, type Connection, slotOf } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Lock, LockLostError } from "../src/index.js";
import { aborted, benchOf, enqueue } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });
const bench = benchOf(redis);
const name = "chest";

const owned = async (): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/** Another lock of the same shard. */
const sibling = (): string => {
  const shard = shardOf(bench.keysOf(name).lease);
  for (let number = 0; ; number++) if (shardOf(bench.keysOf(String(number)).lease) === shard) return String(number);
};

const shardOf = (key: string): number => Math.floor(slotOf(key) / 5461.4);

/** The master that serves the lock, and its replica. */
const serving = (): [master: RedisNode, replica: RedisNode] => {
  const { nodes, replicas } = redis.server;
  const shard = shardOf(bench.keysOf(name).lease);
  return [nodes[shard]!, replicas[shard]!];
};

const offset = async (node: RedisNode, field: string): Promise<number> =>
  Number(new RegExp(`${field}:(\\d+)`).exec(String(await node.call("INFO", "replication")))?.[1]);

const inStep = async (master: RedisNode, replica: RedisNode): Promise<void> => {
  const wanted = await offset(master, "master_repl_offset");
  await eventually(async () => expect(await offset(replica, "slave_repl_offset")).toBeGreaterThanOrEqual(wanted));
};

const promotion = async (replica: RedisNode): Promise<void> => {
  await eventually(async () => expect(((await replica.call("ROLE")) as unknown[])[0]).toBe("master"), {
    timeoutMs: 15_000,
  });
};

describe("a lock whose shard fails over (case 38)", () => {
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
    const all = [await work(borrowed, name), await work(ours, sibling())];
    const [old, master] = serving();
    await inStep(old, master);
    await old.kill();
    redis.defer(() => old.start());
    await promotion(master);
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

  it("tells the holder whose lease went with the master, and grants the next a larger fencing token", async () => {
    const holding = bench.on(await owned(), { leaseMs: 8_000 });
    const other = bench.on(await owned());
    const held = await holding.acquire(name);
    const [master, replica] = serving();
    await inStep(master, replica);
    // As if the grant had not reached the replica when its master died.
    await replica.call("CONFIG", "SET", "replica-read-only", "no");
    await replica.call("READONLY");
    const { lease, fence } = bench.keysOf(name);
    master.pause();
    await promotion(replica);
    await replica.call("DEL", lease, fence);
    expect(await aborted(held.signal)).toBeInstanceOf(LockLostError);
    master.resume();
    const next = await other.acquire(name, { waitMs: 10_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(next.isHeld).toBe(true);
    await next.release();
  });
});
