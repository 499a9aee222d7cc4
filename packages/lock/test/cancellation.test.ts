import { useRedis } from "@kit/testing";
import { describeLeaseCancellation } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeaseCancellation(leasingOf(useRedis(vitest)));
