import { clock } from "../../lab/clock.mjs";
import { modeOf, surround, within } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, recoveryMs, verdictOn, worstStallMs } from "./checker.js";
import { logshipControls, moduleOf } from "./controls.js";
import { LogshipLab, points } from "./lab.js";

const workers = 4;

/** Not in the matrix: a process dies before such a command is sent, or when its reply is there and nothing has been made of it. */
const crashes = points.map(({ point }): Row => ({
  number: 1,
  kind: `1 dies at ${point}`,
  setting: "kept",
  inject: async (lab) => {
    const worker = await lab.victim();
    let hasDied = false;
    worker.tell(`die at ${point}`);
    return {
      until: async () => {
        await within(worker.ended, 8_000);
        hasDied = worker.hasEnded;
      },
      heal: async () => {
        if (worker.hasEnded) worker.killedAt = clock();
        else await worker.kill();
        // What it had open holds others up until somebody ships it.
        lab.spawn();
      },
      bit: () => hasDied,
    };
  },
}));

const rows: readonly Row[] = [
  ...allRows.filter(({ setting }) => setting === "kept"),
  ...crashes,
  ...failoverRows.filter(({ kind }) => kind !== "20 replica stopped"),
];

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = logshipControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, logshipModule: moduleOf(broken) };
  const lab = new LogshipLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    ...verdictOn(history),
    recoveries: history.heals
      .filter(({ kind }) => kind !== "end")
      .map(({ kind, at }) => ({ kind, ms: recoveryMs(history, at) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
    operations: history.accesses.length,
  }));
};

/** Processes that ship files through a channel with a small limit, receive them as two consumers, and work on a job. */
export const workload: Workload = {
  name: "logship",
  laws,
  rows,
  shares: { kept: 0.6, failover: 0.28, cluster: 0.12 },
  edges: [],
  controls: logshipControls,
  run,
};
