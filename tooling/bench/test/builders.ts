import type { Report } from "../src/report.js";
import type { Implementation } from "../src/implementation.js";
import { type CaseRun, type Ran } from "../src/rounds.js";
import type { Entry } from "../src/suite.js";

export const anEntry = (overrides: Partial<Entry> = {}): Entry => ({
  name: "speed",
  unit: "pairs/s",
  better: "higher",
  about: "one caller",
  ...overrides,
});

/** An implementation that gave these values, one per round, for the entry `speed`. */
export const aRun = (
  implementation: Partial<Implementation> & { readonly peer: string },
  values: readonly number[],
  error?: string,
): CaseRun => ({
  implementation: {
    id: implementation.peer,
    isDefaults: false,
    settings: `settings of ${implementation.peer}`,
    ...implementation,
  },
  rounds: values.map((value): Ran => ({ values: { speed: value } })),
  error,
});

export const aReport = (cases: Report["cases"], overrides: Partial<Report> = {}): Report => ({
  package: "lock",
  node: "v20.20.2",
  redis: "redis 7.0.15",
  rounds: 3,
  date: "2026-11-20T10:00:00.000Z",
  scale: 1,
  machine: { cpu: "a CPU", cores: 2, memoryMb: 1024, system: "linux 6", loadBefore: 0.1, loadAfter: 1.5 },
  cases,
  ...overrides,
});
