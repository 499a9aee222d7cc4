import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import { describeLeasingProcess, describeLeasingSmoke, describeSmoke } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { conformance } from "./conformance.js";
import { leasingOf } from "./leasing.js";

const redis = testing.useRedis(vitest);
const leasing = leasingOf(redis);

describeSmoke(conformance, { connect, ...testing, redis });
describeLeasingProcess(leasing);
describeLeasingSmoke(leasing);
