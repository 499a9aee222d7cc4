// A test file of node:test: the first test is clean, the second leaks a connection.
import assert from "node:assert/strict";
import * as runner from "node:test";
import { useRedis } from "@kit/testing";

const redis = useRedis(runner);

void runner.test("is clean", async () => {
  await redis.client.set(`${redis.prefix}:a`, "1", "PX", 10_000);
  assert.deepEqual(await redis.keys(), [`${redis.prefix}:a`]);
});

void runner.test("leaks", async () => {
  const connection = redis.server.client();
  await connection.ping();
});
