// A client process: opens one implementation, then does what the parent asks for.
import { Session } from "node:inspector/promises";
import { register } from "node:module";
import type { Answer, Opening, Order } from "./lab.js";
import type { Jobs } from "./suite.js";
import { loadJobs } from "./suites.js";

// Nothing of ours outlives the parent. Ctrl-C is the parent's business.
process.once("disconnect", () => process.exit(1));
process.on("SIGINT", () => undefined);

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
  if (opening.checkout !== undefined) register("./checkout.js", import.meta.url, { data: opening.checkout });
  const opened = loadJobs(opening.package).then((open) => open(opening));
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
