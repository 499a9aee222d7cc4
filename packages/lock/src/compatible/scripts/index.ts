import { defineScript } from "@kit/core";
import { releaseReply } from "@kit/core/leasing";
import acquireSource from "./acquire.lua";
import releaseSource from "./release.lua";

/** The outcome of a try. `now` is the server's time, in epoch milliseconds. */
export interface AcquireReply {
  readonly state: "granted" | "held" | "late";
  readonly now: number;
  /** Time left of the current lease, whether it is ours or not; -1 when it has no end. */
  readonly msLeft: number;
}

const states = ["held", "granted", "late"] as const;

/** Takes the lock, or does nothing. */
export const acquire = defineScript({
  name: "compatible-lock.acquire",
  source: acquireSource,
  keys: ["lease"],
  args: ["token", "terms: leaseMs notAfter"],
  idempotent: true,
  reply: (raw): AcquireReply => {
    const [state, now, msLeft] = (raw as unknown[]).map(Number);
    return { state: states[state ?? 0] ?? "held", now: now ?? 0, msLeft: msLeft ?? 0 };
  },
});

/** Releases the lock. */
export const release = defineScript({
  name: "compatible-lock.release",
  source: releaseSource,
  keys: ["lease"],
  args: ["token"],
  idempotent: true,
  reply: releaseReply,
});
