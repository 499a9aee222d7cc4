import { describe, expect, it } from "vitest";
import { type AclUser, describeUser, expectGranted, grantedCommands, usedCommands } from "../../acl.js";
import { rejection } from "../../promises.js";
import { command, type Leasing } from "./leasing.js";

/** The descriptor grants the user of a package what it needs, no more; and the page shows it. `others` uses the package's other objects. */
export const describeLeaseUser = (
  leasing: Leasing,
  user: AclUser,
  page: URL,
  others: (client: object) => Promise<void> = () => Promise.resolve(),
): void => {
  const { name, ground, heldKey } = leasing;
  const { redis, eventually } = ground;

  describe("the ACL user", () => {
    it("is granted the commands that the package runs, and no other", async () => {
      const { server } = redis;
      const spoilt = heldKey("spoilt");
      await command(leasing, "RPUSH", spoilt, "not a lease");
      await command(leasing, "PEXPIRE", spoilt, "60000");
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = (await ground.connect({ url: redis.url, deadlineMs: 10_000 })) as { close(): Promise<void> };
      redis.defer(() => client.close());
      const group = leasing.working(client, "group");
      const leaser = leasing.on(client, { isolate: true });
      // Free; queued, and refused where the queue is full; handed on; left by a waiter; looked at; renewed; run out.
      const first = await leaser.acquire({ leaseMs: 30_000, renew: false });
      const second = await leaser.enqueue();
      const short = leasing.on(client, { maxWaiters: 1 });
      expect(await rejection(short.acquire())).toMatchObject({ code: leasing.fullCode });
      const third = await leaser.enqueue({ waitMs: 600 });
      expect(await first.release()).toBe("released");
      const held = await second.promise;
      await held.extend();
      expect(await rejection(third.promise)).toMatchObject(leasing.timeoutOf(held.holder));
      await held.release();
      await group.works();
      const brief = await leaser.acquire({ leaseMs: 1_000, renew: false });
      await (await (await leaser.enqueue()).promise).release();
      expect(brief.isHeld).toBe(false);
      const hasLeft = (): Promise<void> =>
        eventually(async () => expect(String(await server.call("INFO", "commandstats"))).toContain("unsubscribe"));
      if (server.mode === "single") {
        const kept = await leaser.acquire();
        const away = await leaser.enqueue();
        await server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
        await hasLeft();
        await kept.release();
        await (await away.promise).release();
      }
      // A waiter whose process died.
      const last = await leaser.acquire();
      const peer = await leasing.spawn();
      let isAlive = true;
      // On a busy machine its first command may find no server in time.
      const wait = (): Promise<unknown> => peer.acquire().catch(() => (isAlive ? wait() : undefined));
      void wait();
      await eventually(async () => expect((await leaser.inspect()).queue).toHaveLength(1));
      isAlive = false;
      await peer.kill();
      await last.release();
      const unusable = leasing.on(client, { name: "spoilt" });
      expect(await rejection(unusable.tryAcquire())).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await others(client);
      await Promise.all([leaser, short, unusable, group].map((one) => one.close()));

      // A Cluster does not report whether anybody listens, so no waiter leaves a channel there.
      const granted = grantedCommands(user.grants(server.mode)).filter(
        (one) => server.mode === "single" || one !== "unsubscribe",
      );
      const used = await usedCommands(server.nodes);
      // The test's own.
      expectGranted(
        used.filter((one) => one !== "client|kill"),
        granted,
      );
    });

    it("has its lease released in the background once it has the right that it lacked", async () => {
      const onAll = (...rules: readonly string[]): Promise<unknown> =>
        Promise.all(redis.server.nodes.map((node) => node.call("ACL", "SETUSER", "lacking", ...rules)));
      await onAll("on", "nopass", "~*", "&*", "+@all");
      redis.defer(() => Promise.all(redis.server.nodes.map((node) => node.call("ACL", "DELUSER", "lacking"))));
      const url = redis.url.replace("//", "//lacking:any@");
      const client = (await ground.connect({ url, deadlineMs: 10_000 })) as { close(): Promise<void> };
      redis.defer(() => client.close());
      const leaser = leasing.on(client, { leaseMs: 600_000 });
      const held = await leaser.acquire();
      await onAll("-evalsha", "-eval");
      expect(await rejection(held.release())).toMatchObject({ code: "KIT_NO_PERMISSION" });
      await onAll("+evalsha", "+eval");
      await eventually(async () => expect(await leasing.used()).toBe(0));
    });

    describeUser(user, redis, page, async (client) => {
      const held = await leasing.on(client).acquire();
      expect(await held.release()).toBe("released");
      return heldKey(name);
    });
  });
};
