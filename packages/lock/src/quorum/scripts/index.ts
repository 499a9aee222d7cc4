import { defineScript } from "@kit/core";
import acquireSource from "./acquire.lua";
import inspectSource from "./inspect.lua";
import releaseSource from "./release.lua";
import renewSource from "./renew.lua";
import serverSource from "./server.lua";

/** A lease on one server. */
export interface Stored {
  readonly token: string;
  readonly holder: string;
  /** Infinity if the lease has no end. */
  readonly msLeft: number;
}

const storedOf = (value: unknown, msLeft: unknown): Stored => {
  const text = String(value);
  const bar = text.indexOf("|");
  const left = Number(msLeft);
  return { token: text.slice(0, bar), holder: text.slice(bar + 1), msLeft: left === -1 ? Infinity : left };
};

/** What a server reported about itself: its run id, if it could, and its age in milliseconds. Undefined if it was not asked. */
export interface ServerFacts {
  readonly runId: string | undefined;
  readonly ageMs: number;
}

const factsOf = (value: unknown): ServerFacts | undefined => {
  if (value === "") return undefined;
  const [runId, ageMs] = String(value).split(" ");
  return ageMs === undefined ? { runId: undefined, ageMs: Infinity } : { runId, ageMs: Number(ageMs) };
};

/** The reply of a server that votes. `now` is the time of its clock, in epoch milliseconds. */
export interface Voted {
  readonly now: number;
  readonly server: ServerFacts | undefined;
}

export type AcquireReply = Voted &
  (
    | { readonly state: "granted" | "repeated" | "late" }
    | { readonly state: "held"; readonly by: Stored }
    | { readonly state: "abstained"; readonly msLeft: number }
  );

/** Takes the lease on one server. */
export const acquire = defineScript({
  name: "lock.quorum.acquire",
  source: [serverSource, acquireSource],
  keys: ["lease"],
  args: ["owner", "terms: leaseMs notAfter guardMs isAsked"],
  reply: (raw): AcquireReply => {
    if (!Array.isArray(raw)) return { now: Number(raw), server: undefined, state: "granted" };
    const [code, at, facts, msLeft, owner] = raw as unknown[];
    const now = Number(at);
    const server = factsOf(facts);
    if (Number(code) === 2) return { now, server, state: "held", by: storedOf(owner, msLeft) };
    if (Number(code) === 3) return { now, server, state: "abstained", msLeft: Number(msLeft) };
    return { now, server, state: Number(code) === 1 ? "granted" : Number(code) === 5 ? "repeated" : "late" };
  },
});

export type RenewReply = Voted &
  ({ readonly state: "extended" | "refilled" | "gone" } | { readonly state: "taken"; readonly by: Stored });

/** Extends the lease on one server. */
export const renew = defineScript({
  name: "lock.quorum.renew",
  source: [serverSource, renewSource],
  keys: ["lease"],
  args: ["owner", "terms: termMs refillUntil isAsked"],
  reply: (raw): RenewReply => {
    const [code, at, facts, msLeft, owner] = raw as unknown[];
    const now = Number(at);
    const server = factsOf(facts);
    if (Number(code) === 2) return { now, server, state: "taken", by: storedOf(owner, msLeft) };
    return { now, server, state: Number(code) === 1 ? "extended" : Number(code) === 5 ? "refilled" : "gone" };
  },
});

/** Removes the lease on one server. Resolves with whether it was there. */
export const release = defineScript({
  name: "lock.quorum.release",
  source: releaseSource,
  keys: ["lease"],
  args: ["owner"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** Reads the lease on one server, or null if there is none. */
export const inspect = defineScript({
  name: "lock.quorum.inspect",
  source: inspectSource,
  keys: ["lease"],
  args: [],
  readonly: true,
  reply: (raw): Stored | null => {
    const [msLeft, owner] = raw as unknown[];
    return String(owner) === "" ? null : storedOf(owner, msLeft);
  },
});
