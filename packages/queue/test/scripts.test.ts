import { contract, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as looks from "../src/descriptor/scripts.js";
import { popIfScript } from "../src/pop-if/script.js";
import * as all from "../src/scripts/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const { find, list, overview } = looks;
const { add, begin, handBack, heartbeat, letters, open, recover, redrive, step } = all;

describe("scripts", () => {
  it("keep the contract that the test kit checks", async () => {
    const scripts = [
      add,
      begin,
      find,
      handBack,
      heartbeat,
      letters,
      list,
      open,
      overview,
      popIfScript,
      recover,
      redrive,
      step,
    ];
    expect(await contract(scripts, redis.server)).toEqual([]);
  });
});
