import type { Lab } from "../lab/lab.js";
import type { Setting } from "../lab/setting.js";

/** A fault that is active. */
export interface Injection {
  /** Resolves when the fault takes effect. */
  readonly until?: () => Promise<unknown>;
  /** How long the fault lasts after that, in milliseconds. */
  readonly lastsMs?: number;
  /** Removes the fault. Called once, also after an error. */
  readonly heal?: () => Promise<unknown> | void;
  /** Whether the fault took effect, judged by its damage and not by the injection itself. Called after the heal. */
  readonly tookEffect: () => boolean | Promise<boolean>;
}

/** A fault that can be injected repeatedly. */
export interface Fault {
  /** The name in reports, like `link cut`. */
  readonly kind: string;
  readonly setting: Setting;
  readonly inject: (lab: Lab) => Promise<Injection>;
  /** The reason why this machine cannot inject the fault, if it cannot. */
  readonly whyNot?: () => string | undefined;
  /** Injections in each round of a plan; more for a fault that alone tests an invariant. @default 1 */
  readonly times?: number;
}
