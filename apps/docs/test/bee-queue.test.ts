import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createQueue } from "@kit/queue";
import { eventually, useRedis } from "@kit/testing";
import { aborted, rejection } from "@tooling/vitest/helpers";
import Queue from "bee-queue";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";

/** The compiler refuses a list that is not that of the installed bee-queue. */
const settings: Readonly<Record<keyof Queue.QueueSettings, 1>> = {
  ...{ prefix: 1, stallInterval: 1, nearTermWindow: 1, delayedDebounce: 1, redis: 1, isWorker: 1, getEvents: 1 },
  ...{ sendEvents: 1, storeJobs: 1, ensureScripts: 1, activateDelayedJobs: 1, removeOnSuccess: 1, removeOnFailure: 1 },
  ...{ quitCommandClient: 1, redisScanCount: 1, autoConnect: 1 },
};

it("the guide has every setting of bee-queue, and no other", () => {
  const page = readFileSync(new URL("../migration/bee-queue.md", import.meta.url), "utf8");
  const [, section = ""] = /\n### Queue\n(.*?)(?=\n##|$)/s.exec(page) ?? [];
  const first = section.split("\n").flatMap((line) => (line.startsWith("| `") ? (line.split("|")[1] ?? "") : []));
  const named = first.flatMap((cell) =>
    [...cell.replaceAll(/\(.*?\)/g, "").matchAll(/`([^`]+)`/g)].map(([, one = ""]) => one),
  );
  expect(named.toSorted()).toEqual(Object.keys(settings).toSorted());
});

describe("what differs from bee-queue", () => {
  const redis = useRedis(vitest, { permanentKeys: ["*"] });
  const old = (options: Queue.QueueSettings = {}): Queue<string> => {
    const queue = new Queue<string>("mail", { redis: { url: redis.server.url }, prefix: redis.prefix, ...options });
    redis.defer(() => queue.close(1).catch(() => undefined));
    return queue;
  };
  const activeThere = (): Promise<string[]> => redis.client.lrange(`${redis.prefix}:mail:active`, 0, -1);

  it("bee-queue leaves the job of a killed worker active until the program looks for it", async () => {
    const producer = old({ isWorker: false });
    const { id } = await producer.createJob("of a killed worker").save();
    await redis.client.rpoplpush(`${redis.prefix}:mail:waiting`, `${redis.prefix}:mail:active`);
    const worker = old({ stallInterval: 20 });
    const ran: string[] = [];
    worker.process(({ data }) => Promise.resolve(void ran.push(data)));

    // For many times the `stallInterval`.
    const until = performance.now() + 300;
    while (performance.now() < until) {
      const succeeded = once(worker, "succeeded");
      await producer.createJob("later").save();
      await succeeded;
    }
    expect(new Set(ran)).toEqual(new Set(["later"]));
    expect(await activeThere()).toEqual([id]);
    void worker.checkStalledJobs(20);
    await eventually(() => expect(ran).toContain("of a killed worker"));
  });

  it("aborts the signal of a handler that is out of time, where the handler of bee-queue continues next to the next attempt", async () => {
    const worker = old();
    let running = 0;
    let most = 0;
    worker.process(2, async () => {
      most = Math.max(most, ++running);
      await once(worker, "never");
    });
    await worker.createJob("slow").timeout(30).retries(1).save();
    await eventually(() => expect(most).toBe(2));

    const queue = createQueue<{ slow: (data: null) => void }>(redis.connect(), "slow", { prefix: redis.prefix });
    redis.defer(() => queue.close());
    let attempts = 0;
    let ended = 0;
    queue.work(
      {
        slow: async ({ signal }) => {
          expect(++attempts - ended).toBe(1);
          await aborted(signal);
          ended++;
        },
      },
      { concurrency: 2 },
    );
    await queue.add("slow", null, { timeoutMs: 30, maxAttempts: 2, backoff: { firstMs: 0 } });
    await eventually(() => expect(ended).toBe(2));
  });

  it("hands a job back when a worker closes, where bee-queue leaves it active", async () => {
    const worker = old();
    worker.process(async () => {
      worker.emit("began");
      await once(worker, "never");
    });
    const began = once(worker, "began");
    const { id } = await worker.createJob("long").save();
    await began;
    expect(await rejection(worker.close(20))).toBeInstanceOf(Error);
    expect(await activeThere()).toEqual([id]);

    const queue = createQueue<{ long: (data: null) => void }>(redis.connect(), "long", { prefix: redis.prefix });
    redis.defer(() => queue.close());
    const first = queue.work({
      long: async ({ closing }) => {
        closing.throwIfAborted();
        await once(closing, "abort");
        closing.throwIfAborted();
      },
    });
    await queue.add("long", null);
    await eventually(() => expect(first.running).toBe(1));
    await first.close();
    const attempt = await new Promise((resolve) => queue.work({ long: (job) => resolve(job.attempt) }));
    expect(attempt).toBe(1);
  });
});
