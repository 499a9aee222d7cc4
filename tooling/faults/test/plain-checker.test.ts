import { describe, expect, it } from "vitest";
import { lateMs, resumeMs } from "../src/common-invariants.js";
import type { PlainRun } from "../src/plain.js";
import type { Call, CommonRecord, SightRecord, WorkerHistory } from "../src/records.js";
import { verdictOn as autocompleteVerdictOn } from "../src/workloads/autocomplete/checker.js";
import type {
  LogRecord as AutocompleteRecord,
  RunHistory as AutocompleteRun,
  State,
} from "../src/workloads/autocomplete/history.js";
import { verdictOn as geoipVerdictOn } from "../src/workloads/geoip/checker.js";

// Runs of autocomplete and geoip, whose workers judge what they see themselves; then one thing is put wrong, and the checker has
// to say which invariant that breaks.

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type Draft<Run, LogRecord> = Mutable<Omit<Run, "workers">> & {
  worker: Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] };
};
type GeoIpDraft = Draft<PlainRun, CommonRecord>;
type AutocompleteDraft = Draft<AutocompleteRun, AutocompleteRecord>;

const epoch = 1_700_000_000_000;
const call = (from: number, outcome: Call["outcome"], tookMs = 5): Call => ({
  ...{ kind: "call", what: "search", name: "cities", outcome, dueMs: 500, stalledMs: 0 },
  ...{ startedAt: epoch + from, settledAt: epoch + from + tookMs },
});
const stall = (from: number, to: number): CommonRecord => ({ kind: "stall", from: epoch + from, to: epoch + to });
const sight = (invariant: string, wrong: string | false = false): SightRecord => ({ kind: "saw", invariant, wrong });
const berlin = { text: "Berlin", weight: 3 };
const bern = { text: "Bern", weight: 1 };
const change = (kind: "intends" | "done", id: string, state: State): AutocompleteRecord => ({
  kind,
  index: "cities",
  id,
  state,
});

/** The parts that both have, with the sights that their workers judge and the changes that they log. */
const aRun = <R>(invariants: readonly string[], changes: readonly R[]) => ({
  worker: {
    id: "w1",
    records: [
      ...[...invariants.map((one) => sight(one)), call(0, "ok"), call(10, "failed"), call(2_000, "ok"), ...changes],
      { kind: "left", open: [], stalledMs: 0 } as const,
    ],
    printed: "",
    end: "exit 0",
  },
  heals: [{ kind: "scripts flushed", at: epoch + 1_900 }],
  leaseMs: 400,
  outages: [],
  losses: [],
  losesNothing: true,
  echoes: 0,
});

const aGeoIpRun = (): GeoIpDraft => ({ ...aRun(["G1", "G2", "G3"], []), wrong: { G2: [], G4: [] } });

/** The last change of one entry is acknowledged, those of two others are unknown. */
const anAutocompleteRun = (): AutocompleteDraft => ({
  ...aRun(
    ["P1", "P4"],
    [
      ...[change("intends", "a", bern), change("done", "a", bern), change("intends", "a", berlin)],
      ...[change("done", "a", berlin), change("intends", "b", bern), change("done", "b", bern)],
      ...[change("intends", "b", null), change("intends", "c", bern)],
    ],
  ),
  wrong: { P2: [] },
  found: { "cities a": berlin, "cities b": bern },
});

const verdictOnGeoIp = (spoil: (draft: GeoIpDraft) => void): ReturnType<typeof geoipVerdictOn> => {
  const draft = aGeoIpRun();
  spoil(draft);
  return geoipVerdictOn({ ...draft, workers: [draft.worker] });
};
const verdictOnAutocomplete = (spoil: (draft: AutocompleteDraft) => void): ReturnType<typeof autocompleteVerdictOn> => {
  const draft = anAutocompleteRun();
  spoil(draft);
  return autocompleteVerdictOn({ ...draft, workers: [draft.worker] });
};
const brokenBy = ({ violations }: { violations: readonly { invariant: string }[] }): string[] => [
  ...new Set(violations.map(({ invariant }) => invariant)),
];
const unjudged = ({ checked }: { checked: Readonly<Record<string, number>> }): string[] =>
  Object.keys(checked).filter((name) => checked[name] === 0 && name !== "U1");

it.each([
  ["geoip", () => verdictOnGeoIp(() => undefined)],
  ["autocomplete", () => verdictOnAutocomplete(() => undefined)],
])("A run of %s that keeps every invariant passes, and each of them was judged", (_, verdict) => {
  expect(verdict().violations).toEqual([]);
  expect(unjudged(verdict())).toEqual([]);
});

describe("The checker of geoip finds", () => {
  it.each<[string, string, (draft: GeoIpDraft) => void]>([
    ["a mixture of versions", "G1", ({ worker }) => void worker.records.push(sight("G1", "asn 1 and 2"))],
    ["a range that is missing", "G2", ({ worker }) => void worker.records.push(sight("G2", "no answer"))],
    ["the same in the end", "G2", (draft) => void (draft.wrong = { ...draft.wrong, G2: ["in the end there are 1,"] })],
    ["an import without its last part", "G3", ({ worker }) => void worker.records.push(sight("G3", "half"))],
    ["data that never expires", "G4", (draft) => void (draft.wrong = { ...draft.wrong, G4: ["has -1 ms left"] })],
    ["a call that settles late", "U1", ({ worker }) => void worker.records.push(call(20, "ok", 501 + lateMs))],
    [
      "a call that settles late after a stall that is too short to count",
      "U1",
      ({ worker }) => void worker.records.push(call(20, "ok", 501 + lateMs), stall(500, 550)),
    ],
    [
      "work that does not go on",
      "U3",
      (draft) => void (draft.heals = [{ kind: "failover", at: epoch + 2_004 - resumeMs }]),
    ],
    [
      "a failover that takes longer than its own bound",
      "U3",
      (draft) => void (draft.heals = [{ kind: "failover", at: epoch + 1_900, dueMs: 100 }]),
    ],
    [
      "work that had begun before it could go on",
      "U3",
      (draft) => {
        draft.heals = [{ kind: "failover", at: epoch + 1_900, dueMs: 50 }];
        draft.worker.records.push(call(1_890, "ok", 20));
      },
    ],
    ["a worker that never came to its end", "U4", ({ worker }) => void worker.records.pop()],
    ["an error without a type", "U5", ({ worker }) => void worker.records.push(call(20, "untyped"))],
  ])("%s (%s)", (_, invariant, spoil) => {
    expect(brokenBy(verdictOnGeoIp(spoil))).toEqual([invariant]);
  });
});

describe("The checker of autocomplete finds", () => {
  it.each<[string, string, (draft: AutocompleteDraft) => void]>([
    ["a change that is not seen", "P1", ({ worker }) => void worker.records.push(sight("P1", "weight 2, not 3"))],
    ["a row without a record", "P2", (draft) => void (draft.wrong = { P2: ["no record"] })],
    ["an entry as it was before", "P3", (draft) => void (draft.found = { ...draft.found, "cities a": bern })],
    ["an entry that is gone", "P3", (draft) => void (draft.found = { "cities b": bern })],
    ["another weight", "P3", (draft) => void (draft.found = { ...draft.found, "cities a": { ...berlin, weight: 4 } })],
    ["an entry as nobody made it", "P3", (draft) => void (draft.found = { ...draft.found, "cities c": berlin })],
    ["a reply of two rebuilds", "P4", ({ worker }) => void worker.records.push(sight("P4", "rows of both"))],
  ])("%s (%s)", (_, invariant, spoil) => {
    expect(brokenBy(verdictOnAutocomplete(spoil))).toEqual([invariant]);
  });
});

describe("Their checkers excuse", () => {
  it("a call for as long again after a stall that the workers hardly notice", () => {
    const ended = (tookMs: number): string[] =>
      brokenBy(
        verdictOnGeoIp(({ worker }: GeoIpDraft) => {
          worker.records.push(call(20, "failed", tookMs), stall(490, 551));
        }),
      );
    expect([ended(1_000 + lateMs), ended(1_001 + lateMs)]).toEqual([[], ["U1"]]);
  });

  it("either state of an entry after a change of unknown outcome", () => {
    const deleted = (draft: AutocompleteDraft): void => void (draft.found = { "cities a": berlin });
    const written = (draft: AutocompleteDraft): void => {
      draft.found = { ...draft.found, "cities c": bern };
    };
    expect([deleted, written].flatMap((spoil) => brokenBy(verdictOnAutocomplete(spoil)))).toEqual([]);
  });

  it("what a server may lose that keeps no file, and nothing else", () => {
    const index = verdictOnAutocomplete((draft) => {
      Object.assign(draft, { losesNothing: false, found: {}, wrong: { P2: ["no record"] } });
      draft.worker.records.push(sight("P1", "not found"));
    });
    const database = verdictOnGeoIp((draft) => {
      Object.assign(draft, { losesNothing: false, wrong: { G2: ["not found"], G4: ["has -1 ms left"] } });
      draft.worker.records.push(sight("G1", "asn 1 and 2"), sight("G3", "half"));
    });
    expect([brokenBy(index), brokenBy(database)]).toEqual([["P2"], ["G1", "G4"]]);
  });
});
