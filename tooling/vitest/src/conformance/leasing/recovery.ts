import { describe, expect, it } from "vitest";
import { migrateLogin } from "../../acl.js";
import { aborted, rejection, type Watched } from "../../promises.js";
import { endMigrations, moveSlot } from "../../servers.js";
import { promptMs, timed } from "../../time.js";
import type { Client, ServerNode } from "../ground.js";
import { command, type Held, type Leasing, next, serving } from "./leasing.js";

/** Processes, connections and servers that are gone, data that is lost, and slots that move. */
export const describeRecovery = (leasing: Leasing): void => {
  const { name, ground, make } = leasing;
  const { redis, eventually } = ground;
  const onAll = (...[first, ...args]: [string, ...string[]]): Promise<unknown> =>
    Promise.all(redis.server.nodes.map((node) => node.call(first, ...args)));

  describe("a server that has lost its last writes, so that it has waiters in the queue again", () => {
    /** Runs an action, and puts the wait queue back as it was before: a replica that had not received it. */
    const forgotten = async <T>(action: () => Promise<T>): Promise<T> => {
      const { client } = redis as { readonly client: Client };
      const parts = Object.values(leasing.keysOf(name)).filter((key) => key !== leasing.lastingKey(name));
      const queue = parts.filter((key) => key !== leasing.heldKey(name));
      const kept = await Promise.all(queue.map(async (key) => [key, await client.callBuffer("DUMP", key)] as const));
      const result = await action();
      for (const key of parts) await command(leasing, "DEL", key);
      for (const [key, dump] of kept) if (dump) await client.call("RESTORE", key, "20000", dump as Uint8Array);
      return result;
    };

    it("has what it grants to those who were served or gave up released at once", async () => {
      const renewing = make();
      const limited = make({ leaseMs: 60_000, renew: false });
      const held = await renewing.acquire();
      const waiters: Watched<Held>[] = [];
      for (let index = 0; index < 10; index++) waiters.push(await (index % 2 === 0 ? renewing : limited).enqueue());
      const abort = new AbortController();
      const gone = await limited.enqueue({ signal: abort.signal });
      await forgotten(async () => {
        abort.abort();
        await rejection(gone.promise);
        await held.release();
        for (const waiter of waiters) await (await waiter.promise).release();
      });
      const { awakeMs, value } = await timed(renewing.acquire());
      expect(awakeMs).toBeLessThan(promptMs);
      await value.release();
      await leasing.untilWaiting(0);
      expect(await leasing.used()).toBe(0);
    });

    it.each(["holds it", "handed it over"])("leaves what it grants to one that %s", async (what) => {
      const leaser = make();
      const held = await leaser.acquire();
      const waiter = await leaser.enqueue();
      const granted = await forgotten(async () => {
        await held.release();
        const lease = await waiter.promise;
        await lease.extend();
        return what === "holds it" ? lease : lease.handOver();
      });
      // This call grants to the waiter that is in the queue again.
      expect(await leaser.tryAcquire()).toBeNull();
      const lease = typeof granted === "string" ? await make().resume(granted) : granted;
      await lease.extend();
      expect(await lease.release()).toBe("released");
    });
  });

  describe("a holder or a server that is gone", () => {
    it("is replaced when the lease of its process is over", async () => {
      const peer = await leasing.spawn();
      await peer.acquire({ leaseMs: 600 });
      const waiter = await make().enqueue();
      await peer.kill();
      expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
    });

    it("is waited for while the server is killed and comes back empty; its holder is notified", async () => {
      const [leaser, other] = [make(), make()];
      const held = await leaser.acquire({ leaseMs: 3_000 });
      const waiter = await other.enqueue();
      const requeued = next(other, "requeued");
      const node = await serving(leasing);
      await node.kill();
      await node.start();
      expect(await aborted(held.signal)).toMatchObject({ code: leasing.lostCode });
      await requeued;
      const lease = await waiter.promise;
      expect(lease.isHeld).toBe(true);
      await lease.release();
      expect(await eventually(() => leaser.tryAcquire())).not.toBeNull();
    });

    it("notifies also those whose leases nothing renews when the server comes back empty", async () => {
      const limited = make({ leaseMs: 600_000, renew: false });
      const held = await limited.acquire();
      const node = await serving(leasing);
      await node.kill();
      await node.start();
      expect(await aborted(held.signal)).toMatchObject({ code: leasing.lostCode });
      const next = await eventually(() => make().acquire());
      expect([held.isHeld, next.isHeld]).toEqual([false, true]);
      await next.release();
    });

    it("keeps its lease and its waiter when its connections are killed, and lets nobody in beside it", async () => {
      const leaser = leasing.on(leasing.connect());
      const held = await leaser.acquire({ leaseMs: 9_000 });
      const waiter = await leaser.enqueue();
      const other = make();
      for (let round = 0; round < 3; round++) {
        for (const type of ["normal", "pubsub"]) await onAll("CLIENT", "KILL", "TYPE", type);
        expect(await eventually(() => other.tryAcquire())).toBeNull();
      }
      // It is renewed over the new connections, by the time that is due at the latest.
      await leasing.setMsLeft(7_000);
      await eventually(async () => expect(await leasing.msLeft()).toBeGreaterThan(7_500));
      expect([held.isHeld, waiter.isSettled]).toEqual([true, false]);
      expect(await held.release()).toBe("released");
      expect((await waiter.promise).isHeld).toBe(true);
    });

    it("goes on through SCRIPT FLUSH and a server that is busy", async () => {
      const leaser = make();
      const held = await leaser.acquire();
      await onAll("SCRIPT", "FLUSH");
      const waiter = await leaser.enqueue();
      const node = await serving(leasing);
      const busy = node.call("EVAL", "local n = 0 for i = 1, 2e7 do n = n + i end return 1", "0");
      await onAll("SCRIPT", "FLUSH");
      await busy;
      expect(held.isHeld).toBe(true);
      expect(await held.release()).toBe("released");
      const second = await waiter.promise;
      await onAll("SCRIPT", "FLUSH");
      await second.extend();
      expect(await second.release()).toBe("released");
      // Each call that it makes finds its script gone.
      await onAll("SCRIPT", "FLUSH");
      await leasing.working(leasing.connect(), "another").works();
    });
  });
};

/** A Cluster of which a slot moves to another node and back. */
export const describeMovedSlot = (leasing: Leasing): void => {
  const { name, ground, make } = leasing;
  const { redis } = ground;
  it("keeps its holder and its waiters through a move of its slot", async () => {
    const leaser = make();
    const held = await leaser.acquire();
    const waiters = [await leaser.enqueue(), await leaser.enqueue()] as const;
    const { nodes } = redis.server;
    const source = await serving(leasing);
    const target = nodes.find((node) => node !== source)!;
    const slot = String(await source.call("CLUSTER", "KEYSLOT", leasing.heldKey(name)));
    const login = leasing.login ? migrateLogin : [];
    const move = async (from: ServerNode, to: ServerNode): Promise<void> => {
      const keys = await moveSlot(nodes, { slot, from, to, login });
      expect(keys).toEqual(expect.arrayContaining(Object.values(leasing.keysOf(name))));
    };
    await move(source, target);
    expect(await held.release()).toBe("released");
    const second = await waiters[0].promise;
    expect(waiters[1].isSettled).toBe(false);
    await move(target, source);
    expect(await second.release()).toBe("released");
    expect((await waiters[1].promise).isHeld).toBe(true);
    expect(await command(leasing, "ZCARD", leasing.keysOf(name).queue)).toBe(0);
    await endMigrations(nodes);
  });
};
