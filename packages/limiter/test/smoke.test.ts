import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import { describeSmoke } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { conformance } from "./conformance.js";
import { permanentKeys } from "./harness.js";

describeSmoke(conformance, { connect, ...testing, redis: testing.useRedis(vitest, { permanentKeys }) });
