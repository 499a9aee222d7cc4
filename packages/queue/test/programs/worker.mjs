// A process with a worker that can be killed:
//   worker.mjs <single|cluster> <ports> <prefix> <queue> <work options as JSON> <user name and password as JSON>
// A job's data says what it does: { log, act: "end" | "hang" | "die" | "wait" | "block" | "stand" | "freeze", ms, checkpoint, adds }.
import { createQueue } from "@kit/queue";
import { readChildren, WaitForChildren } from "@kit/queue/flows";
import { keepHistory } from "@kit/queue/history";
import { saveCheckpoint } from "@kit/queue/progress";
import { clientOf, obey } from "@tooling/vitest/peer";

const ioredis = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, prefix, name, options, login] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, JSON.parse(login));
const { diesRecording, ...workOptions } = JSON.parse(options);

/** A history whose process dies between the record of a job and its end. */
const dying = () => {
  const history = keepHistory();
  const record = async (...args) => {
    await history.record(...args);
    process.kill(process.pid, "SIGKILL");
    await new Promise(() => undefined);
  };
  return { bounds: history.bounds, record, forget: () => undefined };
};
const queue = createQueue(redis, name, { prefix, history: diesRecording ? dying() : undefined });
const log = `${prefix}:queue:{log}:ran`;
const events = [];
const errors = [];

const acts = {
  end: () => undefined,
  hang: () => new Promise(() => undefined),
  die: () => process.kill(process.pid, "SIGKILL"),
  wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  block: (ms) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
  },
  freeze: (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
};

const job = async (taken) => {
  const { data, attempt, crashes } = taken;
  // In the turn in which the others of its take would begin.
  if (data.act === "stand") acts.block(data.ms);
  if (data.checkpoint) await saveCheckpoint(taken, data.checkpoint);
  await redis.multi().rpush(log, `${data.log} ${attempt} ${crashes}`).pexpire(log, 60_000).exec();
  await acts[data.act ?? "end"]?.(data.ms ?? 0);
  if (data.adds && (await readChildren(taken)).children.length === 0) throw new WaitForChildren(data.adds);
};

let worker;
const threads = new Set();
process.on("worker", (thread) => {
  threads.add(thread);
  thread.on("exit", () => threads.delete(thread));
});
obey({
  ready: async () => {
    await redis.ping();
    worker = queue.work({ job }, workOptions);
    for (const event of ["lost", "cancelled", "crashed", "dead"])
      worker.on(event, (fact) => events.push([event, fact.id ?? fact.job.id]));
    worker.on("error", ({ code }) => errors.push(code));
  },
  events: () => events,
  errors: () => errors,
  running: () => worker.running,
  threads: () => threads.size,
  killThread: () => Promise.all([...threads].map((thread) => thread.terminate())),
  close: (_id, how) => worker.close(how),
});
