import { useRedis } from "@kit/testing";
import { describeLeaseFailover, describeLeaseSentinels, describeLeaseShard } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { describe } from "vitest";
import { leasingOf } from "./leasing.js";

describe("on a single server:", () => {
  describeLeaseFailover(leasingOf(useRedis(vitest)));
});

describe("behind Sentinels:", () => {
  describeLeaseSentinels(leasingOf(useRedis(vitest, { mode: "sentinel" })));
});

describe("on a Cluster:", () => {
  describeLeaseShard(leasingOf(useRedis(vitest, { mode: "cluster", replicas: 1 })));
});
