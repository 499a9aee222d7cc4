import { counted, type Facts, secondsText } from "@kit/core/toolkit";
import type { QueueWorker, RunningWorker } from "../manage/index.js";

/** How long ago an ISO time was. */
export const ageOf = (at: string, now: number): string => secondsText(Math.max(0, now - Date.parse(at)));

/** Where a worker runs: `web-1:4711 (mailer), 7Kp2mQ9`. */
export const placeOf = ({ id, host, pid, name }: RunningWorker): string => {
  const process = `${host ?? "unknown host"}${pid === null ? "" : `:${String(pid)}`}`;
  return `${process}${name === null ? "" : ` (${name})`}, worker ${id}`;
};

interface Longest {
  readonly worker: QueueWorker;
  readonly id: string;
  readonly startedAt: string;
}

/** The job that has run for longest. Undefined if no job has run for long. */
export const longestOf = (workers: readonly QueueWorker[]): Longest | undefined =>
  workers
    .flatMap((worker) => (worker.longest === null ? [] : [{ worker, ...worker.longest }]))
    .toSorted((one, other) => one.startedAt.localeCompare(other.startedAt))[0];

/** The lines about workers in the report of a queue. None without a worker. */
export const workerFacts = (queue: string, workers: readonly QueueWorker[], now: number): Facts => {
  if (workers.length === 0) return [];
  const sum = workers.reduce((total, { concurrency }) => total + (concurrency ?? 0), 0);
  const hosts = new Set(workers.map(({ host }) => host)).size;
  const longest = longestOf(workers);
  return [
    [
      "workers",
      `${String(workers.length)} on ${counted(hosts, "host")}, ${counted(sum, "handler")}: kit queue workers ${queue}`,
    ],
    ...(longest
      ? [
          [
            "longest",
            `${longest.id} has run for ${ageOf(longest.startedAt, now)} on ${placeOf(longest.worker)}`,
          ] as const,
        ]
      : []),
  ];
};
