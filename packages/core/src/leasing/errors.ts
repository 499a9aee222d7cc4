import { isSlotMoving, passes } from "../toolkit/index.js";

/**
 * How a lease ended without a release.
 *
 * - `expired`: the server no longer has this lease (it ran out, or the server lost its data)
 * - `taken`: another holder has it
 * - `deadline`: no renewal was confirmed in time; the lease may have ended
 * - `max-hold`: `maxHoldMs` has passed
 * - `stopped`: renewal was off or stopped, and the lease ran out
 * - `closed`: the object that made it was closed
 * - `released`, `handed-over`: it was released or handed over; only in errors of `assertHeld()` and `extend()`
 */
export type LossReason =
  "expired" | "taken" | "deadline" | "max-hold" | "stopped" | "closed" | "released" | "handed-over";

/** The reasons in words, for messages. */
export const lossWords: Readonly<Record<LossReason, string>> = {
  expired: "the server no longer has it",
  taken: "another holder has it",
  deadline: "no renewal was confirmed before its end",
  "max-hold": "maxHoldMs is over",
  stopped: "it was not renewed, and ran out",
  closed: "the object that it came from was closed",
  released: "it was released",
  "handed-over": "it was handed over",
};

/** Quotes a name or label: it may contain anything, but must not break a line in a message or control a terminal. */
export const shown = (text: string): string => JSON.stringify(text);

/** The end of a timeout's message: the last state seen, and why nothing was seen after it. */
export const lastWords = (seen: string | undefined, cause: unknown): string => {
  const refused = passes(cause) ? "Redis refused the command at the end" : "Redis was unreachable at the end";
  const obstacle = isSlotMoving(cause) ? "the slot of its keys was moving at the end" : refused;
  const silence = cause === undefined ? undefined : obstacle;
  const words = [seen, silence].filter((word) => word !== undefined);
  return words.length === 0 ? "" : ` (${words.join("; ")})`;
};
