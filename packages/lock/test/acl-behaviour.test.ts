import type { RedisLike } from "@kit/core";
import { useRedis } from "@kit/testing";
import { describeLeaseUser } from "@tooling/vitest/conformance";
import { inModes } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect } from "vitest";
import { createQuorumLock } from "../src/quorum/index.js";
import { createReadWriteLock } from "../src/read-write/index.js";
import { user } from "./acl.js";
import { leasingOf } from "./leasing.js";

inModes({}, (mode) => {
  describe(`a lock on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode });
    /** The read/write lock and the quorum lock. */
    const others = async (client: object): Promise<void> => {
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
    };
    describeLeaseUser(leasingOf(redis), user, new URL("../docs/operations.md", import.meta.url), others);
  });
});
