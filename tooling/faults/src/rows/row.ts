import type { Lab } from "../lab/lab.js";
import type { Setting } from "../lab/setting.js";

/** A fault that is on. */
export interface Blow {
  /** Resolves when it was seen to strike, while it is on. */
  readonly until?: () => Promise<unknown>;
  /** How long it goes on after that, in milliseconds. */
  readonly lastsMs?: number;
  /** Takes it away. Called once, also after an error. */
  readonly heal?: () => Promise<unknown> | void;
  /** Whether it bit, told by what it broke and not by having been dealt. Asked when it is healed. */
  readonly bit: () => boolean | Promise<boolean>;
}

/** One kind of fault. */
export interface Row {
  /** In the matrix of faults; several kinds may share one. */
  readonly number: number;
  /** What reports call it: `15 link is cut`. */
  readonly kind: string;
  readonly setting: Exclude<Setting, "edge">;
  readonly inject: (lab: Lab) => Promise<Blow>;
  /** Why it cannot be had here. */
  readonly whyNot?: () => string | undefined;
  /** How often it strikes in each round of a plan: more where a law is judged by it alone. @default 1 */
  readonly times?: number;
  /** Whether it is known to strike in a Cluster as well. */
  readonly isForCluster?: boolean;
}
