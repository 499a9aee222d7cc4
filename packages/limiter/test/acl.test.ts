import { connect } from "@kit/core";
import { useRedis } from "@kit/testing";
import {
  describeUser,
  expectGranted,
  grantedCommands,
  inModes,
  rejection,
  usedCommands,
} from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { five, fixtureOf, hourMs, key, permanentKeys } from "./harness.js";

/** The descriptor grants what the package needs and no more, and the page shows it. */
inModes({}, (mode) => {
  describe(`the ACL user of a limiter on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);

    it("is granted the commands that it runs, and no other", async () => {
      const { server } = redis;
      const spoilt = fixture.keys.rate("spoilt");
      await fixture.db.rpush(spoilt, "not a state");
      await fixture.db.pexpire(spoilt, 60_000);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      redis.defer(() => client.close());
      const limiter = fixture.on(client, five, { isolate: true });
      // Reads the eviction policy.
      limiter.on("evictable", () => undefined);
      await limiter.consume(key);
      await limiter.check(key);
      await limiter.penalize(key, 9);
      const controller = new AbortController();
      const waiting = limiter.wait(key, { signal: controller.signal });
      await limiter.check(key);
      controller.abort();
      await rejection(waiting);
      await limiter.reward(key);
      await limiter.block(key, 1_000);
      await limiter.reset(key);
      await limiter.setLimits({ rate: { count: 1, perMs: hourMs, shared: true } });
      await limiter.consume(key);
      await limiter.setLimits(null);
      expect(await rejection(limiter.consume("spoilt"))).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await limiter.close();

      expectGranted(await usedCommands(server.nodes), grantedCommands(user.grants(mode)));
    });

    describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
      const limiter = fixture.on(client as Parameters<typeof fixture.on>[0]);
      expect(await limiter.consume(key)).toMatchObject({ allowed: true });
      return fixture.keys.rate(key);
    });
  });
});
