import { AsyncLocalStorage } from "node:async_hooks";
import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import type { Job } from "../src/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const { make } = fixtureOf(redis);

it("runs handlers, and what listens to their signals, in the async context of their worker, not of whose call starts or ends them", async () => {
  const requests = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const see = (): void => void seen.push(requests.getStore());
  const queue = make();
  const handle = async (job: Job): Promise<void> => {
    see();
    await new Promise<void>((resolve) => job.closing.addEventListener("abort", () => resolve(see())));
  };
  const worker = requests.run("worker", () => queue.work({ job: handle }, { concurrency: 2 }));
  await requests.run("first request", () => queue.add("job", 1));
  await requests.run("second request", () => queue.add("job", 2));
  await eventually(() => expect(seen).toHaveLength(2));
  await requests.run("closing request", () => worker.close());
  expect(seen).toEqual(["worker", "worker", "worker", "worker"]);
});
