import { useRedis } from "@kit/testing";
import { describeLeaseSentinels } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeaseSentinels(leasingOf(useRedis(vitest, { mode: "sentinel" })));
