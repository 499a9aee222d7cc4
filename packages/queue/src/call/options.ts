import { defaultsOf, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import { addOf, type AddOptions, addRules, type ResolvedAdd } from "../add/options.js";
import { milliseconds } from "../job/backoff.js";
import type { QueueSettings } from "../store/options.js";

const dayMs = 86_400_000;

/** Options of `call()`. */
export interface CallOptions extends Omit<AddOptions, "id" | "unique" | "op"> {
  /**
   * How long the call waits for the outcome, in milliseconds: 1 to 86,400,000 (a day). Then the call rejects, and the job stays in the
   * queue.
   *
   * @default 30000
   */
  readonly waitMs?: number | undefined;
}

const { id: _id, unique: _unique, op: _op, ...callable } = addRules;
export const callRules = { ...callable, waitMs: milliseconds(1, dayMs, 30_000) } satisfies RulesOf<CallOptions>;

/** The options of a call that has none. */
export type CallDefaults = Resolved<typeof callRules>;

export const callDefaults = (settings: QueueSettings): CallDefaults => defaultsOf(callRules, settings);

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveCall = (
  options: CallOptions,
  defaults: CallDefaults,
): { readonly waitMs: number; readonly resolved: ResolvedAdd } => {
  const { waitMs, ...others } = resolve("options", options, callRules, defaults);
  return { waitMs, resolved: addOf({ ...others, id: undefined, unique: undefined, op: undefined }) };
};
