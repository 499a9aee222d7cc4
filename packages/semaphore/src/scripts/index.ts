import { defineScript } from "@kit/core";
import {
  type AcquireReply,
  type HeartbeatReply,
  waitQueueSource,
  releaseReply,
  renewalSource,
  renewReply,
  type Seen,
  type WaiterState,
} from "@kit/core/leasing";
import { decodedName } from "@kit/core/toolkit";
import type { Limits } from "../options.js";
import acquireSource from "./acquire.lua";
import countsSource from "./counts.lua";
import grantSource from "./grant.lua";
import heartbeatSource from "./heartbeat.lua";
import inspectSource from "./inspect.lua";
import releaseSource from "./release.lua";
import renewSource from "./renew.lua";
import resizeSource from "./resize.lua";
import searchSource from "./search.lua";

const semaphoreKeys = ["permits", "meta", "queue", "ready", "waiters"] as const;
const libraries = [waitQueueSource, countsSource, searchSource, grantSource] as const;

/** The semaphore's state in a reply. */
export interface Usage extends Seen, Limits {
  /** The weight in use, including permits that have ended and are not dropped yet. */
  readonly used: number;
}

const limitsOf = (permits: unknown, perTenant: unknown): Limits => ({
  permits: Number(permits),
  permitsPerTenant: Number(perTenant) === -1 ? undefined : Number(perTenant),
});

/** The stored limits of a reply. Undefined if they equal the caller's. */
type Limited<T> = T & { readonly limits?: Limits | undefined };

/** The weight of the acquire is above the limits. */
interface TooHeavy extends Limits {
  readonly state: "too-heavy";
  readonly now: number;
}

/** The semaphore looked full, but some ended permits were not dropped yet: call again. */
interface Unsettled {
  readonly state: "unsettled";
}

const decodeAcquire = (raw: unknown): Limited<AcquireReply<Usage>> | TooHeavy | Unsettled => {
  if (!Array.isArray(raw)) return { state: "granted", now: Number(raw), msLeft: undefined, fencingToken: "" };
  const [code, now, msLeft, permits, perTenant, used, position] = raw.map(Number);
  const at = Number(now);
  if (code === 4) return { state: "late", now: at };
  if (code === 6) return { state: "unsettled" };
  const limits = limitsOf(permits, perTenant);
  if (code === 5) return { state: "too-heavy", now: at, ...limits };
  if (code === 1) return { state: "granted", now: at, msLeft: Number(msLeft), fencingToken: "", limits };
  const state = code === 2 ? "queued" : code === 3 ? "full" : "held";
  return {
    state,
    now: at,
    msLeft: Number(msLeft),
    ...limits,
    used: Number(used),
    position: position ?? -1,
    limits,
  };
};

/** Takes a permit, or a place in the queue, or neither. */
export const acquire = defineScript({
  name: "semaphore.acquire",
  source: [...libraries, acquireSource],
  keys: semaphoreKeys,
  args: ["permitRecord", "terms: leaseMs notAfter permits perTenant shared priority grantMs aliveMs maxWaiters inbox"],
  idempotent: true,
  reply: decodeAcquire,
});

/** Releases a permit, or leaves the queue. */
export const release = defineScript({
  name: "semaphore.release",
  source: [...libraries, releaseSource],
  keys: semaphoreKeys,
  args: ["permitRecord", "shared"],
  idempotent: true,
  reply: releaseReply,
});

/** Renews many permits in one step. */
export const renew = defineScript({
  name: "semaphore.renew",
  source: [renewalSource, renewSource],
  keys: ["...permits"],
  args: ["...terms: termMs permitRecord"],
  idempotent: true,
  reply: renewReply,
});

const waiterState = (raw: unknown): WaiterState => {
  const state = Number(raw);
  if (state >= 0) return state;
  return state === -1 ? "unknown" : { msLeft: -2 - state, fencingToken: "" };
};

/** Keeps waiters alive, and returns their states. */
export const heartbeat = defineScript({
  name: "semaphore.heartbeat",
  source: [...libraries, heartbeatSource],
  keys: semaphoreKeys,
  args: ["shared", "aliveMs", "limit", "perTenant", "inbox", "...permitRecords"],
  idempotent: true,
  reply: (raw): HeartbeatReply<Usage> => {
    const [now, msLeft, permits, perTenant, used, ...states] = raw as unknown[];
    return {
      now: Number(now),
      msLeft: Number(msLeft),
      ...limitsOf(permits, perTenant),
      used: Number(used),
      states: states.map(waiterState),
    };
  },
});

/**
 * The progress of a change of the limits. With `from`, this tenant and the following ones are not re-evaluated yet. Without it, all are,
 * and `isMore` is true if there is more to grant. With `refused`, nothing was done: the command came late, or a change that was requested
 * later is stored.
 */
export type Resized =
  | { readonly from: string }
  | { readonly from: undefined; readonly isMore: boolean; readonly refused?: "late" | "superseded" };

/** Changes the limits. */
export const resize = defineScript({
  name: "semaphore.resize",
  source: [...libraries, resizeSource],
  keys: semaphoreKeys,
  args: ["shared", "limit", "perTenant", "first", "firstPerTenant", "from", "notAfter", "askedAt"],
  idempotent: true,
  reply: (raw): Resized => {
    const text = String(raw);
    if (text === "late" || text === "superseded") return { from: undefined, isMore: false, refused: text };
    return text.startsWith("[") ? { from: text } : { from: undefined, isMore: text === "1" };
  },
});

/** The holder and the weight of a request. */
export interface PermitRecord {
  readonly weight: number;
  readonly tenant: string | null;
  readonly holder: string;
}

/** The state of one semaphore. */
export interface InspectReply {
  /** Undefined if the semaphore was not used for a week. */
  readonly limits: Limits | undefined;
  /** The weight in use by the given tenant. */
  readonly used: number;
  readonly usedByAll: number;
  readonly waiting: number;
  readonly holders: readonly (PermitRecord & { readonly msLeft: number })[];
  readonly queue: readonly PermitRecord[];
}

const permitRecordOf = (text: unknown): PermitRecord => {
  const [, weight = "", tenant = "", holder = ""] = /^[^|]*\|(\d+)\|([^|]*)\|(.*)$/s.exec(String(text)) ?? [];
  return { weight: Number(weight), tenant: tenant === "" ? null : decodedName(tenant), holder };
};

/** Reads the state and changes nothing. */
export const inspect = defineScript({
  name: "semaphore.inspect",
  source: inspectSource,
  keys: ["permits", "meta", "queue", "waiters"],
  args: ["first", "tenant"],
  readonly: true,
  reply: (raw): InspectReply => {
    const [permits, perTenant, used, waiting, holders, queue, usedByAll] = raw as [
      unknown,
      unknown,
      unknown,
      unknown,
      unknown[],
      unknown[],
      unknown,
    ];
    return {
      limits: Number(permits) === -1 ? undefined : limitsOf(permits, perTenant),
      used: Number(used),
      usedByAll: Number(usedByAll),
      waiting: Number(waiting),
      holders: holders.flatMap((msLeft, index) =>
        index % 2 === 0 ? [{ ...permitRecordOf(holders[index + 1]), msLeft: Number(msLeft) }] : [],
      ),
      queue: queue.map(permitRecordOf),
    };
  },
});
