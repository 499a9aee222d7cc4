import type { RedisMode } from "@kit/testing";
import type { Setting } from "./lab/setting.js";
import type { Row } from "./rows/row.js";

/** What one run came to. */
export interface LegReport {
  readonly operations: number;
  readonly opsByOutcome: Readonly<Record<string, number>>;
  readonly bites: ReadonlyMap<string, number>;
  readonly violations: readonly { readonly law: string; readonly what: string }[];
  /** By law: how often it could be judged. */
  readonly checked: Readonly<Record<string, number>>;
  readonly recoveries: readonly { readonly kind: string; readonly ms: number }[];
  /** The longest span in which the resource took nothing. */
  readonly worstStallMs: number;
  /** Accesses that were sent again and had no second effect. */
  readonly duplicates: number;
  /** What is worth telling and breaks no law: how often it was so. */
  readonly remarks?: Readonly<Record<string, number>>;
  /** All that is known, to be kept where a law was broken. */
  readonly run: unknown;
}

export interface LegOptions {
  readonly seed: number;
  readonly setting: Exclude<Setting, "edge">;
  readonly rows: readonly Row[];
  /** Whether it has struck enough. */
  readonly isOver: (struck: number) => boolean;
  /** @default what the setting takes */
  readonly mode?: RedisMode;
  /** @default none */
  readonly control?: Control;
}

/** A workload with one fault in it that its checker must see. */
export interface Control {
  readonly name: string;
  /** Of these at least one is broken. */
  readonly laws: readonly string[];
  /** Of the row under which it shows. */
  readonly kind: string;
  /** How often that strikes at first; more often where it did not show. @default 3 */
  readonly strikes?: number;
}

/** Single calls against what somebody left behind: no contenders. */
export interface Edge {
  readonly number: number;
  readonly kind: string;
  readonly run: () => Promise<{ readonly bites: number; readonly checked: number; readonly broken: readonly string[] }>;
}

/** One package under faults: its workers, what they write down, and the laws that its checker holds them to. */
export interface Workload {
  readonly name: string;
  readonly laws: readonly string[];
  /** The kinds of fault that concern it. */
  readonly rows: readonly Row[];
  /** Of the time that a campaign has, for each setting, in this order. */
  readonly shares: Readonly<Partial<Record<LegOptions["setting"], number>>>;
  readonly edges: readonly Edge[];
  readonly controls: readonly Control[];
  run(options: LegOptions): Promise<LegReport>;
}
