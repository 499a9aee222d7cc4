import type { RedisLike } from "@kit/core";
import { type RedisMode, useRedis } from "@kit/testing";
import { describeLeaseUser } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { expect } from "vitest";
import { createQuorumLock } from "../src/quorum/index.js";
import { createReadWriteLock } from "../src/read-write/index.js";
import { user } from "./acl.js";
import { leasingOf } from "./leasing.js";

export const aclBehaviour = (mode: RedisMode): void => {
  const redis = useRedis(vitest, { mode });
  describeLeaseUser(leasingOf(redis), user, new URL("../docs/operations.md", import.meta.url), async (client) => {
    const locks = createReadWriteLock(client as RedisLike, { prefix: redis.prefix });
    redis.defer(() => locks.close({ timeoutMs: 0 }));
    const lease = await locks.read.acquire("chest");
    expect(await lease.tryUpgrade()).toBe(true);
    await lease.downgrade();
    await locks.inspect("chest");
    await lease.release();
    await locks.close();
    if (mode === "cluster") return;
    const quorum = createQuorumLock([client as RedisLike], { prefix: redis.prefix, restartGuardMs: 0 });
    redis.defer(() => quorum.close({ timeoutMs: 0 }));
    const part = await quorum.acquire("chest");
    await part.extend();
    await quorum.inspect("chest");
    await part.release();
    await quorum.close();
  });
};
