import { useRedis } from "@kit/testing";
import { describeLeaseCancellation, describeLeaseClients, describeLeaseFailover } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

const leasing = leasingOf(useRedis(vitest));

describeLeaseCancellation(leasing);
describeLeaseClients(leasing);
describeLeaseFailover(leasing);
