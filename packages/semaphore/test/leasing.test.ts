import { useRedis } from "@kit/testing";
import {
  describeLeaseCancellation,
  describeLeaseClients,
  describeLeaseEvents,
  describeLeasePollution,
} from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

const leasing = leasingOf(useRedis(vitest));

describeLeaseCancellation(leasing);
describeLeaseClients(leasing);
describeLeaseEvents(leasing);
describeLeasePollution(leasing);
