import { describe, expect, it } from "vitest";
import { seeded } from "@tooling/lab";
import { type Invariant, verdictOn } from "../src/workloads/core/checker.js";
import type {
  ConfigCall,
  DurableCall,
  LogRecord,
  RunHistory,
  ShowsRecord,
  Version,
  WorkerHistory,
} from "../src/workloads/core/history.js";

// A run that keeps every invariant is made up from a seed; then one thing in it is put wrong, and the checker has to say which
// invariant that breaks.

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface Draft {
  readonly run: Mutable<RunHistory>;
  readonly effects: Map<string, number>;
  readonly workers: (Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] })[];
  readonly pick: <T>(list: readonly T[]) => T;
  /** Any write of an entry that went well, but the first. */
  someWrite(): Mutable<ConfigCall> & { version: Version };
  /** Any durable write. */
  someEffect(): Mutable<DurableCall>;
  /** The values that one reader showed, in order. */
  shows(worker: string): Mutable<ShowsRecord>[];
}

const epoch = 1_700_000_000_000;
const runMs = 20_000;
const seeds = Array.from({ length: 20 }, (_, index) => index + 1);

const aCall = <T extends object>(facts: T): T & Pick<ConfigCall, "kind" | "stalledMs" | "outcome"> => ({
  kind: "call",
  stalledMs: 0,
  outcome: "ok",
  ...facts,
});

const aRun = (seed: number): Draft => {
  const random = seeded(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const workers = ["w1", "w2", "w3"].map((id) => ({ id, printed: "", end: "exit 0", records: [] as LogRecord[] }));
  const effects = new Map<string, number>();
  const kept: { version: Version; id: string }[] = [];
  for (const { records } of workers) {
    records.push({ kind: "state", name: "limits", state: "loading", at: epoch });
    records.push({ kind: "state", name: "limits", state: "fresh", at: epoch + 1 });
  }
  let before: Version | null = null;
  for (let revision = 1; revision <= 40; revision++) {
    const startedAt = epoch + (revision * runMs) / 41 + random() * 50;
    const { id, records } = pick(workers);
    const op = `${id}.${String(revision)}`;
    const version: Version = { epoch: "1700000000000001", revision, at: startedAt + 1 };
    const call = { what: "set" as const, name: "limits", startedAt, settledAt: startedAt + 2, dueMs: 300, op, version };
    records.push({ kind: "asks", name: "limits", op });
    records.push(aCall(random() < 0.5 ? { ...call, expected: before } : call));
    kept.unshift({ version, id: op });
    for (const worker of workers)
      worker.records.push({ kind: "shows", name: "limits", version, id: op, at: startedAt + 3 + random() * 20 });
    const effect = `${id}-${String(revision)}`;
    const wanted = { replicas: 2, fsync: "none" as const };
    records.push(
      aCall({
        what: "durable" as const,
        name: "a",
        startedAt: startedAt + 4,
        settledAt: startedAt + 5,
        dueMs: 800,
        id: effect,
        wanted,
        answer: "safe" as const,
        replicas: 2,
        fsync: { local: false, replicas: 0 },
      }),
    );
    effects.set(effect, 1);
    records.push(
      aCall({
        what: "add" as const,
        name: "a:counter",
        startedAt: startedAt + 5,
        settledAt: startedAt + 6,
        dueMs: 800,
        saw: revision - 1,
      }),
    );
    before = version;
  }
  for (const { records } of workers) {
    records.push(
      aCall({ what: "close" as const, name: "", startedAt: epoch + runMs, settledAt: epoch + runMs + 1, dueMs: 9 }),
    );
    records.push({ kind: "reads", count: 100 }, { kind: "left", open: [], stalledMs: 0 });
    const instant = (record: LogRecord): number =>
      record.kind === "call" ? record.settledAt : "at" in record ? record.at : Infinity;
    records.sort((a, b) => instant(a) - instant(b));
    // Each one works from the beginning on.
    records.unshift(
      aCall({
        what: "get" as const,
        name: "limits",
        startedAt: epoch,
        settledAt: epoch + 1,
        dueMs: 300,
        id: "default",
      }),
    );
  }
  const healedAt = epoch + runMs / 2;
  const seenThen = kept.find(({ version }) => version.at < healedAt)?.version as Version;
  const run: Mutable<RunHistory> = {
    workers,
    heals: [{ kind: "an outage", at: healedAt, entries: [{ name: "limits", version: seenThen }] }],
    losses: [],
    leaseMs: 400,
    outages: [],
    policyChanges: [],
    replicas: 2,
    losesNothing: true,
    hasFile: false,
    rolledName: "rolled",
    effects,
    counters: new Map([["a:counter", 40]]),
    entries: [{ name: "limits", version: kept[0]?.version, kept: kept.slice(0, 20) }],
    leftovers: [],
    slow: [],
    echoes: 0,
  };
  const calls = (): LogRecord[] => workers.flatMap(({ records }) => records.filter(({ kind }) => kind === "call"));
  return {
    run,
    effects,
    workers,
    pick,
    someWrite: () =>
      pick(
        calls().filter((call) => call.kind === "call" && call.what === "set" && (call.version?.revision ?? 0) > 1),
      ) as Mutable<ConfigCall> & { version: Version },
    someEffect: () =>
      pick(calls().filter((call) => call.kind === "call" && call.what === "durable")) as Mutable<DurableCall>,
    shows: (worker) =>
      (workers.find(({ id }) => id === worker)?.records.filter(({ kind }) => kind === "shows") ?? []) as ShowsRecord[],
  };
};

/** A second write, that is in nobody's way unless it is put there. */
const another = (draft: Draft, facts: Partial<ConfigCall>): ConfigCall => {
  const at = epoch + runMs - 100;
  const call = aCall({
    what: "set" as const,
    name: "limits",
    startedAt: at,
    settledAt: at + 1,
    dueMs: 300,
    op: "w1.99",
    ...facts,
  });
  draft.workers[0]?.records.push({ kind: "asks", name: "limits", op: call.op ?? "" }, call);
  return call;
};

const next = (version: Version): Version => ({ ...version, revision: version.revision + 1, at: version.at + 0.5 });

const invariantsBrokenBy = (run: RunHistory): Invariant[] => [
  ...new Set(verdictOn(run).violations.map(({ invariant }) => invariant)),
];

/** A fault put into a history, and the invariants that it breaks: all of them, and no other. */
const faults: readonly (readonly [what: string, invariants: readonly Invariant[], spoil: (draft: Draft) => void])[] = [
  ["a safe write that is gone", ["D1"], ({ someEffect, effects }) => void effects.delete(someEffect().id)],
  [
    "a safe write that is gone with another master, and had all replicas",
    ["D1"],
    ({ run, someEffect, effects }) => {
      const { id, startedAt } = someEffect();
      effects.delete(id);
      run.losses = [{ from: startedAt - 1, to: startedAt + 100, what: "unreplicated" }];
    },
  ],
  [
    "a safe write that is gone after a power cut, and was on the disk",
    ["D1"],
    ({ run, someEffect, effects }) => {
      const call = someEffect();
      Object.assign(call, { wanted: { replicas: 0, fsync: "local" }, fsync: { local: true, replicas: 0 } });
      run.hasFile = true;
      effects.delete(call.id);
      run.losses = [{ from: call.startedAt - 1, to: call.startedAt + 100, what: "unsynced" }];
    },
  ],
  [
    "a short write that is gone from a server that loses nothing",
    ["D1"],
    ({ run, someEffect, effects }) => {
      const call = someEffect();
      Object.assign(call, { answer: "short", replicas: 1 });
      run.losesNothing = true;
      effects.delete(call.id);
    },
  ],
  ["more replicas than there are", ["D2"], ({ someEffect }) => void (someEffect().replicas = 3)],
  ["safe with a replica less", ["D2"], ({ someEffect }) => void (someEffect().replicas = 1)],
  ["short with all there is", ["D2"], ({ someEffect }) => void (someEffect().answer = "short")],
  ["a disk that is not used", ["D2"], ({ someEffect }) => void (someEffect().fsync = { local: true, replicas: 0 })],
  ["a write that was made twice", ["U2"], ({ someEffect, effects }) => void effects.set(someEffect().id, 2)],
  [
    "a durable write that was told failed, and is there",
    ["U2"],
    ({ someEffect }) => void Object.assign(someEffect(), { outcome: "failed", answer: undefined }),
  ],
  [
    "two winners of one compare-and-set",
    ["C1", "C4"],
    (draft) => {
      const winner = draft.someWrite();
      const { version } = winner;
      winner.expected = { ...version, revision: version.revision - 1 };
      another(draft, { expected: winner.expected, version: { ...version, at: version.at + 0.25 } });
    },
  ],
  [
    "a compare-and-set that skips a revision",
    ["C1"],
    (draft) => {
      const call = draft.someWrite();
      call.expected = { ...call.version, revision: call.version.revision - 2 };
    },
  ],
  ["a value that nobody wrote", ["C2"], ({ shows, pick }) => void (pick(shows("w2")).id = "somebody's")],
  [
    "a value of another write",
    ["C2", "C4"],
    ({ shows }) => {
      const list = shows("w2");
      (list[7] as Mutable<ShowsRecord>).id = list[5]?.id ?? "";
    },
  ],
  [
    "a reader that goes back",
    ["C2"],
    ({ shows, pick }) => {
      const list = shows("w2");
      const index = pick(list.map((_, at) => at).filter((at) => at > 1));
      const { version, id } = list[index - 2] as ShowsRecord;
      Object.assign(list[index] as ShowsRecord, { version, id });
    },
  ],
  [
    "a reader that stays behind",
    ["C3"],
    ({ run, workers }) => {
      const healedAt = run.heals[0]?.at ?? 0;
      const worker = workers.find(({ id }) => id === "w2");
      const newest = run.heals[0]?.entries[0]?.version.at ?? 0;
      if (worker)
        worker.records = worker.records.filter(
          (record) => record.kind !== "shows" || (record.version?.at ?? 0) < newest || record.at > healedAt + 2_100,
        );
    },
  ],
  [
    "a reader that never is fresh again",
    ["C3"],
    ({ run, workers }) => {
      const healedAt = run.heals[0]?.at ?? 0;
      workers[0]?.records.push({ kind: "state", name: "limits", state: "stale", at: healedAt - 10 });
    },
  ],
  [
    "a component that swaps at every change",
    ["C3"],
    ({ workers }) => {
      const from = epoch + 5_000;
      workers[0]?.records.push({ kind: "flapped", name: "wired", from, to: from + 2_000, writes: 100 });
      for (let swap = 0; swap < 7; swap++)
        workers[1]?.records.push({ kind: "swap", id: `w1.${String(swap)}`, at: from + 200 * swap });
    },
  ],
  [
    "a component that does not end on the last change",
    ["C3"],
    ({ workers }) => {
      const from = epoch + 5_000;
      workers[0]?.records.push({ kind: "flapped", name: "wired", from, to: from + 2_000, writes: 100, last: "w1.9" });
      for (const [at, id] of [
        [from - 100, "w1.1"],
        [from + 900, "w1.5"],
      ] as const)
        workers[1]?.records.push({ kind: "swap", id, at });
    },
  ],
  [
    "two writes with one revision",
    ["C4"],
    (draft) => {
      const { version } = draft.someWrite();
      another(draft, { version: { ...version, at: version.at + 0.25 } });
    },
  ],
  [
    "one write with two revisions",
    ["C4"],
    (draft) => {
      const newest = draft.run.entries[0]?.version as Version;
      const { op } = draft.someWrite();
      another(draft, { op: op ?? "", version: next(newest) });
      draft.run.entries = [{ name: "limits", version: next(newest), kept: [] }];
    },
  ],
  [
    "a write that was told ok, and is gone",
    ["C4"],
    ({ run }) => {
      const [newest, before] = run.entries[0]?.kept ?? [];
      run.entries = [
        { name: "limits", version: before?.version, kept: run.entries[0]?.kept.filter((one) => one !== newest) ?? [] },
      ];
    },
  ],
  [
    "an entry that is gone",
    ["C4"],
    ({ run }) => void (run.entries = [{ name: "limits", version: undefined, kept: [] }]),
  ],
  [
    "a write that was told failed, and was seen",
    ["C4"],
    ({ someWrite }) => {
      const call = someWrite() as Mutable<Partial<ConfigCall>>;
      call.outcome = "failed";
      delete call.version;
    },
  ],
  [
    "a reader that throws",
    ["C5"],
    ({ workers }) => void workers[0]?.records.push({ kind: "odd", name: "limits", what: "current threw" }),
  ],
  [
    "a call that is late",
    ["U1"],
    ({ someWrite }) => {
      const call = someWrite();
      call.dueMs = 1;
      call.settledAt = call.startedAt + 102;
    },
  ],
  [
    "a call that never settles",
    ["U1"],
    ({ workers }) => void workers[0]?.records.push({ kind: "left", open: ["set"], stalledMs: 0 }),
  ],
  [
    "work that goes on late",
    ["U3"],
    ({ run, workers }) => {
      const at = epoch + runMs / 2;
      for (const worker of workers)
        worker.records = worker.records.filter(
          (record) =>
            record.kind !== "call" ||
            record.what !== "durable" ||
            record.startedAt < at ||
            record.settledAt > at + 1_300,
        );
      run.heals = [{ kind: "an outage", at, entries: [] }];
    },
  ],
  [
    "one key of many that goes on late after a failover",
    ["U3"],
    ({ run, workers }) => {
      const at = epoch + runMs / 2;
      run.heals = [{ kind: "a failover", at, dueMs: 3_000, entries: [] }];
      run.losesNothing = false;
      for (const [seconds, name] of [
        [1, "b"],
        [4, "b"],
      ] as const) {
        const startedAt = at + (seconds === 1 ? -1_000 : 1_000 * seconds);
        const facts = {
          what: "durable" as const,
          name,
          startedAt,
          settledAt: startedAt + 1,
          dueMs: 300,
          id: `b${String(seconds)}`,
        };
        workers[0]?.records.push(
          aCall({ ...facts, wanted: { replicas: 1, fsync: "none" as const }, answer: "short" as const }),
        );
      }
    },
  ],
  ["an addition that is lost", ["O1"], ({ run }) => void (run.counters = new Map([["a:counter", 39]]))],
  ["an addition that was made twice", ["O1"], ({ run }) => void (run.counters = new Map([["a:counter", 41]]))],
  [
    "a transaction that sees the past",
    ["O1"],
    ({ workers, pick }) => {
      const facts = { startedAt: epoch + runMs, settledAt: epoch + runMs + 1, dueMs: 300, saw: 39 };
      pick(workers).records.push(aCall({ what: "see" as const, name: "a:counter", ...facts }));
    },
  ],
  [
    "a process that is killed by itself",
    ["U4"],
    ({ workers }) => void Object.assign(workers[1] ?? {}, { end: "exit 1" }),
  ],
  [
    "a rejection that nobody handled",
    ["U4"],
    ({ workers }) => void workers[0]?.records.push({ kind: "crash", error: "it" }),
  ],
  ["a line that was printed", ["U4"], ({ workers }) => void Object.assign(workers[1] ?? {}, { printed: "hello" })],
  ["a key that stays", ["U4"], ({ run }) => void (run.leftovers = ["kit:x stays"])],
  ["an error without a type", ["U5"], ({ someEffect }) => void Object.assign(someEffect(), { outcome: "untyped" })],
];

/** Histories that look like one of the faults above, and have none. */
const excuses: readonly (readonly [what: string, excuse: (draft: Draft) => void])[] = [
  [
    "what is seen was asked by a worker that was killed before it had an answer",
    ({ workers, someWrite }) => {
      const call = someWrite();
      for (const worker of workers) worker.records = worker.records.filter((record) => record !== call);
    },
  ],
  [
    "a safe write with fewer copies than there are replicas went with the master",
    ({ run, someEffect, effects }) => {
      const call = someEffect();
      Object.assign(call, { wanted: { replicas: 1, fsync: "none" }, replicas: 1 });
      effects.delete(call.id);
      run.losses = [{ from: call.startedAt - 1, to: call.startedAt + 100, what: "unreplicated" }];
    },
  ],
  [
    "a transaction sees the past right after a failover",
    ({ run, workers, pick }) => {
      const at = epoch + runMs;
      const facts = { startedAt: at, settledAt: at + 1, dueMs: 300, saw: 39 };
      pick(workers).records.push(aCall({ what: "see" as const, name: "a:counter", ...facts }));
      const last = run.entries[0]?.version as Version;
      run.heals = [{ kind: "a failover", at: at - 1_000, dueMs: 3_000, entries: [{ name: "limits", version: last }] }];
      for (const what of ["get", "durable"] as const) {
        const work = { name: what === "get" ? "limits" : "a", startedAt: at, settledAt: at + 1, dueMs: 300 };
        const wanted = { replicas: 2, fsync: "none" as const };
        const fsync = { local: false, replicas: 0 };
        workers[0]?.records.push(
          what === "get"
            ? aCall({ what, ...work })
            : aCall({ what, ...work, id: "after", wanted, fsync, answer: "short" as const }),
        );
      }
      (run.effects as Map<string, number>).set("after", 1);
    },
  ],
  [
    "an addition of unknown outcome was made",
    ({ run, workers }) => {
      const at = epoch + runMs;
      const facts = { name: "a:counter", startedAt: at, settledAt: at + 1, dueMs: 300, outcome: "unknown" as const };
      workers[0]?.records.push(aCall({ what: "add" as const, ...facts }));
      run.counters = new Map([["a:counter", 41]]);
    },
  ],
  [
    "a server that forgets has smaller counters",
    ({ run }) => {
      run.losesNothing = false;
      run.counters = new Map([["a:counter", 3]]);
    },
  ],
  [
    "a write whose answer was unknown is gone",
    ({ someEffect, effects }) => {
      const call = someEffect();
      call.answer = "unknown";
      effects.delete(call.id);
    },
  ],
  [
    "a reader goes back when data was lost",
    ({ run, shows }) => {
      const list = shows("w2");
      const { version, id } = list[5] as ShowsRecord;
      const lost = list[7]?.version?.at ?? 0;
      Object.assign(list[8] as ShowsRecord, { version, id });
      run.losses = [{ from: lost - 3_000, to: lost, what: "unreplicated" }];
    },
  ],
  [
    "one revision is given out twice when the first was lost",
    (draft) => {
      const { version, startedAt, settledAt } = draft.someWrite();
      another(draft, { version: { ...version, at: version.at + 0.25 } });
      draft.run.losses = [{ from: startedAt, to: settledAt, what: "unreplicated" }];
    },
  ],
  [
    "work goes on late on a machine that has no time for it",
    ({ run, workers }) => {
      const at = epoch + runMs / 2;
      for (const worker of workers)
        worker.records = worker.records.filter(
          (record) =>
            record.kind !== "call" ||
            record.what !== "durable" ||
            record.startedAt < at ||
            record.settledAt > at + 1_300,
        );
      run.heals = [{ kind: "an outage", at, entries: [] }];
      run.slow = [{ from: at - 100, to: at + 1_000 }];
    },
  ],
  [
    "a call is late when its process did not run",
    ({ someWrite }) => {
      const call = someWrite();
      Object.assign(call, { dueMs: 1, settledAt: call.startedAt + 300, stalledMs: 250 });
    },
  ],
];

describe("The checker of core", () => {
  it("finds nothing in runs that keep every invariant, and judges each", () => {
    for (const seed of seeds) {
      const { violations, checked } = verdictOn(aRun(seed).run);
      expect(violations, `seed ${String(seed)}`).toEqual([]);
      for (const invariant of ["D1", "D2", "C1", "C2", "C3", "C4", "C5", "O1", "U1", "U2", "U3", "U4"] as const)
        expect(checked[invariant], `${invariant}, seed ${String(seed)}`).toBeGreaterThan(0);
    }
  });

  it.each(faults)("finds %s", (_, invariants, spoil) => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      spoil(draft);
      expect(invariantsBrokenBy(draft.run).toSorted(), `seed ${String(seed)}`).toEqual(invariants.toSorted());
    }
  });

  it.each(excuses)("says nothing when %s", (_, excuse) => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      excuse(draft);
      expect(verdictOn(draft.run).violations, `seed ${String(seed)}`).toEqual([]);
    }
  });
});
