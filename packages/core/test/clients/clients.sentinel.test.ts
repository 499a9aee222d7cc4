import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { optimistic } from "../../src/index.js";
import { attach } from "../../src/toolkit/index.js";
import { connectionsNamed, opened, until } from "../harness.js";
import { Writer } from "../writer.js";
import { nodeRedisOnly } from "./drivers.js";

const redis = useRedis(vitest, { mode: "sentinel" });

describe.each(nodeRedisOnly)("a client behind Sentinels, of $name", (driver) => {
  it.each([false, true])("follows its master, and so do connections of ours (isolate: %s)", async (isolate) => {
    const client = driver.sentinel(redis.server.sentinels, "kit");
    redis.defer(() => client.end());
    const context = attach(client.redis, { isolate });
    redis.defer(() => context.detach());
    const writer = new Writer(context as never, redis.prefix, 120_000);
    await until(() => writer.acked.length > 20);
    await opened(context.inbox, 20_000);
    const [old] = redis.server.nodes as [RedisNode];
    await old.kill();
    await until(async () => (await redis.server.master()) !== old, 60_000);
    const master = await redis.server.master();
    const switchedAt = performance.now();
    await until(() => writer.acked.some(({ at }) => at > switchedAt), 60_000);
    await writer.stop();
    expect(writer.failures).toEqual([]);
    await until(() => context.inbox.isOpen, 60_000);
    expect((await master.call("PUBSUB", "NUMSUB", context.inbox.channel)) as unknown[]).toContain(1);
    await optimistic(context, ["kit"], (tx) => Promise.resolve(tx.queue("SET", redis.prefix + "x", "1", "PX", 60_000)));
    expect(await master.call("EXISTS", redis.prefix + "x")).toBe(1);
    context.detach();
    client.end();
    await old.start();
    await eventually(async () => expect(await connectionsNamed(redis, "kit:")).toEqual([]));
  });
});
