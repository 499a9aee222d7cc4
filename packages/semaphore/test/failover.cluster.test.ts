import { useRedis } from "@kit/testing";
import { describeLeaseShard } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { leasingOf } from "./leasing.js";

describeLeaseShard(leasingOf(useRedis(vitest, { mode: "cluster", replicas: 1 })));
