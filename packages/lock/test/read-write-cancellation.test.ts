import { useRedis } from "@kit/testing";
import { describeLeaseCancellation } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { describe } from "vitest";
import { leasingOf } from "./read-write-leasing.js";

const redis = useRedis(vitest);

describe("a read/write lock whose waiters write", () => {
  describeLeaseCancellation(leasingOf(redis, "write"));
});

describe("a read/write lock whose waiters read and write", () => {
  describeLeaseCancellation(leasingOf(redis, "read", "write"));
});
