import type { Call } from "../src/records.js";
import type { RunHistory as LockRun } from "../src/workloads/lock/history.js";

// What the made-up runs of the checkers of leases have in common.

export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export const leaseMs = 400;
export const epoch = 1_700_000_000_000;

/** A run without faults. */
export const calm = {
  leaseMs,
  deaths: [],
  heals: [],
  outages: [],
  losses: [],
  losesNothing: true,
  echoes: 0,
  copiedAcquires: [],
  leftovers: [],
} as const;

/** The same of the lock's workload. */
export const calmLocks: Omit<LockRun, "workers"> = {
  ...calm,
  isCluster: false,
  isRegisterBeside: true,
  isClockTrue: true,
  readWriteSteps: new Map(),
  registers: new Map(),
};

/** A worker that left in order. */
export const workerOf = <R>(id: string, records: readonly R[]) => ({
  id,
  printed: "",
  end: "exit 0",
  records: [...records, { kind: "left" as const, open: [], stalledMs: 0 }],
});

/** A call without an error. */
export const aCall = <C extends Call>(facts: Omit<C, "kind" | "stalledMs" | "outcome">): C =>
  ({ kind: "call", stalledMs: 0, outcome: "ok", ...facts }) as C;

/** The invariants that a checker finds broken, each once. */
export const brokenIn = <L>({ violations }: { readonly violations: readonly { readonly invariant: L }[] }): L[] => [
  ...new Set(violations.map(({ invariant }) => invariant)),
];
