import { eventually, type RedisClientOptions, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { durable, persistenceReport, replicaReads, replicationReport } from "../src/durable/index.js";
import { rejection } from "./harness.js";

const redis = useRedis(vitest, { replicas: 1, persistence: "always" });

type Variant = readonly [name: string, options: RedisClientOptions & Record<string, unknown>];

const variants: readonly Variant[] = [
  ["commandTimeout", { commandTimeout: 50 }],
  ["enableOfflineQueue: false", { enableOfflineQueue: false }],
  ["lazyConnect", { lazyConnect: true }],
  ["keyPrefix", { keyPrefix: "app:" }],
  ["enableAutoPipelining", { enableAutoPipelining: true }],
  ["stringNumbers", { stringNumbers: true }],
  ["reconnectOnError", { reconnectOnError: () => 2 }],
  ['replyMapping: "resp3"', { replyMapping: "resp3" }],
];

describe("durable: the caller's settings", () => {
  it.each(variants)("works on a client with %s", async (_, options) => {
    const client = redis.connect(options);
    const key = redis.prefix;
    const settings = { key, fsync: "local", timeoutMs: 5_000 } as const;
    await eventually(async () => {
      const result = await durable(client, settings, (scope) => scope.call("SET", key, "x", "PX", 60_000));
      expect(result).toMatchObject({ value: "OK", outcome: "safe", replicas: 1, fsync: { local: true } });
    });
    expect(await persistenceReport(client)).toMatchObject([
      { role: "master", appendOnly: { fsync: "always", isOn: true } },
      { role: "replica" },
    ]);
    expect(await replicationReport(client)).toMatchObject([{ role: "master" }, { role: "replica", link: "up" }]);
    const near = replicaReads(client);
    redis.defer(() => near.close());
    await eventually(async () => {
      const { value, from } = await near.call("GET", key);
      expect({ value, from }).toEqual({ value: "x", from: `127.0.0.1:${String(redis.server.replicas[0]!.port)}` });
    });
    expect(await rejection(near.call("SET", key, "y"))).toBeInstanceOf(RangeError);
  });

  it("waits longer than the caller's own commands may take", async () => {
    redis.server.replicas[0]!.pause();
    const client = redis.connect({ commandTimeout: 50 });
    const result = await durable(client, { key: redis.prefix, timeoutMs: 400 }, (scope) =>
      scope.call("SET", redis.prefix, "x", "PX", 60_000),
    );
    expect(result).toMatchObject({ outcome: "short", replicas: 0 });
    redis.server.replicas[0]!.resume();
  });
});
