import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { optimistic } from "../src/transaction/optimistic.js";
import { attach } from "../src/kernel/context/context.js";
import type { Connection } from "../src/connect/connect.js";
import { opened, own, until } from "./harness.js";
import { addOnce, read } from "./scripts.js";
import { peerPort, Writer } from "./writer.js";

const redis = useRedis(vitest, { mode: "sentinel" });

const failedOver = async (old: RedisNode): Promise<RedisNode> => {
  await until(async () => (await redis.server.master()) !== old, 30_000);
  return redis.server.master();
};

describe("failover by Sentinel", () => {
  it("costs a call with enough time nothing but time when the master is killed", async () => {
    const client = await own(redis);
    const [old] = redis.server.nodes as [RedisNode];
    // Sentinels that find themselves late elect nobody for half a minute.
    const writer = new Writer(client, redis.prefix, 120_000);
    await until(() => writer.acked.length > 50);
    await old.kill();
    await failedOver(old);
    await until(() => writer.acked.at(-1)!.port !== old.port, 30_000);
    await writer.stop();
    expect(writer.failures).toEqual([]);
    await old.start();
  });

  it("takes no word of an old master that was stopped and continues, once the Sentinels have another", async () => {
    const client = await own(redis);
    const [old] = redis.server.nodes as [RedisNode];
    const writer = new Writer(client, redis.prefix, 120_000);
    const idle = await own(redis);
    await until(() => writer.acked.length > 50);
    const pausedAt = performance.now();
    old.pause();
    const master = await failedOver(old);
    const switchedAt = performance.now();
    await until(() => writer.acked.some(({ at }) => at > switchedAt));
    await until(() => idle.status === "ready" && peerPort(idle) === master.port);
    await until(() => performance.now() - pausedAt > 6_000, 7_000);
    old.resume();
    const resumedAt = performance.now();
    // Until the old master is made a replica, it accepts writes.
    await until(() => writer.acked.filter(({ at }) => at > resumedAt).length > 200);
    await writer.stop();
    expect(await addOnce.run(idle, { key: `${redis.prefix}:idle` }, { op: "1" })).toBe(1);
    expect(writer.failures).toEqual([]);
    const late = writer.acked.filter(({ at, port }) => at > switchedAt + 100 && port === old.port);
    expect(late).toEqual([]);
    const kept = new Set((await master.call("ZRANGE", redis.prefix, "0", "-1")) as string[]);
    expect(writer.acked.filter(({ at, op }) => at > switchedAt && !kept.has(op))).toEqual([]);
    expect(await master.call("ZCARD", `${redis.prefix}:idle`)).toBe(1);
  });

  it("takes dedicated connections and transactions along, with those of a borrowed client and of a duplicate", async () => {
    const borrowed = redis.connect({ retryStrategy: () => 50 });
    const contexts = [attach(await own(redis)), attach(borrowed), attach(borrowed, { isolate: true })];
    redis.defer(() => contexts.forEach((context) => context.detach()));
    const [old] = redis.server.nodes as [RedisNode];
    const resubscribed = contexts.map(() => 0);
    for (const [index, context] of contexts.entries()) {
      expect(await opened(context.inbox, 5_000)).toBe(true);
      context.inbox.onResubscribed(() => resubscribed[index]!++);
      await optimistic(context, [redis.prefix], (tx) => tx.call("GET", redis.prefix));
    }
    await old.kill();
    const master = await failedOver(old);
    await old.start();
    for (const [index, context] of contexts.entries()) {
      // A borrowed client may also go back to the old master, until Sentinel makes that a replica.
      await until(() => peerPort(context.client as Connection) === master.port, 20_000);
      await until(() => resubscribed[index]! > 0 && context.inbox.isOpen, 10_000);
      const heard = new Promise((resolve) => context.inbox.expect("id", resolve));
      await eventually(
        () => master.call("PUBLISH", context.inbox.channel, "id\tpayload").then((n) => expect(n).toBe(1)),
        {
          timeoutMs: 15_000,
        },
      );
      expect(await heard).toBe("payload");
      const outcome = await optimistic(context, [redis.prefix], (tx) => tx.call("GET", redis.prefix), {
        waitMs: 10_000,
      });
      expect(outcome.value).toBeNull();
    }
  });

  it("moves a dedicated connection off a master that is stopped, though nobody waits on it", async () => {
    const context = attach(await own(redis));
    redis.defer(() => context.detach());
    await opened(context.inbox, 5_000);
    const [old] = redis.server.nodes as [RedisNode];
    old.pause();
    const master = await failedOver(old);
    const said = context.inbox.channel;
    await eventually(async () => expect(await master.call("PUBLISH", said, "x\ty")).toBe(1));
    old.resume();
  });

  it("connects a client again that ended in the failover", async () => {
    const client = await own(redis);
    const [old] = redis.server.nodes as [RedisNode];
    await read.run(client, { key: redis.prefix }, {});
    let ends = 0;
    client.on("end", () => ends++);
    // As ioredis' own detector does when its news comes while the client connects: it never tries again.
    const leave = (): void => {
      client.off("connecting", leave);
      setImmediate(() => (client as unknown as { connector: { disconnect(): void } }).connector.disconnect());
    };
    client.on("connecting", leave);
    await old.kill();
    expect(await addOnce.run(client, { key: redis.prefix }, { op: "1" }, { deadlineMs: 30_000 })).toBe(1);
    expect(ends).toBe(1);
    expect(peerPort(client)).toBe((await redis.server.master()).port);
    await old.start();
  });

  it("prints nothing and works on when a Sentinel is lost, and asks another when one is silent", async () => {
    const printed = vi.spyOn(console, "error");
    const [silent, lost] = redis.server.sentinels as [RedisNode, RedisNode];
    silent.pause();
    await lost.kill();
    const client = await own(redis, { deadlineMs: 5_000 });
    expect(await read.run(client, { key: redis.prefix }, {})).toBe("");
    silent.resume();
    await lost.start();
    expect(printed).not.toHaveBeenCalled();
    printed.mockRestore();
  });
});
