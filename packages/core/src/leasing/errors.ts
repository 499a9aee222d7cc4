import { isSlotMoving, passes } from "../kernel/index.js";

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
  expired: "it expired on the server, or the server lost its data",
  taken: "another holder has it",
  deadline: "the server did not confirm a renewal before the lease ended. Check the network, or raise leaseMs",
  "max-hold": "maxHoldMs has passed",
  stopped: "renewal was off or stopped, and the lease ended",
  closed: "its object was closed",
  released: "it was released",
  "handed-over": "it was handed over",
};

/** Quotes a name or label: it may contain anything, but must not break a line in a message or control a terminal. */
export const shown = (text: string): string => JSON.stringify(text);

/** The end of a timeout's message: the last state seen, and why nothing was seen after it. */
export const lastWords = (seen: string | undefined, cause: unknown): string => {
  const refused = passes(cause)
    ? "at the last try Redis rejected the command"
    : "at the last try Redis was unreachable";
  const obstacle = isSlotMoving(cause) ? "at the last try the slot of its keys was moving" : refused;
  const silence = cause === undefined ? undefined : obstacle;
  const words = [seen, silence].filter((word) => word !== undefined);
  return words.length === 0 ? "" : ` (${words.join("; ")})`;
};
