import { defineScript } from "@kit/core";
import {
  type AcquireReply,
  type HeartbeatReply,
  waitQueueSource,
  releaseReply,
  renewReply,
  type Seen,
} from "@kit/core/leasing";
import acquireSource from "./acquire.lua";
import fenceSource from "./fence.lua";
import heartbeatSource from "./heartbeat.lua";
import grantSource from "./grant.lua";
import inspectSource from "./inspect.lua";
import releaseSource from "./release.lua";
import renewSource from "./renew.lua";

const lockKeys = ["lease", "fence", "queue", "waiters"] as const;

/** The holder of a lock, as stored in the key: `token|holder`. */
export interface Owner {
  readonly token: string;
  readonly holder: string;
}

const ownerOf = (value: unknown): Owner | null => {
  const text = String(value);
  const bar = text.indexOf("|");
  return text === "" ? null : { token: text.slice(0, bar), holder: text.slice(bar + 1) };
};

/** The lock's state in a reply: its holder; `msLeft` is -1 when the lease has no end, -2 when the lock is free. */
export interface Held extends Seen {
  readonly owner: Owner | null;
}

const decodeAcquire = (raw: unknown): AcquireReply<Held> => {
  // Microseconds of the server.
  if (typeof raw === "string")
    return { state: "granted", now: Number(raw.slice(0, -3)), msLeft: undefined, fencingToken: raw };
  const [code, now, msLeft, fourth, fifth] = raw as [unknown, unknown, unknown, unknown, unknown];
  const at = Number(now);
  if (Number(code) === 1) return { state: "granted", now: at, msLeft: Number(msLeft), fencingToken: String(fourth) };
  if (Number(code) === 4) return { state: "late", now: at };
  const state = Number(code) === 2 ? "queued" : Number(code) === 3 ? "full" : "held";
  return { state, now: at, msLeft: Number(msLeft), owner: ownerOf(fourth), position: Number(fifth ?? -1) };
};

/** Takes the lock, or a place in the queue, or neither. */
export const acquire = defineScript({
  name: "lock.acquire",
  source: [waitQueueSource, fenceSource, grantSource, acquireSource],
  keys: lockKeys,
  args: ["owner", "terms: leaseMs notAfter shared grantMs aliveMs maxWaiters inbox"],
  idempotent: true,
  reply: decodeAcquire,
});

/** Releases the lock, or leaves the queue. */
export const release = defineScript({
  name: "lock.release",
  source: [waitQueueSource, fenceSource, grantSource, releaseSource],
  keys: lockKeys,
  args: ["owner", "terms: shared fencingToken op keepMs minHoldMs"],
  idempotent: true,
  reply: releaseReply,
});

/** Renews many leases in one step. */
export const renew = defineScript({
  name: "lock.renew",
  source: renewSource,
  keys: ["...leases"],
  args: ["...terms: termMs owner"],
  idempotent: true,
  reply: renewReply,
});

/** Keeps waiters alive, and returns their states. */
export const heartbeat = defineScript({
  name: "lock.heartbeat",
  source: [waitQueueSource, fenceSource, grantSource, heartbeatSource],
  keys: lockKeys,
  args: ["shared", "aliveMs", "inbox", "...tokens"],
  idempotent: true,
  reply: (raw): HeartbeatReply<Held> => {
    const [now, left, owner, fencingToken, ...states] = raw as unknown[];
    const msLeft = Number(left);
    const granted = { msLeft, fencingToken: String(fencingToken) };
    return {
      now: Number(now),
      msLeft,
      owner: ownerOf(owner),
      states: states.map(Number).map((state) => (state === -2 ? granted : state === -1 ? "unknown" : state)),
    };
  },
});

/** The state of one lock. */
export interface InspectReply {
  readonly msLeft: number;
  readonly owner: Owner | null;
  readonly fencingToken: string | null;
  readonly waiting: number;
  readonly holders: readonly string[];
}

/** Reads the state and changes nothing. */
export const inspect = defineScript({
  name: "lock.inspect",
  source: inspectSource,
  keys: lockKeys,
  args: ["first"],
  readonly: true,
  reply: (raw): InspectReply => {
    const [msLeft, owner, fence, waiting, ...holders] = raw as unknown[];
    return {
      msLeft: Number(msLeft),
      owner: ownerOf(owner),
      fencingToken: /^\d+:(\d+)/.exec(String(fence))?.[1] ?? null,
      waiting: Number(waiting),
      holders: holders.map(String),
    };
  },
});
