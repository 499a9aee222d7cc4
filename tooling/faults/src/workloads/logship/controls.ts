import type { Control } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Deliberate faults of scripts, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  {
    name: "limitless",
    invariants: ["limit"],
    kind: "scripts flushed",
    lua: { "reserve(channel)": "redis.call('HSET', channel, 'limit', 1000000)" },
  },
  {
    name: "adds-again",
    invariants: ["sums", "content", "atomic"],
    kind: "requests repeated",
    lua: {
      "advance(positions, file, consumer, seq)":
        "seq = tonumber(string.match(redis.call('HGET', positions, file .. ' ' .. consumer) or '0', '^%d+')) + 1",
    },
  },
  {
    name: "unfenced-worker",
    invariants: ["sums", "content", "atomic"],
    kind: "event loop blocked",
    injections: 6,
    lua: {
      "progress(progress, content, fence, seq)":
        "fence = redis.call('HGET', progress, content .. ':fence') or fence if seq > 0 then seq = (redis.call('HGET', progress, content .. ':seq') or 0) + 1 end",
    },
  },
  {
    name: "knows-containers-only",
    invariants: ["once", "sums"],
    kind: "scripts flushed",
    lua: { "claim(beginning)": "beginning = {}" },
  },
  {
    name: "frees-too-much",
    invariants: ["content", "U3"],
    kind: "worker killed",
    lua: { "advance(chunk)": "chunk = chunk + 1" },
  },
  {
    name: "counts-wrong",
    invariants: ["end", "limit"],
    kind: "scripts flushed",
    lua: { "free(channel, parts)": "redis.call('HINCRBY', channel, 'used', -7 * #parts)" },
  },
];
