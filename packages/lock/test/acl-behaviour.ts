import { connect } from "@kit/core";
import { eventually, type RedisMode, useRedis } from "@kit/testing";
import { describeUser, expectGranted, grantedCommands, rejection, usedCommands } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createLock } from "../src/index.js";
import { user } from "./acl.js";
import { fixtureOf, enqueue } from "./harness.js";

/** That the descriptor grants what the lock needs, no more; what it forbids; and that the documents show it. */
export const aclBehaviour = (mode: RedisMode): void => {
  describe(`the ACL user of a lock on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode });
    const fixture = fixtureOf(redis);
    const name = "chest";

    it("is granted the commands that a lock runs, and no other", async () => {
      const { prefix, server } = redis;
      const spoilt = fixture.keysOf("spoilt").lease;
      await fixture.db.rpush(spoilt, "not a lease");
      await fixture.db.pexpire(spoilt, 60_000);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      const lock = createLock(client, { prefix, isolate: true });
      redis.defer(async () => {
        await lock.close({ timeoutMs: 0 });
        await client.close();
      });
      // Free; queued, and refused where the queue is full; handed on; left by a waiter; looked at; taken by force; renewed; run out.
      const first = await lock.acquire(name, { leaseMs: 30_000, renew: false });
      const second = await enqueue(lock, name);
      const short = fixture.on(client, { maxWaiters: 1 });
      expect(await rejection(short.acquire(name))).toMatchObject({ code: "KIT_LOCK_QUEUE_FULL" });
      const third = await enqueue(lock, name, { waitMs: 600 });
      expect(await first.release()).toBe("released");
      await (await second.promise).extend();
      expect(await rejection(third.promise)).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
      await lock.forceRelease(name);
      await lock.acquire(name, { leaseMs: 1_000, renew: false });
      const fourth = await enqueue(lock, name);
      await (await fourth.promise).release();
      const hasLeft = () =>
        eventually(async () => expect(String(await server.call("INFO", "commandstats"))).toContain("unsubscribe"));
      if (mode === "single") {
        const held = await lock.acquire(name);
        const away = await enqueue(lock, name);
        await server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
        await hasLeft();
        await held.release();
        await (await away.promise).release();
      }
      // A waiter whose process died.
      const fifth = await lock.acquire(name);
      const peer = await fixture.spawn();
      peer.acquire(name).catch(() => undefined);
      await eventually(async () => expect((await lock.inspect(name)).waiters).toBe(1));
      await peer.kill();
      await fifth.release();
      expect(await rejection(lock.tryAcquire("spoilt"))).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await Promise.all([lock.close(), short.close()]);

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
      const lease = await fixture.on(client).acquire(name);
      expect(await lease.release()).toBe("released");
      return fixture.keysOf(name).lease;
    });
  });
};
