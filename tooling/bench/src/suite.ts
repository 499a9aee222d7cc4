// The parts of a package's benchmarks. A case is a workload that knows nothing of libraries. It may yield several entries:
// what is printed and kept.
import type { Implementation } from "./implementation.js";
import type { StartRedisOptions } from "@kit/testing";
import type { ClientName } from "@tooling/lab";
import type { Lab, Opening, Team } from "./lab.js";
import type { Operation } from "./operation.js";

export type Better = "higher" | "lower";

/** One demand on an entry. `than` is a peer (with or without its version), `floor`, or `best peer`. */
export type Check =
  | { readonly than: string; readonly atLeast: number }
  /** On the value itself, or its worst round. */
  | { readonly atMost: number; readonly of?: "max" };

/** Ratios to be reached, by peer. */
export const atLeast = (ratios: Readonly<Record<string, number>>): Check[] =>
  Object.entries(ratios).map(([than, ratio]) => ({ than, atLeast: ratio }));

/** The highest value allowed: of the median, or of every round. */
export const atMost = (value: number, of?: "max"): Check[] => [{ atMost: value, ...(of && { of }) }];

export interface Entry {
  readonly name: string;
  readonly unit: string;
  /** @default "higher" for what is counted per second, "lower" for all else */
  readonly better?: Better;
  /** The work, in addition to the name. */
  readonly about: string;
  readonly goal?: readonly Check[] | undefined;
  /** The lower bound, if it is a number that needs no measurement. */
  readonly floor?: number | undefined;
}

export const betterOf = ({ better, unit }: Entry): Better => better ?? (unit.includes("/s") ? "higher" : "lower");

/** One implementation, one case, one round. */
export interface Measurement {
  /** One for each entry, in their order; undefined where this round or implementation has none. */
  readonly values: readonly (number | undefined)[];
  /** The number of operations, for the costs per operation. */
  readonly operations?: number;
  /** The commands that the clients sent during the measurement; all that the server counts beyond them ran inside scripts. */
  readonly sent?: number;
  /** Further figures, by name, for the JSON. */
  readonly details?: Readonly<Record<string, number>>;
}

/** What is done with one implementation. */
export type Prepare = (team: Team, lab: Lab, scale: number) => Promise<unknown>;

interface AnyCase {
  readonly entries: readonly Entry[];
  readonly implementations: readonly Implementation[];
  /** Passed to the implementation when it is opened. */
  readonly setup?: unknown;
  /** Rounds at most: some cases are too long for more. */
  readonly rounds?: number;
  /** Client processes per implementation. @default 1 */
  readonly processes?: number;
  /** Independent servers. @default 1 */
  readonly servers?: number;
  /** The server, if the case needs a special one; new in each round. Needs `isFinal`. @default one for all cases, without persistence */
  readonly server?: StartRedisOptions;
  /** Whether each measurement needs new processes, because they cannot continue after it. */
  readonly isFinal?: boolean;
  /** The operation that it counts, if that is all it does: two builds then take turns in slices of it. */
  readonly operation?: unknown;
  /** Warms up code and connections. */
  readonly warmUp?: Prepare;
  /** Before each measurement, on an empty server; not measured. */
  readonly prepare?: Prepare;
}

/** One implementation after the other, in random order. */
interface CaseAlone extends AnyCase {
  readonly measure: (team: Team, lab: Lab, scale: number) => Promise<Measurement>;
}

/** All implementations at once, by implementation id, if one event affects them all. */
interface CaseTogether extends AnyCase {
  readonly together: (
    teams: readonly Team[],
    lab: Lab,
    scale: number,
  ) => Promise<ReadonlyMap<string, Measurement | Error>>;
}

export type Case = CaseAlone | CaseTogether;

export interface Suite {
  readonly package: string;
  /** Whether it measures what only ioredis has, and cannot run on another client. @default false */
  readonly needsIoredis?: boolean;
  readonly cases: readonly Case[];
}

/** The jobs that a worker process offers to the parent, by name. `operation` makes an operation of a task. */
export type Jobs = Readonly<Record<string, (task: never) => unknown>> & {
  readonly operation?: (task: never) => Operation | Promise<Operation>;
};

/** Opens an implementation in a worker process; `client`: the one that our packages run on, if it is not ioredis. */
export type OpenJobs = (opening: Opening & { readonly client?: ClientName | undefined }) => Promise<Jobs>;
