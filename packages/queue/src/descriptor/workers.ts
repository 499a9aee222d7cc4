import { type CliCommand, counted, type DoctorCheck, type Finding } from "@kit/core/toolkit";
import { inspectJob, listJobs, listWorkers, type QueueWorker } from "../manage/index.js";
import { isQueue, unknownQueue } from "./inspect.js";
import { ageOf, longestOf, placeOf } from "./places.js";
import { queuesWith } from "./queues.js";

/** How many names of handlers a row shows. */
const shownNames = 5;

const handlesText = ({ handles, handlesMore }: QueueWorker): string => {
  const more = handles.length > shownNames || handlesMore;
  return `${handles.slice(0, shownNames).join(", ")}${more ? ", …" : ""}`;
};

export const workersCommand: CliCommand = {
  path: "queue workers",
  about: "list the workers of a queue, oldest first, and the job that each has run for longest",
  args: [{ name: "queue", about: "name of the queue", listedIn: "queues" }],
  run: async (call, queue: string) => {
    const { redis, prefix, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const { workers, isCut, now } = await listWorkers(redis, { queue, prefix });
    await output.report({
      data: { queue, workers, isCut, now },
      facts: [["workers", workers.length === 0 ? "none" : `${isCut ? "more than " : ""}${String(workers.length)}`]],
      table:
        workers.length === 0
          ? undefined
          : {
              columns: [
                "worker",
                "host",
                "pid",
                "name",
                "state",
                "handlers",
                "handles",
                "up",
                "seen",
                "longest job",
                "for",
              ],
              rows: workers.map((worker) => {
                const { id, host, pid, name, state, concurrency, running, since, seenAt, longest } = worker;
                return [
                  ...[id, host ?? "", String(pid ?? ""), name ?? "", state ?? ""],
                  ...[`${String(running)}/${String(concurrency ?? "?")}`, handlesText(worker)],
                  ...[since === null ? "" : ageOf(since, now), `${ageOf(seenAt, now)} ago`],
                  ...[longest?.id ?? "", longest ? ageOf(longest.startedAt, now) : ""],
                ];
              }),
            },
    });
    return undefined;
  },
};

/** When a job has run for this long, somebody should look. */
const longMs = 3_600_000;

export const longJobsCheck: DoctorCheck = {
  id: "queue-long-jobs",
  about: `
**Warning** when a job without a \`timeoutMs\` has run for more than an hour. It may hang: its worker renews the lease as long as the process
lives. So the job never ends by itself, and it occupies a handler.

See who runs it with \`kit queue workers NAME\`. To end it, run \`kit queue cancel NAME ID --run\`, and restart its worker if the handler
ignores its \`signal\`. If such jobs may run for hours, set their \`timeoutMs\`.
`,
  look: async ({ redis, prefix, signal }) => {
    const findings: Finding[] = [];
    for (const queue of await queuesWith("workers", redis, prefix, signal)) {
      const { workers, now } = await listWorkers(redis, { queue, prefix });
      const longest = longestOf(workers);
      if (!longest || now - Date.parse(longest.startedAt) <= longMs) continue;
      const { state, timeoutMs } = await inspectJob(redis, { queue, prefix }, longest.id, { quick: true });
      if (state !== "active" || timeoutMs !== null) continue;
      findings.push({
        severity: "warning",
        text: `queue ${queue}: job ${longest.id} has run for ${ageOf(longest.startedAt, now)}, on ${placeOf(longest.worker)}`,
        fix: `kit queue cancel ${queue} ${longest.id} --run`,
      });
    }
    return findings.length > 0 ? findings : [{ severity: "ok", text: "no job has run for more than an hour" }];
  },
};

/** How many pages of jobs of each state to look at, from the front. */
const mostPages = 3;

/** The names of the next jobs, with how many of them there are. */
const nextNames = async (
  redis: Parameters<typeof listJobs>[0],
  address: Parameters<typeof listJobs>[1],
): Promise<ReadonlyMap<string, number>> => {
  const names = new Map<string, number>();
  for (const state of ["waiting", "prioritised", "grouped", "delayed"] as const)
    // A page has up to 100 jobs, fewer if they are large.
    for (let start: number | undefined = 0, page = 0; start !== undefined && page < mostPages; page++) {
      const { jobs, next }: Awaited<ReturnType<typeof listJobs>> = await listJobs(redis, address, {
        ...{ state, start, count: 100 },
      });
      for (const { name } of jobs) names.set(name, (names.get(name) ?? 0) + 1);
      start = next;
    }
  return names;
};

export const handlersCheck: DoctorCheck = {
  id: "queue-handlers",
  about: `
**Warning** when a queue has jobs, and no worker runs or none has a handler for their name. Such a job waits. If workers of other names run,
they pass it on for over an hour, then its attempts fail.

Start a worker with a handler of this name or \`*\`. To see what each worker handles, run \`kit queue workers NAME\`. The check reads up to ${String(100 * mostPages)} jobs of each state.
`,
  look: async ({ redis, prefix, signal }) => {
    const findings: Finding[] = [];
    for (const queue of await queuesWith("jobs", redis, prefix, signal)) {
      const names = await nextNames(redis, { queue, prefix });
      if (names.size === 0) continue;
      const { workers, isCut } = await listWorkers(redis, { queue, prefix });
      const handled = new Set(workers.flatMap(({ handles }) => handles));
      if (isCut || handled.has("*") || workers.some(({ handlesMore }) => handlesMore)) continue;
      const without = [...names].filter(([name]) => !handled.has(name));
      const total = without.reduce((sum, [, count]) => sum + count, 0);
      const [first] = without;
      if (!first) continue;
      const jobs = counted(total, "waiting job");
      const shown = first[0].slice(0, 60);
      const text =
        workers.length === 0
          ? `queue ${queue} has ${jobs}, and no worker`
          : without.length === 1
            ? `queue ${queue}: no worker handles the name of ${jobs}: ${shown}`
            : `queue ${queue}: no worker handles the names of ${jobs}: ${shown} and ${String(without.length - 1)} more`;
      findings.push({ severity: "warning", text, fix: "Start a worker with a handler of this name, or the handler *" });
    }
    return findings.length > 0
      ? findings
      : [{ severity: "ok", text: "every waiting job has a worker with its handler" }];
  },
};
