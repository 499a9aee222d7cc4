import { useRedis } from "@kit/testing";
import {
  describeHolding,
  describeLeaseArrival,
  describeLeaseCancellation,
  describeLeaseClients,
  describeLeaseClosing,
  describeLeaseEvents,
  describeLeaseFailover,
  describeLeaseHandover,
  describeLeaseLoss,
  describeLeaseOptions,
  describeLeasePollution,
  describeRecovery,
  describeWaiting,
} from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { describe } from "vitest";
import { leasingOf } from "./read-write-leasing.js";

const redis = useRedis(vitest);

describe("a read/write lock whose waiters write", () => {
  const leasing = leasingOf(redis, "write");
  describeLeaseOptions(leasing);
  describeLeaseCancellation(leasing);
  describeLeaseClients(leasing);
  describeLeaseClosing(leasing);
  describeLeaseFailover(leasing);
  describeLeasePollution(leasing);
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
