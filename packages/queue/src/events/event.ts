import { decodedName } from "@kit/core/toolkit";
import { parseRecord, type StoredError } from "../job/failure.js";
import { workerWidth } from "../job/take-id.js";

/** An error as the queue stores it, without stacks. */
export type EventError = Omit<StoredError, "stack">;

/** The facts of each type of event. `id` is the job's id. */
interface Facts {
  /** A job was added. `state` is also `delayed` if the job waits for another job with its `unique` key to end. */
  readonly added: {
    readonly id: string;
    readonly name: string;
    readonly state: "ready" | "delayed" | "waiting-for-children";
  };
  /** A job became ready: it was due, handed back, promoted, redriven or repaired. */
  readonly ready: { readonly id: string };
  /** A ready job or a dead letter was delayed, a delayed job got another due time, or an active job waits for its children. */
  readonly delayed: { readonly id: string };
  /** A worker took a job. Its handler starts as soon as one is free. `worker` is the worker's id, as in `listWorkers()`. */
  readonly active: { readonly id: string; readonly name: string; readonly worker: string };
  /** A handler succeeded, and the job was deleted. */
  readonly completed: { readonly id: string };
  /**
   * An attempt failed; `attempts` is the number of failed attempts. The job runs again after `retryInMs`. If `retryInMs` is undefined, the
   * job is dead.
   */
  readonly failed: {
    readonly id: string;
    readonly attempts: number;
    readonly error: EventError | undefined;
    readonly retryInMs: number | undefined;
  };
  /** A handler threw a SnoozeError or a RateLimitError, which does not count as an attempt. The job runs again after `retryInMs`. */
  readonly snoozed: { readonly id: string; readonly error: EventError | undefined; readonly retryInMs: number };
  /** A job became a dead letter, right after its last `failed` or `crashed`. */
  readonly dead: { readonly id: string };
  /** The lease of a job ended because its worker died, or did not renew the lease. The job is ready again, or dead. */
  readonly crashed: {
    readonly id: string;
    readonly crashes: number;
    readonly isDead: boolean;
    /** The id of the worker that had the job. */
    readonly worker: string;
  };
  /** An active job was cancelled. For a ready or delayed job the event is `removed`. */
  readonly cancelled: { readonly id: string; readonly name: string };
  /** A job that was ready, delayed or dead was deleted. */
  readonly removed: { readonly id: string };
  /** No worker took the job in time. The job has not run, and is deleted. */
  readonly expired: { readonly id: string };
  /** The queue was paused or resumed, or with `group` one group. */
  readonly paused: { readonly group?: string };
  readonly resumed: { readonly group?: string };
  /** The last active job ended, and no job is ready. Delayed jobs may remain. */
  readonly drained: object;
  /** This reader missed events, or may have: they were trimmed or not recorded, or the server lost them. */
  readonly gap: object;
}

export type QueueEventType = keyof Facts;

/** Something that happened in a queue. Use `switch (event.type)` to read the facts of each type. */
export type QueueEvent = {
  readonly [Type in QueueEventType]: {
    readonly type: Type;
    /** The position of the event. A reader with this position as its `after` starts with the next event. */
    readonly position: string;
    /** When it was recorded, in epoch ms of the server's clock. */
    readonly at: number;
  } & Facts[Type];
}[QueueEventType];

/** An event without its position. */
type Content = { readonly [Type in QueueEventType]: { readonly type: Type } & Facts[Type] }[QueueEventType];

const addedStates = ["delayed", "waiting-for-children"] as const;

/** The line of the first entry after a time without recording. */
const began = "began";

/** The worker of a take id, or of a member of `leases`. */
const workerIn = (text = ""): string => text.slice(0, workerWidth);

/** The events of a line. A line of a type that only newer versions know has none. */
const contentsOf = (line: string): readonly Content[] => {
  const [type = "", id = "", first = "", second = "", ...record] = line.split("\t");
  switch (type) {
    case "added":
      return [{ type, id, name: decodedName(first), state: addedStates.find((state) => state === second) ?? "ready" }];
    case "active":
      return [{ type, id, name: decodedName(first), worker: workerIn(second) }];
    case "cancelled":
      return [{ type, id, name: decodedName(first) }];
    case "failed": {
      // The outcome word of `step.lua`, and the record of the job.
      const { attempts, error } = parseRecord(record.join("\t"));
      const retryInMs = Number(second);
      if (first === "hold" || first === "halt" || first === "snooze")
        return [{ type: "snoozed", id, error, retryInMs }];
      if (first !== "dead") return [{ type, id, attempts, error, retryInMs }];
      return [
        { type, id, attempts, error, retryInMs: undefined },
        { type: "dead", id },
      ];
    }
    case "crashed": {
      const isDead = second === "dead";
      const crashed = { type, id, crashes: Number(first), isDead, worker: workerIn(record[0]) } as const;
      return isDead ? [crashed, { type: "dead", id }] : [crashed];
    }
    case "ready":
    case "delayed":
    case "completed":
    case "removed":
    case "expired":
      return [{ type, id }];
    case "paused":
    case "resumed":
      return [{ type, ...(first !== "" && { group: decodedName(first) }) }];
    case "drained":
      return [{ type }];
    case began:
      return [{ type: "gap" }];
    default:
      return [];
  }
};

/** An entry of the stream. */
export interface Entry {
  readonly id: string;
  readonly text: string;
}

/**
 * The position of an event: its entry, the line in it, and the number of the event in that line. Versions that know other types count the
 * same lines.
 */
export interface Place {
  readonly entry: string;
  readonly line: number;
  readonly nth: number;
}

export const placed = (content: Content, { entry, line, nth }: Place): QueueEvent => ({
  ...content,
  position: `${entry}.${String(line)}.${String(nth)}`,
  at: Number(entry.split("-", 1)[0]),
});

/**
 * Returns the events in one entry of a queue's stream `events`, oldest first. Use it in tools that read the stream themselves. With `after`,
 * it returns only the events after that place. It skips event types of newer versions.
 *
 * @example
 * const entries = await redis.xrevrange("kit:queue:{mail}:events", "+", "-", "COUNT", 100);
 * const events = entries.flatMap(([id, fields]) => eventsOf({ id, text: fields[1] ?? "" }));
 */
export const eventsOf = ({ id, text }: Entry, after?: Place): readonly QueueEvent[] =>
  text.split("\n").flatMap((written, line) =>
    contentsOf(written).flatMap((content, nth) => {
      const isBehind = after === undefined || line > after.line || (line === after.line && nth > after.nth);
      return isBehind ? [placed(content, { entry: id, line, nth })] : [];
    }),
  );

/** @throws {TypeError} `position` is not the position of an event. */
export const placeOf = (name: string, position: unknown): Place => {
  const [, entry = "", line, nth] = /^(\d{1,20}-\d{1,20})\.(\d{1,9})\.(\d)$/.exec(String(position)) ?? [];
  if (typeof position !== "string" || entry === "")
    throw new TypeError(`Expected \`${name}\` to be the \`position\` of an event`);
  return { entry, line: Number(line), nth: Number(nth) };
};

/** Whether one entry is before another in a stream. */
export const isBefore = (one: string, other: string): boolean => {
  const [ms = 0n, count = 0n] = one.split("-").map(BigInt);
  const [otherMs = 0n, otherCount = 0n] = other.split("-").map(BigInt);
  return ms === otherMs ? count < otherCount : ms < otherMs;
};
