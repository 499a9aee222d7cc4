import * as vitest from "vitest";
import { eventually, FaultProxy, useRedis } from "@kit/testing";

const { expect, test } = vitest;
const redis = useRedis(vitest);

test("a basket is gone an hour after the last change", async () => {
  const basket = `${redis.prefix}:basket`;
  await redis.client.multi().rpush(basket, "tea").expire(basket, 3_600).exec();
  expect(await redis.keys()).toEqual([basket]);
});

test("a basket survives a lost reply", async () => {
  const basket = `${redis.prefix}:basket`;
  await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  const shopper = redis.connect({ port: proxy.port, maxRetriesPerRequest: 0 });
  await shopper.ping();

  proxy.down.cutNext = 1; // the server does its work, the reply is lost
  await expect(shopper.setex(basket, 3_600, "tea")).rejects.toThrow();

  expect(proxy.stats.resets).toBe(1);
  await eventually(async () => expect(await redis.client.get(basket)).toBe("tea"));
});
