import type { Lab } from "../lab/lab.js";
import type { Setting } from "../lab/setting.js";

/** A fault that is active. */
export interface Injection {
  /** Resolves when it is seen to take effect. */
  readonly until?: () => Promise<unknown>;
  /** How long it lasts after that, in milliseconds. */
  readonly lastsMs?: number;
  /** Removes it. Called once, also after an error. */
  readonly heal?: () => Promise<unknown> | void;
  /** Whether it took effect, judged by the damage and not by the injection itself. Called after the heal. */
  readonly tookEffect: () => boolean | Promise<boolean>;
}

/** One kind of fault. */
export interface Fault {
  /** Its name in reports, like `link cut`. */
  readonly kind: string;
  readonly setting: Exclude<Setting, "edge">;
  readonly inject: (lab: Lab) => Promise<Injection>;
  /** Why this machine cannot inject it. */
  readonly whyNot?: () => string | undefined;
  /** How often it is injected in each round of a plan: more if it alone tests an invariant. @default 1 */
  readonly times?: number;
  /** Whether it takes effect in a Cluster as well. */
  readonly isForCluster?: boolean;
}
