import { describe, expect, it } from "vitest";
import { seeded } from "@tooling/lab";
import { isWaitedFor, type Invariant, staleWrites, verdictOn, type Violation } from "../src/workloads/lock/checker.js";
import type {
  Access,
  AccessRecord,
  CallRecord,
  Death,
  HoldRecord,
  LogRecord,
  RunHistory,
  WorkerHistory,
} from "../src/workloads/lock/history.js";
import { aCall, brokenIn, calmLocks, epoch, leaseMs, type Mutable } from "./lease-runs.js";

// A run that keeps every invariant is made up from a seed; then one thing in it is put wrong, and the checker has to say which
// invariant that breaks.

interface Draft {
  readonly run: Mutable<RunHistory>;
  readonly registers: Map<string, Mutable<Access>[]>;
  readonly workers: (Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] })[];
  readonly random: () => number;
  pick<T>(list: readonly T[]): T;
  /** Any record of a kind. */
  some(kind: "call"): Mutable<CallRecord>;
  some(kind: "hold"): Mutable<HoldRecord>;
  some(kind: "access"): Mutable<AccessRecord>;
  /** Any accepted write but the first of its register, and where it stands. */
  someWrite(): { list: Mutable<Access>[]; index: number; access: Mutable<Access> };
}

const violationsOf = (run: RunHistory): readonly Violation[] => verdictOn(run).violations;

const aRun = (seed: number): Draft => {
  const random = seeded(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const registers = new Map<string, Mutable<Access>[]>([
    ["a", []],
    ["b", []],
  ]);
  const workers = ["w1", "w2", "w3"].map((id) => ({ id, printed: "", end: "exit 0", records: [] as LogRecord[] }));
  for (const [name, list] of registers) {
    let at = epoch + random() * 10;
    for (let value = 0; value < 20; value++) {
      const { id, records } = pick(workers);
      const startedAt = at;
      const grantedAt = at + 1 + random() * 5;
      const fence = BigInt(Math.floor(grantedAt * 1_000));
      const token = `token-${name}-${String(value)}`;
      records.push(
        aCall<CallRecord>({ what: "acquire", name, startedAt, settledAt: grantedAt, dueMs: 300, fence: String(fence) }),
      );
      for (const action of ["read", "write"] as const) {
        at = grantedAt + (action === "read" ? 1 : 10 + random() * 20);
        const op = `${id}.${name}${String(value)}${action}`;
        list.push({ at, action, fence, token, worker: id, op, base: value, value, accepted: true, owned: true });
        const micros = String(Math.floor(at * 1_000));
        records.push({
          kind: "access",
          action,
          name,
          fence: String(fence),
          op,
          verdict: "accepted",
          owned: 1,
          micros,
          isHeld: true,
        });
      }
      records.push({ kind: "hold", name, fence: String(fence), grantedAt, endsAt: grantedAt + leaseMs, endedAt: at });
      const release = { what: "release", lease: String(fence), result: "released" };
      records.push(aCall<CallRecord>({ ...release, name, startedAt: at, settledAt: at + 1, dueMs: 250 }));
      at += 5;
    }
  }
  for (const { records } of workers) records.push({ kind: "left", open: [], stalledMs: 0 });
  const of = (kind: string): LogRecord =>
    pick(workers.flatMap(({ records }) => records).filter((record) => record.kind === kind));
  const run: Mutable<RunHistory> = { ...calmLocks, registers, workers };
  return {
    run,
    registers,
    workers,
    random,
    pick,
    some: ((kind: string) => of(kind)) as Draft["some"],
    someWrite: () => {
      const list = pick([...registers.values()]);
      const index = pick(list.map((_, at) => at).filter((at) => at > 2 && list[at]?.action === "write"));
      return { list, index, access: list[index] as Mutable<Access> };
    },
  };
};

/** A holder that died with its last lease of `a`, and one caller who waits behind it. */
const aDeath = ({ run, registers, workers }: Draft, regrantedAfterMs: number): Death => {
  const list = registers.get("a") ?? [];
  const last = list.at(-1) as Access;
  const endsAt = last.at + leaseMs;
  const grantedAt = endsAt + regrantedAfterMs;
  const fence = BigInt(Math.floor(grantedAt * 1_000));
  const worker = workers.find(({ id }) => id !== last.worker);
  worker?.records.push(
    aCall<CallRecord>({
      what: "acquire",
      name: "a",
      startedAt: last.at - 50,
      settledAt: grantedAt + 1,
      dueMs: 4_000,
      fence: String(fence),
    }),
  );
  const death: Death = {
    name: "a",
    worker: last.worker,
    fence: last.fence,
    seenAt: last.at,
    endsAt,
    waiting: [],
  };
  run.deaths = [death];
  return death;
};

/** Somebody who waits for `a` gets it so long after the last holder gave it back. */
const aPause = ({ registers, workers }: Draft, pauseMs: number): { readonly from: number; readonly to: number } => {
  const last = registers.get("a")?.at(-1) as Access;
  const from = last.at + 1;
  const to = from + pauseMs;
  const waiting = { what: "acquire", name: "a", startedAt: last.at - 150, settledAt: to + 1, dueMs: 4_000 };
  const worker = workers.find(({ id }) => id !== last.worker);
  worker?.records.push(aCall<CallRecord>({ ...waiting, fence: String(Math.floor(to * 1_000)) }));
  return { from, to };
};

/** A holder whose signal aborts so long after its lease's end. */
const aLateSignal = (
  { workers, pick }: Draft,
  lateMs: number,
): { worker: Draft["workers"][number]; endsAt: number } => {
  const holds = workers.flatMap((worker) =>
    worker.records.flatMap((hold) =>
      hold.kind === "hold" && hold.endsAt !== undefined ? [{ worker, hold, endsAt: hold.endsAt }] : [],
    ),
  );
  const { worker, hold, endsAt } = pick(holds);
  const abortedAt = endsAt + lateMs;
  Object.assign(hold, { abortedAt, endedAt: abortedAt + 10, reason: "deadline" });
  return { worker, endsAt };
};

const invariantsBrokenBy = (run: RunHistory): Invariant[] => brokenIn(verdictOn(run));
const seeds = Array.from({ length: 20 }, (_, index) => index + 1);

/** A fault put into a history, and the invariants that it breaks: all of them, and no other. */
const faults: readonly (readonly [what: string, invariants: readonly Invariant[], spoil: (draft: Draft) => void])[] = [
  [
    "two writes in the wrong order",
    ["L2"],
    ({ someWrite }) => {
      const { list, index, access } = someWrite();
      list[index] = list[index - 2] as Access;
      list[index - 2] = access;
    },
  ],
  [
    "one fencing token for two grants",
    ["L1"],
    ({ someWrite }) => {
      const { list, index, access } = someWrite();
      const before = list[index - 2] as Access;
      access.fence = before.fence;
      (list[index - 1] as Mutable<Access>).fence = before.fence;
    },
  ],
  [
    "a token that is no larger than one its caller knew",
    ["L1", "linearizable"],
    ({ workers, pick }) => {
      const grants = workers.flatMap(({ records }) =>
        records.filter((record) => record.kind === "call" && record.name === "a" && record.fence !== undefined),
      ) as Mutable<CallRecord>[];
      grants.sort((one, other) => one.startedAt - other.startedAt);
      const index = pick(grants.map((_, at) => at).filter((at) => at > 0));
      (grants[index] as Mutable<CallRecord>).fence = grants[index - 1]?.fence as string;
    },
  ],
  [
    "one grant with two fencing tokens",
    ["U2"],
    ({ someWrite }) => {
      const { list, index, access } = someWrite();
      access.token = (list[index - 2] as Access).token;
      (list[index - 1] as Mutable<Access>).token = access.token;
    },
  ],
  [
    "an acquire that was sent twice and got two fencing tokens",
    ["U2"],
    ({ run, someWrite }) => {
      const { token, fence } = someWrite().access;
      run.copiedAcquires = [{ name: "a", token, state: "granted", fence: String(fence + 1n) }];
    },
  ],
  [
    "an acquire that was sent twice and stands in its own way",
    ["U2"],
    ({ run }) => void (run.copiedAcquires = [{ name: "a", token: "t", state: "other", owner: "t" }]),
  ],
  [
    "a grant while another still had the lock",
    ["linearizable"],
    ({ workers, pick }) => {
      const calls = workers.flatMap(({ records }) =>
        records.filter((record) => record.kind === "call" && record.name === "a" && record.fence !== undefined),
      ) as Mutable<CallRecord>[];
      calls.sort((one, other) => one.startedAt - other.startedAt);
      const index = pick(calls.map((_, at) => at).filter((at) => at > 0));
      const before = calls[index - 1]?.settledAt ?? 0;
      Object.assign(calls[index] as CallRecord, { startedAt: before + 0.1, settledAt: before + 0.2 });
    },
  ],
  [
    "a release that was told it held nothing, of a lease that nobody had ended",
    ["linearizable"],
    ({ workers, pick }) => {
      const releases = workers.flatMap(({ records }) =>
        records.filter((record) => record.kind === "call" && record.what === "release"),
      ) as Mutable<CallRecord>[];
      Object.assign(pick(releases), { result: "not-held" });
    },
  ],
  [
    "a lost update",
    ["L2"],
    ({ someWrite }) => {
      const { access } = someWrite();
      access.base -= 1;
    },
  ],
  [
    "a stale write that was taken",
    ["L2"],
    ({ someWrite }) => {
      const { list, index, access } = someWrite();
      const { fence, token } = list[index - 2] as Access;
      list.splice(index + 1, 0, { ...access, fence, token, base: access.base + 1, value: access.value + 1 });
      for (const later of list.slice(index + 2)) Object.assign(later, { base: later.base + 1, value: later.value + 1 });
    },
  ],
  [
    "a signal that aborts after its lease's end",
    ["L3"],
    ({ some, random }) => {
      const hold = some("hold");
      hold.missedAt = (hold.endsAt ?? 0) + 2;
      hold.abortedAt = hold.missedAt + random() * 20;
      hold.endedAt = hold.abortedAt + 10;
      hold.reason = "deadline";
    },
  ],
  [
    "a signal that never aborts",
    ["L3"],
    ({ some }) => {
      const hold = some("hold");
      hold.missedAt = (hold.endsAt ?? 0) + 2;
      hold.endedAt = hold.missedAt + 1;
    },
  ],
  ["a late signal that no stall excuses", ["L3"], (draft) => void aLateSignal(draft, 31)],
  [
    "a signal that was late before its process stalled",
    ["L3"],
    (draft) => {
      const { worker, endsAt } = aLateSignal(draft, 600);
      worker.records.push({ kind: "stall", from: endsAt + 31, to: endsAt + 600 });
    },
  ],
  ["a regrant that comes too late", ["L4"], (draft) => void aDeath(draft, 0.1 * leaseMs + 101)],
  [
    "a dead holder's lock that nobody gets",
    ["L4"],
    (draft) => {
      const { worker, endsAt } = aDeath(draft, 1);
      const waiter = draft.workers.find(({ id }) => id !== worker);
      Object.assign(waiter?.records.at(-1) ?? {}, {
        fence: undefined,
        outcome: "failed",
        settledAt: endsAt + 3_000,
      });
    },
  ],
  ["a stale lease that is revived", ["L5"], ({ some }) => void (some("call").what = "stale resume")],
  [
    "a stale lease that is extended",
    ["L5"],
    ({ workers, pick }) => {
      pick(workers).records.push(
        aCall<CallRecord>({ what: "stale extend", name: "a", startedAt: epoch, settledAt: epoch + 1, dueMs: 250 }),
      );
    },
  ],
  [
    "a lease that another ended",
    ["L5"],
    ({ some, pick }) => {
      const hold = some("hold");
      Object.assign(hold, { abortedAt: hold.endedAt, reason: pick(["expired", "taken"]) });
    },
  ],
  [
    "a refusal of a caller that certainly holds",
    ["exclusion"],
    ({ some }) => void (some("access").verdict = "refused"),
  ],
  ["a lock of which the server says another has it", ["exclusion"], ({ some }) => void (some("access").owned = 0)],
  [
    "two who hold for longer than a lease after the data was lost",
    ["exclusion"],
    ({ run, some }) => {
      const access = some("access");
      access.owned = 0;
      const at = Number(access.micros) / 1_000 - leaseMs - 5;
      run.losses = [{ from: at, to: at, what: "all" }];
    },
  ],
  ["a promise that settles late", ["U1"], ({ some }) => void (some("call").dueMs = -100)],
  [
    "a promise that never settles",
    ["U1"],
    ({ workers, pick }) => {
      const { records } = pick(workers);
      records[records.length - 1] = { kind: "left", open: ["acquire"], stalledMs: 0 };
    },
  ],
  ["a lock that lies free while somebody waits", ["L6"], (draft) => void aPause(draft, 0.1 * leaseMs + 101)],
  ["no work after an outage", ["U3"], ({ run }) => void (run.heals = [{ kind: "an outage", at: epoch + 600_000 }])],
  [
    "an outage after which only old leases go on",
    ["U3"],
    ({ run, registers }) => {
      const last = Math.max(...[...registers.values()].map((list) => list.at(-1)?.at ?? 0));
      run.heals = [{ kind: "an outage", at: last - 0.5 }];
    },
  ],
  [
    "an unhandled rejection",
    ["U4"],
    ({ workers, pick }) => void pick(workers).records.push({ kind: "crash", error: "Error" }),
  ],
  [
    "a call that is told of several slots while one slot moves",
    ["U5"],
    ({ some }) => void Object.assign(some("call"), { outcome: "failed", code: "KIT_CLUSTER", retryable: false }),
  ],
  [
    "an error event that tells of several slots",
    ["U5"],
    ({ workers, pick }) =>
      void pick(workers).records.push({ kind: "background", typed: true, code: "KIT_CLUSTER", retryable: false }),
  ],
  ["a library that prints", ["U4"], ({ workers, pick }) => void (pick(workers).printed = "Warning")],
  ["a process that does not end", ["U4"], ({ workers, pick }) => void (pick(workers).end = "SIGKILL")],
  ["a process that ends too soon", ["U4"], ({ workers, pick }) => void pick(workers).records.pop()],
  ["a key that stays", ["U4"], ({ run }) => void (run.leftovers = ["kit:lock:{a}:lease lives for -1 ms more"])],
  ["an untyped rejection", ["U5"], ({ some }) => void (some("call").outcome = "untyped")],
  [
    "an untyped event",
    ["U5"],
    ({ workers, pick }) => void pick(workers).records.push({ kind: "background", typed: false }),
  ],
];

describe("The checker", () => {
  it("finds nothing in runs that keep every invariant", () => {
    for (const seed of seeds) expect(violationsOf(aRun(seed).run)).toEqual([]);
  });

  it.each(faults)("reports %s", (_, invariants, spoil) => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      spoil(draft);
      expect(invariantsBrokenBy(draft.run), `seed ${String(seed)}`).toEqual(invariants);
    }
  });

  it("excuses a delay that a stall explains", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const call = draft.some("call");
      Object.assign(call, { dueMs: -100, stalledMs: 7 });
      const { worker, endsAt } = aLateSignal(draft, 600);
      // Also one that began when the signal was not late yet.
      const from = endsAt + draft.pick([-300, 30]);
      worker.records.push({ kind: "stall", from, to: endsAt + 600 });
      expect(violationsOf(draft.run)).toEqual([]);
    }
  });

  it("accepts a holder whose lease was lost with the data, until that lease would have expired", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const access = draft.some("access");
      access.owned = 0;
      const at = Number(access.micros) / 1_000 - leaseMs + 5;
      draft.run.losses = [{ from: at - 1, to: at, what: "all" }];
      expect(violationsOf(draft.run)).toEqual([]);
    }
  });

  it("accepts a lease that is held again because the server lost its release, until it would have expired", () => {
    const draft = aRun(1);
    const { records } = draft.pick(draft.workers);
    const call = { what: "stale extend", name: "a", startedAt: epoch + 600, settledAt: epoch + 601, dueMs: 250 };
    records.push(aCall(call));
    draft.run.losses = [{ from: epoch + 250, to: epoch + 260, what: "all" }];
    expect(invariantsBrokenBy(draft.run)).toEqual([]);
    draft.run.losses = [{ from: epoch + 150, to: epoch + 160, what: "all" }];
    expect(invariantsBrokenBy(draft.run)).toEqual(["L5"]);
  });

  it("accepts a regrant in time, and judges no death without a waiter", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const death = aDeath(draft, 0.1 * leaseMs + 99);
      expect(isWaitedFor(draft.run, death)).toBe(true);
      expect(violationsOf(draft.run)).toEqual([]);
      for (const { records } of draft.workers)
        records.splice(0, records.length, ...records.filter(({ kind }) => kind !== "call"));
      expect(isWaitedFor(draft.run, death)).toBe(false);
      expect(violationsOf(draft.run)).toEqual([]);
    }
  });

  it("allows a Cluster one lease for each waiter that died in the wait queue, and a single server none", () => {
    const draft = aRun(1);
    const { worker } = aDeath(draft, 0.1 * leaseMs + 101);
    draft.run.deaths = draft.run.deaths.map((death) => ({ ...death, waiting: [worker] }));
    for (const known of draft.workers) if (known.id === worker) known.killedAt = epoch;
    expect(invariantsBrokenBy(draft.run)).toEqual(["L4"]);
    draft.run.isCluster = true;
    expect(invariantsBrokenBy(draft.run)).toEqual([]);
  });

  it("excuses a late regrant by a stall of all contenders, and not by the stall of one", () => {
    const draft = aRun(1);
    const { endsAt } = aDeath(draft, 0.1 * leaseMs + 120);
    const stall: LogRecord = { kind: "stall", from: endsAt + 10, to: endsAt + 40 };
    draft.workers[0]?.records.push(stall);
    expect(invariantsBrokenBy(draft.run)).toEqual(["L4"]);
    for (const { records } of draft.workers.slice(1)) records.push(stall);
    expect(invariantsBrokenBy(draft.run)).toEqual([]);
  });

  it("accepts a pause during a fault, right after one, or without a waiter", () => {
    for (const [from, to] of [
      [-2_000, -900],
      [5, 10],
    ] as const) {
      const draft = aRun(1);
      const pause = aPause(draft, 1_500);
      expect(invariantsBrokenBy(draft.run)).toEqual(["L6"]);
      draft.run.outages = [{ kind: "server stopped", from: pause.from + from, to: pause.from + to }];
      expect(invariantsBrokenBy(draft.run)).toEqual([]);
    }
    const draft = aRun(1);
    aPause(draft, 1_500);
    for (const { records } of draft.workers)
      records.splice(
        0,
        records.length,
        ...records.filter((record) => record.kind !== "call" || record.dueMs !== 4_000),
      );
    expect(invariantsBrokenBy(draft.run)).toEqual([]);
  });

  it("accepts the reply `not held` to a release when a copy of it may have run first", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const releases = draft.workers.flatMap(({ records }) =>
        records.filter((record) => record.kind === "call" && record.what === "release"),
      ) as Mutable<CallRecord>[];
      const release = draft.pick(releases);
      release.result = "not-held";
      draft.run.outages = [{ kind: "requests repeated", from: release.startedAt - 5, to: release.startedAt + 0.1 }];
      expect(violationsOf(draft.run), `seed ${String(seed)}`).toEqual([]);
    }
  });

  it("accepts a second copy that got the same reply, or a reply about another holder", () => {
    const draft = aRun(1);
    const { token, fence } = draft.someWrite().access;
    draft.run.copiedAcquires = [
      { name: "a", token, state: "granted", fence: String(fence) },
      { name: "a", token, state: "other", owner: "somebody" },
    ];
    expect(violationsOf(draft.run)).toEqual([]);
  });

  it("counts how often it could judge each invariant", () => {
    const { checked } = verdictOn(aRun(1).run);
    expect(checked).toMatchObject({ L1: 80 + 40, L2: 80 + 40, L3: 40, linearizable: 2, U1: 80 });
  });

  it("counts the stale writes that an unfenced register took", () => {
    const { registers } = aRun(1);
    const list = registers.get("a") ?? [];
    expect(staleWrites(list)).toBe(0);
    list.push({ ...(list[1] as Access) });
    expect(staleWrites(list)).toBe(1);
  });
});
