// A client process: opens one contestant, then does what the parent asks for.
import { Session } from "node:inspector/promises";
import { coreJobs } from "./cases/core-jobs.js";
import { lockJobs } from "./cases/lock-jobs.js";
import { marketJobs } from "./cases/market-jobs.js";
import { semaphoreJobs } from "./cases/semaphore-jobs.js";
import type { Answer, Opening, Order } from "./lab.js";
import type { Jobs } from "./suite.js";

// Nothing of ours outlives the parent. Ctrl-C is the parent's business.
process.once("disconnect", () => process.exit(1));
process.on("SIGINT", () => undefined);

const suites: Readonly<Record<string, (opening: Opening) => Promise<Jobs>>> = {
  core: coreJobs,
  lock: lockJobs,
  marketplace: marketJobs,
  semaphore: semaphoreJobs,
};

let session: Session | undefined;

const profiling: Jobs = {
  ready: () => Promise.resolve(),
  startProfile: async () => {
    session = new Session();
    session.connect();
    await session.post("Profiler.enable");
    await session.post("Profiler.setSamplingInterval", { interval: 200 });
    await session.post("Profiler.start");
  },
  stopProfile: async () => (await session?.post("Profiler.stop"))?.profile,
};

process.once("message", (opening: Opening) => {
  const opened = suites[opening.package]?.(opening) ?? Promise.reject(new Error(`no jobs for ${opening.package}`));
  // Told with the first answer.
  opened.catch(() => undefined);
  process.on("message", ({ id, job, task }: Order) => {
    void answer(opened, id, job, task).then((reply) => process.send?.(reply));
  });
});

const answer = async (opened: Promise<Jobs>, id: number, job: string, task: unknown): Promise<Answer> => {
  try {
    const jobs = { ...(await opened), ...profiling };
    const work = jobs[job] as ((task: unknown) => Promise<unknown>) | undefined;
    if (!work) throw new Error(`There is no job ${job}`);
    return { id, result: await work(task) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
};
