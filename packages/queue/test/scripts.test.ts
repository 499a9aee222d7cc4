import { contract, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as all from "../src/scripts/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const { add, handBack, heartbeat, letters, open, recover, redrive, step } = all;

describe("scripts", () => {
  it("keep the contract that the test kit checks", async () => {
    expect(await contract([add, handBack, heartbeat, letters, open, recover, redrive, step], redis.server)).toEqual([]);
  });
});
