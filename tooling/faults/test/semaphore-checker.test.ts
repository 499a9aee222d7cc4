import { describe, expect, it } from "vitest";
import { seeded } from "@tooling/lab";
import { type Invariant, remarksOn, verdictOn, type Violation } from "../src/workloads/semaphore/checker.js";
import {
  type AccessRecord,
  type CallRecord,
  type HoldRecord,
  type LogRecord,
  parseSteps,
  type PermitStep,
  type RunHistory,
  type Spec,
  type Step,
  type WorkerHistory,
} from "../src/workloads/semaphore/history.js";
import type { Span } from "../src/records.js";
import { aCall, brokenIn, calm, epoch, leaseMs, type Mutable } from "./lease-runs.js";

// A run that keeps every invariant is made up from a seed, by a semaphore of a few lines; then one thing in it is put wrong, and
// the checker has to say which invariant that breaks.

interface Draft {
  readonly run: Mutable<RunHistory>;
  readonly steps: Map<string, Step[]>;
  readonly workers: (Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] })[];
  pick<T>(list: readonly T[]): T;
  some(kind: "call"): Mutable<CallRecord>;
  some(kind: "hold"): Mutable<HoldRecord>;
  some(kind: "access"): Mutable<AccessRecord>;
  /** Any grant of a semaphore, and where it stands in its history. */
  someGrant(name: string): { list: Step[]; index: number; step: Mutable<PermitStep> };
}

const specs: readonly Spec[] = [
  { name: "narrow", permits: 1, tenants: 0, weights: 1, hasPriorities: false },
  { name: "weighed", permits: 5, tenants: 0, weights: 5, hasPriorities: true },
  { name: "group", permits: 3, permitsPerTenant: 1, tenants: 3, weights: 1, hasPriorities: false },
];

interface Asked {
  readonly worker: string;
  readonly permitRecord: string;
  readonly weight: number;
  readonly tenant: string;
  readonly priority: number;
  readonly startedAt: number;
  readonly holdMs: number;
}

/** The records of each script, in order; and those of the workers. */
const play = (
  { name, permits, permitsPerTenant, tenants, weights, hasPriorities }: Spec,
  records: ReadonlyMap<string, LogRecord[]>,
  random: () => number,
): string[] => {
  const lines: string[] = [];
  const write = (at: number, ...parts: readonly (string | number)[]): void =>
    void lines.push([Math.floor(at * 1_000), ...parts].join(" "));
  let held: (Asked & { readonly until: number })[] = [];
  let waiting: Asked[] = [];
  const uses = (tenant?: string): number =>
    held.reduce((sum, one) => sum + (tenant === undefined || one.tenant === tenant ? one.weight : 0), 0);
  const hasRoom = ({ tenant, weight }: Asked): boolean => uses(tenant) + weight <= (permitsPerTenant ?? Infinity);

  const grant = (asked: Asked, at: number, script: string): void => {
    const { worker, permitRecord, weight, tenant, startedAt, holdMs } = asked;
    const [token = ""] = permitRecord.split("|");
    const endsAt = Math.floor(at) + leaseMs;
    write(at, script, "add", permitRecord, endsAt, script === "acquire" ? Math.floor(startedAt + 240) : "-");
    const until = at + holdMs;
    held = [...held, { ...asked, until }].toSorted((a, b) => a.until - b.until);
    const facts = { name, token, weight, ...(tenant !== "" && { tenant }) };
    const known = at + 1;
    records.get(worker)?.push(
      aCall<CallRecord>({ what: "acquire", startedAt, settledAt: known, dueMs: 4_000, ...facts }),
      { kind: "access", name, token, from: known, at: known + 1, isKnown: true, isHeld: true },
      { kind: "hold", ...facts, grantedAt: known, endsAt, endedAt: until - 1 },
      aCall<CallRecord>({
        what: "release",
        name,
        startedAt: until - 1,
        settledAt: until + 1,
        dueMs: 240,
        lease: token,
      }),
    );
  };
  const letIn = (at: number, script: string): void => {
    for (;;) {
      const ranked = waiting.toSorted((a, b) => a.priority - b.priority);
      const next = ranked.find(hasRoom);
      if (!next || uses() + next.weight > permits) return;
      waiting = waiting.filter((one) => one !== next);
      write(at, script, "leave", next.permitRecord, "-", "-");
      grant(next, at, script);
    }
  };

  let at = epoch + random() * 10;
  write(at, "acquire", "permits", "-", permits, "-");
  if (permitsPerTenant !== undefined) write(at, "acquire", "perTenant", "-", permitsPerTenant, "-");
  let asked = 0;
  let nextAt = at + 1;
  while (asked < 40 || held.length > 0) {
    const [first] = held;
    if (first && (asked === 40 || first.until <= nextAt)) {
      at = first.until;
      held = held.slice(1);
      write(at, "release", "rem", first.permitRecord, "own", "-");
      letIn(at, "release");
      continue;
    }
    at = nextAt;
    nextAt += random() * 12;
    const worker = `w${String(1 + Math.floor(random() * 3))}`;
    const weight = 1 + Math.floor(random() * weights);
    const tenant = tenants > 0 ? `t${String(1 + Math.floor(random() * tenants))}` : "";
    const priority = hasPriorities ? Math.floor(random() * 3) - 1 : 0;
    const permitRecord = `${name}-${String(++asked)}|${String(weight)}|${tenant}|${worker}.${String(priority)}.0`;
    waiting.push({ worker, permitRecord, weight, tenant, priority, startedAt: at - 1, holdMs: 5 + random() * 25 });
    write(at, "acquire", "join", permitRecord, "-", Math.floor(at + 239));
    letIn(at, "acquire");
  }
  return lines;
};

const aRun = (seed: number): Draft => {
  const random = seeded(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const workers = ["w1", "w2", "w3"].map((id) => ({ id, printed: "", end: "exit 0", records: [] as LogRecord[] }));
  const records = new Map(workers.map((worker) => [worker.id, worker.records]));
  const steps = new Map(specs.map((spec) => [spec.name, parseSteps(play(spec, records, random))]));
  for (const worker of workers) worker.records.push({ kind: "left", open: [], stalledMs: 0 });
  const run: Mutable<RunHistory> = { ...calm, specs, steps, workers, lookedAt: specs.length };
  return {
    run,
    steps,
    workers,
    pick,
    some: ((kind: string) =>
      pick(workers.flatMap((worker) => worker.records).filter((record) => record.kind === kind))) as Draft["some"],
    someGrant: (name) => {
      const list = steps.get(name) ?? [];
      const index = pick(list.map((_, at) => at).filter((at) => at > 8 && list[at]?.what === "add"));
      return { list, index, step: list[index] as PermitStep };
    },
  };
};

const violationsOf = (run: RunHistory): readonly Violation[] => verdictOn(run).violations;
const invariantsBrokenBy = (run: RunHistory): Invariant[] => brokenIn(verdictOn(run));
const seeds = Array.from({ length: 10 }, (_, index) => index + 1);

/** Puts lines of a history into it, after so many steps; each at the instant of the step before. */
const insert = (list: Step[], index: number, ...lines: readonly string[]): void => {
  const { at } = list[index - 1] as Step;
  list.splice(index, 0, ...parseSteps(lines.map((line) => `${String(Math.floor(at * 1_000))} ${line}`)));
};

/** A permit of `narrow` whose holder dies, and one who waits for it; both after all else. */
const aDeath = ({ run, steps, workers }: Draft, grantedAfterMs: number | undefined): void => {
  const list = steps.get("narrow") ?? [];
  const at = Math.ceil(list.at(-1)?.at ?? 0) + 10;
  const endsAt = at + leaseMs;
  const until = endsAt + (grantedAfterMs ?? 3_000);
  const line = (instant: number, text: string): string => `${String(instant * 1_000)} ${text}`;
  list.push(
    ...parseSteps([
      line(at, `acquire add dead|1||w1.0.0 ${String(endsAt)} ${String(at + 240)}`),
      line(at + 5, `acquire join next|1||w2.0.0 - ${String(at + 245)}`),
      ...(grantedAfterMs === undefined
        ? []
        : [
            line(until, "other rem dead|1||w1.0.0 other -"),
            line(until, "other leave next|1||w2.0.0 - -"),
            line(until, `other add next|1||w2.0.0 ${String(until + leaseMs)} -`),
            line(until + 1, "release rem next|1||w2.0.0 own -"),
          ]),
    ]),
  );
  workers[1]?.records.push(
    aCall<CallRecord>({ what: "acquire", name: "narrow", startedAt: at + 4, settledAt: until + 1, dueMs: 4_000 }),
  );
  Object.assign(workers[0] ?? {}, { killedAt: at + 2 });
  run.deaths = [{ name: "narrow", worker: "w1", endsAt }];
};

/** The permit that is free after all else, and its waiter, in the queue or beside it, until it is granted so much later. */
const aWait = ({ steps, workers }: Draft, isSuspended: boolean, ms: number): Span => {
  const list = steps.get("narrow") ?? [];
  const at = Math.ceil(list.at(-1)?.at ?? 0) + 2_000;
  const write = (instant: number, ...what: readonly string[]): void =>
    void list.push(...parseSteps(what.map((one) => `${String(instant * 1_000)} other ${one}`)));
  write(at, "join late|1||w1.0.0 - -");
  if (isSuspended) write(at, "suspend late|1||w1.0.0 - -", "leave late|1||w1.0.0 - -");
  write(at + ms, ...(isSuspended ? ["join late|1||w1.0.0 - -", "resume late|1||w1.0.0 - -"] : []));
  write(at + ms, "leave late|1||w1.0.0 - -", `add late|1||w1.0.0 ${String(at + ms + leaseMs)} -`);
  const settledAt = at + ms + 1;
  workers[0]?.records.push(
    aCall<CallRecord>({ what: "acquire", name: "narrow", startedAt: at, settledAt, dueMs: 4_000 }),
  );
  return { from: at, to: at + ms };
};

/** A fault put into a history, and the invariants that it breaks: all of them, and no other. */
const faults: readonly (readonly [what: string, invariants: readonly Invariant[], spoil: (draft: Draft) => void])[] = [
  [
    "a grant beyond the limit",
    ["S1"],
    ({ pick, someGrant }) => {
      const { name, permits } = pick(specs);
      const { list, index } = someGrant(name);
      insert(list, index, "other permits - 0 -");
      insert(list, index + 2, `other permits - ${String(permits)} -`);
    },
  ],
  [
    "a grant beyond the limit of its tenant",
    ["S1"],
    ({ someGrant }) => {
      const { list, index } = someGrant("group");
      insert(list, index, "other perTenant - 0 -");
      insert(list, index + 2, "other perTenant - 1 -");
    },
  ],
  [
    "a permit that still counted, and was given away a second time",
    ["S1"],
    ({ steps }) => {
      const list = steps.get("narrow") ?? [];
      const at = list.length;
      insert(
        list,
        at,
        `acquire add one|1||w1.0.0 ${String(epoch * 2)} 1`,
        `acquire add two|1||w2.0.0 ${String(epoch * 2)} 1`,
      );
    },
  ],
  [
    "one who came first, and is passed by",
    ["order"],
    ({ someGrant }) => {
      const { list, index } = someGrant("narrow");
      insert(list, 2, "acquire join forgotten|1||w1.0.0 - 1");
      list.splice(index + 2);
    },
  ],
  [
    "one who is more urgent, and is passed by",
    ["order"],
    ({ someGrant }) => {
      const { list, index } = someGrant("weighed");
      insert(list, index, "acquire join urgent|1||w1.-2.0 - 1");
      insert(list, index + 2, "release leave urgent|1||w1.-2.0 - -");
    },
  ],
  [
    "one whose tenant has room, and who is passed by",
    ["order"],
    ({ someGrant }) => {
      const { list, index } = someGrant("group");
      insert(list, 3, "acquire join forgotten|1|t9|w1.0.0 - 1");
      list.splice(index + 2);
      insert(list, list.length, "release leave forgotten|1|t9|w1.0.0 - -");
    },
  ],
  [
    "a newcomer who takes what others wait for",
    ["order"],
    ({ steps }) => {
      const list = steps.get("narrow") ?? [];
      insert(
        list,
        list.length,
        "acquire join first|1||w1.0.0 - 1",
        `acquire add second|1||w2.0.0 ${String(epoch * 2)} 1`,
      );
    },
  ],
  [
    "a waiter that left the wait queue, came back, and kept its place",
    ["order"],
    ({ steps }) => {
      const list = steps.get("narrow") ?? [];
      insert(
        list,
        list.length,
        "acquire join one|1||w1.0.0 - 1",
        "acquire join two|1||w2.0.0 - 1",
        "release leave one|1||w1.0.0 - -",
      );
      const at = Math.ceil(list.at(-1)?.at ?? 0) + 1;
      list.push(...parseSteps([`${String(at * 1_000)} acquire join one|1||w1.0.0 - 1`]));
      insert(list, list.length, "acquire leave one|1||w1.0.0 - -", `acquire add one|1||w1.0.0 ${String(epoch * 2)} 1`);
    },
  ],
  [
    "two callers that certainly hold what only one may",
    ["held"],
    ({ workers, pick }) => {
      const holds = workers
        .flatMap(({ records }) => records.filter((record) => record.kind === "hold" && record.name === "narrow"))
        .toSorted((a, b) => (a as HoldRecord).grantedAt - (b as HoldRecord).grantedAt) as Mutable<HoldRecord>[];
      const index = pick(holds.map((_, at) => at).slice(0, -1));
      const [hold, next] = [holds[index], holds[index + 1]];
      if (hold && next) hold.endedAt = next.endedAt;
    },
  ],
  ["a held permit that the server does not have", ["held"], ({ some }) => void (some("access").isKnown = false)],
  [
    "a permit of which the server knows nothing for longer than a lease after the data was lost",
    ["held"],
    ({ run, some }) => {
      const access = some("access");
      access.isKnown = false;
      const at = access.from - leaseMs - 5;
      run.losses = [{ from: at, to: at, what: "all" }];
    },
  ],
  ["a killed holder's permits that are granted too late", ["S2"], (draft) => aDeath(draft, 0.1 * leaseMs + 102)],
  ["a killed holder's permits that are never granted", ["S2"], (draft) => aDeath(draft, undefined)],
  ["a free permit that is granted too late to a waiter in the queue", ["S4"], (draft) => void aWait(draft, false, 142)],
  ["a free permit that is granted too late to a suspended waiter", ["S4"], (draft) => void aWait(draft, true, 142)],
  [
    "a free permit that is granted too late after an outage",
    ["S4"],
    (draft) => {
      const { from } = aWait(draft, true, 1_300);
      draft.run.outages = [{ kind: "link cut", from: from - 500, to: from + 100 }];
    },
  ],
  ["permits in use after all workers have left", ["S3"], ({ run }) => void (run.leftovers = ["narrow: 1 are in use"])],
  [
    "a signal that aborts after its permit's end",
    ["L3"],
    ({ some }) => {
      const hold = some("hold");
      hold.missedAt = (hold.endsAt ?? 0) + 2;
      hold.abortedAt = hold.missedAt + 20;
      hold.endedAt = hold.abortedAt + 10;
      hold.endsAt = hold.grantedAt;
    },
  ],
  [
    "a permit that another ended",
    ["L5"],
    ({ some, pick }) => {
      const hold = some("hold");
      Object.assign(hold, { abortedAt: hold.endedAt, reason: pick(["expired", "taken"]) });
    },
  ],
  ["a stale permit that is revived", ["L5"], ({ some }) => void (some("call").what = "stale resume")],
  [
    "a renewal of what was given back",
    ["L5"],
    ({ pick, steps }) => {
      const list = pick([...steps.values()]);
      const index = pick(list.map((_, at) => at).filter((at) => list[at]?.what === "rem"));
      const { permitRecord } = list[index] as Step & { what: "rem" };
      insert(list, index + 1, `renew set ${permitRecord.text} ${String(epoch)} -`);
    },
  ],
  [
    "a permit that a sweep takes before its end",
    ["L5"],
    ({ pick, steps }) => {
      const list = pick([...steps.values()]);
      const index = pick(list.map((_, at) => at).filter((at) => list[at]?.what === "rem"));
      Object.assign(list[index] as Step, { script: "other", isOwn: false });
    },
  ],
  [
    "a release that ends the permit of another",
    ["L5"],
    ({ pick, steps }) => {
      const list = pick([...steps.values()]);
      const index = pick(list.map((_, at) => at).filter((at) => list[at]?.what === "rem"));
      Object.assign(list[index] as Step, { isOwn: false });
    },
  ],
  [
    "a late copy of an acquire whose permit stays until it ends",
    ["U2"],
    ({ steps }) => {
      const list = steps.get("narrow") ?? [];
      const { permitRecord } = list.at(-1) as Step & { what: "rem" };
      const at = Math.ceil(list.at(-1)?.at ?? 0) + 5;
      const end = at + leaseMs;
      list.push(
        ...parseSteps([
          `${String(at * 1_000)} acquire add ${permitRecord.text} ${String(end)} ${String(at + 100)}`,
          `${String(end * 1_000)} other rem ${permitRecord.text} other -`,
        ]),
      );
    },
  ],
  [
    "an acquire that was sent twice and stands in its own way",
    ["U2"],
    ({ run, someGrant }) => {
      const { at, permitRecord } = someGrant("narrow").step;
      run.copiedAcquires = [{ name: "narrow", token: permitRecord.token, at: Math.ceil(at) + 1, isDenied: true }];
    },
  ],
  ["a promise that settles late", ["U1"], ({ some }) => void (some("call").dueMs = -200)],
  ["no work after an outage", ["U3"], ({ run }) => void (run.heals = [{ kind: "an outage", at: epoch + 600_000 }])],
  [
    "a semaphore that does not go on after a failover",
    ["U3"],
    ({ run, workers }) => {
      run.heals = [{ kind: "an outage", at: epoch + 20, dueMs: 5_000 }];
      for (const worker of workers)
        worker.records = worker.records.filter((record) => record.kind !== "access" || record.name !== "group");
      Object.assign(run, { workers });
    },
  ],
  ["a process that does not end", ["U4"], ({ workers, pick }) => void (pick(workers).end = "SIGKILL")],
  ["an untyped rejection", ["U5"], ({ some }) => void (some("call").outcome = "untyped")],
];

describe("The checker", () => {
  it("finds nothing in runs that keep every invariant", () => {
    for (const seed of seeds) expect(violationsOf(aRun(seed).run), `seed ${String(seed)}`).toEqual([]);
  });

  it.each(faults)("reports %s", (_, invariants, spoil) => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      spoil(draft);
      expect(invariantsBrokenBy(draft.run), `seed ${String(seed)}`).toEqual(invariants);
    }
  });

  it("counts how often it could judge each invariant", () => {
    const { checked } = verdictOn(aRun(1).run);
    expect(checked).toMatchObject({ S1: 3 * 40 + 40, S3: 3, order: 3 * 40, L5: 3 * 40, L3: 3 * 40, U1: 6 * 40 });
  });

  it("accepts that a limit is lowered below what is held", () => {
    const draft = aRun(1);
    const { list, index } = draft.someGrant("weighed");
    insert(list, index + 1, "other permits - 0 -");
    insert(list, index + 2, "other permits - 5 -");
    expect(violationsOf(draft.run)).toEqual([]);
  });

  it("accepts a grant past a waiter whose tenant is at its limit", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const list = draft.steps.get("group") ?? [];
      const end = String(epoch * 2);
      insert(list, list.length, `acquire add full|1|t1|w1.0.0 ${end} 1`, "acquire join behind|1|t1|w1.0.0 - 1");
      insert(list, list.length, `acquire add other|1|t2|w2.0.0 ${end} 1`);
      expect(violationsOf(draft.run), `seed ${String(seed)}`).toEqual([]);
      insert(list, list.length, `acquire add more|1|t1|w2.0.0 ${end} 1`);
      expect(invariantsBrokenBy(draft.run), `seed ${String(seed)}`).toEqual(["order", "S1"]);
    }
  });

  it("lets a waiter keep its place through heartbeats, and while it is suspended", () => {
    const draft = aRun(1);
    const list = draft.steps.get("narrow") ?? [];
    const waiter = (what: string, token: string): string => `other ${what} ${token}|1||w1.0.0 - -`;
    const signs = [waiter("leave", "one"), waiter("join", "one"), waiter("suspend", "one"), waiter("leave", "one")];
    insert(list, list.length, waiter("join", "one"), waiter("join", "two"), ...signs);
    const at = Math.ceil(list.at(-1)?.at ?? 0) + 1;
    list.push(...parseSteps([`${String(at * 1_000)} ${waiter("join", "one")}`]));
    insert(list, list.length, waiter("resume", "one"), waiter("leave", "one"));
    insert(list, list.length, `other add one|1||w1.0.0 ${String(at + leaseMs)} -`);
    expect(violationsOf(draft.run)).toEqual([]);
  });

  it("accepts a grant in time after a death", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      aDeath(draft, 0.1 * leaseMs + 98);
      expect(violationsOf(draft.run)).toEqual([]);
      expect(verdictOn(draft.run).checked.S2).toBe(1);
    }
  });

  it("accepts a late grant during an outage, right after one, or when every waiter has left", () => {
    const draft = aRun(1);
    expect(aWait(draft, true, 138)).toBeTruthy();
    expect(violationsOf(draft.run)).toEqual([]);
    for (const excuse of [
      ({ run }: Draft, { from }: Span): void =>
        void (run.outages = [{ kind: "link cut", from: from - 10, to: from + 20 }]),
      ({ run }: Draft, { to }: Span): void =>
        void (run.outages = [{ kind: "link cut", from: to - 1_050, to: to - 10 }]),
      ({ workers }: Draft, { from }: Span): void => void Object.assign(workers[0] ?? {}, { killedAt: from - 1 }),
      ({ run }: Draft, { from }: Span): void => void (run.losses = [{ from: from - 5, to: from + 5, what: "all" }]),
      ({ workers }: Draft, { from }: Span): void =>
        void workers[0]?.records.push(
          aCall<CallRecord>({ what: "close", name: "", startedAt: from, settledAt: from, dueMs: 1 }),
        ),
    ]) {
      const late = aRun(1);
      excuse(late, aWait(late, true, 1_150));
      expect(violationsOf(late.run)).toEqual([]);
    }
  });

  it("excuses a late grant by a stall of all contenders, and not by the stall of one", () => {
    const draft = aRun(1);
    aDeath(draft, 0.1 * leaseMs + 120);
    const [death] = draft.run.deaths;
    const stall: LogRecord = { kind: "stall", from: (death?.endsAt ?? 0) + 10, to: (death?.endsAt ?? 0) + 40 };
    draft.workers[1]?.records.push(stall);
    draft.workers[2]?.records.push(
      aCall<CallRecord>({
        what: "inspect",
        name: "narrow",
        startedAt: epoch,
        settledAt: (death?.endsAt ?? 0) + 500,
        dueMs: 9_000,
      }),
    );
    expect(invariantsBrokenBy(draft.run)).toEqual(["S2"]);
    draft.workers[2]?.records.push(stall);
    expect(invariantsBrokenBy(draft.run)).toEqual([]);
  });

  it("accepts a copy of an acquire that found its permit or ran before the grant", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const { at, permitRecord } = draft.someGrant("narrow").step;
      const copy = { name: "narrow", token: permitRecord.token };
      draft.run.copiedAcquires = [
        { ...copy, at: Math.ceil(at) + 1, isDenied: false },
        { ...copy, at: Math.floor(at) - 1, isDenied: true },
      ];
      expect(violationsOf(draft.run)).toEqual([]);
      expect(verdictOn(draft.run).checked.U2).toBe(1);
    }
  });

  it("accepts a holder whose permit was lost with the data, until that permit would have expired", () => {
    for (const seed of seeds) {
      const draft = aRun(seed);
      const access = draft.some("access");
      access.isKnown = false;
      const at = access.from - leaseMs + 5;
      draft.run.losses = [{ from: at - 1, to: at, what: "all" }];
      expect(violationsOf(draft.run)).toEqual([]);
    }
  });

  it.each([
    ["released again", "release", "own", 100],
    ["kept, of an acquire without a deadline", "other", "other", 0],
  ] as const)("accepts a late copy of an acquire whose grant is %s", (what, script, whose, untilMs) => {
    const draft = aRun(1);
    const list = draft.steps.get("narrow") ?? [];
    const { permitRecord } = list.at(-1) as Step & { what: "rem" };
    const at = Math.ceil(list.at(-1)?.at ?? 0) + 5;
    const end = at + leaseMs;
    const until = untilMs === 0 ? 0 : at + untilMs;
    list.push(
      ...parseSteps([
        `${String(at * 1_000)} acquire add ${permitRecord.text} ${String(end)} ${String(until)}`,
        `${String(end * 1_000)} ${script} rem ${permitRecord.text} ${whose} -`,
      ]),
    );
    expect(violationsOf(draft.run)).toEqual([]);
    expect(verdictOn(draft.run).checked.U2).toBe(1);
    expect(remarksOn(draft.run)).toEqual({ [`late copies, ${what}`]: 1 });
    // A stale call finds the permit while the copy's grant lasts, and neither before nor for another permit.
    const stale = { what: "stale extend", name: "narrow", dueMs: 250, outcome: "ok" } as const;
    const during = { startedAt: at + 20, settledAt: at + 22 };
    draft.workers[0]?.records.push(aCall<CallRecord>({ ...stale, ...during, lease: permitRecord.token }));
    expect(violationsOf(draft.run)).toEqual([]);
    draft.workers[0]?.records.push(aCall<CallRecord>({ ...stale, ...during, lease: "another" }));
    expect(invariantsBrokenBy(draft.run)).toEqual(["L5"]);
    draft.workers[0]?.records.splice(
      -1,
      1,
      aCall<CallRecord>({ ...stale, startedAt: epoch, settledAt: epoch + 1, lease: permitRecord.token }),
    );
    expect(invariantsBrokenBy(draft.run)).toEqual(["L5"]);
  });
});
