import { type Control, misled, type Mutations } from "../../lab/control.js";
import { lateOffers } from "../../lab/late-offers.js";
import type { Invariant } from "./checker.js";

/** Offers of the lock that come too late, by the layout of its wait queue and of the message of a grant. */
export const lateGrants: Mutations = {
  "release(fence, queue, waiters)": lateOffers({
    waiters: "'ZRANGE', queue, 0, 49",
    facts: "string.match(server.call('HGET', waiters, waiter) or '', '^%d+ %d+ (%d+) (%S+) ')",
    message:
      "{ waiter, 'granted', string.format('%.0f', now + ms), ms, string.format('%.0f', math.max(micros, (string.match(server.call('GET', fence) or '', '^1:(%d+)') or 0) + 1)) }",
  }),
};

/** Deliberate faults of a lock, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  { name: "unfenced", invariants: ["L2"], kind: "worker stopped" },
  {
    name: "release-unowned",
    invariants: ["L5", "exclusion", "linearizable"],
    kind: "worker stopped",
    // Every caller is the owner.
    lua: { "release(lease, owner)": "owner = redis.call('GET', lease) or owner" },
  },
  {
    name: "renew-unowned",
    invariants: ["L5"],
    kind: "scripts flushed",
    lua: {
      "renew(leases, terms)":
        "for i, lease in ipairs(leases) do local found = redis.call('GET', lease) if found then terms[i] = string.match(terms[i], '^%d+ ') .. found end end",
    },
  },
  { name: "fence-stands-still", invariants: ["L1"], kind: "scripts flushed" },
  { name: "release-denies", invariants: ["linearizable"], kind: "scripts flushed" },
  { name: "late-abort", invariants: ["L3"], kind: "server stopped" },
  {
    name: "grant-while-held",
    invariants: ["exclusion", "linearizable"],
    kind: "scripts flushed",
    lua: { "acquire(lease)": "redis.call('DEL', lease)" },
  },
  {
    name: "acquire-forgets-itself",
    invariants: ["U2"],
    kind: "requests repeated",
    lua: {
      "acquire(lease, owner)":
        "if redis.call('GET', lease) == owner then return { 0, 0, redis.call('PTTL', lease), owner } end",
    },
  },
  {
    name: "tells-nobody",
    invariants: ["L6"],
    kind: "scripts flushed",
    // Each write of a waiter's record drops its inbox.
    lua: { "acquire(terms)": "terms = string.gsub(terms, ' [^ ]+$', ' -')", "heartbeat(inbox)": "inbox = '-'" },
  },
  {
    name: "reader-passes-writer",
    invariants: ["arrival"],
    kind: "scripts flushed",
    // To a reader the queue is empty.
    lua: {
      "read-write/acquire(queue, record)": misled(
        "if command == 'EXISTS' and key == queue and string.sub(record, 1, 1) == 'r' then return 0 end",
      ),
    },
  },
  { name: "set-keeps-half", invariants: ["rest"], kind: "scripts flushed", injections: 6 },
  {
    name: "takes-late-offers",
    invariants: ["L1", "L2", "exclusion"],
    kind: "failover behind one address",
    lua: lateGrants,
  },
];
