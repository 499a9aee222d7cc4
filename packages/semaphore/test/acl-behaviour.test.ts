import { useRedis } from "@kit/testing";
import { describeLeaseUser } from "@tooling/vitest/conformance";
import { inModes } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect } from "vitest";
import { createSemaphore } from "../src/index.js";
import { semaphoreKeys } from "../src/keys.js";
import { user } from "./acl.js";
import { leasingOf } from "./leasing.js";

inModes({}, (mode) => {
  describe(`a semaphore on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode });
    /** A tenant returns while more permits of others have ended than one call drops. */
    const returns = async (client: object): Promise<void> => {
      const limits = { permits: 1_000, permitsPerTenant: 1, prefix: redis.prefix, renew: false };
      const web = createSemaphore(client as Parameters<typeof createSemaphore>[0], "web", limits);
      const tenants = Array.from({ length: 250 }, (_, index) => `user-${String(index)}`);
      await Promise.all(tenants.map((tenant) => web.acquire({ tenant })));
      // A Cluster has the same commands.
      const db = redis.client as Redis;
      const { permits } = semaphoreKeys(redis.prefix, "web");
      const records = await db.zrangebyscore(permits, "(0", "+inf");
      await db.zadd(permits, ...records.flatMap((record) => [record.includes("|user-7|") ? 2 : 1, record]));
      expect(await web.tryAcquire({ tenant: "user-7" })).not.toBeNull();
      await web.close({ timeoutMs: 0 });
    };
    describeLeaseUser(leasingOf(redis), user, new URL("../docs/operations.md", import.meta.url), returns);
  });
});
