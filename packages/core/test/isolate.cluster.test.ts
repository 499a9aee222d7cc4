import * as vitest from "vitest";
import { Cluster } from "ioredis";
import { expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { attach } from "../src/kernel/context/context.js";
import { addOnce } from "./scripts.js";

const redis = useRedis(vitest, { mode: "cluster" });

it("a copy by `isolate` has the login of its client, and the other settings of its nodes", async () => {
  for (const node of redis.server.nodes) await node.call("ACL", "SETUSER", "ada", "on", ">pw", "~app:*", "&*", "+@all");
  redis.defer(async () => {
    for (const node of redis.server.nodes) await node.call("ACL", "DELUSER", "ada");
  });
  const client = new Cluster(
    redis.server.nodes.map(({ port }) => ({ host: "127.0.0.1", port })),
    { keyPrefix: "app:", redisOptions: { username: "ada", password: "pw", connectionName: "by-ada" } },
  );
  redis.defer(() => client.disconnect());
  const copy = attach(client, { isolate: true });
  redis.defer(() => copy.detach());
  const key = redis.prefix;
  expect(await addOnce.run(copy, { key }, { op: "1" }, { deadlineMs: 10_000 })).toBe(1);
  expect((copy.client as Cluster).options.redisOptions).toMatchObject({
    username: "ada",
    password: "pw",
    connectionName: "by-ada",
    maxRetriesPerRequest: 0,
  });
  await client.del(key);
});
