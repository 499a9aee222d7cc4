import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** As `misled`, also for the libraries of the script, which core puts at such a line. */
const inAll = (lua: string): string => `${misled(lua)}${String.raw`\n`}-- Libraries`;

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
    injections: 10,
    lua: { recover: "if true then return 0 end" },
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
    name: "ends-are-forgotten",
    invariants: ["ended"],
    kind: anyTime,
    lua: { "step(done, others)": "done, others = '', {}" },
  },
  { name: "copies-are-not-awaited", invariants: ["kept"], kind: "replication cut, master killed", injections: 2 },
];
