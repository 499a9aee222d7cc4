import { useRedis } from "@kit/testing";
import {
  describeHolding,
  describeLeaseArrival,
  describeLeaseCancellation,
  describeLeaseEvents,
  describeLeaseHandover,
  describeLeaseLoss,
  describeLeaseOptions,
  describeRecovery,
  describeWaiting,
} from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { describe } from "vitest";
import { leasingOf } from "./read-write-leasing.js";

const redis = useRedis(vitest);

// Clients, outages and closing are core's, and tested by the plain lock.
describe("a read/write lock whose waiters write", () => {
  const leasing = leasingOf(redis, "write");
  describeLeaseCancellation(leasing);
  describeLeaseOptions(leasing);
  describeHolding(leasing);
  describeWaiting(leasing);
  describeLeaseArrival(leasing);
  describeLeaseEvents(leasing);
  describeLeaseHandover(leasing);
  describeLeaseLoss(leasing);
  describeRecovery(leasing);
});

describe("a read/write lock whose waiters read and write", () => {
  describeLeaseCancellation(leasingOf(redis, "read", "write"));
});
