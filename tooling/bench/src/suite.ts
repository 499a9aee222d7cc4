// The parts of a package's benchmarks. A case is a workload that knows nothing of libraries; an implementation is a
// library behind a small interface, with its settings. One case may yield several entries: what is printed and kept.
import type { Lab, Opening, Team } from "./lab.js";

export type Better = "higher" | "lower";

/** One demand on an entry. `than` is a peer (with or without its version), `floor`, or `best peer`. */
export type Check =
  | { readonly than: string; readonly atLeast: number }
  /** On the value itself, or its worst round. */
  | { readonly atMost: number; readonly of?: "max" };

export interface Goal {
  /** As it stands in the table of goals. */
  readonly text: string;
  readonly checks: readonly Check[];
}

export interface Entry {
  readonly name: string;
  readonly unit: string;
  readonly better: Better;
  /** The work, in addition to the name. */
  readonly about: string;
  readonly goal?: Goal;
  /** The lower bound, if it is a number that needs no measurement. */
  readonly floor?: number;
}

/** A library with one set of settings. */
export interface Implementation {
  /** Unique. */
  readonly id: string;
  /** What the worker process opens, if that is not the id. */
  readonly opens?: string;
  /** Another checkout, whose builds of our packages the worker process loads. */
  readonly checkout?: string;
  /** `kit`, `floor`, or `<name@version>`. Several implementations of one peer differ in their settings. */
  readonly peer: string;
  /** Whether the settings are the peer's own defaults, as far as the case can be run with them at all. */
  readonly isDefaults: boolean;
  readonly settings: string;
}

/** One implementation, one case, one round. */
export interface Measurement {
  /** By entry name. */
  readonly values: Readonly<Record<string, number>>;
  /** The number of operations, for the costs per operation; 0 if that is not meaningful. */
  readonly operations: number;
  /** The commands that the clients sent during the measurement; all that the server counts beyond them ran inside scripts. */
  readonly sent?: number;
  /** Further figures, by name, for the JSON. */
  readonly details?: Readonly<Record<string, number>>;
}

/** One implementation after the other, in random order. */
interface Measure {
  readonly alone: (team: Team, lab: Lab, scale: number) => Promise<Measurement>;
}

/** All implementations at once, by implementation id, if one event affects them all. */
interface MeasureTogether {
  readonly together: (
    teams: readonly Team[],
    lab: Lab,
    scale: number,
  ) => Promise<ReadonlyMap<string, Measurement | Error>>;
}

export interface Case {
  readonly entries: readonly Entry[];
  readonly implementations: readonly Implementation[];
  /** Rounds at most: some cases are too long for more. */
  readonly rounds: number;
  /** Client processes per implementation. */
  readonly processes: number;
  /** Passed to the implementation when it is opened. */
  readonly setup: unknown;
  /** Whether each measurement needs new processes, because they cannot continue after it. */
  readonly isFinal?: boolean;
  /** Warms up code and connections. */
  readonly warmUp?: (team: Team, scale: number) => Promise<void>;
  readonly measure: Measure | MeasureTogether;
}

export interface Suite {
  readonly package: string;
  readonly cases: readonly Case[];
}

/** The jobs that a worker process offers to the parent, by name. */
export type Jobs = Readonly<Record<string, (task: never) => Promise<unknown>>>;

/** Opens an implementation in a worker process. */
export type OpenJobs = (opening: Opening) => Promise<Jobs>;
