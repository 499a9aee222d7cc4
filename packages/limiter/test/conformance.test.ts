import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import { describeConformance } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { conformance } from "./conformance.js";

describeConformance(conformance, { connect, ...testing, redis: testing.useRedis(vitest) });
