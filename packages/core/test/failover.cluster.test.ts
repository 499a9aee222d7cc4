import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { firstServing } from "@tooling/vitest/helpers";
import { isSlotMoving } from "../src/kernel/base/errors.js";
import { slotOf } from "../src/kernel/base/keyspace.js";
import { attach } from "../src/kernel/context/context.js";
import { endMigrations, opened, own, rejection, until } from "./harness.js";
import { addOnce, append, putAll, read, renewAgain, renewOnce } from "./scripts.js";
import { Writer } from "./writer.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });

/** The nodes that serve a key of the test: master and replica. */
const serving = (key: string): [master: RedisNode, replica: RedisNode] => {
  const shard = firstServing(slotOf(key));
  return [redis.server.nodes[shard]!, redis.server.replicas[shard]!];
};

const idOf = async (node: RedisNode): Promise<string> => String(await node.call("CLUSTER", "MYID"));

/** A slot that is on its way from its master to the next one. */
const migration = async (key: string) => {
  const slot = String(slotOf(key));
  const [from] = serving(key);
  const to = redis.server.nodes[(redis.server.nodes.indexOf(from) + 1) % 3]!;
  const [fromId, toId] = await Promise.all([idOf(from), idOf(to)]);
  return {
    from,
    begin: async () => {
      await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
      await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
    },
    move: (...keys: string[]) => from.call("MIGRATE", to.host, String(to.port), "", "0", "5000", "KEYS", ...keys),
    end: async () => {
      await to.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
      await from.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
    },
    /** So that the next test finds it where it was. */
    undo: async () => {
      await to.call("CLUSTER", "SETSLOT", slot, "MIGRATING", fromId);
      await from.call("CLUSTER", "SETSLOT", slot, "IMPORTING", toId);
      const keys = (await to.call("CLUSTER", "GETKEYSINSLOT", slot, "1000")) as string[];
      if (keys.length > 0) await to.call("MIGRATE", from.host, String(from.port), "", "0", "5000", "KEYS", ...keys);
      for (const node of redis.server.nodes) await node.call("CLUSTER", "SETSLOT", slot, "NODE", fromId);
      await endMigrations(redis);
    },
  };
};

const refusals = async (node: RedisNode, error: string): Promise<number> =>
  Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(String(await node.call("INFO", "errorstats")))?.[1] ?? 0);

describe("a slot that moves", () => {
  it("costs no call an error, though it moves back and forth under load", async () => {
    const client = await own(redis);
    const tag = `{${redis.prefix}}`;
    const keys = Array.from({ length: 40 }, (_, index) => `${tag}:${String(index)}`);
    const writers = keys.slice(0, 8).map((key) => new Writer(client, key, 30_000));
    for (const key of keys.slice(8)) await addOnce.run(client, { key }, { op: "1" });
    const { begin, move, end, undo } = await migration(tag);
    for (let round = 0; round < 3; round++) {
      await begin();
      for (const key of keys) await move(key);
      await end();
      const seen = writers.map(({ acked }) => acked.length);
      await until(() => writers.every(({ acked }, index) => acked.length > seen[index]! + 5), 30_000);
      await undo();
    }
    await Promise.all(writers.map((writer) => writer.stop()));
    expect(writers.flatMap(({ failures }) => failures)).toEqual([]);
    for (const [index, { acked }] of writers.entries())
      expect(await redis.client.zcard(keys[index]!)).toBe(acked.length);
  });

  it("is waited for while a script's keys lie on both sides of it", async () => {
    const client = await own(redis);
    const [first, second, third] = ["a", "b", "c"].map((name) => `{${redis.prefix}}:${name}`) as [
      string,
      string,
      string,
    ];
    const put = (value: string): Promise<unknown> =>
      putAll.run(
        client,
        { first, others: [second, third] },
        { ttlMs: 60_000, values: [value, value, value] },
        { deadlineMs: 10_000 },
      );
    await put("1");
    const { from, begin, move, end, undo } = await migration(first);
    await begin();
    await move(first);
    const before = await refusals(from, "TRYAGAIN");
    const putting = put("22");
    await until(async () => (await refusals(from, "TRYAGAIN")) > before + 20);
    await move(second, third);
    await end();
    expect(await putting).toEqual([2, 2, 2]);
    await undo();
  });

  it("ends a call by its deadline, with a change that may or may not happen", async () => {
    const client = await own(redis);
    const [first, second] = ["a", "b"].map((name) => `{${redis.prefix}}:${name}`) as [string, string];
    const put = (deadlineMs: number): Promise<unknown> =>
      putAll.run(client, { first, others: [second] }, { ttlMs: 60_000, values: ["1", "2"] }, { deadlineMs });
    await put(2_000);
    const { begin, move, end, undo } = await migration(first);
    await begin();
    await move(first);
    const error = await rejection(put(500));
    expect(["KIT_CLUSTER", "KIT_UNKNOWN_OUTCOME"]).toContain(error.code);
    expect(isSlotMoving(error)).toBe(true);
    await move(second);
    await end();
    await undo();
  });

  it("leaves the outcome of a script unknown that touches a key it has removed, and says what moves", async () => {
    // A slot for each: one that moves again at once may get the same epoch from two nodes.
    for (const [index, client] of [redis.connect(), await own(redis)].entries()) {
      const key = `{${redis.prefix}${String(index)}}:key`;
      const { from, begin, end, undo } = await migration(key);
      await append.run(client, { key }, { value: "whole" });
      await begin();
      const error = await rejection(renewOnce.run(client, { key }, { value: "half" }));
      expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", retryable: false });
      expect(isSlotMoving(error)).toBe(true);
      // So it was: the key is gone, and nothing stands in its place.
      expect(await from.call("CLUSTER", "COUNTKEYSINSLOT", String(slotOf(key)))).toBe(0);
      await end();
      await undo();
    }
  });

  it("sends a script again that touches a key it has removed, if that has one effect", async () => {
    const client = await own(redis);
    const key = `{${redis.prefix}}:key`;
    const { from, begin, end, undo } = await migration(key);
    await append.run(client, { key }, { value: "whole" });
    await begin();
    const before = await refusals(from, "ERR");
    const renewing = renewAgain.run(client, { key }, { value: "again" }, { deadlineMs: 10_000 });
    await until(async () => (await refusals(from, "ERR")) > before);
    await end();
    expect(await renewing).toBe("again");
    await undo();
  });
});

describe("a master that is lost", () => {
  it("costs a call with enough time nothing but time when it has a replica", async () => {
    const client = await own(redis);
    const key = redis.prefix;
    const writer = new Writer(client, key, 30_000);
    await until(() => writer.acked.length > 50);
    const [master, replica] = serving(key);
    await master.kill();
    await until(async () => ((await replica.call("ROLE")) as unknown[])[0] === "master", 30_000);
    const promotedAt = performance.now();
    await until(() => writer.acked.some(({ at }) => at > promotedAt), 30_000);
    await writer.stop();
    expect(writer.failures).toEqual([]);
    await master.start();
  });

  it("is left by a dedicated connection once a call has found it silent", async () => {
    const client = await own(redis);
    const context = attach(client);
    redis.defer(() => context.detach());
    await opened(context.inbox, 5_000);
    const all = [...redis.server.nodes, ...redis.server.replicas];
    const subscribers = async (node: RedisNode): Promise<number> =>
      Number(((await node.call("PUBSUB", "NUMSUB", context.inbox.channel)) as unknown[])[1]);
    const places = await Promise.all(all.map(subscribers));
    const shard = places.indexOf(1);
    const [master, replica] = [redis.server.nodes[shard]!, redis.server.replicas[shard]!];
    const key = Array.from({ length: 1_000 }, (_, n) => `${redis.prefix}:${String(n)}`).find(
      (name) => serving(name)[0] === master,
    )!;
    expect(await read.run(client, { key }, {})).toBe("");
    master.pause();
    expect(await rejection(read.run(client, { key }, {}, { deadlineMs: 600 }))).toMatchObject({ retryable: true });
    await until(async () => ((await replica.call("ROLE")) as unknown[])[0] === "master", 30_000);
    const others = all.filter((node) => node !== master);
    await until(async () => (await Promise.all(others.map(subscribers))).includes(1), 30_000);
    master.resume();
    expect(places.filter((count) => count === 1)).toHaveLength(1);
  });

  it("ends calls with the Cluster's own error when nobody takes over, and they continue once it is back", async () => {
    const client = await own(redis);
    const key = redis.prefix;
    await addOnce.run(client, { key }, { op: "1" });
    const [master, replica] = serving(key);
    await replica.kill();
    await master.kill();
    const others = redis.server.nodes.filter((node) => node !== master);
    const other = others[0]!;
    await until(async () => String(await other.call("CLUSTER", "INFO")).includes("cluster_state:fail"), 30_000);
    const lost = `${redis.prefix}:lost`;
    const elsewhere = Array.from({ length: 1_000 }, (_, n) => `${lost}:${String(n)}`).find(
      (name) => serving(name)[0] === other,
    )!;
    const refused = await rejection(addOnce.run(client, { key: elsewhere }, { op: "1" }, { deadlineMs: 400 }));
    expect(refused).toMatchObject({ code: "KIT_CLUSTER", retryable: true });
    const gone = await rejection(read.run(client, { key }, {}, { deadlineMs: 400 }));
    expect(["KIT_CLUSTER", "KIT_UNAVAILABLE"]).toContain(gone.code);
    const waiting = addOnce.run(client, { key: elsewhere }, { op: "2" }, { deadlineMs: 20_000 });
    await master.start();
    await replica.start();
    expect(await waiting).toBe(1);
    await eventually(() => read.run(client, { key }, {}, { deadlineMs: 500 }), { timeoutMs: 30_000 });
  });
});
