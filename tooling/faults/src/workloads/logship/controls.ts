import { builtWith, type Mutation } from "../../lab/mutation.js";
import type { Control } from "../../workload.js";
import type { Invariant } from "./checker.js";

interface LogshipControl extends Control {
  readonly invariants: readonly Invariant[];
  readonly mutation: Mutation;
}

/** Deliberate faults of scripts, each of which the checker must detect. */
export const logshipControls: readonly LogshipControl[] = [
  {
    name: "limitless",
    invariants: ["limit"],
    kind: "scripts flushed",
    mutation: { script: "reserve", operands: ["channel"], lua: "redis.call('HSET', channel, 'limit', 1000000)" },
  },
  {
    name: "adds-again",
    invariants: ["sums", "content", "atomic"],
    kind: "requests repeated",
    mutation: {
      script: "advance",
      operands: ["positions", "file", "consumer", "seq"],
      lua: "seq = tonumber(string.match(redis.call('HGET', positions, file .. ' ' .. consumer) or '0', '^%d+')) + 1",
    },
  },
  {
    name: "unfenced-worker",
    invariants: ["sums", "content", "atomic"],
    kind: "event loop blocked",
    injections: 6,
    mutation: {
      script: "progress",
      operands: ["progress", "content", "fence", "seq"],
      lua: "fence = redis.call('HGET', progress, content .. ':fence') or fence if seq > 0 then seq = (redis.call('HGET', progress, content .. ':seq') or 0) + 1 end",
    },
  },
  {
    name: "knows-containers-only",
    invariants: ["once", "sums"],
    kind: "scripts flushed",
    mutation: { script: "claim", operands: ["beginning"], lua: "beginning = {}" },
  },
  {
    name: "frees-too-much",
    invariants: ["content", "U3"],
    kind: "worker killed",
    mutation: { script: "advance", operands: ["chunk"], lua: "chunk = chunk + 1" },
  },
  {
    name: "counts-wrong",
    invariants: ["end", "limit"],
    kind: "scripts flushed",
    mutation: {
      script: "free",
      operands: ["channel", "parts"],
      lua: "redis.call('HINCRBY', channel, 'used', -7 * #parts)",
    },
  },
];

/** The module that workers import. */
export const moduleOf = (control?: LogshipControl): string =>
  control ? builtWith(control.name, "@kit/logship", "index.js", control.mutation) : "@kit/logship";
