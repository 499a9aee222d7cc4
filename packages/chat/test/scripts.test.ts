import { contract, useRedis } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";

const redis = useRedis(vitest);
onMovingSlots(redis, scripts);

it("keeps the contract of scripts", async () => {
  const all = Object.values(scripts).flatMap((one) =>
    typeof one === "object" && "sources" in one ? [{ ...one, source: one.sources }] : [],
  );
  expect(all).toHaveLength(17);
  expect(await contract(all, redis.server)).toEqual([]);
});
