import { builtWith, type Mutation } from "../../lab/mutation.js";
import type { Control } from "../../workload.js";
import type { Invariant } from "./checker.js";

interface QueueControl extends Control {
  readonly invariants: readonly Invariant[];
  /** Undefined: the control is that durable adds do not wait for their copies. */
  readonly mutation?: Mutation;
}

/** Lua that wraps `redis.call` to change replies inside a script and its libraries. */
const misled = (lua: string): string =>
  `local call = redis.call local redis = { pcall = redis.pcall, call = function(...) local command, key = ... ${lua} return call(...) end }${String.raw`\n`}-- Libraries${String.raw`\n`}`;

const anyTime = "scripts flushed";

/** Deliberate faults of a queue, each of which the checker must detect. */
export const queueControls: readonly QueueControl[] = [
  {
    name: "add-forgets-itself",
    invariants: ["repeats"],
    kind: "requests repeated",
    mutation: {
      script: "add",
      operands: ["producers"],
      lua: misled("if command == 'ZADD' and key == producers then call(...) return 1 end"),
    },
  },
  {
    name: "takes-forget-themselves",
    invariants: ["U2"],
    kind: "requests repeated",
    mutation: {
      script: "step",
      operands: ["taken"],
      lua: misled("if command == 'SET' and key == taken then call(...) return false end"),
    },
  },
  {
    name: "reclaimed-and-dropped",
    invariants: ["kept"],
    kind: "worker killed",
    mutation: {
      script: "step",
      operands: ["waiting"],
      lua: misled("if command == 'LPUSH' and key == waiting then return 0 end"),
    },
  },
  {
    name: "lost-takes-stay-taken",
    invariants: ["charged"],
    kind: "replies lost",
    injections: 6,
    mutation: { script: "recover", operands: [], lua: "if true then return 0 end" },
  },
  {
    name: "outcomes-are-dropped",
    invariants: ["called"],
    kind: anyTime,
    mutation: {
      script: "step",
      operands: ["replies"],
      lua: misled("if command == 'HSET' and key == replies[1] then return 0 end"),
    },
  },
  {
    name: "late-ends-count",
    invariants: ["fenced"],
    kind: "worker stopped",
    injections: 6,
    mutation: {
      script: "step",
      operands: ["revoked"],
      lua: misled("if command == 'ZSCORE' and key == revoked then return false end"),
    },
  },
  {
    name: "leases-end-early",
    invariants: ["aborted"],
    kind: anyTime,
    mutation: {
      script: "step",
      operands: ["leases"],
      lua: misled(
        "if command == 'ZRANGEBYSCORE' and key == leases then return call(command, key, '-inf', '+inf', 'LIMIT', 0, 3) end",
      ),
    },
  },
  {
    name: "due-too-early",
    invariants: ["due"],
    kind: anyTime,
    mutation: {
      script: "step",
      operands: ["delayed"],
      lua: misled(
        "if command == 'ZRANGEBYSCORE' and key == delayed then return call(command, key, '-inf', '+inf', 'LIMIT', 0, 200) end",
      ),
    },
  },
  {
    name: "ends-are-forgotten",
    invariants: ["ended"],
    kind: anyTime,
    mutation: { script: "step", operands: ["done", "others"], lua: "done, others = '', {}" },
  },
  {
    name: "copies-are-not-awaited",
    invariants: ["kept"],
    kind: "replication cut, master killed",
    injections: 2,
  },
];

/** The module that workers import as the queue. */
export const moduleOf = (control?: QueueControl): string =>
  control?.mutation ? builtWith(`queue-${control.name}`, "@kit/queue", "index.js", control.mutation) : "@kit/queue";
