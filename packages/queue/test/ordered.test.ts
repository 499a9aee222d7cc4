import { eventually, useRedis } from "@kit/testing";
import { closedPort } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Job, Queue } from "../src/index.js";
import { createOrderedWorker, type OrderedOptions, type OrderedWorker } from "../src/ordered/index.js";
import { fixtureOf, latch, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const names = ["first", "second", "third"] as const;

const queuesOf = (): Queue[] => names.map((name) => fixture.make({ name }));
const ordered = (queues: readonly Queue[], handler: (job: Job) => unknown, options?: OrderedOptions): OrderedWorker => {
  const worker = createOrderedWorker(options);
  redis.defer(() => worker.close({ timeoutMs: 0 }));
  for (const queue of queues) worker.serve(queue, { job: handler });
  return worker;
};
const fill = async (queue: Queue, count: number): Promise<void> =>
  void (await queue.addAll(Array.from({ length: count }, () => ({ name: "job", data: queue.name }))));
const untilEmpty = async (): Promise<void> => {
  for (const name of names) await fixture.untilEmpty(name);
};

describe("an ordered worker", () => {
  it("begins jobs of a later queue only when the earlier ones are empty", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    for (const queue of queues.toReversed()) await fill(queue, 30);
    ordered(queues, ({ data }) => void ran.push(data), { maxPassedOver: 1_000 });
    await untilEmpty();
    expect(ran).toEqual(names.flatMap((name) => Array.from({ length: 30 }, () => name)));
  });

  it("gives a later queue a turn once it has been passed over maxPassedOver times", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    for (const queue of queues.slice(0, 2)) await fill(queue, 60);
    ordered(queues, ({ data }) => void ran.push(data), { maxPassedOver: 10 });
    await untilEmpty();
    const places = ran.flatMap((data, index) => (data === "second" ? [index] : []));
    // Ten jobs of the first queue, one of the second, and so on, while the first has jobs.
    expect(places.slice(0, 5)).toEqual([10, 21, 32, 43, 54]);
    expect(ran).toHaveLength(120);
  });

  it("takes a job next that was added to an earlier queue during a job of a later one", async () => {
    const [ran, queues, begun, held] = [[] as unknown[], queuesOf(), latch(), latch()];
    const worker = createOrderedWorker();
    redis.defer(() => worker.close({ timeoutMs: 0 }));
    const handler = async ({ data }: Job): Promise<void> => {
      ran.push(data);
      if (ran.length > 1) return;
      begun.open();
      await held.promise;
    };
    const [first] = queues.map((queue) => worker.serve(queue, { job: handler }));
    await fill(queues[2]!, 20);
    await begun.promise;
    await fill(queues[0]!, 5);
    await fill(queues[1]!, 5);
    // An earlier queue counts from the reply on that has offered its job.
    await eventually(() => expect(first!.isQuiet).toBe(false));
    expect(worker.running).toBe(1);
    held.open();
    await untilEmpty();
    expect(ran.slice(0, 6)).toEqual(["third", ...Array.from({ length: 5 }, () => "first")]);
    expect(ran).toHaveLength(30);
  });

  it("starts jobs by weights, smoothly, while all queues have some, and loses none", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    for (const queue of queues) await fill(queue, 70);
    ordered(queues, ({ data }) => void ran.push(data), { weights: { first: 6, second: 3, third: 1 } });
    await untilEmpty();
    const round = ["first", "second", "first", "first", "second", "first", "third", "first", "second", "first"];
    expect(ran.slice(0, 100)).toEqual(Array.from({ length: 10 }, () => round).flat());
    // The first queue has run out of jobs: the others share all handlers, 3 to 1.
    const rest = ran.slice(ran.lastIndexOf("first") + 1).slice(0, 40);
    expect(Math.abs(rest.filter((data) => data === "third").length - 10)).toBeLessThanOrEqual(1);
    expect(ran).toHaveLength(210);
  });

  it("keeps to weights within 5 % under load, with many handlers and slow jobs", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    for (const queue of queues) await fill(queue, 2_000);
    let [now, most] = [0, 0];
    const handler = async ({ data }: Job): Promise<void> => {
      ran.push(data);
      most = Math.max(most, ++now);
      for (let turns = ran.length % 7; turns > 0; turns--) await new Promise(setImmediate);
      now--;
    };
    ordered(queues, handler, { concurrency: 20, weights: { first: 6, second: 3, third: 1 } });
    await eventually(() => expect(ran.length).toBeGreaterThan(3_000), { timeoutMs: 30_000 });
    const shares = names.map((name) => ran.slice(0, 3_000).filter((data) => data === name).length / 3_000);
    expect(most).toBeGreaterThan(10);
    expect(most).toBeLessThanOrEqual(20);
    for (const [index, share] of [0.6, 0.3, 0.1].entries())
      expect(Math.abs(shares[index]! - share)).toBeLessThan(0.05 * share);
  });

  it("gives a queue that was empty no more than its share once it has jobs again", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const worker = ordered(queues, ({ data }) => void ran.push(data), { weights: { first: 1, second: 1, third: 2 } });
    await fixture.untilIdle(3);
    await fill(queues[0]!, 300);
    await eventually(() => expect(ran.length).toBeGreaterThan(50));
    await Promise.all([fill(queues[1]!, 200), fill(queues[0]!, 300)]);
    await untilEmpty();
    const start = ran.indexOf("second");
    const both = ran.slice(start, start + 200);
    expect(both.filter((data) => data === "second").length).toBeLessThanOrEqual(101);
    expect(ran).toHaveLength(800);
    await worker.close();
  });

  it("serves the other queues with all handlers while the worker of one is paused, closed or cannot reach its server", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const away = redis.connect({ port: closedPort, retryStrategy: () => 20 });
    const worker = createOrderedWorker({ concurrency: 3, weights: { first: 1_000, second: 1_000, third: 1 } });
    redis.defer(() => worker.close({ timeoutMs: 0 }));
    for (const queue of queues) await fill(queue, 10);
    const handlers = { job: ({ data }: Job) => void ran.push(data) };
    worker.serve(fixture.on(away, { name: "first", deadlineMs: 300 }), handlers);
    const second = worker.serve(queues[1]!, handlers);
    await second.pause();
    worker.serve(queues[2]!, handlers);
    await fixture.untilEmpty("third");
    second.resume();
    await fixture.untilEmpty("second");
    expect(ran.filter((data) => data === "third")).toHaveLength(10);
    expect(ran).not.toContain("first");
    await fixture.db.del(fixture.keysOf("first").jobs, fixture.keysOf("first").waiting);
  });

  it("runs no more jobs of all queues together than its concurrency, and loses none", async () => {
    const queues = queuesOf();
    let [now, most, ran] = [0, 0, 0];
    for (const queue of queues) await fill(queue, 60);
    ordered(
      queues,
      async () => {
        most = Math.max(most, ++now);
        await new Promise(setImmediate);
        now--;
        ran++;
      },
      { concurrency: 4, maxPassedOver: 7 },
    );
    await untilEmpty();
    expect([most, ran]).toEqual([4, 180]);
  });

  it("starts a job of any queue at once while all are idle, and serves one that is added later", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const worker = ordered(queues.slice(0, 2), ({ data }) => void ran.push(data));
    await fixture.untilIdle(2);
    await fill(queues[1]!, 1);
    await eventually(() => expect(ran).toEqual(["second"]));
    worker.serve(queues[2]!, { job: ({ data }: Job) => void ran.push(data) });
    await fill(queues[2]!, 1);
    await eventually(() => expect(ran).toEqual(["second", "third"]));
  });

  it("serves the others when one of its queues cannot be reached, or is no longer served", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    await fixture.db.set(fixture.keysOf("first").waiting, "spoilt");
    const worker = createOrderedWorker();
    redis.defer(() => worker.close({ timeoutMs: 0 }));
    const [first] = queues.map((queue) => worker.serve(queue, { job: ({ data }: Job) => void ran.push(data) }));
    first!.on("error", () => undefined);
    await fill(queues[1]!, 3);
    await eventually(() => expect(ran).toHaveLength(3));
    await first!.close();
    await fill(queues[2]!, 3);
    await eventually(() => expect(ran).toHaveLength(6));
    await fixture.db.del(fixture.keysOf("first").waiting);
  });

  it("serves the others while one of its queues has not been reached yet, and leaves that alone", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const away = redis.connect({ port: closedPort, retryStrategy: () => 20 });
    const newer = fixture.keysOf("second");
    await fixture.db.hset(newer.meta, "layout", "2");
    await fixture.db.hset(newer.jobs, "own", '0 job\n"second"');
    await fixture.db.rpush(newer.waiting, "own");
    const worker = createOrderedWorker();
    redis.defer(() => worker.close({ timeoutMs: 0 }));
    for (const queue of [fixture.on(away, { name: "first", deadlineMs: 300 }), ...queues.slice(1)])
      worker.serve(queue, { job: ({ data }: Job) => void ran.push(data) });
    await fill(queues[2]!, 3);
    await eventually(() => expect(ran).toEqual(["third", "third", "third"]));
    await worker.close();
    expect(ran).toHaveLength(3);
    expect(await fixture.counts("second")).toMatchObject({ waiting: 1, leases: 0 });
    await fixture.db.del(newer.meta, newer.jobs, newer.waiting);
  });

  it("serves the others while the worker of an earlier queue closes", async () => {
    const [ran, queues, held] = [[] as unknown[], queuesOf(), latch()];
    redis.defer(held.open);
    const worker = createOrderedWorker({ concurrency: 2 });
    redis.defer(() => worker.close({ timeoutMs: 0 }));
    const handlers = { job: ({ data }: Job) => (ran.push(data), data === "first" ? held.promise : undefined) };
    const [first] = queues.map((queue) => worker.serve(queue, handlers));
    await fill(queues[0]!, 1);
    await eventually(() => expect(ran).toEqual(["first"]));
    const closing = first!.close({ timeoutMs: 600_000 });
    await fill(queues[1]!, 1);
    await eventually(() => expect(ran).toEqual(["first", "second"]));
    held.open();
    await closing;
  });

  it("serves nothing more once it is closed", async () => {
    const worker = createOrderedWorker();
    await worker.close();
    await worker.close();
    expect(() => worker.serve(queuesOf()[0]!, {})).toThrow(expect.objectContaining({ code: "KIT_CLOSED" }) as Error);
  });

  it("refuses options that make no sense", () => {
    const weights = { first: 1 };
    for (const options of [
      ...[{ concurrency: 0 }, { maxPassedOver: 0 }, { order: 1 }, { weights, maxPassedOver: 5 }],
      ...[{ weights: {} }, { weights: null }, { weights: { first: 0 } }, { weights: { first: 1_001 } }],
    ])
      expect(() => createOrderedWorker(options as OrderedOptions)).toThrow(/^(Expected|Unknown option) /);
    expect(() => createOrderedWorker({ weights }).serve(queuesOf()[1]!, {})).toThrow(
      /^Expected `weights` to have "second"$/,
    );
  });
});
