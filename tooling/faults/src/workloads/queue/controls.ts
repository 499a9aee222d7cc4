import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** As `misled`, also for the libraries of the script, which core puts at such a line. */
const inAll = (lua: string): string => `${misled(lua)}${String.raw`\n`}-- Libraries`;

/** Of the limits that `step` reads, the one at this place is not there. */
const limitIsMissing = (place: number): string =>
  inAll(
    `if command == 'HMGET' and key == limits then local found = call(...) found[${String(place)}] = false return found end`,
  );

const anyTime = "scripts flushed";

/** Deliberate faults of a queue, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  {
    name: "add-forgets-itself",
    invariants: ["repeats"],
    kind: "requests repeated",
    lua: { "add(producers)": inAll("if command == 'ZADD' and key == producers then call(...) return 1 end") },
  },
  {
    name: "takes-forget-themselves",
    invariants: ["U2"],
    kind: "requests repeated",
    lua: { "step(taken)": inAll("if command == 'SET' and key == taken then call(...) return false end") },
  },
  {
    name: "reclaimed-and-dropped",
    invariants: ["kept"],
    kind: "worker killed",
    lua: { "step(waiting)": inAll("if command == 'LPUSH' and key == waiting then return 0 end") },
  },
  {
    name: "lost-takes-stay-taken",
    invariants: ["charged"],
    kind: "replies lost",
    // Most takes whose reply is lost are asked for again, and found.
    injections: 30,
    lua: { recover: "if true then return 0 end" },
  },
  {
    name: "outages-are-crashes",
    invariants: ["outage"],
    kind: "server stopped for long",
    // Neither script sees that the last contact was long ago.
    lua: {
      "step(meta)": inAll("if command == 'HMGET' and key == meta then return { false, false } end"),
      "heartbeat(meta)": inAll("if command == 'HMGET' and key == meta then return { false, false } end"),
    },
  },
  {
    name: "the-dead-stay-listed",
    invariants: ["listed"],
    kind: "worker killed",
    lua: {
      "manage/readWorkers(ids)": "local math = setmetatable({ abs = function() return 0 end }, { __index = math })",
    },
  },
  {
    name: "outcomes-are-dropped",
    invariants: ["called"],
    kind: anyTime,
    lua: { "step(replies)": inAll("if command == 'HSET' and key == replies[1] then return 0 end") },
  },
  {
    name: "late-ends-count",
    invariants: ["fenced"],
    kind: "worker stopped",
    injections: 6,
    lua: { "step(revoked)": inAll("if command == 'ZSCORE' and key == revoked then return false end") },
  },
  {
    name: "leases-end-early",
    invariants: ["aborted"],
    kind: anyTime,
    lua: {
      "step(leases)": inAll(
        "if command == 'ZRANGEBYSCORE' and key == leases then return call(command, key, '-inf', '+inf', 'LIMIT', 0, 3) end",
      ),
    },
  },
  {
    name: "due-too-early",
    invariants: ["due"],
    kind: anyTime,
    lua: {
      "step(delayed)": inAll(
        "if command == 'ZRANGEBYSCORE' and key == delayed then return call(command, key, '-inf', '+inf', 'LIMIT', 0, 200) end",
      ),
    },
  },
  {
    name: "cancel-leaves-the-lease",
    invariants: ["cancelled"],
    kind: anyTime,
    lua: { "manage/cancel(leases)": inAll("if command == 'ZREM' and key == leases then return 0 end") },
  },
  {
    name: "snoozes-cost-attempts",
    invariants: ["snoozed"],
    kind: anyTime,
    lua: {
      // The record of a snoozed job ends with a number.
      "step(failures)": inAll(
        "if command == 'HSET' and key == failures then local _, _, id, record = ... if string.find(record, '%c%d+$') then return call(command, key, id, (string.match(record, '^%d+') + 1) .. string.match(record, '%c.*')) end end",
      ),
    },
  },
  {
    name: "due-times-stay",
    invariants: ["due"],
    kind: anyTime,
    lua: {
      // Only of a delayed job, since a ready one would be in no list.
      "manage/reschedule(delayed)": inAll(
        "if command == 'ZADD' and key == delayed and call('ZSCORE', key, (select(4, ...))) then return 0 end",
      ),
    },
  },
  {
    name: "pauses-are-not-kept",
    invariants: ["paused"],
    kind: anyTime,
    lua: { "manage/limit(limits)": inAll("if command == 'HSET' and key == limits then return 0 end") },
  },
  {
    name: "concurrency-is-not-counted",
    invariants: ["concurrency"],
    kind: anyTime,
    injections: 6,
    lua: { "step(limits)": limitIsMissing(2) },
  },
  {
    name: "rates-are-not-kept",
    invariants: ["rate"],
    kind: anyTime,
    injections: 6,
    lua: { "step(limits)": limitIsMissing(3) },
  },
  {
    name: "names-are-ignored",
    invariants: ["namePaused", "nameConcurrency"],
    kind: anyTime,
    injections: 6,
    lua: { "step(limits)": limitIsMissing(6) },
  },
  {
    name: "threads-renew-nothing",
    invariants: ["renewed"],
    kind: "event loop blocked",
    injections: 6,
    needsIoredis: true,
  },
  {
    name: "keys-are-forgotten",
    invariants: ["unique"],
    kind: anyTime,
    lua: { "add(others)": inAll("if command == 'HGET' and key == others[5] then return false end") },
  },
  {
    name: "last-data-is-dropped",
    invariants: ["unique"],
    kind: anyTime,
    lua: {
      "add(jobs)": inAll(
        "if command == 'HSET' and key == jobs and call('HEXISTS', key, (select(3, ...))) == 1 then return 0 end",
      ),
    },
  },
  {
    name: "expiry-is-forgotten",
    invariants: ["expired"],
    kind: anyTime,
    lua: {
      "step(jobs)": inAll(
        "if command == 'HMGET' and key == jobs then local blobs = call(...) for at, blob in ipairs(blobs) do blobs[at] = blob and string.gsub(blob, '^(%S+ %S+[^%c]-) e%d+', '%1', 1) end return blobs end",
      ),
    },
  },
  {
    name: "edits-are-not-kept",
    invariants: ["edited"],
    kind: anyTime,
    lua: { "manage/edit(jobs)": inAll("if command == 'HSET' and key == jobs then return 0 end") },
  },
  {
    name: "runs-add-no-jobs",
    invariants: ["scheduled"],
    kind: anyTime,
    lua: { "schedules/fire(jobs)": inAll("if command == 'HSET' and key == jobs then return 0 end") },
  },
  {
    name: "runs-come-again",
    invariants: ["ended"],
    kind: anyTime,
    lua: { "schedules/fire(upcoming)": inAll("if command == 'ZADD' and key == upcoming then return 0 end") },
  },
  {
    name: "children-do-not-count",
    invariants: ["kept"],
    kind: anyTime,
    lua: { "step(families)": inAll("if command == 'HSET' and key == families then return 0 end") },
  },
  {
    name: "a-child-is-not-awaited",
    invariants: ["flows"],
    kind: anyTime,
    lua: {
      "step(families)": inAll(
        "if command == 'HGET' and key == families then local value = call(...) return value and string.match(value, '^%d$') and tonumber(value) > 1 and string.format('%d', value - 1) or value end",
      ),
    },
  },
  {
    name: "parents-are-forgotten-for-a-while",
    invariants: ["settled"],
    kind: anyTime,
    // A parent that its last child lets go is due four seconds later.
    lua: {
      "step(delayed)": inAll(
        "if command == 'ZADD' and key == delayed then local _, _, due, entry = ... local before = tonumber(call('ZSCORE', key, entry) or nil) if before and before >= 2e15 then return call(command, key, string.format('%.0f', due + 4000), entry) end end",
      ),
    },
  },
  {
    name: "places-are-not-counted",
    invariants: ["groupConcurrency"],
    kind: anyTime,
    lua: { "step(held)": inAll("if command == 'ZLEXCOUNT' and key == held then return 0 end") },
  },
  {
    name: "groups-get-no-turn",
    invariants: ["groupTurns"],
    kind: anyTime,
    injections: 10,
    // A group goes on only while its own jobs end: a look does not meet it either.
    lua: {
      "step(grouped, turns)": inAll(
        "if command == 'ZRANGEBYSCORE' and key == turns then return {} end if command == 'ZRANGE' and key == grouped and select('#', ...) == 4 then return {} end",
      ),
    },
  },
  {
    name: "ends-are-forgotten",
    invariants: ["ended"],
    kind: anyTime,
    lua: { "step(done, others)": "done, others = '', {}" },
  },
  { name: "copies-are-not-awaited", invariants: ["kept"], kind: "replication cut, master killed", injections: 2 },
];
