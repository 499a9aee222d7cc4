import { contract, useRedis } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";

const redis = useRedis(vitest);
onMovingSlots(redis, scripts);

describe("the scripts", () => {
  it("keep the contract: headers, names, commands of Redis 6.2, no keys built in Lua", async () => {
    const all = Object.values(scripts).map(({ name, sources, keys, args }) => ({ name, source: sources, keys, args }));
    expect(all.length).toBeGreaterThan(12);
    expect(await contract(all, redis.server)).toEqual([]);
  });
});
