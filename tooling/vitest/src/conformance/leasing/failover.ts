import { describe, expect, it } from "vitest";
import type { Leaser, Leasing } from "./leasing.js";

interface Replica {
  readonly port: number;
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** The role that a server reports: `master`, or `slave`. */
const roleOf = async (node: Replica): Promise<unknown> => ((await node.call("ROLE")) as unknown[])[0];

/** Failover behind one address: clients of `connect()` that find their master by DNS, a virtual IP or a proxy. */
export const describeLeaseFailover = (leasing: Leasing): void => {
  const { redis, eventually, startRedis, connect, FaultProxy } = leasing.ground;

  describe("a failover behind one address, whose former master lives on as a replica", () => {
    it("grants to one waiter, also where those of others hear what the new master publishes", async () => {
      const server = await startRedis({ replicas: 1 });
      redis.defer(() => server.stop());
      const [former, next] = [server.nodes[0]!, server.replicas[0]!];
      const proxy = await FaultProxy.start({ port: former.port });
      redis.defer(() => proxy.close());
      const leaserOf = async (): Promise<Leaser> => {
        const url = `redis://127.0.0.1:${String(proxy.port)}`;
        const client = (await connect({ url, deadlineMs: 10_000 })) as { close(): Promise<void> };
        redis.defer(() => client.close());
        return leasing.on(client);
      };
      const [holding, idle, busy] = [await leaserOf(), await leaserOf(), await leaserOf()];
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
