import { useRedis } from "@kit/testing";
import { describeLeasePollution } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeasePollution(leasingOf(useRedis(vitest)));
