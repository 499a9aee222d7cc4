import { clock } from "@tooling/lab";
import type { Fault } from "../../faults/fault.js";
import { stopped } from "../../lab/process-state.js";
import type { QuorumLab } from "./lab.js";

const ways = [["up", "down"], ["up"], ["down"]] as const;

const fault = (kind: string, inject: (lab: QuorumLab) => ReturnType<Fault["inject"]>): Fault => ({
  kind,
  setting: "kept",
  times: 2,
  inject: (lab) => inject(lab as QuorumLab),
});

/** Faults of the servers besides the first, and of two at once. */
export const faults: readonly Fault[] = [
  fault("servers restart empty", async ({ beside, random }) => {
    const before = beside.map(({ node }) => node.pid);
    if (random() < 0.5) {
      await Promise.all(beside.map(({ node }) => node.kill()));
      await Promise.all(beside.map(({ node }) => node.start()));
    } else
      for (const { node } of beside) {
        await node.kill();
        await node.start();
      }
    return { tookEffect: () => beside.every(({ node }, at) => node.pid !== before[at]) };
  }),
  fault("server beside cut off", async (lab) => {
    const proxy = lab.pick(lab.beside)?.proxy ?? lab.proxy;
    const before = proxy.stats.droppedBytes;
    for (const way of lab.pick(ways) ?? []) proxy[way].hole = true;
    return {
      lastsMs: lab.outageMs(),
      heal: () => proxy.heal(),
      tookEffect: () => proxy.stats.droppedBytes > before,
    };
  }),
  fault("server beside stopped", async (lab) => {
    const node = lab.pick(lab.beside)?.node ?? lab.node;
    node.pause();
    let isStopped = false;
    return {
      until: async () => {
        await stopped(node.pid);
        isStopped = true;
      },
      lastsMs: lab.outageMs(),
      heal: () => node.resume(),
      tookEffect: () => isStopped,
    };
  }),
  fault("two servers cut off", async (lab) => {
    const reached = lab.pick(lab.members);
    const cut = lab.members.filter((member) => member.proxy !== reached?.proxy).map(({ proxy }) => proxy);
    const before = cut.map(({ stats }) => stats.droppedBytes);
    for (const { up, down } of cut) up.hole = down.hole = true;
    const from = clock();
    return {
      lastsMs: lab.leaseMs * lab.between(1.3, 2.2),
      heal: () => {
        lab.withoutMajority.push({ from, to: clock() });
        for (const proxy of cut) proxy.heal();
      },
      tookEffect: () => cut.every(({ stats }, at) => stats.droppedBytes > (before[at] ?? 0)),
    };
  }),
];
