import { defineScript } from "@kit/core";
import {
  type AcquireReply,
  type HeartbeatReply,
  waitQueueSource,
  releaseReply,
  renewalSource,
  renewReply,
  type Seen,
} from "@kit/core/leasing";
import fenceSource from "../../scripts/fence.lua";
import acquireSource from "./acquire.lua";
import downgradeSource from "./downgrade.lua";
import grantSource from "./grant.lua";
import heartbeatSource from "./heartbeat.lua";
import inspectSource from "./inspect.lua";
import releaseSource from "./release.lua";
import renewSource from "./renew.lua";
import upgradeSource from "./upgrade.lua";

const readWriteKeys = ["leases", "fence", "queue", "waiters"] as const;
const libraries = [waitQueueSource, fenceSource, grantSource] as const;

/** Whether a lease is for reading or for writing. */
export type Mode = "read" | "write";

/** A lease, or the request for one: the keys have it as `mode|token|holder`, with the mode `r` or `w`. */
export interface LeaseRecord {
  readonly mode: Mode;
  readonly holder: string;
}

const parseRecord = (value: unknown): LeaseRecord => {
  const text = String(value);
  return { mode: text.startsWith("r") ? "read" : "write", holder: text.slice(text.indexOf("|", 2) + 1) };
};

/** The state in a reply: the lease that ends last. `msLeft` is -2 if the lock has no holder. */
export interface Held extends Seen {
  readonly owner: LeaseRecord | null;
  /** To the end of that lease, in milliseconds. The next heartbeat may be sooner. */
  readonly leaseMsLeft: number;
}

const ownerOf = (value: unknown): LeaseRecord | null => (String(value) === "" ? null : parseRecord(value));

const decodeAcquire = (raw: unknown): AcquireReply<Held> => {
  // The server's microseconds. For a writer, they are its fencing token.
  const [instant, fencingToken] = Array.isArray(raw) && raw.length === 1 ? [String(raw[0]), String(raw[0])] : [raw, ""];
  if (typeof instant === "string")
    return { state: "granted", now: Number(instant.slice(0, -3)), msLeft: undefined, fencingToken };
  const [code, now, msLeft, fourth, fifth = -1, lookMs = msLeft] = raw as readonly unknown[];
  const at = Number(now);
  if (Number(code) === 1) return { state: "granted", now: at, msLeft: Number(msLeft), fencingToken: String(fourth) };
  if (Number(code) === 4) return { state: "late", now: at };
  const state = Number(code) === 2 ? "queued" : Number(code) === 3 ? "full" : "held";
  const seen = { msLeft: Number(lookMs), leaseMsLeft: Number(msLeft), owner: ownerOf(fourth) };
  return { state, now: at, ...seen, position: Number(fifth) };
};

/** Takes the lock, or a place in the queue, or neither. */
export const acquire = defineScript({
  name: "read-write-lock.acquire",
  source: [...libraries, acquireSource],
  keys: readWriteKeys,
  args: ["record", "terms: leaseMs notAfter shared grantMs aliveMs maxWaiters inbox"],
  idempotent: true,
  reply: decodeAcquire,
});

/** Ends a lease, or leaves the queue. */
export const release = defineScript({
  name: "read-write-lock.release",
  source: [...libraries, releaseSource],
  keys: readWriteKeys,
  args: ["record", "terms: shared keepMs"],
  idempotent: true,
  reply: releaseReply,
});

/** Renews many leases in one step. */
export const renew = defineScript({
  name: "read-write-lock.renew",
  source: [renewalSource, renewSource],
  keys: ["...leases"],
  args: ["...terms: termMs record"],
  idempotent: true,
  reply: renewReply,
});

/** Keeps waiters alive, and returns their states. */
export const heartbeat = defineScript({
  name: "read-write-lock.heartbeat",
  source: [...libraries, heartbeatSource],
  keys: readWriteKeys,
  args: ["shared", "aliveMs", "inbox", "...records"],
  idempotent: true,
  reply: (raw): HeartbeatReply<Held> => {
    const [now, lookMs, msLeft, owner, fencingToken, ...states] = raw as unknown[];
    // Readers and a writer never hold the lock together, so every waiter with a lease has this fencing token.
    const granted = (state: number) => ({ msLeft: -state - 2, fencingToken: String(fencingToken) });
    return {
      now: Number(now),
      msLeft: Number(lookMs),
      leaseMsLeft: Number(msLeft),
      owner: ownerOf(owner),
      states: states.map(Number).map((state) => (state < -1 ? granted(state) : state === -1 ? "unknown" : state)),
    };
  },
});

/** Makes a writer's lease a reader's. Resolves with whether there is such a lease. */
export const downgrade = defineScript({
  name: "read-write-lock.downgrade",
  source: [...libraries, downgradeSource],
  keys: readWriteKeys,
  args: ["record", "terms: shared newest"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** A writer's fencing token; or there are other readers; or the lease has ended. */
export type UpgradeReply = { readonly fencingToken: string } | "shared" | "gone";

/** Makes a reader's lease a writer's, if it is the only one. */
export const upgrade = defineScript({
  name: "read-write-lock.upgrade",
  source: [...libraries, upgradeSource],
  keys: readWriteKeys,
  args: ["record"],
  idempotent: true,
  reply: (raw): UpgradeReply => {
    const text = String(raw);
    return text === "0" ? "gone" : text === "1" ? "shared" : { fencingToken: text };
  },
});

/** The state of one lock. */
export interface InspectReply {
  readonly fencingToken: string | null;
  /** The number of holders, and the number of waiters. */
  readonly holding: number;
  readonly waiting: number;
  /** The leases that end last. */
  readonly leases: readonly (LeaseRecord & { readonly msLeft: number })[];
  readonly queue: readonly LeaseRecord[];
}

/** Reads the state and changes nothing. */
export const inspect = defineScript({
  name: "read-write-lock.inspect",
  source: [waitQueueSource, fenceSource, inspectSource],
  keys: readWriteKeys,
  args: ["first"],
  readonly: true,
  reply: (raw): InspectReply => {
    const [fence, holding, waiting, held, queue] = raw as [unknown, unknown, unknown, unknown[], unknown[]];
    const fencingToken = /^1:([1-9]\d*)/.exec(String(fence))?.[1] ?? null;
    const leases = held.flatMap((record, at) =>
      at % 2 === 0 ? [{ ...parseRecord(record), msLeft: Number(held[at + 1]) }] : [],
    );
    return { fencingToken, holding: Number(holding), waiting: Number(waiting), leases, queue: queue.map(parseRecord) };
  },
});
