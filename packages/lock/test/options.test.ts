import { useRedis } from "@kit/testing";
import { describeLeaseOptions } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { createLock } from "../src/index.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);

describeLeaseOptions(leasingOf(redis));

it.each([null, "fast"])("refuses %o for options", (options) => {
  const { client } = redis;
  expect(() => createLock(client, options as never)).toThrow(TypeError);
});
