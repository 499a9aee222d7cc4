import type { Lab } from "../lab/lab.js";
import type { Setting } from "../lab/setting.js";

/** A fault that is on. */
export interface Injection {
  /** Resolves when it is seen to take effect, while it is on. */
  readonly until?: () => Promise<unknown>;
  /** How long it goes on after that, in milliseconds. */
  readonly lastsMs?: number;
  /** Takes it away. Called once, also after an error. */
  readonly heal?: () => Promise<unknown> | void;
  /** Whether it took effect, judged by the damage and not by the injection itself. Called after the heal. */
  readonly tookEffect: () => boolean | Promise<boolean>;
}

/** One kind of fault. */
export interface Fault {
  /** In the matrix of faults; several kinds may share one. */
  readonly number: number;
  /** Its name in reports: `15 link is cut`. */
  readonly kind: string;
  readonly setting: Exclude<Setting, "edge">;
  readonly inject: (lab: Lab) => Promise<Injection>;
  /** Why it cannot be had here. */
  readonly whyNot?: () => string | undefined;
  /** How often it is injected in each round of a plan: more where an invariant is judged by it alone. @default 1 */
  readonly times?: number;
  /** Whether it takes effect in a Cluster as well. */
  readonly isForCluster?: boolean;
}
