import { useRedis } from "@kit/testing";
import { describeLeaseEvents } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeaseEvents(leasingOf(useRedis(vitest)));
