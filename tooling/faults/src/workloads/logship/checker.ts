import { checkWorker, judged, type Judge as AnyJudge, type Verdict } from "../../common-invariants.js";
import type { CommonRecord, Run } from "../../records.js";
import { type Progress, type Work, workIn } from "../../work.js";
import type { Chain } from "./sources.mjs";

/**
 * The invariants that the checker judges a run by.
 *
 * - `content` each consumer and the job have every line of every file once and in order, by a SHA-256 chain
 * - `once` each line of a file counts once, though the job's files are compressed, copied and replaced while they are processed
 * - `sums` the sums of each consumer and of the job are exact
 * - `atomic` results are never ahead of or behind their position
 * - `limit` chunks and reservations never take more than the limit
 * - `kept` if the server loses nothing, text that was acknowledged as shipped is in the channel
 * - `end` after all consumers are done, the channel is empty
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` shipping, receiving and processing go on after each fault
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = [
  "content",
  "once",
  "sums",
  "atomic",
  "limit",
  "kept",
  "end",
  "U1",
  "U3",
  "U4",
  "U5",
] as const;

type Judge = AnyJudge<Invariant>;

export type LogRecord =
  | CommonRecord
  | { readonly kind: "access"; readonly what: string; readonly at: number }
  | { readonly kind: "shipped"; readonly name: string; readonly sha256: string }
  | { readonly kind: "odd"; readonly what: string };

/** The content of a file. */
export interface FileTruth {
  readonly name: string;
  readonly chain: Chain;
  readonly words: Readonly<Record<string, number>>;
  readonly lines: number;
}

/** The results of a consumer, or of the job, at the end. */
export interface Had {
  readonly consumer: string;
  readonly chains: Readonly<Record<string, Chain>>;
  readonly words: Readonly<Record<string, number>>;
  /** Lines by file. */
  readonly lines: Readonly<Record<string, number>>;
}

export interface MemoryLook {
  readonly at: number;
  readonly used: number;
  readonly reserved: number;
  readonly memory: number;
  readonly chunks: number;
}

export interface RunHistory extends Run<LogRecord> {
  readonly limitBytes: number;
  readonly looks: readonly MemoryLook[];
  readonly shipped: readonly FileTruth[];
  readonly processed: readonly FileTruth[];
  readonly had: readonly Had[];
  /** Files that were acknowledged and are not in the channel at the end. */
  readonly unsealed: readonly string[];
  readonly leftovers: readonly string[];
  /** Contradictions found while the lab finished the remaining files. */
  readonly odd: readonly string[];
}

/** Checks a run against the invariants. */
export const verdictOn = (run: RunHistory): Verdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const had of run.had) checkHad(had, had.consumer === "job" ? run.processed : run.shipped, judge);
    for (const { used, reserved, memory } of run.looks) {
      const said = `${String(used)} used, ${String(reserved)} reserved, ${String(memory)} there`;
      judge("limit", Math.max(used + reserved, memory) > run.limitBytes && `${said}, of ${String(run.limitBytes)}`);
      judge("limit", memory > used + reserved && `the chunks take more memory than the channel counts: ${said}`);
    }
    if (run.losesNothing && run.had.length > 0)
      judge("kept", run.unsealed.length > 0 && `gone: ${run.unsealed.join()}`);
    if (run.had.length > 0) judge("end", run.leftovers.length > 0 && run.leftovers.join());
    for (const _ of run.heals) judge("U3");
    for (const what of run.odd) judge("atomic", `at the end: ${what}`);
    for (const worker of run.workers) {
      checkWorker(worker, judge);
      for (const record of worker.records) {
        if (record.kind === "access") judge("atomic");
        if (record.kind === "odd") judge("atomic", `${worker.id}: ${record.what}`);
      }
    }
  });

const checkHad = ({ consumer, chains, words, lines }: Had, truths: readonly FileTruth[], judge: Judge): void => {
  const sums: Record<string, number> = {};
  for (const truth of truths) {
    for (const [word, count] of Object.entries(truth.words)) sums[word] = (sums[word] ?? 0) + count;
    const counted = lines[truth.name] ?? 0;
    const said = `${consumer} counts ${String(counted)} lines of ${truth.name}, which has ${String(truth.lines)}`;
    judge("once", counted !== truth.lines && said);
    const { offset, sha256 } = chains[truth.name] ?? { offset: 0, sha256: "" };
    const isSame = offset === truth.chain.offset && sha256 === truth.chain.sha256;
    judge(
      "content",
      !isSame && `${consumer} has ${String(offset)} of ${String(truth.chain.offset)} bytes of ${truth.name}, or others`,
    );
  }
  for (const word of new Set([...Object.keys(sums), ...Object.keys(words)])) {
    const [is, should] = [words[word] ?? 0, sums[word] ?? 0];
    judge("sums", is !== should && `${consumer} counts ${String(is)} of ${word}, which are ${String(should)}`);
  }
};

/** The commits of shippers, receivers and jobs. */
export const progressIn = (record: LogRecord): readonly Progress[] =>
  record.kind === "access" ? [{ what: record.what, from: record.at, at: record.at }] : [];

export const workOf = (run: RunHistory): Work => ({ done: workIn(run, progressIn) });
