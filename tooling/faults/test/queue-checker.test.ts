import { describe, expect, it } from "vitest";
import { lateMs } from "../src/common-invariants.js";
import { patience } from "../src/patience.js";
import { type Invariant, verdictOn } from "../src/workloads/queue/checker.js";
import type {
  AccessRecord,
  AddCall,
  AskRecord,
  ChangeCall,
  JobRecord,
  QueueChangeCall,
  Letter,
  LogRecord,
  RunHistory,
  WorkerHistory,
} from "../src/workloads/queue/history.js";
import { silencesIn } from "../src/workloads/queue/silences.js";

// A run that keeps every invariant; then one thing in it is put wrong, and the checker has to say which invariant that breaks.

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface Draft extends Mutable<Omit<RunHistory, "workers" | "letters">> {
  workers: Record<"w1" | "w2" | "dead", Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] }>;
  letters: Map<string, Letter[]>;
}

const epoch = 1_700_000_000_000;
const leaseMs = 400;
type Facts = Partial<Omit<AddCall, "kind">> & {
  readonly fails?: number;
  readonly delayMs?: number;
  readonly expiresMs?: number;
};

const add = (key: string, from: number, { fails = 0, delayMs = 0, expiresMs, ...facts }: Facts = {}): AddCall => ({
  ...{ kind: "call", what: "add", name: "ahead", outcome: "ok", dueMs: 500, stalledMs: 0 },
  ...{ startedAt: epoch + from, settledAt: epoch + from + 10 },
  jobs: [{ key, fails, delayMs, ...(expiresMs !== undefined && { expiresMs }) }],
  ...facts,
});
type Run = readonly [attempt: number, crashes: number, snoozes?: number];
const begun = (
  key: string,
  at: number,
  [attempt, crashes, snoozes = 0]: Run = [1, 0],
  name = "ahead",
): AccessRecord => ({
  ...{ kind: "access", name, key, attempt, crashes, snoozes, takenAt: epoch + at, at: epoch + at },
});
const later = (
  kind: JobRecord["kind"],
  key: string,
  at: number,
  [attempt, crashes, snoozes = 0]: Run = [1, 0],
  how: "ok" | "failed" = "ok",
): JobRecord => ({
  ...{ kind, name: "ahead", key, attempt, crashes, snoozes, at: epoch + at },
  ...(kind === "ran" ? { how } : {}),
});
const success = (key: string, at: number, run?: Run): LogRecord[] => [
  begun(key, at, run),
  later("ran", key, at + 20, run),
  later("done", key, at + 30, run),
];
const failure = (key: string, at: number, attempt: number): LogRecord[] => [
  begun(key, at, [attempt, 0]),
  later("ran", key, at + 20, [attempt, 0], "failed"),
];

type Change = Partial<Omit<ChangeCall, "kind" | "key">> & { readonly said?: string };
/** A run that ends with a snooze of 100 ms. */
const snooze = (key: string, at: number): LogRecord[] => [
  begun(key, at),
  { ...later("ran", key, at + 20), how: "snoozed", waitMs: 100 },
];

/** A change that is asked for, and its call. */
const changed = (what: ChangeCall["what"], key: string, from: number, facts: Change): LogRecord[] => {
  const { jobs: _, ...call } = add(key, from);
  const { delayMs } = facts;
  return [
    { kind: "asked", what, name: "ahead", key, ...(delayMs !== undefined && { delayMs }), at: epoch + from },
    { ...call, what, key, ...facts },
  ];
};

/** A pause or a resume that is asked for, and its call. */
const pausing = (what: "pause" | "resume", from: number, outcome: QueueChangeCall["outcome"] = "ok"): LogRecord[] => {
  const { jobs: _, ...call } = add("", from);
  const name = "paused";
  return [
    { kind: "asked", what, name, at: epoch + from },
    { ...call, what, name, outcome },
  ];
};
/** The same of jobs of a name, in the queue with limits. */
const pausingName = (what: "pause" | "resume", from: number): LogRecord[] =>
  pausing(what, from).map((one) => ({ ...one, name: "limited", jobName: "other" }) as LogRecord);
/** A job of the queue that is paused from 310 to 900, and from 1,510 to 2,000. */
const inPause = (key: string, at: number): AccessRecord => begun(key, at, [1, 0], "paused");

/** A change of a whole queue that is asked for, and its call. */
const queueChanged = (from: number, facts: Omit<AskRecord, "kind" | "at">): LogRecord[] => {
  const { jobs: _, ...call } = add("", from);
  return [{ ...facts, kind: "asked", at: call.startedAt }, { ...call, ...facts } as QueueChangeCall];
};
const limited = (from: number, limits: Pick<AskRecord, "concurrency" | "rate">): LogRecord[] =>
  queueChanged(from, { what: "limit", name: "limited", ...limits });
const nameLimited = (from: number, concurrency: number | null): LogRecord[] =>
  queueChanged(from, { what: "limit", name: "limited", jobName: "other", concurrency });
/** A job of the name with limits. */
const ofName = (key: string, at: number): LogRecord[] =>
  inQueue("limited", success(key, at)).map((one) => (one.kind === "access" ? { ...one, jobName: "other" } : one));
const scheduled = (from: number, schedule: string, everyMs: number): LogRecord[] =>
  queueChanged(from, { what: "schedule", name: "ahead", schedule, everyMs });

/** A list of one worker, by the age of its last sign of life. */
const listed = (silentMs: number): LogRecord => ({
  ...{ kind: "listed", name: "ahead" },
  workers: [{ id: "abcdefg", silentMs }],
});

/** Runs of another queue. */
const inQueue = (name: string, records: readonly LogRecord[]): LogRecord[] =>
  records.map((one) => ("name" in one ? { ...one, name } : one)) as LogRecord[];

/** An add of a job with the key of this name. */
const addOnce = (key: string, from: number, of: "first" | "last", facts: Partial<AddCall>): AddCall => ({
  ...{ ...add(key, from), what: "addOnce", ...facts },
  unique: { key: of, mode: of === "first" ? "keepFirst" : "keepLast" },
});

/** A main loop with a heartbeat thread stands still. */
const blocked = (from: number, to: number, stoppedMs = 1): LogRecord[] => [
  { kind: "blocked", from: epoch + from, to: epoch + to, maxBlockedMs: 1_200, stoppedMs },
  { kind: "stall", from: epoch + from, to: epoch + to },
];
const plainJob = (key: string): AddCall["jobs"][number] => ({ key, fails: 0, delayMs: 0 });
const inGroup = (key: string, from: number): AddCall => add(key, from, { jobs: [{ ...plainJob(key), group: "g" }] });
const hasty = { key: "hasty", fails: 0, delayMs: 100 };
const rate = { count: 10, perMs: 1_000, burst: 2 };
/** A schedule that is due each 50 ms from 100 on. */
const steady = [100, 150, 200, 250, 300, 350].flatMap((at) => success(`steady@${String(epoch + at)}`, at));

/** In a queue of two jobs at a time, and of ten per second; two jobs of one key, of which one is refused, and the last data of another; an expired job; an edited one; a schedule. */
const withFeatures = (): LogRecord[] => [
  ...[...limited(3_000, { concurrency: 2 }), ...limited(3_000, { rate })],
  ...inQueue("limited", [...success("one", 3_100), ...success("two", 3_100), ...success("three", 3_200)]),
  ...[...nameLimited(3_300, 1), ...ofName("named", 3_340), ...ofName("named next", 3_440)],
  ...[...pausingName("pause", 3_500), ...pausingName("resume", 3_700), ...ofName("named last", 3_720)],
  ...[...inQueue("limited", success("free", 6_600)), ...blocked(6_605, 6_615)],
  ...[addOnce("first", 0, "first", { id: "1", isAdded: true }), ...success("first", 100)],
  ...[addOnce("refused", 50, "first", { id: "1", isAdded: false })],
  ...[addOnce("second", 200, "first", { id: "2", isAdded: true }), ...success("second", 250)],
  ...[addOnce("former", 0, "last", { id: "3", isAdded: true }), ...success("former", 100)],
  ...[addOnce("replaced", 105, "last", { id: "4", isAdded: true })],
  ...[addOnce("latest", 110, "last", { id: "4", isAdded: false, isReplaced: true }), ...success("latest", 150)],
  ...[add("stale", 0, { expiresMs: 50 }), later("expired", "stale", 100)],
  ...[add("fresh", 0, { expiresMs: 50 }), ...success("fresh", 40)],
  ...[add("edited", 0, { delayMs: 100 }), ...changed("edit", "edited", 50, { said: "edited" })],
  ...[{ ...begun("edited", 120), version: 2 }, later("ran", "edited", 130), later("done", "edited", 140)],
  ...[add("taken", 0), ...changed("edit", "taken", 50, { said: "active" }), ...success("taken", 40)],
  ...[...scheduled(60, "steady", 50), ...steady],
  ...[add("root", 0, { what: "addFlow", jobs: [{ ...plainJob("root"), children: ["leaf"] }, plainJob("leaf")] })],
  ...[...success("leaf", 100), ...success("root", 140)],
  ...[inGroup("one", 0), inGroup("two", 0), ...success("one", 100), ...success("two", 140)],
  ...[add("outlived", 9_900), begun("outlived", 9_950), later("lost", "outlived", 11_340)],
  ...[later("ran", "outlived", 11_345), ...success("outlived", 11_350), listed(29_999)],
];

/** A job each: ends at once; fails once; loses its lease at 300; fails for good; is called; waits; dies with its worker; is removed; is cancelled as it runs; snoozes; is due later; is promoted. */
const aRun = (): Draft => {
  const left = { kind: "left", open: [], stalledMs: 0 } as const;
  const first = [
    ...[add("plain", 0), add("again", 0, { fails: 1 }), add("slow", 0), add("bad", 0, { fails: 3 })],
    ...[add("called", 0, { what: "call", isOwn: true, dueMs: 5_000 }), add("later", 0, { delayMs: 200 })],
    ...[...success("plain", 100), ...failure("again", 100, 1), begun("slow", 120), later("lost", "slow", 305)],
    ...[later("ran", "slow", 340), ...failure("bad", 150, 1), ...failure("bad", 200, 2), ...failure("bad", 250, 3)],
    ...[later("dead", "bad", 275, [3, 0]), ...success("held", 900, [1, 1])],
    ...[add("unborn", 0), ...changed("remove", "unborn", 100, { said: "removed" })],
    ...[add("over", 0), ...success("over", 600), ...changed("cancel", "over", 650, { said: "none" })],
    ...[add("sleepy", 0), ...snooze("sleepy", 200), ...success("sleepy", 320, [1, 0, 1])],
    ...[add("moved", 0, { delayMs: 200 }), ...changed("reschedule", "moved", 50, { said: "delayed", delayMs: 300 })],
    ...[...success("moved", 350), add("soon", 0, { delayMs: 5_000 })],
    ...[...changed("promote", "soon", 50, { said: "ready" }), ...success("soon", 60)],
    ...[...pausing("pause", 300), ...pausing("resume", 900)],
    ...[...pausing("pause", 1_500), ...pausing("resume", 2_000), inPause("early", 200), inPause("late", 920)],
    ...[add("gone", 0), ...changed("cancel", "gone", 300, { said: "cancelled" }), left],
  ];
  const second = [
    ...withFeatures(),
    ...[add("held", 0), add("durable", 0, { name: "strict" }), ...success("again", 200, [2, 0])],
    ...[...success("called", 130), ...success("later", 230), ...success("slow", 300, [1, 1])],
    ...[begun("gone", 200), later("cancelled", "gone", 420), later("ran", "gone", 430, [1, 0], "failed")],
    ...[begun("durable", 150, [1, 0], "strict"), { ...later("ran", "durable", 160), name: "strict" }, left],
  ];
  const worker = { printed: "", end: "exit 0" };
  const work = { concurrency: 5, maxCrashes: 4 };
  const plain = { isDurable: false, isPaused: false, isLimited: false };
  return {
    leaseMs,
    specs: [
      { name: "ahead", ...plain, work },
      { name: "paused", ...plain, isPaused: true, work },
      { name: "limited", ...plain, isLimited: true, work },
      { name: "strict", ...plain, isDurable: true, work: { concurrency: 5, maxCrashes: 1 } },
    ],
    workers: {
      w1: { id: "w1", records: first, ...worker },
      w2: { id: "w2", records: second, ...worker },
      dead: { id: "dead", records: [begun("held", 480)], killedAt: epoch + 490, printed: "", end: "SIGKILL" },
    },
    heals: [{ kind: "an outage", at: epoch + 450 }],
    deaths: [
      { name: "ahead", key: "held", worker: "dead", endsAt: epoch + 880 },
      { name: "ahead", key: "never begun", worker: "dead", endsAt: epoch + 880 },
    ],
    losses: [],
    outages: [
      { kind: "server stopped", from: epoch + 150, to: epoch + 290 },
      { kind: "worker killed", from: epoch + 490, to: epoch + 490 },
      { kind: "server stopped for long", from: epoch + 10_000, to: epoch + 11_300 },
    ],
    losesNothing: true,
    isShifted: false,
    letters: new Map([
      [
        "ahead",
        [
          { key: "bad", attempts: 3, crashes: 0 },
          { key: "its add was not logged", attempts: 1, crashes: 0 },
        ],
      ],
      ["strict", []],
    ]),
    leftovers: [],
    scheduledUntil: epoch + 400,
    echoes: 0,
    copiedTakes: [{ fence: "a", entries: ["plain"] }],
  };
};

const verdictAfter = (spoil: (draft: Draft) => void): ReturnType<typeof verdictOn> => {
  const draft = aRun();
  spoil(draft);
  return verdictOn({ ...draft, workers: Object.values(draft.workers) });
};
const brokenBy = (spoil: (draft: Draft) => void): Invariant[] => [
  ...new Set(verdictAfter(spoil).violations.map(({ invariant }) => invariant)),
];
const without = (draft: Draft, kind: string, key: string): void => {
  for (const worker of Object.values(draft.workers))
    worker.records = worker.records.filter((one) => one.kind !== kind || !("key" in one) || one.key !== key);
};
const withoutRate = ({ workers: { w2 } }: Draft): void => {
  w2.records = w2.records.filter((one) => !("rate" in one));
};
/** Leaves only the beginning of a job's run at a worker. */
const forgetEnd = (worker: Draft["workers"]["w1"], key: string): void => {
  worker.records = worker.records.filter((one) => !("key" in one) || one.key !== key || one.kind === "access");
};
/** Begins a job 10 ms before its delay is over. */
const takeEarly = ({ workers: { w2 } }: Draft, key: string): void => {
  w2.records = w2.records.map((one) =>
    one.kind === "access" && one.key === key ? { ...one, takenAt: epoch + 190 } : one,
  );
};
/** Puts facts into the add of a job. */
const put = ({ workers }: Draft, key: string, facts: Partial<Omit<AddCall, "kind">>): void => {
  for (const worker of Object.values(workers))
    worker.records = worker.records.map((one) =>
      "jobs" in one && one.jobs[0]?.key === key ? { ...one, ...facts } : one,
    );
};
/** The server had lost what was written in the first half second. */
const lost = { from: epoch - 100, to: epoch + 500 };
const failed = { outcome: "failed", code: "KIT_JOB_FAILED" } as const;
const noOutcome = { outcome: "failed", code: "KIT_JOB_OUTCOME_LOST" } as const;

it("A run of queues that keeps every invariant passes, and each of them was judged", () => {
  const { violations, checked } = verdictAfter((draft) => put(draft, "again", { outcome: "unknown" }));
  expect(violations).toEqual([]);
  expect(Object.entries(checked).filter(([, count]) => count === 0)).toEqual([]);
});

describe("The checker of queues finds", () => {
  it.each<[string, Invariant, (draft: Draft) => void]>([
    ["a job that nobody ran", "kept", (draft) => without(draft, "ran", "plain")],
    [
      "a job that was added after the loss",
      "kept",
      (draft) => {
        draft.losses = [{ from: epoch - 900, to: epoch - 500, what: "unreplicated" }];
        without(draft, "ran", "plain");
      },
    ],
    ["a job that is left over", "kept", ({ leftovers }) => void (leftovers as string[]).push("one is left")],
    [
      "a durable job that a failover lost",
      "kept",
      (draft) => {
        draft.losses = [{ ...lost, what: "unreplicated" }];
        without(draft, "access", "durable");
      },
    ],
    ["a job that ran twice", "repeats", ({ workers }) => void workers.w1.records.push(begun("called", 150))],
    [
      "a job that began after its end",
      "ended",
      ({ workers }) => void workers.w2.records.push(begun("plain", 160, [1, 1])),
    ],
    [
      "an end that counted though the lease was lost",
      "fenced",
      ({ workers }) => void workers.w1.records.push(later("done", "slow", 345)),
    ],
    [
      "a handler that goes on beside the next",
      "aborted",
      ({ workers: { w1 } }) => {
        const lateBy = 110 * patience;
        forgetEnd(w1, "slow");
        w1.records.push(later("lost", "slow", 300 + lateBy), later("ran", "slow", 320 + lateBy));
      },
    ],
    ["a job before its time", "due", (draft) => takeEarly(draft, "later")],
    [
      "two active jobs of a group",
      "groupConcurrency",
      ({ workers: { w2 } }) => {
        w2.records = w2.records.map((one) =>
          one.kind === "access" && one.key === "two" ? { ...one, at: one.at - 35, takenAt: one.takenAt - 35 } : one,
        );
      },
    ],
    [
      "a group that stood still",
      "groupTurns",
      ({ workers: { w2 } }) => {
        const lastMs = 1_000 + 2 * (6 * leaseMs + 2_000) * patience;
        w2.records.push(inGroup("forgotten", 1_000));
        for (let n = 0; n < 201; n++)
          w2.records.push(add(`other ${String(n)}`, 2_000), ...success(`other ${String(n)}`, 2_020));
        w2.records.push(...success("forgotten", lastMs), add("last", lastMs), ...success("last", lastMs + 20));
      },
    ],
    [
      "a parent that began before its child had ended",
      "flows",
      ({ workers: { w2 } }) => {
        w2.records = w2.records.map((one) =>
          "at" in one && "key" in one && one.key === "root" ? { ...one, at: one.at - 30 } : one,
        );
      },
    ],
    [
      "a parent that began long after its children had ended",
      "settled",
      ({ workers: { w2 } }) => {
        w2.records = w2.records.map((one) =>
          "at" in one && "key" in one && one.key === "root" ? { ...one, at: one.at + 6_000 * patience } : one,
        );
      },
    ],
    ["a crash without a cause", "charged", (draft) => void (draft.outages = [])],
    [
      "a crash after a fault that costs no lease",
      "charged",
      (draft) => void (draft.outages = draft.outages.map((one) => ({ ...one, kind: "replies lost" }))),
    ],
    [
      "a crash that a long stop of the server was charged as",
      "outage",
      (draft) => {
        for (const kind of ["access", "lost", "ran", "done"]) without(draft, kind, "outlived");
        draft.workers.w2.records.push(begun("outlived", 9_950), ...success("outlived", 11_350, [1, 1]));
      },
    ],
    [
      "a worker that is listed 30 s after its last sign of life",
      "listed",
      ({ workers: { w1 } }) => void w1.records.push(listed(30_000)),
    ],
    ["another's result", "called", (draft) => put(draft, "called", { isOwn: false })],
    [
      "a result without a run",
      "called",
      (draft) => {
        without(draft, "ran", "called");
        put(draft, "called", { jobs: [{ key: "called", fails: 3, delayMs: 0 }] });
        draft.letters.get("ahead")?.push({ key: "called", attempts: 3, crashes: 0 });
      },
    ],
    ["a call that failed too soon", "called", (draft) => put(draft, "called", { ...failed, attempts: 2, crashes: 3 })],
    ["a lost outcome", "called", (draft) => put(draft, "called", noOutcome)],
    [
      "a dead letter that may try again",
      "dead",
      ({ letters }) => void letters.get("ahead")?.push({ key: "again", attempts: 3, crashes: 0 }),
    ],
    [
      "a dead letter with crashes left",
      "dead",
      ({ letters }) => void letters.get("ahead")?.push({ key: "again", attempts: 1, crashes: 3 }),
    ],
    [
      "a removed job that runs",
      "cancelled",
      ({ workers }) => void workers.w2.records.push(begun("unborn", 200), later("ran", "unborn", 210)),
    ],
    [
      "a cancelled job that runs again",
      "cancelled",
      ({ workers }) => void workers.w1.records.push(begun("gone", 600, [1, 1]), later("ran", "gone", 610, [1, 1])),
    ],
    [
      "a cancelled job whose end counted",
      "cancelled",
      ({ workers }) => void workers.w2.records.push(later("done", "gone", 320)),
    ],
    [
      "a cancelled job that is a dead letter",
      "cancelled",
      ({ workers, letters }) => {
        workers.w1.records = workers.w1.records.map((one) =>
          "jobs" in one && one.jobs[0]?.key === "gone" ? add("gone", 0, { fails: 3 }) : one,
        );
        letters.get("ahead")?.push({ key: "gone", attempts: 3, crashes: 0 });
      },
    ],
    [
      "a handler that learns late of its cancellation",
      "cancelled",
      ({ workers: { w2 } }) => {
        forgetEnd(w2, "gone");
        w2.records.push(later("ran", "gone", 720 + 100 * patience));
      },
    ],
    [
      "a cancellation that did not find its job",
      "cancelled",
      (draft) => {
        without(draft, "ran", "over");
      },
    ],
    [
      "a job that could not be removed, and is lost",
      "kept",
      (draft) => {
        draft.workers.w1.records.push(add("busy", 0), ...changed("remove", "busy", 20, { said: "active" }));
      },
    ],
    [
      "a snooze that costs an attempt",
      "snoozed",
      (draft) => {
        without(draft, "access", "sleepy");
        draft.workers.w1.records.push(...snooze("sleepy", 200), ...success("sleepy", 320, [2, 0, 1]));
      },
    ],
    [
      "a snooze that nobody wanted",
      "snoozed",
      ({ workers: { w2 } }) => {
        w2.records = w2.records.filter((one) => !("key" in one) || one.key !== "later");
        w2.records.push(...success("later", 230, [1, 0, 1]));
      },
    ],
    [
      "a snooze that ends early",
      "snoozed",
      (draft) => {
        without(draft, "access", "sleepy");
        draft.workers.w1.records.push(...snooze("sleepy", 200), ...success("sleepy", 310, [1, 0, 1]));
      },
    ],
    [
      "a job before the time that it was given",
      "due",
      (draft) => {
        without(draft, "access", "moved");
        draft.workers.w1.records.push(...success("moved", 340));
      },
    ],
    [
      "a promoted job before it was promoted",
      "due",
      (draft) => {
        without(draft, "access", "soon");
        draft.workers.w1.records.push(...success("soon", 40));
      },
    ],
    [
      "a job that is taken in a pause",
      "paused",
      ({ workers }) => void workers.w1.records.push(inPause("wrong", 1_520)),
    ],
    [
      "a job that is taken a lease after an interrupted pause",
      "paused",
      ({ workers }) => void workers.w1.records.push(inPause("wrong", 720)),
    ],
    [
      "a job beyond the concurrency",
      "concurrency",
      (draft) => {
        withoutRate(draft);
        draft.workers.w1.records.push(...inQueue("limited", success("third", 3_110)));
      },
    ],
    [
      "a job beyond the concurrency beside one of a dead worker",
      "concurrency",
      (draft) => {
        withoutRate(draft);
        draft.workers.dead.records.push(...inQueue("limited", [begun("lost", 3_050)]));
        draft.deaths = [...draft.deaths, { name: "limited", key: "lost", worker: "dead", endsAt: epoch + 3_400 }];
      },
    ],
    [
      "a job beyond the concurrency of its name",
      "nameConcurrency",
      (draft) => {
        withoutRate(draft);
        draft.workers.w1.records.push(...ofName("beside", 3_345));
      },
    ],
    [
      "a job whose name is paused",
      "namePaused",
      (draft) => {
        withoutRate(draft);
        draft.workers.w1.records.push(...ofName("paused", 3_640));
      },
    ],
    [
      "a job that begins again while its loop is blocked",
      "renewed",
      ({ workers }) => {
        workers.w2.records.push(begun("blocking", 6_700), ...blocked(6_701, 7_301), later("lost", "blocking", 7_302));
        workers.w1.records.push(begun("blocking", 7_200, [1, 1]));
      },
    ],
    [
      "jobs beyond the rate",
      "rate",
      ({ workers }) => void workers.w1.records.push(...inQueue("limited", success("third", 3_140))),
    ],
    [
      "a second job of a key",
      "unique",
      ({ workers }) =>
        void workers.w1.records.push(
          addOnce("beside", 85, "first", { id: "5", isAdded: true }),
          ...success("beside", 200),
        ),
    ],
    [
      "two active jobs of a key",
      "unique",
      ({ workers }) =>
        void workers.w1.records.push(
          addOnce("beside", 95, "last", { id: "5", isAdded: true }),
          ...success("beside", 110),
        ),
    ],
    [
      "a key that stays taken after its job",
      "unique",
      ({ workers }) => void workers.w1.records.push(addOnce("late", 140, "first", { id: "1", isAdded: false })),
    ],
    ["the last data that never ran", "unique", (draft) => without(draft, "access", "latest")],
    [
      "the last data that was refused",
      "unique",
      ({ workers }) => void workers.w1.records.push(addOnce("none", 120, "last", { id: "4", isAdded: false })),
    ],
    [
      "a job that expires early",
      "expired",
      (draft) => {
        without(draft, "expired", "stale");
        draft.workers.w1.records.push(later("expired", "stale", 40));
      },
    ],
    [
      "an expired job that begins",
      "expired",
      ({ workers }) => void workers.w1.records.push(add("old", 100, { expiresMs: 50 }), ...success("old", 190)),
    ],
    [
      "a job that is lost before it expires",
      "kept",
      ({ workers }) => void workers.w1.records.push(add("gone before", 500, { expiresMs: 50 })),
    ],
    [
      "an edited job with its former data",
      "edited",
      (draft) => {
        without(draft, "access", "edited");
        draft.workers.w2.records.push(...success("edited", 120));
      },
    ],
    [
      "an edit that was refused, and made",
      "edited",
      (draft) => {
        without(draft, "access", "taken");
        draft.workers.w1.records.push({ ...begun("taken", 70), version: 2 }, later("ran", "taken", 80));
      },
    ],
    [
      "a run of a schedule that is left out",
      "scheduled",
      (draft) => without(draft, "access", `steady@${String(epoch + 250)}`),
    ],
    [
      "a job of no run",
      "scheduled",
      ({ workers }) => void workers.w1.records.push(...success(`steady@${String(epoch + 260)}`, 260)),
    ],
    [
      "a job before its run",
      "scheduled",
      (draft) => {
        without(draft, "access", `steady@${String(epoch + 250)}`);
        draft.workers.w1.records.push(...success(`steady@${String(epoch + 250)}`, 240));
      },
    ],
    [
      "a dead worker's job that waits for longer than its lease",
      "lease",
      (draft) => {
        draft.deaths = draft.deaths.map((one) => ({ ...one, endsAt: epoch + 859 - 400 * patience }));
      },
    ],
    [
      "a copy of a step that took other jobs",
      "U2",
      (draft) => {
        draft.copiedTakes = [
          { fence: "a", entries: ["plain"] },
          { fence: "a", entries: [] },
          { fence: "a", entries: ["again", "slow"] },
        ];
      },
    ],
    ["a call that settles late", "U1", (draft) => put(draft, "plain", { settledAt: epoch + 502 + lateMs })],
    [
      "work that does not go on",
      "U3",
      (draft) => void (draft.heals = [{ kind: "an outage", at: epoch + 500, dueMs: 50 }]),
    ],
    ["a queue that rests for ever", "U3", (draft) => void (draft.heals = [{ kind: "an outage", at: epoch + 1_000 }])],
    ["what a worker printed", "U4", ({ workers }) => void (workers.w1.printed = "oops")],
    ["an error without a type", "U5", (draft) => put(draft, "plain", { outcome: "untyped" })],
  ])("%s (%s)", (_, invariant, spoil) => {
    expect(brokenBy(spoil)).toEqual([invariant]);
  });
});

describe("The checker of queues excuses", () => {
  it.each<[string, (draft: Draft) => void]>([
    [
      "jobs that the server lost, and outcomes",
      (draft) => {
        draft.losses = [{ ...lost, what: "all" }];
        without(draft, "access", "plain");
        without(draft, "access", "durable");
        put(draft, "called", noOutcome);
        (draft.leftovers as string[]).push("a wake-up of a job that was lost");
      },
    ],
    [
      "copies of a step whose leases have ended meanwhile",
      (draft) => {
        draft.copiedTakes = [["plain", "again"], ["again"], []].map((entries) => ({ fence: "a", entries }));
      },
    ],
    [
      "a job whose add was not acknowledged",
      (draft) => (without(draft, "ran", "plain"), put(draft, "plain", { outcome: "unknown" })),
    ],
    [
      "a crash of a job that ran when another fault came before a long stop",
      (draft) => {
        for (const kind of ["access", "lost", "ran", "done"]) without(draft, kind, "outlived");
        draft.workers.w2.records.push(begun("outlived", 9_950), ...success("outlived", 11_350, [1, 1]));
        draft.outages = [...draft.outages, { kind: "worker stopped", from: epoch + 9_960, to: epoch + 9_970 }];
      },
    ],
    [
      "a job that may have been cancelled",
      ({ workers: { w1 } }) => {
        w1.records.push(add("unknown", 0), ...changed("cancel", "unknown", 20, { outcome: "unknown" }));
        w1.records.push(add("asked", 0), ...changed("cancel", "asked", 20, {}).slice(0, 1));
      },
    ],
    [
      "a cancellation that did not find its job after it was sent twice",
      (draft) => {
        draft.outages = [...draft.outages, { kind: "replies lost", from: epoch + 640, to: epoch + 655 }];
        without(draft, "access", "over");
      },
    ],
    [
      "a job that is taken in an interrupted pause, within a lease",
      ({ workers }) => void workers.w1.records.push(inPause("repeated", 700)),
    ],
    [
      "a job whose change of time is unknown",
      ({ workers: { w1 } }) => {
        const unknown = { outcome: "unknown", delayMs: 10 } as const;
        w1.records.push(add("maybe", 0, { delayMs: 200 }), ...changed("reschedule", "maybe", 20, unknown));
        w1.records.push(...success("maybe", 40));
      },
    ],
    [
      "a job that is taken after a resume that may have come",
      ({ workers }) => {
        const [asked] = pausing("resume", 400);
        if (asked) workers.dead.records.push(asked);
        workers.w1.records.push(inPause("after", 800));
      },
    ],
    [
      "a job that is taken in a pause that the server lost",
      (draft) => {
        draft.losses = [{ ...lost, what: "all" }];
        draft.workers.w1.records.push(inPause("lost", 800));
      },
    ],
    [
      "jobs beyond a limit that may not be in force any more",
      ({ workers }) => {
        const [asked] = limited(3_090, { concurrency: 5 });
        if (asked) workers.dead.records.push(asked);
        workers.w1.records.push(...inQueue("limited", success("third", 3_115)));
        workers.w1.records.push(...limited(3_080, { rate: { ...rate, burst: 5 } }));
      },
    ],
    [
      "a job beyond the rate after one that expired before it began",
      ({ workers: { w1 } }) =>
        void w1.records.push(...inQueue("limited", [later("expired", "gone", 3_130), ...success("third", 3_140)])),
    ],
    [
      "a job that a try without a reply may have added before the clock jumped",
      (draft) => {
        draft.losses = [{ ...lost, what: "newest" }];
        draft.workers.w1.records.push(add("maybe added", 400, { outcome: "unknown" }), add("maybe added", 600));
      },
    ],
    [
      "the last data of a job that was added before the clock jumped",
      (draft) => {
        draft.losses = [{ from: epoch, to: epoch + 107, what: "newest" }];
        without(draft, "access", "latest");
      },
    ],
    [
      "a job that was taken while the first limits were under way",
      ({ workers: { w1, w2 } }) => {
        w2.records = w2.records.map((one) =>
          one.kind === "call" && one.what === "limit" && !("jobName" in one)
            ? { ...one, settledAt: epoch + 3_250 }
            : one,
        );
        w1.records.push(...inQueue("limited", success("third", 3_110)));
      },
    ],
    [
      "a job that was taken before its name had a limit",
      (draft) => {
        withoutRate(draft);
        const { w1 } = draft.workers;
        w1.records.push(...ofName("before", 3_290), later("ran", "before", 3_390), later("done", "before", 3_400));
        forgetEnd(w1, "before");
        w1.records.push(...inQueue("limited", [later("ran", "before", 3_390), later("done", "before", 3_400)]));
      },
    ],
    [
      "a job that begins again after its loop was blocked for too long",
      ({ workers }) => {
        workers.w2.records.push(begun("blocking", 6_700), ...blocked(6_701, 8_301), later("lost", "blocking", 8_302));
        workers.w1.records.push(begun("blocking", 8_100, [1, 1]));
      },
    ],
    [
      "a job of a loop that is blocked before its thread has connected",
      ({ workers }) => {
        workers.w2.records.push(begun("blocking", 700), ...blocked(701, 1_301), later("lost", "blocking", 1_302));
        workers.w1.records.push(begun("blocking", 1_200, [1, 1]));
      },
    ],
    [
      "a job of a blocked loop whose process was stopped",
      ({ workers }) => {
        workers.w2.records.push(
          begun("blocking", 6_700),
          ...blocked(6_701, 7_301, 500),
          later("lost", "blocking", 7_302),
        );
        workers.w1.records.push(begun("blocking", 7_200, [1, 1]));
      },
    ],
    [
      "jobs of a take that may have been repeated",
      (draft) => {
        draft.outages = [...draft.outages, { kind: "replies lost", from: epoch + 3_000, to: epoch + 3_050 }];
        draft.workers.w1.records.push(...inQueue("limited", success("third", 3_140)));
      },
    ],
    [
      "a job that may have expired at a worker that was killed",
      ({ workers }) => void workers.w1.records.push(add("unseen", 0, { expiresMs: 50 })),
    ],
    [
      "a late run of a job that began before",
      ({ workers }) => {
        workers.w1.records.push(add("again late", 0, { expiresMs: 50 }));
        workers.w1.records.push(begun("again late", 300, [1, 1]), later("ran", "again late", 310, [1, 1]));
      },
    ],
    [
      "an edit whose outcome is unknown",
      ({ workers: { w1 } }) => {
        w1.records.push(add("maybe edited", 0), ...changed("edit", "maybe edited", 20, { outcome: "unknown" }));
        w1.records.push({ ...begun("maybe edited", 40), version: 2 }, later("ran", "maybe edited", 50));
      },
    ],
    [
      "runs of a schedule that may have been changed before they were due",
      (draft) => {
        const [asked] = scheduled(200, "steady", 70);
        if (asked) draft.workers.dead.records.push(asked);
        for (const at of [250, 300, 350]) without(draft, "access", `steady@${String(epoch + at)}`);
      },
    ],
    [
      "a late run by a definition that came after its instant",
      ({ workers: { w1 } }) => {
        w1.records.push(...scheduled(0, "changed", 500), ...scheduled(210, "changed", 70));
        for (const [at, takenAt] of [
          [160, 220],
          [230, 230],
          [300, 300],
          [370, 370],
        ] as const)
          w1.records.push(...success(`changed@${String(epoch + at)}`, takenAt));
      },
    ],
    [
      "a replaced job that was ready, and so does not wait",
      ({ workers: { w1 } }) => {
        w1.records.push(addOnce("hasty", 300, "last", { id: "6", isAdded: false, isReplaced: true, jobs: [hasty] }));
        w1.records.push(...success("hasty", 320));
      },
    ],
    [
      "a crash that a stalled worker explains",
      (draft) => {
        draft.outages = draft.outages.filter(({ kind }) => kind === "worker killed");
        draft.workers.w1.records.push({ kind: "stall", from: epoch + 150, to: epoch + 300 });
      },
    ],
    [
      "a signal that was late while its process stood still",
      ({ workers: { w1 } }) => {
        const until = epoch + 300 + 500 * patience;
        forgetEnd(w1, "slow");
        w1.records.push({ kind: "stall", from: epoch + 300, to: until });
        w1.records.push({ ...later("lost", "slow", 0), at: until }, { ...later("ran", "slow", 0), at: until + 1 });
      },
    ],
    [
      "a job that its worker handed back when it closed",
      ({ workers: { w1 } }) => {
        const { jobs: _, ...close } = { ...add("", 120), what: "close" };
        w1.records.push(close, begun("called", 125));
      },
    ],
    [
      "a job that is not durable, where durable ones survive",
      (draft) => {
        draft.losses = [{ ...lost, what: "unreplicated" }];
        without(draft, "access", "plain");
      },
    ],
    [
      "instants of a clock that jumped",
      (draft) => {
        const { w1 } = draft.workers;
        draft.isShifted = true;
        forgetEnd(w1, "slow");
        w1.records.push(later("lost", "slow", 300 + 400 * patience), later("ran", "slow", 320 + 400 * patience));
        takeEarly(draft, "later");
      },
    ],
    [
      "a signal that a killed worker could not log",
      ({ workers: { w1 } }) => {
        w1.killedAt = epoch + 500;
        forgetEnd(w1, "slow");
        w1.records.push(later("lost", "slow", 300 + 400 * patience));
      },
    ],
    ["a call whose job failed for good", (draft) => put(draft, "called", { ...failed, attempts: 1, crashes: 4 })],
  ])("%s", (_, spoil) => {
    expect(brokenBy(spoil)).toEqual([]);
  });
});

describe("the silence of a server", () => {
  const spansOf = (w1: readonly AddCall[], w2: readonly AddCall[] = []) =>
    silencesIn({
      leaseMs,
      workers: [w1, w2].map((records, index) => ({ id: `w${String(index)}`, printed: "", end: "exit 0", records })),
    });
  const call = (from: number, to: number, what: AddCall["what"] = "add"): AddCall =>
    add("any", from, { what, settledAt: epoch + to });

  it("is a span of more than half a lease in which calls of two workers waited", () => {
    expect(spansOf([call(0, 10), call(20, 320)], [call(30, 330)])).toEqual([{ from: epoch + 10, to: epoch + 320 }]);
  });

  it("is none while one worker waits, no worker does, another gets a reply, or a caller waits for a result", () => {
    expect(spansOf([call(0, 10), call(20, 320), call(30, 330)])).toEqual([]);
    expect(spansOf([call(0, 10), call(310, 320)])).toEqual([]);
    expect(spansOf([call(0, 10), call(20, 320)], [call(30, 330), call(150, 160)])).toEqual([]);
    expect(spansOf([call(0, 10), call(20, 320)], [call(30, 330, "call")])).toEqual([]);
  });
});
