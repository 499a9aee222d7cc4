import { contract, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";

const redis = useRedis(vitest);

it("every script keeps its contract", async () => {
  expect(await contract(scripts, redis.server)).toEqual([]);
});
