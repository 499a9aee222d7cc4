import type { ResolvedLock } from "../options.js";
import type { Mode } from "./scripts/index.js";

/** The settings of one acquire, and its mode. */
export type ResolvedReadWrite = Omit<ResolvedLock, "minHoldMs"> & { readonly mode: Mode };
