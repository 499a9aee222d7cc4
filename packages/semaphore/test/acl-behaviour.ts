import { connect } from "@kit/core";
import { eventually, type RedisMode, useRedis } from "@kit/testing";
import { describeUser, expectGranted, grantedCommands, lapse, rejection, usedCommands } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { fixtureOf, enqueue, name, take } from "./harness.js";

/** That the descriptor grants what a semaphore needs, no more; what it forbids; and that the documents show it. */
export const aclBehaviour = (mode: RedisMode): void => {
  describe(`the ACL user of a semaphore on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode });
    const fixture = fixtureOf(redis);

    it("is granted the commands that a semaphore runs, and no other", async () => {
      const { server } = redis;
      const spoilt = fixture.keysOf("spoilt").permits;
      await fixture.db.rpush(spoilt, "not a permit");
      await fixture.db.pexpire(spoilt, 60_000);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      const group = fixture.on(client, { permits: 3, permitsPerTenant: 2, isolate: true });
      const plain = fixture.on(client, { name: "plain", permits: 1 });
      redis.defer(async () => {
        await group.close({ timeoutMs: 0 });
        await plain.close({ timeoutMs: 0 });
        await client.close();
      });
      // Free; queued, and refused where the queue is full; handed on; left by a waiter; looked at; made larger; renewed; run out.
      const first = await group.acquire({ tenant: "a", weight: 2, leaseMs: 30_000, renew: false });
      const second = await enqueue(group, { tenant: "a" });
      const short = fixture.on(client, { permits: 3, permitsPerTenant: 2, maxWaiters: 1 });
      expect(await rejection(short.acquire({ tenant: "a" }))).toMatchObject({ code: "KIT_SEMAPHORE_QUEUE_FULL" });
      const third = await enqueue(group, { tenant: "a", weight: 2, waitMs: 600 });
      expect(await first.release()).toBe("released");
      await (await second.promise).extend();
      expect(await rejection(third.promise)).toMatchObject({ code: "KIT_SEMAPHORE_TIMEOUT" });
      await group.setPermits({ permits: 5, permitsPerTenant: 4 });
      const [fourth] = await take(group, 2, { tenant: "b", leaseMs: 30_000, renew: false });
      const fifth = await enqueue(group, { tenant: "b", weight: 3 });
      await fourth!.release();
      await (await fifth.promise).release();
      // Counts that outlive the permits.
      await group.acquire({ tenant: "c", weight: 2, renew: false });
      await lapse(fixture.db, fixture.keysOf(name).permits);
      await group.acquire({ tenant: "c", weight: 4, leaseMs: 30_000 });
      let alone = await plain.acquire();
      const hasLeft = () =>
        eventually(async () => expect(String(await server.call("INFO", "commandstats"))).toContain("unsubscribe"));
      if (mode === "single") {
        const away = await enqueue(plain);
        await server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
        await hasLeft();
        await alone.release();
        alone = await away.promise;
      }
      // A waiter whose process died.
      const peer = await fixture.spawn({ name: "plain", permits: 1 });
      peer.acquire().catch(() => undefined);
      await eventually(async () => expect((await plain.inspect()).waiters).toBe(1));
      await peer.kill();
      await alone.release();
      const spoiltOne = fixture.on(client, { name: "spoilt" });
      expect(await rejection(spoiltOne.tryAcquire())).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await Promise.all([group.close({ timeoutMs: 0 }), plain.close(), short.close(), spoiltOne.close()]);

      // A Cluster does not report whether anybody listens, so no waiter leaves a channel there.
      const granted = grantedCommands(user.grants(mode)).filter(
        (command) => mode === "single" || command !== "unsubscribe",
      );
      const used = await usedCommands(server.nodes);
      // The test's own.
      expectGranted(
        used.filter((command) => command !== "client|kill"),
        granted,
      );
    });

    describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
      const permit = await fixture.on(client).acquire();
      expect(await permit.release()).toBe("released");
      return fixture.keysOf(name).permits;
    });
  });
};
