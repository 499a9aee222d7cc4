import type { PlainRun } from "../../plain.js";
import type { CommonRecord } from "../../records.js";

/** The state of an entry, or the state that a change will give it. Null: the entry does not exist. */
export type State = { readonly text: string; readonly weight: number } | null;

export type LogRecord =
  | CommonRecord
  /** Written before the call, so that after a kill all possible changes are known. */
  | { readonly kind: "intends" | "done"; readonly index: string; readonly id: string; readonly state: State };

export interface RunHistory extends PlainRun<LogRecord> {
  /** The final state of each entry, by index and id. */
  readonly found: Readonly<Record<string, State>>;
}
