import type { ResolvedAcquire } from "@kit/core/leasing";
import type { Mode } from "./scripts/index.js";

/** The settings of one acquire, and what it takes the lock for. */
export type ResolvedReadWrite = ResolvedAcquire & { readonly mode: Mode };
