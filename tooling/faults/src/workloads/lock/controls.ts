import { lateOffers } from "../../lab/late-offers.js";
import { builtWith, type Mutation, wrappedBy } from "../../lab/mutation.js";
import type { Control } from "../../workload.js";
import type { Invariant } from "./checker.js";

interface LockControl extends Control {
  readonly invariants: readonly Invariant[];
  /** Changes to the scripts of the built lock. Without them the lock is wrapped by the lie of the same name. */
  readonly mutations?: readonly Mutation[];
  /** False: the lock is right, and the register that it guards accepts everything. @default true */
  readonly isFenced?: boolean;
}

/** Offers of the lock that come too late, by the layout of its wait queue and of the message of a grant. */
export const lateGrants: Mutation = {
  script: "release",
  operands: ["fence", "queue", "waiters"],
  lua: lateOffers({
    waiters: "'ZRANGE', queue, 0, 49",
    facts: "string.match(truth.call('HGET', waiters, waiter) or '', '^%d+ %d+ (%d+) (%S+) ')",
    message:
      "{ waiter, 'granted', string.format('%.0f', now + ms), ms, string.format('%.0f', math.max(micros, (string.match(truth.call('GET', fence) or '', '^1:(%d+)') or 0) + 1)) }",
  }),
};

/** Deliberate faults of a lock, each of which the checker must detect. */
export const lockControls: readonly LockControl[] = [
  {
    name: "unfenced",
    invariants: ["L2"],
    kind: "worker stopped",
    isFenced: false,
  },
  {
    name: "release-unowned",
    invariants: ["L5", "exclusion", "linearizable"],
    kind: "worker stopped",
    // Every caller is the owner.
    mutations: [{ script: "release", operands: ["lease", "owner"], lua: "owner = redis.call('GET', lease) or owner" }],
  },
  {
    name: "renew-unowned",
    invariants: ["L5"],
    kind: "scripts flushed",
    mutations: [
      {
        script: "renew",
        operands: ["leases", "terms"],
        lua: "for i, lease in ipairs(leases) do local found = redis.call('GET', lease) if found then terms[i] = string.match(terms[i], '^=? %d+ ') .. found end end",
      },
    ],
  },
  {
    name: "fence-stands-still",
    invariants: ["L1"],
    kind: "scripts flushed",
  },
  {
    name: "release-denies",
    invariants: ["linearizable"],
    kind: "scripts flushed",
  },
  {
    name: "late-abort",
    invariants: ["L3"],
    kind: "server stopped",
  },
  {
    name: "grant-while-held",
    invariants: ["exclusion", "linearizable"],
    kind: "scripts flushed",
    mutations: [{ script: "acquire", operands: ["lease"], lua: "redis.call('DEL', lease)" }],
  },
  {
    name: "acquire-forgets-itself",
    invariants: ["U2"],
    kind: "requests repeated",
    mutations: [
      {
        script: "acquire",
        operands: ["lease", "owner"],
        lua: "if redis.call('GET', lease) == owner then return { 0, 0, redis.call('PTTL', lease), owner } end",
      },
    ],
  },
  {
    name: "tells-nobody",
    invariants: ["L6"],
    kind: "scripts flushed",
    // Each write of a waiter's record drops its inbox.
    mutations: [
      { script: "acquire", operands: ["terms"], lua: "terms = string.gsub(terms, ' [^ ]+$', ' -')" },
      { script: "heartbeat", operands: ["inbox"], lua: "inbox = '-'" },
    ],
  },
  {
    name: "takes-late-offers",
    invariants: ["L1", "L2", "exclusion"],
    kind: "failover behind one address",
    mutations: [lateGrants],
  },
];

/** The module that the workers of a control import as the lock. */
export const moduleOf = ({ name, mutations, isFenced = true }: LockControl): string => {
  if (!isFenced) return "@kit/lock";
  return mutations
    ? builtWith(name, "@kit/lock", "index.js", ...mutations)
    : wrappedBy("lock", "wrapped-lock.mjs", name);
};
