import * as vitest from "vitest";
import { useRedis } from "@kit/testing";

const { expect, test } = vitest;
const redis = useRedis(vitest, { permanentKeys: ["catalogue", "stock:*"] });

test("a purchase takes one from the stock", async () => {
  const { client, prefix } = redis;
  await client.hset(`${prefix}:catalogue`, "tea", "3.50");
  await client.set(`${prefix}:stock:tea`, 2);
  await client.decr(`${prefix}:stock:tea`);
  expect(await client.get(`${prefix}:stock:tea`)).toBe("1");
});
