import { describe, expect, it } from "vitest";
import { aborted, rejection, type Watched } from "../../promises.js";
import { inStep, nodeOf } from "../../servers.js";
import type { ServerNode } from "../ground.js";
import { type Held, type Leaser, type Leasing } from "./leasing.js";

/** Another deadline for what takes a failover. */
const patient = { timeoutMs: 30_000 };

/** The role that a server reports: `master`, or `slave`. */
const roleOf = async (node: ServerNode): Promise<unknown> => ((await node.call("ROLE")) as unknown[])[0];

/** An object on a client of core's `connect()`, closed after the test. */
const owned = async ({ ground, on }: Leasing, options: object = {}, url = ground.redis.url): Promise<Leaser> => {
  const client = (await ground.connect({ url, deadlineMs: 10_000 })) as { close(): Promise<void> };
  ground.redis.defer(() => client.close());
  return on(client, options);
};

/** A holder, and two that wait. */
interface Work {
  readonly name: string;
  readonly holding: Leaser;
  readonly held: Held;
  readonly waiting: readonly Watched<Held>[];
}

const begin = async (name: string, holding: Leaser, other: Leaser): Promise<Work> => {
  const held = await holding.acquire();
  const waits = { waitMs: 60_000 };
  return { name, holding, held, waiting: [await other.enqueue(waits), await other.enqueue(waits)] };
};

/**
 * Holds and waits for two names, one on borrowed clients and one on clients of our own, across a failover: `failOver`
 * resolves with the master that serves both from then on. Resolves with the leases of each name in order.
 */
const servesThrough = async (
  leasing: Leasing,
  another: string,
  failOver: () => Promise<ServerNode>,
): Promise<readonly (readonly Held[])[]> => {
  const { name, ground, on } = leasing;
  const other = { name: another };
  const all = [
    await begin(name, on(leasing.connect()), on(leasing.connect())),
    await begin(another, await owned(leasing, other), await owned(leasing, other)),
  ];
  const master = await failOver();
  const served: Held[][] = [];
  for (const { name: own, holding, held, waiting } of all) {
    // Renewed on the new master: it cannot have more than it had when the old one died.
    await ground.eventually(async () => expect(await leasing.msLeft(own, master)).toBeGreaterThan(9_000), patient);
    const leases = [held];
    for (const [place, { promise }] of waiting.entries()) {
      expect([leases[place]!.isHeld, ...waiting.slice(place).map(({ isSettled }) => isSettled)]).toEqual([
        true,
        ...waiting.slice(place).map(() => false),
      ]);
      expect(await leases[place]!.release()).toBe("released");
      leases.push(await promise);
    }
    expect(await leases.at(-1)!.release()).toBe("released");
    expect(await holding.tryAcquire().then((lease) => lease?.release())).toBe("released");
    served.push(leases);
  }
  return served;
};

/** How a lease shows whether it was granted after another. */
type Follows = (former: Held, next: Held) => boolean;
const always: Follows = () => true;

const expectInOrder = (served: readonly (readonly Held[])[], follows: Follows): void => {
  for (const leases of served)
    for (const [place, next] of leases.slice(1).entries()) expect(follows(leases[place]!, next)).toBe(true);
};

/** Failover behind one address: clients of `connect()` that find their master by DNS, a virtual IP or a proxy. */
export const describeLeaseFailover = (leasing: Leasing): void => {
  const { redis, eventually, startRedis, FaultProxy } = leasing.ground;

  describe("a failover behind one address, whose former master lives on as a replica", () => {
    it("grants to one waiter, also where those of others hear what the new master publishes", async () => {
      const server = await startRedis({ replicas: 1 });
      redis.defer(() => server.stop());
      const [former, next] = [server.nodes[0]!, server.replicas[0]!];
      const proxy = await FaultProxy.start({ port: former.port });
      redis.defer(() => proxy.close());
      const through = (): Promise<Leaser> => owned(leasing, {}, `redis://127.0.0.1:${String(proxy.port)}`);
      const [holding, idle, busy] = [await through(), await through(), await through()];
      const held = await holding.acquire();
      const waiting = [await idle.enqueue(), await busy.enqueue()];
      proxy.redirect(next.port);
      await former.call("FAILOVER", "TO", "127.0.0.1", String(next.port));
      await eventually(async () => expect([await roleOf(former), await roleOf(next)]).toEqual(["slave", "master"]));
      // Two of the clients meet the new master. The third has sent nothing since, and listens to the former one.
      await held.extend();
      expect(await busy.tryAcquire()).toBeNull();
      await held.release();
      // Each that is granted holds it on the server; so the second can only be when the first has given it back.
      const holders: unknown[] = [];
      await Promise.all(
        waiting.map(async ({ promise }) => {
          const lease = await promise;
          await lease.extend();
          holders.push(leasing.shown(lease));
          expect(await lease.release()).toBe("released");
        }),
      );
      expect(holders).toHaveLength(2);
    });
  });
};

/** Failover behind Sentinels. */
export const describeLeaseSentinels = (leasing: Leasing, follows = always): void => {
  const { name, ground } = leasing;
  const { redis, eventually } = ground;
  const works = async (leaser: Leaser): Promise<void> => {
    await (await leaser.acquire({ waitMs: 30_000 })).release();
  };

  describe("a master that fails behind Sentinels", () => {
    it("costs no holder its lease and no waiter its turn, on clients that are borrowed and owned", async () => {
      const served = await servesThrough(leasing, "another", async () => {
        await allInStep(leasing);
        return await failOver(leasing);
      });
      expectInOrder(served, follows);
    });

    it("takes the holder whose lease went with it for lost, and the waiter whose place did into the queue again", async () => {
      const [holding, other] = [await owned(leasing, { leaseMs: 8_000 }), await owned(leasing)];
      const held = await holding.acquire();
      const waiter = await other.enqueue({ waitMs: 60_000 });
      await allInStep(leasing);
      // As if the last of what the master did had not reached its replicas when it died.
      const keys = Object.values(leasing.keysOf(name));
      for (const replica of redis.server.replicas) {
        await replica.call("CONFIG", "SET", "replica-read-only", "no");
        await replica.call("DEL", ...keys);
      }
      await failOver(leasing);
      expect(await aborted(held.signal)).toMatchObject({ code: leasing.lostCode });
      const next = await waiter.promise;
      expect(follows(held, next)).toBe(true);
      expect([await held.release(), next.isHeld]).toEqual(["not-held", true]);
      expect(await next.release()).toBe("released");
    });

    it("rejects calls in time, typed, while there is no other", async () => {
      const leaser = await owned(leasing, { deadlineMs: 500 });
      await works(leaser);
      const [old] = redis.server.nodes;
      await old!.kill();
      redis.defer(() => old!.start());
      expect(await rejection(leaser.acquire({ waitMs: 0 }))).toMatchObject({ code: "KIT_UNAVAILABLE" });
      expect(await rejection(leaser.tryAcquire())).toMatchObject({ code: "KIT_UNAVAILABLE" });
      await eventually(() => works(leaser), patient);
    });
  });

  it("does behind Sentinels what it does on a single server", async () => {
    const client = (await ground.connect({ url: redis.url, deadlineMs: 10_000 })) as { close(): Promise<void> };
    redis.defer(() => client.close());
    await leasing.working(client).works();
  });
};

/** Resolves once the replicas of the Sentinels' master have all that it has. */
export const allInStep = async ({ ground: { redis } }: Leasing): Promise<void> => {
  await inStep(redis.server.nodes[0]!, redis.server.replicas);
};

/** Kills the master of the Sentinels, and resolves with the next. The old one comes back before the test ends. */
export const failOver = async ({ ground: { redis, eventually } }: Leasing): Promise<ServerNode> => {
  const [old] = redis.server.nodes;
  await old!.kill();
  redis.defer(() => old!.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), patient);
  return await redis.server.master();
};

/** The failover of a Cluster's shard. */
export const describeLeaseShard = (leasing: Leasing, follows = always): void => {
  const { name, ground, heldKey } = leasing;
  const { redis, eventually } = ground;
  const masterOf = (own: string): Promise<ServerNode> => nodeOf(redis.server.nodes, heldKey(own));
  /** The master that serves a name, and its replica. */
  const serving = async (): Promise<readonly [master: ServerNode, replica: ServerNode]> => {
    const master = await masterOf(name);
    return [master, redis.server.replicas[redis.server.nodes.indexOf(master)]!];
  };
  /** Another name of the same shard. */
  const sibling = async (): Promise<string> => {
    const master = await masterOf(name);
    for (let number = 0; ; number++) if ((await masterOf(String(number))) === master) return String(number);
  };
  const promotion = (replica: ServerNode): Promise<void> =>
    eventually(async () => expect(await roleOf(replica)).toBe("master"), patient);

  describe("a shard that fails over", () => {
    it("costs no holder its lease and no waiter its turn, on clients that are borrowed and owned", async () => {
      const served = await servesThrough(leasing, await sibling(), async () => {
        const [old, master] = await serving();
        await inStep(old, [master]);
        await old.kill();
        redis.defer(() => old.start());
        await promotion(master);
        return master;
      });
      expectInOrder(served, follows);
    });

    it("notifies the holder whose lease went with the master, before others hold it for longer", async () => {
      const held = await (await owned(leasing, { leaseMs: 8_000 })).acquire();
      const other = await owned(leasing);
      const [master, replica] = await serving();
      await inStep(master, [replica]);
      // As if the grant had not reached the replica when its master died.
      await replica.call("CONFIG", "SET", "replica-read-only", "no");
      await replica.call("READONLY");
      master.pause();
      await promotion(replica);
      await replica.call("DEL", heldKey(name), leasing.lastingKey(name));
      expect(await aborted(held.signal)).toMatchObject({ code: leasing.lostCode });
      master.resume();
      const next = await other.acquire({ waitMs: 30_000 });
      expect(follows(held, next)).toBe(true);
      expect(next.isHeld).toBe(true);
      await next.release();
    });
  });
};
