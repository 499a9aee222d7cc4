import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Lua that makes a command of a script do nothing. */
const without = (command: string): string => misled(`if command == '${command}' then return 0 end`);

/** Deliberate faults of an index, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  { name: "old-rows-stay", invariants: ["P1", "P2"], kind: "scripts flushed", lua: { items: without("ZREM") } },
  {
    name: "changes-forget-themselves",
    invariants: ["P1", "P3"],
    kind: "requests repeated",
    lua: { "write(op)": "op = redis.call('TIME')[1] .. redis.call('TIME')[2]" },
  },
  { name: "batches-go-live", invariants: ["P4"], kind: "scripts flushed", lua: { "write(token)": "token = ''" } },
  {
    name: "staged-for-ever",
    invariants: ["P2"],
    kind: "worker killed",
    injections: 6,
    lua: { items: without("PEXPIRE") },
  },
  {
    name: "rebuild-forgets-changes",
    invariants: ["P1", "P3"],
    kind: "scripts flushed",
    lua: { items: without("SADD") },
  },
  { name: "answers-of-before", invariants: ["P1"], kind: "scripts flushed" },
];
