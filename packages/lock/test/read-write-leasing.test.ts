import { useRedis } from "@kit/testing";
import {
  describeHolding,
  describeLeaseArrival,
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

// Clients, outages and closing are core's, and tested by the plain lock.
describe("a read/write lock whose waiters write", () => {
  const leasing = leasingOf(useRedis(vitest), "write");
  describeLeaseOptions(leasing);
  describeHolding(leasing);
  describeWaiting(leasing);
  describeLeaseArrival(leasing);
  describeLeaseEvents(leasing);
  describeLeaseHandover(leasing);
  describeLeaseLoss(leasing);
  describeRecovery(leasing);
});
