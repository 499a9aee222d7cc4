import { describe, expect, it } from "vitest";
import { type Invariant, verdictOn } from "../src/workloads/lock/checker.js";
import type { LogRecord, RunHistory } from "../src/workloads/lock/history.js";
import { parseSteps } from "../src/workloads/lock/read-write/history.js";
import { brokenIn, calmLocks, epoch, leaseMs, workerOf } from "./lease-runs.js";

// The history of one read/write lock keeps every invariant; then one line of it is put wrong, and the checker has to say which
// invariant that breaks.

const name = "document-1";
const [reader, other, late, writer] = ["r|t1|w1", "r|t2|w2", "r|t4|w1", "w|t3|w3"];

/** A line of the history, at a millisecond of the run. */
const line = (ms: number, script: string, what: string, record: string, value: number | string): string =>
  `${String(epoch + ms)}000 ${script} ${what} ${record} ${String(value)}`;
const hold = (ms: number, script: string, record: string): string =>
  line(ms, script, "hold", record, epoch + ms + leaseMs);
const stand = (ms: number, record: string): string =>
  line(ms, "acquire", "stand", record, `${String(epoch + ms + 15_000)} inbox`);

/** Two read; a writer waits, and a reader behind it; the writer comes in when both have left, becomes a reader, and the other comes in. */
const history: readonly string[] = [
  line(0, "acquire", "fence", "-", 0),
  hold(0, "acquire", reader),
  hold(5, "acquire", other),
  line(10, "acquire", "join", writer, 1),
  stand(10, writer),
  line(15, "acquire", "join", late, 2),
  stand(15, late),
  line(16, "renew", "extend", other, epoch + 16 + leaseMs),
  line(20, "release", "end", reader, "own"),
  line(30, "release", "fence", "-", 30),
  line(30, "release", "leave", writer, "-"),
  hold(30, "release", writer),
  line(30, "release", "end", other, "own"),
  line(60, "other", "leave", late, "-"),
  line(60, "other", "hold", "r|t3|w3", epoch + 30 + leaseMs),
  hold(60, "other", late),
  line(60, "other", "end", writer, "other"),
  line(80, "release", "end", late, "own"),
  line(90, "release", "end", "r|t3|w3", "own"),
];

const runOf = (lines: readonly string[], facts: Partial<RunHistory> = {}): RunHistory => ({
  ...calmLocks,
  readWriteSteps: new Map([[name, parseSteps(lines)]]),
  workers: ["w1", "w2", "w3"].map((id) => workerOf(id, [])),
  ...facts,
});

const brokenBy = (run: RunHistory): Invariant[] => brokenIn(verdictOn(run));

/** The history with other lines in place of those that match. */
const spoilt = (pattern: RegExp, ...lines: readonly string[]): RunHistory => {
  const at = history.findIndex((one) => pattern.test(one));
  expect(at).toBeGreaterThanOrEqual(0);
  return runOf(history.toSpliced(at, 1, ...lines));
};

describe("The checker of read/write locks", () => {
  it("accepts a history that keeps every invariant, and judges each", () => {
    const { violations, checked } = verdictOn(runOf(history));
    expect(violations).toEqual([]);
    expect(checked).toMatchObject({ L1: 1, arrival: 4, sharing: 5 });
  });

  it("sees a writer next to a reader, and a reader next to a writer", () => {
    const [end] = history.filter((one) => one.includes(` end ${other}`));
    expect(brokenBy(runOf(history.filter((one) => one !== end)))).toEqual(["sharing"]);
    expect(brokenBy(runOf([...history.slice(0, 13), hold(40, "acquire", "r|t5|w2")]))).toContain("sharing");
  });

  it("sees a reader that passes a waiting writer, unless the writer is dead", () => {
    const passing = history.toSpliced(
      8,
      0,
      hold(18, "acquire", "r|t5|w2"),
      line(19, "release", "end", "r|t5|w2", "own"),
    );
    expect(brokenBy(runOf(passing))).toEqual(["arrival"]);
    const dead = passing.map((one) => one.replace(/\d+ inbox$/, `${String(epoch + 16)} inbox`));
    expect(brokenBy(runOf(dead))).toEqual([]);
  });

  it("lets a writer be passed that was asked for a heartbeat two seconds before, where no message reaches it", () => {
    const passing = (asked: number): string[] => [
      ...history.slice(0, 5),
      line(17, "acquire", "stand", writer, `${String(epoch + 15_010)} inbox ${String(epoch + asked)}`),
      ...[reader, other].map((holder) => line(18, "renew", "extend", holder, epoch + 9_000)),
      hold(2_017, "acquire", "r|t5|w2"),
    ];
    const killed = [workerOf("w1", []), workerOf("w2", []), { ...workerOf("w3", []), killedAt: epoch + 16 }];
    expect(brokenBy(runOf(passing(17), { workers: killed }))).toEqual([]);
    expect(brokenBy(runOf(passing(18), { workers: killed }))).toEqual(["arrival"]);
    expect(brokenBy(runOf(passing(-epoch), { workers: killed }))).toEqual(["arrival"]);
    expect(brokenBy(runOf(passing(17)))).toEqual(["arrival"]);
  });

  it("lets a waiter whose turn has come be passed only where no message reaches it", () => {
    // The writer is skipped when the lock gets free.
    const skipped = [
      ...history.slice(0, 9),
      line(30, "release", "leave", late, "-"),
      hold(30, "release", late),
      line(30, "release", "end", other, "own"),
    ];
    expect(brokenBy(runOf(skipped))).toEqual(["arrival"]);
    const outages = [{ kind: "subscribers killed", from: epoch + 25, to: epoch + 28 }];
    expect(brokenBy(runOf(skipped, { outages }))).toEqual([]);
    const polling = skipped.map((one) => one.replace(/(stand w.*) inbox$/, "$1 -"));
    expect(brokenBy(runOf(polling))).toEqual([]);
    const killed = { ...workerOf<LogRecord>("w3", []), killedAt: epoch + 20 };
    const stalled = workerOf<LogRecord>("w3", [{ kind: "stall", from: epoch - 80, to: epoch - 20 }]);
    for (const worker of [killed, stalled]) {
      const workers = [workerOf<LogRecord>("w1", []), workerOf("w2", []), worker];
      expect(brokenBy(runOf(skipped, { workers }))).toEqual([]);
    }
    const workers = ["w1", "w2", "w3"].map((id) =>
      workerOf<LogRecord>(id, [{ kind: "stall", from: epoch - 60, to: epoch - 20 }]),
    );
    expect(brokenBy(runOf(skipped, { workers }))).toEqual(["arrival"]);
  });

  it("sees a writer's token that does not grow, or is none", () => {
    expect(brokenBy(spoilt(/fence - 30$/, line(30, "release", "fence", "-", 0)))).toEqual(["L1"]);
    expect(brokenBy(spoilt(/fence - 30$/))).toEqual(["L1"]);
  });

  it("sees a lease that another ends, and one that comes back", () => {
    expect(brokenBy(spoilt(/release end r\|t1/, line(20, "release", "end", reader, "other")))).toEqual(["L5"]);
    expect(brokenBy(runOf([...history, line(95, "renew", "extend", reader, epoch + 500)]))).toEqual(["L5"]);
  });

  it("sees a waiter that is not granted when the leases before it have ended", () => {
    const lateMs = 30 + leaseMs + 0.1 * leaseMs + 100 + 2;
    const stuck = (ms: number): string[] => [...history.slice(0, 13), line(ms, "heartbeat", "leave", late, "-")];
    expect(brokenBy(runOf(stuck(lateMs)))).toEqual(["L6"]);
    expect(brokenBy(runOf(stuck(lateMs - 5)))).toEqual([]);
    const outage = { from: epoch + 35, to: epoch + 40 };
    expect(brokenBy(runOf(stuck(lateMs), { outages: [{ kind: "server stopped", ...outage }] }))).toEqual([]);
    expect(brokenBy(runOf(stuck(lateMs), { outages: [{ kind: "worker killed", ...outage }] }))).toEqual(["L6"]);
  });

  it("sees callers that read while another writes, unless the server lost data", () => {
    const share = (mode: "read" | "write", from: number, to: number): LogRecord => ({
      kind: "share",
      name,
      mode,
      from: epoch + from,
      to: epoch + to,
    });
    const runWith = (...shares: readonly LogRecord[]): RunHistory =>
      runOf([], { workers: shares.map((one, at) => workerOf(`w${String(at)}`, [one])) });
    expect(brokenBy(runWith(share("read", 0, 20), share("read", 10, 30), share("write", 30, 40)))).toEqual([]);
    const overlapping = [
      [share("read", 0, 20), share("write", 10, 30)],
      [share("write", 0, 20), share("read", 10, 30)],
      [share("write", 0, 20), share("write", 10, 30)],
    ];
    for (const shares of overlapping) {
      expect(brokenBy(runWith(...shares))).toEqual(["sharing"]);
      expect(brokenBy({ ...runWith(...shares), losses: [{ from: epoch, to: epoch + 1, what: "all" }] })).toEqual([]);
    }
  });
});
