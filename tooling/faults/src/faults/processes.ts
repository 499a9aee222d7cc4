import { setTimeout as sleep } from "node:timers/promises";
import { clock } from "@tooling/lab";
import { grows, within } from "../lab/waits.js";
import { stopped } from "../lab/process-state.js";
import type { Fault } from "./fault.js";

const hour = 3_600_000_000_000n;

/** Faults of the workers. */
export const processFaults: readonly Fault[] = [
  {
    kind: "worker killed",
    setting: "kept",
    times: 4,
    inject: async (lab) => {
      // All workers must run, so that contention stays constant and every waiter can be notified.
      await Promise.all(lab.workers.map((worker) => worker.started()));
      await lab.settled();
      const worker = await lab.victim({ isWaitedFor: true });
      await worker.kill();
      const orphaned = await lab.died(worker, "worker killed");
      lab.spawn();
      // The checker judges how soon others get the orphaned leases, so no other fault may follow before that.
      return { lastsMs: orphaned > 0 ? 1.1 * lab.leaseMs + 150 : 0, tookEffect: () => orphaned > 0 };
    },
  },
  {
    kind: "worker stopped",
    setting: "kept",
    inject: async (lab) => {
      const worker = await lab.victim();
      worker.signal("SIGSTOP");
      await stopped(worker.pid);
      const held = await lab.claimsOf(worker);
      let now: ReadonlySet<string> = held;
      return {
        lastsMs: held.size > 0 ? lab.leaseMs * lab.between(1.1, 2) : 0,
        heal: async () => {
          try {
            now = await lab.claimsOf(worker);
          } finally {
            worker.signal("SIGCONT");
          }
        },
        tookEffect: () => [...held].some((token) => !now.has(token)),
      };
    },
  },
  {
    kind: "event loop blocked",
    setting: "kept",
    inject: async (lab) => {
      // A fault within the lease before would explain each lost lease, so nothing could be judged.
      if (lab.toBlock) await sleep(1.2 * lab.leaseMs);
      const worker = lab.toBlock?.() ?? lab.pick(lab.workers);
      const before = worker?.logged("blocked") ?? 0;
      worker?.tell("block");
      return {
        until: () => grows(() => worker?.logged("blocked") ?? 0, before),
        tookEffect: () => (worker?.logged("blocked") ?? 0) > before,
      };
    },
  },
  {
    kind: "clients' clock jumps",
    setting: "kept",
    inject: async (lab) => {
      const control = lab.around.clientClock;
      const before = lab.logged("jumped");
      control?.set(lab.random() < 0.5 ? hour : -hour);
      return {
        until: () => grows(() => lab.logged("jumped"), before),
        lastsMs: lab.outageMs(),
        heal: () => control?.set(0n),
        tookEffect: () => lab.logged("jumped") > before,
      };
    },
  },
  {
    kind: "worker told to go",
    setting: "kept",
    inject: async (lab) => {
      await Promise.all(lab.workers.map((worker) => worker.started()));
      const worker = await lab.victim();
      if (lab.random() < 0.5) worker.signal("SIGTERM");
      else worker.leave();
      const hadWork = (await lab.claimsOf(worker)).size > 0;
      lab.spawn();
      return {
        // The worker's own record shows whether it left in time.
        until: () => within(worker.ended, 10_000),
        tookEffect: () => hadWork && worker.hasEnded,
      };
    },
  },
];

/** The server's clock jumps by `sizes`, one after the other. */
const serverClockFault = (kind: string, sizes: readonly bigint[]): Fault => ({
  kind,
  setting: "shifted",
  inject: async (lab) => {
    const control = lab.around.serverClock;
    const serverNow = async (): Promise<number> => Number(((await lab.node.call("TIME")) as string[])[0]) * 1_000;
    const jump = async (nanos: bigint): Promise<void> => {
      const from = clock();
      control?.set(nanos);
      // A jump of the clock shortens or lengthens the leases that exist then.
      lab.lostData(from, clock(), "newest");
    };
    const size = lab.pick(sizes) ?? 0n;
    await jump(size);
    const off = (await serverNow()) - clock();
    return {
      lastsMs: lab.outageMs(),
      heal: () => jump(0n),
      tookEffect: () => Math.abs(off) > 5_000 && off > 0 === size > 0n,
    };
  },
});

const seconds = 1_000_000_000n;

export const clockFaults: readonly Fault[] = [
  serverClockFault("server's clock jumps by 10 s", [10n * seconds, -10n * seconds]),
  serverClockFault("server's clock jumps by 1 h", [hour, -hour]),
];
