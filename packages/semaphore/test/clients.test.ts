import { useRedis } from "@kit/testing";
import { describeLeaseClients } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeaseClients(leasingOf(useRedis(vitest)));
