import { useRedis } from "@kit/testing";
import { describeLeaseFailover } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeaseFailover(leasingOf(useRedis(vitest)));
