import { checkWorker, type Judge } from "./common-invariants.js";
import type { CommonRecord, Run } from "./records.js";
import { callsIn, checkResumption } from "./work.js";

/** A run whose workers judge by themselves what they see. */
export interface PlainRun<R extends { readonly kind: string } = CommonRecord> extends Run<R> {
  /** The faults of the final state, by invariant. An empty list means that it was checked and is right. */
  readonly wrong: Readonly<Record<string, readonly string[]>>;
}

/** Judges the common invariants, the workers' own findings, and the final state. */
export const checkPlain = <L extends string>(
  run: PlainRun<{ readonly kind: string }>,
  judge: Judge<L | "U1" | "U3" | "U4" | "U5">,
  isExcused: (invariant: string) => boolean,
): void => {
  for (const worker of run.workers) {
    checkWorker(worker, judge);
    for (const record of worker.records as readonly CommonRecord[])
      if (record.kind === "saw" && !isExcused(record.invariant))
        judge(record.invariant as L, record.wrong && `${worker.id}: ${record.wrong}`);
  }
  checkResumption(run, callsIn(run), judge);
  for (const [invariant, all] of Object.entries(run.wrong)) {
    judge(invariant as L);
    if (!isExcused(invariant)) for (const what of all) judge(invariant as L, what);
  }
};
