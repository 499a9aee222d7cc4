import { pause } from "@kit/core/toolkit";
import { eventually, type RedisNode } from "@kit/testing";
import { clock } from "@tooling/lab";
import { followMs, infoOf, inStep, isMaster, login } from "./failover.js";
import type { Fault } from "./fault.js";

/** Resolves once `replica` has all that its master has, by a link that is up. */
const follows = async (replica: RedisNode): Promise<void> =>
  await eventually(async () => {
    const text = await infoOf(replica);
    if (!text.includes("role:slave\r\n") || !text.includes("master_link_status:up\r\n"))
      throw new Error("the replica has no link");
  }, inStep);

/** Makes the replica the master without a loss. The old master follows it and stays alive. */
const handOver = async (old: RedisNode, next: RedisNode): Promise<void> => {
  await follows(next);
  await old.call("FAILOVER", "TO", next.host, String(next.port));
  await eventually(async () => {
    if (!(await isMaster(next))) throw new Error("the replica is no master yet");
  }, inStep);
  await follows(old);
};

/**
 * A hand-over as behind a name in DNS, a virtual IP or the service of a managed platform: the address of the workers leads to
 * the new master, and the links that are open stay with the old one, which lives on as a replica.
 *
 * `isCutOff`: soon after, the old master loses its link to the new one. A client that still reads from it
 * gets old data; with the link it receives all that the new one publishes.
 */
const failover = (kind: string, isCutOff: boolean): Fault => ({
  kind,
  setting: "address",
  inject: async (lab) => {
    const old = lab.node;
    const next = [...lab.server.nodes, ...lab.server.replicas].find((node) => node !== old) ?? old;
    await handOver(old, next);
    const left = lab.tap.linksTo(old.port);
    let came = 0;
    return {
      until: async () => {
        // The address may follow a moment later.
        await pause(lab.between(0, 300));
        lab.leadTo(next);
        lab.interrupted(kind, clock(), followMs);
        await eventually(() => {
          came = lab.tap.linksTo(next.port);
          if (came === 0) throw new Error("no worker came to the new master");
        });
        if (!isCutOff) return;
        await pause(lab.between(0, 500));
        await login(old, "nobody", "nothing");
        await next.call("CLIENT", "KILL", "TYPE", "replica");
      },
      // Links that stayed behind are to be found out within two seconds.
      lastsMs: isCutOff ? lab.between(3_000, 4_000) : lab.between(1_000, 2_000),
      heal: () => login(old, "", ""),
      // No link of a worker was cut: the workers find out by themselves, or do not.
      tookEffect: async () => left > 0 && came > 0 && (await isMaster(next)) && !(await isMaster(old)),
    };
  },
});

/** Faults of a master and a replica behind one address. */
export const addressFaults: readonly Fault[] = [
  failover("failover behind one address", false),
  failover("failover behind one address, cut off", true),
];
