import { checkWorker, judged, type Judge as AnyJudge, type Verdict } from "../../common-invariants.js";
import { clockErrorMs, type DataLoss, type Span } from "../../records.js";
import { callsIn, checkResumption } from "../../work.js";
import { type Found, type LogRecord, type RunHistory, type WorkerHistory } from "./history.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `E1` effectively once: a total is the sum of the amounts given, less those reported as dropped or refused
 * - `E2` at most once: a total is at most the sum of the amounts given, and at least that less the reported drops
 * - `E3` at least once: a total is at least the sum of the amounts given; a lost reply is no reason to drop one
 * - `E4` the buckets, windows and bins of a series add up to its total; the sum of a distribution's values is exact
 * - `E5` the total in a reply contains the caller's amount and all earlier ones
 * - `Q1` a quantile is within 1.09 % of the exact one, of all values that are counted
 * - `E6` a report agrees with the events, and nothing is pending after a close
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` work goes on within a second after an outage, and after a failover as soon as there is a new master
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end, no key that stays
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = ["E1", "E2", "E3", "E4", "E5", "E6", "Q1", "U1", "U3", "U4", "U5"] as const;

type Judge = AnyJudge<Invariant>;

/** Checks a run against the invariants. The checks use the promises of the package, not its implementation. */
export const verdictOn = (run: RunHistory): Verdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const worker of run.workers) {
      checkWorker(worker, judge);
      checkReport(worker, judge);
      for (const { series } of run.found) checkAnswers(run, worker, series, judge);
    }
    for (const found of run.found) {
      checkSeries(run, found, judge);
      checkQuantiles(run, found, judge);
    }
    checkResumption(run, callsIn(run), judge);
    for (const what of run.leftovers) judge("U4", what);
  });

// ── bounds of totals ────────────────────────────────────────────────────────────────────────────────────────────────

/** The least and the greatest possible value. */
interface Bounds {
  readonly least: number;
  readonly most: number;
}

const isInterrupted = ({ losses }: RunHistory, { from, to }: Span): boolean =>
  losses.some((loss) => (loss.what === "all" || to >= loss.from - clockErrorMs) && from <= loss.to + clockErrorMs);

/** Whether a dropped amount may have been counted all the same. */
const isOpen = (reason: string): boolean => reason === "unknown";

const boundsOf = (run: RunHistory, records: readonly LogRecord[], series: string): Bounds => {
  let [given, not, dropped, sure, counted] = [0, 0, 0, 0, 0];
  for (const record of records) {
    if (record.kind === "sure") {
      // All of it is counted or was reported as dropped.
      const net = Math.max(0, (record.upTo[series] ?? 0) - dropped);
      if (!isInterrupted(run, record)) counted += Math.max(0, net - sure);
      sure = Math.max(sure, net);
    }
    if (!("series" in record) || record.series !== series) continue;
    if (record.kind === "gives") given += record.units;
    if (record.kind === "dropped") dropped += record.count;
    if (record.kind === "dropped" && !isOpen(record.reason)) not += record.count;
    if (record.kind === "fate" && record.fate === "not") not += record.units;
    if (record.kind === "fate" && record.fate === "counted" && !isInterrupted(run, record)) counted += record.units;
  }
  return { least: counted, most: given - not };
};

/** As `boundsOf`, for the sum of a distribution's values. Drop events carry no values, so a drop removes the lower bound. */
const sumBoundsOf = (run: RunHistory, records: readonly LogRecord[], series: string): Bounds => {
  const hasDrops = records.some((record) => record.kind === "dropped" && record.series === series);
  const sums = records.flatMap((record): LogRecord[] => {
    if (record.kind === "sure") return [{ ...record, upTo: hasDrops ? {} : record.sums }];
    if (record.kind === "gives" || record.kind === "fate") return [{ ...record, units: record.sum ?? 0 }];
    return [];
  });
  return boundsOf(run, sums, series);
};

const checkSeries = (run: RunHistory, { series, delivery, total, sum, parts }: Found, judge: Judge): void => {
  const within = (invariant: Invariant, what: string, value: number, { least, most }: Bounds): void => {
    const range = least === most ? String(least) : `${String(least)} to ${String(most)}`;
    judge(invariant, !(value >= least && value <= most) && `${series}: ${what} is ${String(value)}, not ${range}`);
  };
  const all = (boundsIn: typeof boundsOf): Bounds =>
    run.workers
      .map(({ records }) => boundsIn(run, records, series))
      .reduce((a, b) => ({ least: a.least + b.least, most: a.most + b.most }), { least: 0, most: 0 });
  const bounds = all(boundsOf);
  switch (delivery) {
    case "effectively-once":
      within("E1", "the total", total, bounds);
      if (sum !== undefined) within("E4", "the sum of values", sum, all(sumBoundsOf));
      break;
    case "at-most-once":
      within("E2", "the total", total, { ...bounds, most: bounds.most + (run.copied[series] ?? 0) });
      break;
    case "at-least-once":
      within("E3", "the total", total, { ...bounds, most: Infinity });
      for (const { id, records } of run.workers)
        for (const record of records) {
          // A close that times out may drop amounts, and reports them.
          if (record.kind === "closing") break;
          if (record.kind === "dropped" && record.series === series)
            judge("E3", isOpen(record.reason) && `${series}: ${id} dropped ${String(record.count)}`);
        }
  }
  if (run.isWhole)
    for (const [what, part] of Object.entries(parts)) within("E4", what, part, { least: total, most: total });
};

// ── quantiles ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** The promised share by which a quantile may be off. */
const quantileError = 0.0109;

/** Compares with the exact quantiles of the values given. Those that are not counted may be any of them. */
const checkQuantiles = (run: RunHistory, { series, quantiles = [] }: Found, judge: Judge): void => {
  if (quantiles.length === 0) return;
  const given = run.workers.flatMap(({ records }) =>
    records.flatMap((record) => (record.kind === "gives" && record.series === series ? (record.values ?? []) : [])),
  );
  const sorted = Float64Array.from(given).sort();
  for (const { of, count, values } of quantiles) {
    const missing = sorted.length - count;
    // More than was given is a fault of the total.
    if (count === 0 || missing < 0) continue;
    for (const [share, found] of Object.entries(values)) {
      const rank = Math.ceil(Number(share) * count) - 1;
      const [least = 0, most = 0] = [sorted[rank], sorted[rank + missing]];
      const isOff = !(found >= least * (1 - quantileError) && found <= most * (1 + quantileError));
      const exact = `${String(least)} to ${String(most)}, with ${String(missing)} of ${String(sorted.length)} not counted`;
      judge("Q1", isOff && `${series}: the quantile ${share} of ${of} is ${String(found)}, exactly ${exact}`);
    }
  }
};

// ── replies to callers ──────────────────────────────────────────────────────────────────────────────────────────────

/** Checks that the totals in successive replies grow. Calls that overlapped may have any order. */
const checkAnswers = (run: RunHistory, { id, records }: WorkerHistory, series: string, judge: Judge): void => {
  const answers = records
    .filter((record) => record.kind === "fate")
    .filter((record) => record.series === series && record.total !== undefined)
    .toSorted((a, b) => a.to - b.to);
  for (const [at, { from, to, total = 0, units }] of answers.entries()) {
    const before = answers.slice(0, at).findLast((one) => one.to < from);
    if (!before || run.losses.some((loss) => isBetween(loss, before.from, to))) continue;
    const isLess = total < (before.total ?? 0) + units;
    judge(
      "E5",
      isLess &&
        `${series}: ${id} got the total ${String(total)} after adding ${String(units)} to ${String(before.total)}`,
    );
  }
};

const isBetween = (loss: DataLoss, from: number, to: number): boolean =>
  loss.from - clockErrorMs <= to && from <= loss.to + clockErrorMs;

const checkReport = ({ id, records }: WorkerHistory, judge: Judge): void => {
  const report = records.find((record) => record.kind === "report");
  if (!report) return;
  judge("E6", report.pending !== 0 && `${id} had ${String(report.pending)} pending after its end`);
  for (const [reason, count] of Object.entries(report.dropped)) {
    let reported = 0;
    for (const record of records) if (record.kind === "dropped" && record.reason === reason) reported += record.count;
    judge("E6", reported !== count && `${id} dropped ${String(count)} (${reason}), and reported ${String(reported)}`);
  }
};

/** The number of calls that gave an amount. */
export const operationsOf = (run: RunHistory): number => {
  let calls = 0;
  for (const { records } of run.workers)
    for (const record of records) if (record.kind === "gives") calls += record.calls;
  return calls;
};
