import { createQueue } from "@kit/queue";
import { inspectJob, inspectQueue, listJobs, pauseQueue, removeJob } from "@kit/queue/manage";
import { Queue } from "bullmq";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

/** Whether BullMQ has this job, moved before an error. It ignores an add of an id that it has, also for another job. */
const isMoved = async (to: Queue, jobId: string, name: string, data: unknown): Promise<boolean> => {
  if (!["waiting", "prioritized", "delayed"].includes(await to.getJobState(jobId))) return false;
  const found = await to.getJob(jobId);
  return found?.name === name && JSON.stringify(found.data) === JSON.stringify(data ?? {});
};

/** Moves the jobs that wait from kit's queue to BullMQ's. Without `run` it only counts them. Repeat it until it moves nothing. */
const moveBack = async (
  from: { queue: string },
  to: Queue,
  run: boolean,
): Promise<{ moved: number; kept: string[] }> => {
  if (run) {
    // No job may start in either queue while it is in both.
    await to.pause();
    await pauseQueue(redis, from);
  }
  const { waitingForChildren } = await inspectQueue(redis, from);
  if (waitingForChildren > 0) throw new Error("Let the flows end first");
  const kept: string[] = [];
  let moved = 0;
  for (const state of ["waiting", "prioritised", "grouped", "suspended", "delayed"] as const)
    for (let start: number | undefined = 0; start !== undefined;) {
      const page: Awaited<ReturnType<typeof listJobs>> = await listJobs(redis, from, { state, start, count: 100 });
      start = page.next;
      for (const { id } of page.jobs) {
        const job = await inspectJob(redis, from, id, { withData: true });
        const { name, data, at, priority, attempts, maxAttempts } = job;
        // Cancelled or removed since this page was read.
        if (job.state === "none" || job.state === "completed") continue;
        // BullMQ rejects numbers and colons.
        const jobId = /^-?\d+$|:/.test(id) ? `kit-${encodeURIComponent(id)}` : id;
        const isReadable = data !== undefined || job.bytes === 0;
        if (!isReadable || ((await redis.exists(to.toKey(jobId))) > 0 && !(await isMoved(to, jobId, name, data)))) {
          kept.push(id);
          continue;
        }
        moved++;
        if (!run) continue;
        const delay = state === "delayed" && at !== null ? Math.max(0, Date.parse(at) - Date.now()) : 0;
        await to.add(name, data, {
          ...{ jobId, delay, priority: Math.max(0, priority) },
          attempts: Math.max(1, maxAttempts - attempts),
        });
        await removeJob(redis, from, id);
        // The job has left the list, and the others have moved up.
        if (start !== undefined) start--;
      }
    }
  return { moved, kept };
};

const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail", { maxAttempts: 5 });
await queue.add("email", { to: "ann@example.org" }, { id: "17" });
await queue.add("email", { to: "bob@example.org" }, { delayMs: 60_000, priority: 3 });
await queue.add("email", { to: "cid@example.org" }, { group: "shop 7" });
await queue.close();

const bull = new Queue("mail", { connection: redis });
const planned = await moveBack({ queue: "mail" }, bull, false);
console.log(planned.moved, planned.kept.length); // prints: 3 0
const done = await moveBack({ queue: "mail" }, bull, true);
console.log(done.moved, done.kept.length); // prints: 3 0
const { waiting, delayed } = await bull.getJobCounts("waiting", "delayed");
console.log(waiting, delayed); // prints: 2 1

await bull.close();
redis.disconnect();
