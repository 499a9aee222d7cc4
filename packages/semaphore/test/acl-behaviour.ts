import { type RedisMode, useRedis } from "@kit/testing";
import { describeLeaseUser } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { user } from "./acl.js";
import { leasingOf } from "./leasing.js";

export const aclBehaviour = (mode: RedisMode): void => {
  const redis = useRedis(vitest, { mode });
  describeLeaseUser(leasingOf(redis), user, new URL("../docs/operations.md", import.meta.url));
};
