import { checkWorker, judged, type Judge as AnyJudge, type Verdict } from "../../common-invariants.js";
import { clockErrorMs, type Span } from "../../records.js";
import { callsIn, checkResumption } from "../../work.js";
import type { LimitFacts, LogRecord, RunHistory } from "./history.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `R1` in any window, no more calls are allowed than the limit's algorithm says, while the server keeps its data
 * - `R2` a call is counted at most once: the count is the number of successful calls, plus at most those of unknown outcome
 * - `R3` waits start no sooner than their rate allows
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` work goes on within a second after an outage, and after a failover as soon as there is a new master
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end, no key that stays
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = ["R1", "R2", "R3", "U1", "U3", "U4", "U5"] as const;

type Judge = AnyJudge<Invariant>;
type CallRecord = Extract<LogRecord, { readonly kind: "call" }>;

/** Checks a run against the invariants. The checks use the promises of the package, not its implementation. */
export const verdictOn = (run: RunHistory): Verdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const worker of run.workers) checkWorker(worker, judge);
    const calls = run.workers.flatMap(({ records }) =>
      (records as readonly LogRecord[]).filter((record) => record.kind === "call"),
    );
    for (const limit of run.limits) checkLimit(run, limit, calls, judge);
    checkCount(run, calls, judge);
    checkWaits(run, calls, judge);
    checkResumption(run, callsIn(run), judge);
    for (const what of run.leftovers) judge("U4", what);
  });

/** Whether the server forgot calls of this span. */
const isForgotten = ({ losses }: RunHistory, { from, to }: Span): boolean =>
  losses.some((loss) => loss.what === "all" || (from <= loss.to + clockErrorMs && to >= loss.from - clockErrorMs));

const checkLimit = (run: RunHistory, limit: LimitFacts, calls: readonly CallRecord[], judge: Judge): void => {
  const {
    limiter,
    limit: { perMs, shared = false },
    most,
  } = limit;
  const byKey = new Map<string, CallRecord[]>();
  for (const call of calls) {
    if (call.what !== "consume" || call.name !== limiter || call.allowed !== true) continue;
    const key = shared ? "all keys" : (call.key ?? "");
    const list = byKey.get(key);
    if (list) list.push(call);
    else byKey.set(key, [call]);
  }
  for (const [key, allowed] of byKey) {
    allowed.sort((a, b) => a.startedAt - b.startedAt);
    for (const [at, { startedAt: from }] of allowed.entries()) {
      // The server decided a call between its start and its end. Only calls that lie in the window as a whole count.
      const to = from + perMs - clockErrorMs;
      let count = 0;
      for (let next = at; next < allowed.length && allowed[next]!.startedAt <= to; next++)
        if (allowed[next]!.settledAt <= to) count++;
      const what = `${limiter} ${key} allowed ${String(count)} calls in ${String(perMs)} ms, not ${String(most)}`;
      judge("R1", count > most && !isForgotten(run, { from, to }) && what);
    }
  }
};

const checkCount = (run: RunHistory, calls: readonly CallRecord[], judge: Judge): void => {
  const counting = calls.filter(({ what }) => what === "count");
  const intended = run.workers.flatMap(({ records }) =>
    (records as readonly LogRecord[]).filter(({ kind }) => kind === "intends"),
  ).length;
  const sure = counting.filter(({ outcome }) => outcome === "ok").length;
  const not = counting.filter(({ outcome }) => outcome === "failed").length;
  const [least, most] = [run.losses.length > 0 ? 0 : sure, intended - not + run.echoes];
  const isOff = !(run.counted >= least && run.counted <= most);
  judge("R2", isOff && `${String(run.counted)} calls are counted, not ${String(least)} to ${String(most)}`);
};

const checkWaits = (run: RunHistory, calls: readonly CallRecord[], judge: Judge): void => {
  const waits = calls.filter(({ what }) => what === "wait");
  const first = Math.min(...waits.map(({ startedAt }) => startedAt));
  const started = waits.filter(({ outcome }) => outcome === "ok").toSorted((a, b) => a.settledAt - b.settledAt);
  for (const [at, { settledAt }] of started.entries()) {
    if (isForgotten(run, { from: first, to: settledAt })) return;
    const most = 1 + (settledAt - first + clockErrorMs) * run.waitRate;
    judge("R3", at + 1 > most && `${String(at + 1)} waits had started after ${(settledAt - first).toFixed(0)} ms`);
  }
};
