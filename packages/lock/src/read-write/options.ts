import type { ResolvedLock } from "../options.js";
import type { Mode } from "./scripts/index.js";

/** The settings of one acquire, and what it takes the lock for. */
export type ResolvedReadWrite = Omit<ResolvedLock, "minHoldMs"> & { readonly mode: Mode };
