import { readFileSync } from "node:fs";
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import type { Lab } from "../lab/lab.js";
import { grows } from "../lab/waits.js";
import { appendFile, copyOf, cutToSynced, flip, logFile, removeData, tear, unsyncedBytes } from "../lab/power.js";
import { noShims } from "../lab/shims.js";
import type { Injection, Fault } from "./fault.js";

/** How long `everysec` may leave data unsynced: one second, and another one while a sync is under way. */
const unsyncedMs = 2_000;

/** Kills the server when `until` allows, changes its files, and starts it again. */
const killAnd = async (
  lab: Lab,
  spoil: (file: string) => boolean,
  isTime: (file: string) => boolean = () => true,
): Promise<Injection> => {
  const file = await appendFile(lab.node);
  const until = performance.now() + mostWaitMs;
  while (!isTime(file) && performance.now() < until) await pause(1);
  await lab.node.kill();
  const hasSpoilt = spoil(file);
  return {
    lastsMs: lab.between(0, 300),
    heal: () => lab.node.start(),
    tookEffect: () => hasSpoilt,
  };
};

/** How long to wait for unsynced data; an idle server has none. */
const mostWaitMs = 500;

const someLeft = (lab: Lab): number => (lab.random() < 0.5 ? 0 : lab.random());

/** Faults of the server's disk and memory. */
export const storageFaults: readonly Fault[] = [
  {
    kind: "power cut, always",
    setting: "kept",
    whyNot: noShims,
    inject: async (lab) => {
      const { syncDelay, notes } = lab.around;
      // Slows the disk, in microseconds, so that the cut comes while data is unsynced.
      syncDelay?.set(3_000n);
      await lab.set(["appendfsync", "always"]);
      await pause(lab.between(50, 250));
      // All unsynced bytes are cut. If a file ends with half a command inside a transaction, Redis 7.0 does not roll the
      // transaction back; the start after the next runs the first half of the script.
      const injection = await killAnd(
        lab,
        (file) => cutToSynced(file, notes, 0) > 0,
        (file) => unsyncedBytes(file, notes) > 0,
      );
      syncDelay?.set(0n);
      return injection;
    },
  },
  {
    kind: "power cut, everysec",
    setting: "lost",
    whyNot: noShims,
    inject: async (lab) => {
      const { notes } = lab.around;
      await lab.set(["appendfsync", "everysec"]);
      await pause(lab.between(300, 1_500));
      const from = clock() - unsyncedMs;
      const injection = await killAnd(lab, (file) => cutToSynced(file, notes, someLeft(lab)) > 0);
      lab.lostData(from, clock(), "unsynced");
      return injection;
    },
  },
  {
    kind: "server comes back empty",
    setting: "lost",
    inject: async (lab) => {
      await lab.node.call("SET", "marker", "here");
      // Data is lost between these two instants, since the server also loses what it did right before the kill.
      const from = clock();
      const injection = await killAnd(lab, (file) => {
        removeData(file);
        return true;
      });
      lab.lostData(from, clock(), "all");
      return { ...injection, tookEffect: async () => (await lab.node.call("EXISTS", "marker")) === 0 };
    },
  },
  {
    kind: "keys evicted",
    setting: "lost",
    inject: async (lab) => {
      const evicted = (): Promise<number> => lab.count("stats", /evicted_keys:(\d+)/);
      const before = await evicted();
      const used = await lab.count("memory", /used_memory:(\d+)/);
      const from = clock();
      await lab.set(["maxmemory-policy", "allkeys-lru"], ["maxmemory", used + 64_000]);
      const fill =
        "for i = 1, 200 do redis.call('SET', 'filler:' .. ARGV[1] .. ':' .. i, string.rep('x', 1000), 'PX', 5000) end";
      let round = 0;
      return {
        until: () =>
          grows(async () => {
            await lab.node.call("EVAL", fill, "0", String(++round));
            return await evicted();
          }, before + 20),
        lastsMs: lab.outageMs(),
        heal: async () => {
          await lab.set(["maxmemory", 0], ["maxmemory-policy", "noeviction"]);
          lab.lostData(from, clock(), "all");
        },
        tookEffect: async () => (await evicted()) > before,
      };
    },
  },
  {
    kind: "file torn",
    setting: "lost",
    inject: async (lab) => {
      const from = clock();
      const log = await logFile(lab.node);
      const torn = (): number => readFileSync(log, "utf8").split("aof-load-truncated is enabled").length;
      const before = torn();
      const injection = await killAnd(lab, (file) => {
        tear(file, 1 + Math.floor(lab.random() * 40));
        return true;
      });
      // The torn record is the newest acknowledged write.
      lab.lostData(from - 500, clock(), "newest");
      return { ...injection, tookEffect: () => torn() > before };
    },
  },
  {
    kind: "byte flipped",
    setting: "lost",
    inject: async (lab) => {
      const from = clock();
      let restore: (() => void) | undefined;
      let isRestored = false;
      // Flips a byte in the token of a lease. The server loads the file, with another holder.
      const injection = await killAnd(lab, (file) => {
        restore = copyOf(file);
        return lab.claimInFile !== undefined && flip(file, lab.claimInFile);
      });
      lab.lostData(from, clock(), "newest");
      return {
        ...injection,
        heal: async () => {
          try {
            await lab.node.start();
          } catch {
            restore?.();
            isRestored = true;
            await lab.node.start();
          }
        },
        tookEffect: async () => !isRestored && (await injection.tookEffect()),
      };
    },
  },
];
