import type { ClientName } from "@tooling/lab";
import type { Control } from "./lab/control.js";
import type { Setting } from "./lab/setting.js";
import type { Fault } from "./faults/fault.js";
import type { Recovery } from "./work.js";

/** The result of one run. */
export interface PhaseReport extends Recovery {
  readonly operations: number;
  readonly opsByOutcome: Readonly<Record<string, number>>;
  readonly effects: ReadonlyMap<string, number>;
  readonly violations: readonly { readonly invariant: string; readonly what: string }[];
  /** By invariant: the number of times that it was judged. */
  readonly checked: Readonly<Record<string, number>>;
  /** Accesses that were sent again and had no second effect. */
  readonly duplicates: number;
  /** Rejections that nobody handled, in a worker. */
  readonly unhandled?: readonly string[];
  /** Remarks that break no invariant, each with its count. */
  readonly remarks?: Readonly<Record<string, number>>;
  /** All records, to be stored if an invariant was broken. */
  readonly run: unknown;
}

export interface PhaseOptions {
  readonly seed: number;
  readonly setting: Setting;
  readonly faults: readonly Fault[];
  /** Whether enough injections took effect. */
  readonly isOver: (effective: number) => boolean;
  /** Milliseconds of the long pauses before some faults and at the end, so that slow failures show. @default 2500 */
  readonly calmMs?: number;
  /** @default none */
  readonly control?: Control;
  /** The client on which the packages run. @default "ioredis" */
  readonly client?: ClientName | undefined;
}

/** One package under faults: its workers, their records, and the invariants that its checker judges. */
export interface Workload {
  readonly name: string;
  readonly invariants: readonly string[];
  /** The faults that concern the package. */
  readonly faults: readonly Fault[];
  /** The share of a campaign's time for each setting, in this order. */
  readonly shares: Readonly<Partial<Record<PhaseOptions["setting"], number>>>;
  readonly controls: readonly Control[];
  /** Whether its workers hook into ioredis, and cannot run on another client. */
  readonly needsIoredis?: boolean;
  run(options: PhaseOptions): Promise<PhaseReport>;
}
