import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type RedisNode, useRedis } from "@kit/testing";
import { createComponent, createFlags, withComponent } from "../src/config/index.js";
import { KitError } from "../src/index.js";
import { fixtureOf, recorded } from "./config-harness.js";
import { own, until } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel", downAfterMs: 2_000, permanentKeys: [/:config:\{/] });
const fixture = fixtureOf(redis);

/** Data that is not yet everywhere would be lost with the master. */
const isEverywhere = async (key: string, revision: number): Promise<boolean> => {
  const { nodes, replicas } = redis.server;
  const found = await Promise.all([...nodes, ...replicas].map((node) => node.call("HGET", key, "revision")));
  return found.every((one) => Number(one) === revision);
};

const failedOver = async (old: RedisNode): Promise<RedisNode> => {
  await until(async () => (await redis.server.master()) !== old, 15_000);
  return await redis.server.master();
};

describe("config: failover by Sentinel", () => {
  it("callers see the last good value, then the new master's, and no exception", async () => {
    const [old] = redis.server.nodes as [RedisNode];
    const reader = await fixture.ready({ default: { host: "h", port: 0 } }, await own(redis));
    const author = fixture.make({}, await own(redis));
    await author.set({ host: "h", port: 1 });
    await until(() => reader.current.port === 1);
    await until(() => isEverywhere(fixture.keyOf("entry"), 1));
    const reported = recorded(reader);
    await old.kill();
    await until(() => reader.state === "stale");
    expect(reader.current.port).toBe(1);
    // A write that is given time waits the failover out.
    const version = await author.set({ host: "h", port: 2 }, { deadlineMs: 20_000, op: "through" });
    expect(await author.set({ host: "h", port: 2 }, { op: "through" })).toEqual(version);
    await until(() => reader.current.port === 2 && reader.state === "fresh", 20_000);
    expect(reader.version).toEqual(version);
    expect(reported.changes).toEqual([
      [
        { host: "h", port: 2 },
        { host: "h", port: 1 },
      ],
    ]);
    expect(reported.errors.every((error) => KitError.is(error) && error.retryable)).toBe(true);
    await author.set({ host: "h", port: 3 });
    await until(() => reader.current.port === 3);
    await old.start();
  });

  it("leaves an old master that is silent, with its subscription, and receives the new one", async () => {
    const old = await redis.server.master();
    const flags = createFlags(await own(redis), { maintenance: { whenUnknown: false } }, { prefix: redis.prefix });
    redis.defer(() => flags.close());
    await flags.ready();
    const logs = createComponent(await own(redis), "logs", { prefix: redis.prefix });
    redis.defer(() => logs.close());
    await logs.config.set({ url: redis.url });
    await logs.ready({ waitMs: 10_000 });
    await until(() => isEverywhere(fixture.keyOf("entry", "logs"), 1));
    old.pause();
    await failedOver(old);
    const operator = createFlags(await own(redis), { maintenance: { whenUnknown: false } }, { prefix: redis.prefix });
    redis.defer(() => operator.close());
    await operator.set("maintenance", true, { reason: "failover", deadlineMs: 20_000 });
    await until(() => flags.isOn("maintenance"));
    const ping = withComponent(logs, async (db) => await db.ping());
    await until(
      () =>
        ping().then(
          () => true,
          () => false,
        ),
      20_000,
    );
    old.resume();
    await operator.set("maintenance", false, { deadlineMs: 20_000 });
    await until(() => !flags.isOn("maintenance"), 20_000);
    expect([flags.state, logs.state]).toEqual(["fresh", "ready"]);
  });
});
