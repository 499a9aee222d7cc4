import type { RedisClientOptions, RedisMode, TestRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { attach, Deadline } from "../src/toolkit/index.js";
import { addOnce, append, putAll, read } from "./scripts.js";

type Variant = readonly [name: string, options: RedisClientOptions & Record<string, unknown>];

const variants: readonly Variant[] = [
  ["the defaults", {}],
  ["commandTimeout", { commandTimeout: 5_000 }],
  ["autoResendUnfulfilledCommands: false", { autoResendUnfulfilledCommands: false }],
  ["enableOfflineQueue: false", { enableOfflineQueue: false }],
  ["lazyConnect", { lazyConnect: true }],
  ["keyPrefix", { keyPrefix: "app:" }],
  ["enableAutoPipelining", { enableAutoPipelining: true }],
  ["stringNumbers", { stringNumbers: true }],
  ["maxRetriesPerRequest: 0", { maxRetriesPerRequest: 0 }],
  ["maxRetriesPerRequest: null", { maxRetriesPerRequest: null }],
  ["enableReadyCheck: false", { enableReadyCheck: false }],
  ['replyMapping: "resp3"', { replyMapping: "resp3" }],
];

/** For a single server and for a Cluster, and for every way in which a caller may have set up his client. */
export const executorBehaviour = (redis: TestRedis<RedisMode>): void => {
  const isCluster = (): boolean => redis.server.mode === "cluster";
  // ioredis reads the same options at two places of a Cluster.
  const clusterOptions = ({ lazyConnect, enableOfflineQueue, enableAutoPipelining, keyPrefix }: Variant[1]): object =>
    JSON.parse(JSON.stringify({ lazyConnect, enableOfflineQueue, enableAutoPipelining, keyPrefix })) as object;

  describe("executor: the caller's settings", () => {
    it.each(variants)("works on a client with %s", async (_, options) => {
      const client = isCluster() ? redis.connect(options, clusterOptions(options)) : redis.connect(options);
      const base = redis.prefix;
      expect(await append.run(client, { key: `${base}:a` }, { value: "é\0😀" })).toBe(7);
      expect(await read.run(client, { key: `${base}:a` }, {})).toBe("é\0😀");
      expect(await addOnce.run(client, { key: `${base}:z` }, { op: "1" })).toBe(1);
      expect(await addOnce.run(client, { key: `${base}:z` }, { op: "1" })).toBe(1);
      const tag = (name: string): string => `${base}:{t}${name}`;
      expect(
        await putAll.run(
          client,
          { first: tag("1"), others: [tag("2"), tag("3")] },
          { ttlMs: 60_000, values: ["a", "bb", Buffer.from("ccc")] },
        ),
      ).toEqual([1, 2, 3]);
      expect(await read.run(client, { key: tag("3") }, {})).toBe("ccc");
    });

    it.each(variants)("replies with bytes where they are wanted on a client with %s", async (_, options) => {
      const client = isCluster() ? redis.connect(options, clusterOptions(options)) : redis.connect(options);
      const context = attach(client);
      redis.defer(() => context.detach());
      const bytes = Buffer.from([0, 0xff, 0xfe, 10, 13, 0x80]);
      const key = `${redis.prefix}:bytes`;
      const call = { what: "SET", mutates: true, idempotent: true, deadline: Deadline.in(2_000) };
      await context.executor.run("SET", [key, bytes, "PX", 60_000], call);
      const got = await context.executor.run("GET", [key], { ...call, what: "GET", mutates: false, bytes: true });
      expect(got).toEqual(bytes);
    });

    it.each(variants)("runs two hundred scripts at once over many slots on a client with %s", async (_, options) => {
      const client = isCluster() ? redis.connect(options, clusterOptions(options)) : redis.connect(options);
      const runs = Array.from({ length: 200 }, (_, index) =>
        append.run(client, { key: `${redis.prefix}:${String(index)}` }, { value: "x".repeat(index) }),
      );
      expect(await Promise.all(runs)).toEqual(runs.map((_, index) => index));
    });
  });
};
