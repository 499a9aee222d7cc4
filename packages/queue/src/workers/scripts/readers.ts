import { defineScript } from "@kit/core";
import readWorkersSource from "./readWorkers.lua";
import whoRunsSource from "./whoRuns.lua";
import workerIdsSource from "./workerIds.lua";

/** Reads the ids of workers, in no order. */
export const workerIds = defineScript({
  name: "queue.workerIds",
  source: workerIdsSource,
  keys: ["workers"],
  args: [],
  readonly: true,
  reply: (raw): readonly string[] => (raw as unknown[]).map(String),
});

/** What is stored about a worker that is alive. Nothing in the texts is checked. */
export interface StoredWorker {
  readonly id: string;
  readonly seenAt: number;
  readonly facts: string;
  readonly names: string;
  readonly running: number;
  /** The member of `leases` of the job that it has run for longest. Empty if there is none. */
  readonly member: string;
  readonly begunAt: string;
}

const width = 7;

/** Reads workers that are alive. */
export const readWorkers = defineScript({
  name: "queue.readWorkers",
  source: readWorkersSource,
  keys: ["workers", "leases", "...taken"],
  args: ["...ids"],
  readonly: true,
  reply: (raw): { readonly now: number; readonly workers: readonly StoredWorker[] } => {
    const [now, ...all] = (raw as unknown[]).map(String);
    const workers = Array.from({ length: all.length / width }, (_, row) => {
      const [id = "", seenAt, facts = "", names = "", running, member = "", begunAt = ""] = all.slice(width * row);
      return { id, seenAt: Number(seenAt), facts, names, running: Number(running), member, begunAt };
    });
    return { now: Number(now), workers };
  },
});

/** Reads which workers have these jobs. */
export const whoRuns = defineScript({
  name: "queue.whoRuns",
  source: whoRunsSource,
  keys: ["workers"],
  args: ["...members"],
  readonly: true,
  reply: (raw): readonly { readonly facts: string; readonly begunAt: string }[] => {
    const all = (raw as unknown[]).map(String);
    return Array.from({ length: all.length / 2 }, (_, row) => ({
      facts: all[2 * row] ?? "",
      begunAt: all[2 * row + 1] ?? "",
    }));
  },
});
