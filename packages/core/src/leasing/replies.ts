// The numbers in the replies of all scripts that handle leases.
import type { ReleaseReply, RenewReply, RenewState } from "./kind.js";

const releases: readonly ReleaseReply[] = ["not-held", "released", "left", "unaccepted"];

/** The reply to a release. */
export const releaseReply = (raw: unknown): ReleaseReply => releases[Number(raw)] ?? "not-held";

const states: readonly RenewState[] = ["gone", "extended", "taken", "corrupt"];

/** The reply to a renewal: the server's milliseconds, and then the state of each lease. */
export const renewReply = (raw: unknown): RenewReply => {
  const [now, ...found] = raw as unknown[];
  return { now: Number(now), states: found.map((state) => states[Number(state)] ?? "corrupt") };
};
