import { useRedis } from "@kit/testing";
import { describeDescriptor } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { descriptor } from "../src/descriptor/index.js";

describeDescriptor(descriptor, useRedis(vitest));
