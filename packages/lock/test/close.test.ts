import { useRedis } from "@kit/testing";
import { describeLeaseClosing } from "@tooling/vitest/conformance";
import { runProgram } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);

describeLeaseClosing(leasingOf(redis));

describe("a process with a lock", () => {
  it.each([
    ["quit", "waited", false],
    ["disconnect", "waited", false],
    ["close", "waited", false],
    ["quit", "waits", false],
    ["close", "waits", false],
    ["disconnect", "waits", true],
  ])("ends by itself after %s() of its client while it %s (isolate: %s)", async (how, what, isolate) => {
    const args = [how, what, String(isolate), redis.url, redis.prefix];
    const { printed, code } = await runProgram(redis, new URL("programs/ending.mjs", import.meta.url), args);
    expect([printed, code]).toEqual(["", 0]);
  });
});
