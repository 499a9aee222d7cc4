import { contract, useRedis } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";

const redis = useRedis(vitest);
onMovingSlots(redis, scripts);

describe("the scripts", () => {
  it("keep the contract: headers, names, commands of Redis 6.2, no keys built in Lua", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });
});
