// A client process: opens one implementation, or two sides of it, then does what the parent asks for.
import { Session } from "node:inspector/promises";
import { register } from "node:module";
import type { Answer, Opening, Order } from "./lab.js";
import { type Operation, pour, run } from "./operation.js";
import type { Jobs } from "./suite.js";
import { loadJobs } from "./suites.js";

// Nothing of ours outlives the parent. Ctrl-C is the parent's business.
process.once("disconnect", () => process.exit(1));
process.on("SIGINT", () => undefined);

let session: Session | undefined;

/** The jobs of every package, with `jobs` of this one. */
const withCommon = (jobs: Jobs): Jobs => {
  const operations = new Map<string, Operation>();
  const operationOf = async (task: unknown): Promise<Operation> => {
    if (!jobs.operation) throw new Error("There is no operation");
    const key = JSON.stringify(task);
    const operation = operations.get(key) ?? (await jobs.operation(task as never));
    operations.set(key, operation);
    return operation;
  };
  const common: Jobs = {
    ready: () => undefined,
    run: async ({ task, ms }: { readonly task: unknown; readonly ms: number }) =>
      await run(await operationOf(task), ms),
    steady: async ({
      task,
      ms,
      perSecond,
    }: {
      readonly task: unknown;
      readonly ms: number;
      readonly perSecond: number;
    }) => await pour(await operationOf(task), ms, perSecond),
    startProfile: async () => {
      session = new Session();
      session.connect();
      await session.post("Profiler.enable");
      await session.post("Profiler.setSamplingInterval", { interval: 200 });
      await session.post("Profiler.start");
    },
    stopProfile: async () => (await session?.post("Profiler.stop"))?.profile,
  };
  const twice = Object.keys(jobs).filter((name) => name in common);
  if (twice.length > 0) throw new Error(`Two jobs are named ${twice.join()}`);
  return { ...jobs, ...common };
};

const open = async (opening: Opening, side: number): Promise<Jobs> => {
  const { checkout, client } = opening.sides[side] ?? {};
  const jobs = await loadJobs(opening.package, checkout);
  // Both sides have the same keys, so each has a database of its own.
  const databaseOf = (url: string): string => (side === 0 ? url : `${url}/${String(side)}`);
  const { url, urlsBeside } = opening;
  return withCommon(await jobs({ ...opening, client, url: databaseOf(url), urlsBeside: urlsBeside.map(databaseOf) }));
};

process.once("message", (opening: Opening) => {
  if (opening.sides.some(({ checkout }) => checkout !== undefined)) register("./checkout.js", import.meta.url);
  const sides = opening.sides.map((_, side) => open(opening, side));
  // The first answer of a side reports it.
  for (const side of sides) side.catch(() => undefined);
  process.on("message", (order: Order) => {
    void answer(sides[order.side], order).then((reply) => process.send?.(reply));
  });
});

const answer = async (opened: Promise<Jobs> | undefined, { id, job, task }: Order): Promise<Answer> => {
  try {
    const work = (await opened)?.[job];
    if (!work) throw new Error(`There is no job ${job}`);
    return { id, result: await work(task as never) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) };
  }
};
