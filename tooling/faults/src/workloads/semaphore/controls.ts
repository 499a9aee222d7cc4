import { type Control, misled, type Mutations } from "../../lab/control.js";
import { lateOffers } from "../../lab/late-offers.js";
import type { Invariant } from "./checker.js";

/** Offers of the semaphore that come too late, by the layout of its wait queue and of the message of a grant. */
export const lateGrants: Mutations = {
  "release(queue, waiters)": lateOffers({
    waiters: "'ZRANGE', queue, 0, 49",
    // Suspended waiters, whose rows begin otherwise, are offered nothing.
    facts:
      "string.match(server.call('HGET', waiters, string.match(waiter, '^[^| ]* %d+ (.*)$') or '') or '', '^%d+ %d+ %d+ (%d+) (%S+)$')",
    message: "{ string.match(waiter, '^%S* %d+ ([^|]*)'), 'granted', string.format('%.0f', now + ms), ms }",
  }),
};

/** Deliberate faults of a semaphore, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  {
    name: "one-too-many",
    invariants: ["S1", "held"],
    kind: "scripts flushed",
    lua: {
      "acquire(meta)": misled(
        "if command == 'HMGET' and key == meta then local reply = call(...) if reply[2] then reply[2] = tostring(reply[2] + 1) end return reply end",
      ),
    },
  },
  {
    name: "renew-creates",
    invariants: ["L5"],
    kind: "scripts flushed",
    lua: {
      "renew(permits, terms)":
        "for i, key in ipairs(permits) do local ms, record = string.match(terms[i], '^(%d+) (.*)$') if not redis.call('ZSCORE', key, record) then redis.call('ZADD', key, string.format('%.0f', redis.call('TIME')[1] * 1000 + 1000 + ms), record) end end",
    },
  },
  {
    name: "release-frees-another",
    invariants: ["L5"],
    kind: "scripts flushed",
    lua: {
      "release(permits, permitRecord)":
        "if not redis.call('ZSCORE', permits, permitRecord) then permitRecord = redis.call('ZRANGE', permits, 0, 0)[1] or permitRecord end",
    },
  },
  {
    name: "client-clock",
    invariants: ["S1", "L5", "held"],
    kind: "clients' clock jumps",
    lua: {
      "acquire(permitRecord)": misled(
        "if command == 'TIME' then local hour = string.match(permitRecord, '%.(%d+)$') return { string.sub(hour, 1, -4), string.sub(hour, -3) .. '000' } end",
      ),
    },
  },
  { name: "late-loss", invariants: ["L3"], kind: "server stopped" },
  {
    name: "barging",
    invariants: ["order"],
    kind: "scripts flushed",
    lua: { "acquire(queue)": misled("if command == 'EXISTS' and key == queue then return 0 end") },
  },
  {
    name: "acquire-denies-itself",
    invariants: ["U2"],
    kind: "requests repeated",
    lua: {
      "acquire(permits, permitRecord)":
        "if redis.call('ZSCORE', permits, permitRecord) then local time = redis.call('TIME') return { 0, time[1] * 1000 + math.floor(time[2] / 1000), 0, 1, -1, 1 } end",
    },
  },
  {
    name: "tells-nobody",
    invariants: ["S4"],
    kind: "scripts flushed",
    // Each write of a waiter's record drops its inbox.
    lua: { "acquire(terms)": "terms = string.gsub(terms, ' [^ ]+$', ' -')", "heartbeat(inbox)": "inbox = '-'" },
  },
  { name: "takes-late-offers", invariants: ["S1", "held"], kind: "failover behind one address", lua: lateGrants },
];
