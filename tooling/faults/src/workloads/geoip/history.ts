import type { CommonRecord } from "../../records.js";
import type { PlainHistory, SightRecord } from "../../plain/history.js";

export type LogRecord =
  CommonRecord | SightRecord | { readonly kind: "blocked"; readonly from: number; readonly to: number };

export type RunHistory = PlainHistory<LogRecord>;
