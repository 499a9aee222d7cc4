import { pause } from "@kit/core/toolkit";
import { seeded } from "./lab/random.mjs";
import { clock } from "./lab/clock.mjs";
import type { Lab } from "./lab/lab.js";
import { outcomesOf } from "./records.js";
import type { Row } from "./rows/row.js";
import type { LegOptions, LegReport } from "./workload.js";

/** One blow of a plan: all chance in it comes from its seed. */
export interface Strike {
  readonly row: Row;
  readonly seed: number;
  /** The rest before it, in milliseconds. */
  readonly gapMs: number;
}

const longestGapMs = 250;
/** How long the workers are left alone now and then, and at the end: what goes wrong only slowly shows there. */
const calmMs = 2_500;
/** Of all rests. */
const calmShare = 0.1;

/** The strikes of a seed: every row as often as it wants, in some order, again and again. */
export function* planOf(seed: number, rows: readonly Row[]): Generator<Strike, never> {
  const random = seeded(seed);
  for (;;) {
    const left = rows.flatMap((row) => Array.from({ length: row.times ?? 1 }, () => row));
    while (left.length > 0) {
      const [row] = left.splice(Math.floor(random() * left.length), 1);
      if (row) yield { row, seed: Math.floor(random() * 2 ** 31), gapMs: gapOf(random) };
    }
  }
}

const gapOf = (random: () => number): number => (random() < calmShare ? calmMs : 20 + random() * longestGapMs);

/** Deals one blow; resolves with whether it bit. Work goes on when it is over. */
const deal = async (lab: Lab, { row, seed, gapMs }: Strike): Promise<boolean> => {
  await pause(gapMs);
  lab.random = seeded(seed);
  const from = clock();
  const blow = await row.inject(lab);
  try {
    // What strikes nothing in good time is healed, and has not bitten.
    await blow.until?.().catch(() => undefined);
    await pause(blow.lastsMs ?? 0);
  } finally {
    await blow.heal?.();
    lab.outages.push({ from, to: clock(), kind: row.kind });
  }
  await lab.healed(row.kind);
  return await blow.bit();
};

/** How often a row is tried until it bites. */
const mostTries = 6;

interface Dealt {
  /** By kind. */
  readonly bites: ReadonlyMap<string, number>;
  /** Why the run broke off: work did not go on. */
  readonly stuck: string | undefined;
}

/** Deals blows until the time is over and each row has bitten, or will not. */
const dealAll = async (
  lab: Lab,
  seed: number,
  rows: readonly Row[],
  isOver: (struck: number) => boolean,
): Promise<Dealt> => {
  const bites = new Map<string, number>(rows.map(({ kind }) => [kind, 0]));
  const tries = new Map<string, number>();
  const stuckAt = (where: string, error: unknown): Dealt => ({
    bites,
    stuck: `${where}: ${error instanceof Error ? error.message : String(error)}`,
  });
  let struck = 0;
  for (const strike of planOf(seed, rows)) {
    const { kind } = strike.row;
    const isOwed = rows.some((row) => bites.get(row.kind) === 0 && (tries.get(row.kind) ?? 0) < mostTries);
    if (isOver(struck) && !isOwed) break;
    // After the time only what is owed.
    if (isOver(struck) && (bites.get(kind) ?? 0) > 0) continue;
    tries.set(kind, (tries.get(kind) ?? 0) + 1);
    try {
      if (await deal(lab, strike)) {
        bites.set(kind, (bites.get(kind) ?? 0) + 1);
        struck++;
      }
    } catch (error) {
      return stuckAt(kind, error);
    }
  }
  await pause(calmMs);
  try {
    await lab.finished();
  } catch (error) {
    return stuckAt("end", error);
  }
  return { bites, stuck: undefined };
};

/** A lab that a leg can be played in. */
interface Stage<H> extends Lab {
  begin(workers: number): Promise<void>;
  /** Sends the workers away, and returns all that is known; `isStuck`: they do not work any more. */
  end(isStuck: boolean): Promise<H>;
}

/** What only the package can say of a leg. */
type OwnReport = Pick<
  LegReport,
  "violations" | "checked" | "recoveries" | "worstStallMs" | "duplicates" | "remarks"
> & {
  /** Besides the calls of its workers. */
  readonly operations?: number;
};

/** Plays one leg in a lab, and ends that. */
export const runLeg = async <H extends { readonly workers: Parameters<typeof outcomesOf>[0] }>(
  lab: Stage<H>,
  workers: number,
  { seed, rows, isOver }: LegOptions,
  reportOn: (history: H) => OwnReport,
): Promise<LegReport> => {
  // A stopped worker would not see that its input ends.
  const killWorkers = (): void => {
    for (const worker of lab.workers) worker.signal("SIGKILL");
  };
  // Before their folder is removed.
  process.prependOnceListener("exit", killWorkers);
  try {
    await lab.begin(workers);
    const { bites, stuck } = await dealAll(lab, seed, rows, isOver);
    const history = await lab.end(stuck !== undefined);
    const report = reportOn(history);
    const opsByOutcome = outcomesOf(history.workers);
    const calls = Object.values(opsByOutcome).reduce((sum, count) => sum + count, 0);
    const standstill = stuck === undefined ? [] : [{ law: "U3", what: `work did not go on: ${stuck}` }];
    return {
      ...report,
      operations: calls + (report.operations ?? 0),
      opsByOutcome,
      bites,
      violations: [...standstill, ...report.violations],
      run: { ...history, marks: lab.marks, endedAt: clock() },
    };
  } finally {
    await lab.stop();
    process.off("exit", killWorkers);
  }
};
