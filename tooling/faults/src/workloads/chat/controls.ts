import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

const kind = "scripts flushed";

/** Deliberate faults of a chat, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  {
    name: "sends-into-the-void",
    invariants: ["order", "kept", "unread"],
    kind,
    lua: {
      "send(messages)": misled(
        "if command == 'XADD' and key == messages and call('TIME')[2] % 100 < 3 then return '0-0' end",
      ),
    },
  },
  {
    name: "forgets-client-ids",
    invariants: ["U2"],
    kind: "requests repeated",
    lua: {
      "send(sentEven, sentOdd)": misled(
        "if command == 'HMGET' and (key == sentEven or key == sentOdd) then local found = call(...) for i = 2, #found do found[i] = false end return found end",
      ),
    },
  },
  {
    name: "positions-move-back",
    invariants: ["positions"],
    kind,
    lua: {
      "ack(acks)": misled(
        "local found = command == 'HGET' and call(...) if found and string.match(found, '^%d+ %d+ %d+%-%d+ ') then return (string.gsub(found, '^%d+', '0')) end",
      ),
    },
  },
  {
    name: "goes-by-the-fastest",
    invariants: ["retention"],
    kind,
    lua: { "ack(acks)": misled("if command == 'ZRANGE' then return call('ZREVRANGE', select(2, ...)) end") },
  },
  {
    name: "leases-end-early",
    invariants: ["leases"],
    kind,
    lua: {
      "take(mailbox)": misled(
        "if command == 'TIME' then local time = call('TIME') return { tostring(time[1] + 1), time[2] } end",
      ),
    },
  },
  {
    name: "takes-and-forgets",
    invariants: ["mailbox"],
    kind,
    lua: {
      "take(mailbox)": misled("if command == 'HSET' and key == mailbox and select(3, ...) ~= '' then return 0 end"),
    },
  },
  {
    name: "counts-own-messages",
    invariants: ["unread"],
    kind,
    lua: { "send(meta)": misled("if command == 'HSET' and key == meta then return 0 end") },
  },
  { name: "leases-die-with-their-worker", invariants: ["leases"], kind: "worker killed", injections: 8 },
  { name: "unread-off-by-one", invariants: ["unread"], kind },
  { name: "page-without-its-last", invariants: ["order"], kind },
];
