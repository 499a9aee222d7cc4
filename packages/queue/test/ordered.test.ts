import { eventually, useRedis } from "@kit/testing";
import { closedPort } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Job, Queue, Worker } from "../src/index.js";
import { createOrderedWorker, type OrderedOptions, type OrderedWorker } from "../src/ordered/index.js";
import { fixtureOf, latch, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const names = ["first", "second", "third"] as const;
/** Four times this, as tests are patient, is less than the time after which a queue that is not woken looks for work: 11 to 15 s. */
const unwokenMs = 2_000;

const queuesOf = (): Queue[] => names.map((name) => fixture.make({ name }));
/** An ordered worker, and its worker of each queue. */
const serving = (
  queues: readonly Queue[],
  handler: (job: Job) => unknown,
  options?: OrderedOptions,
): { worker: OrderedWorker; served: Worker[] } => {
  const worker = createOrderedWorker(options);
  redis.defer(() => worker.close({ timeoutMs: 0 }));
  return { worker, served: queues.map((queue) => worker.serve(queue, { job: handler })) };
};
const ordered = (queues: readonly Queue[], handler: (job: Job) => unknown, options?: OrderedOptions): OrderedWorker =>
  serving(queues, handler, options).worker;
const untilAllWait = async (served: readonly Worker[], connections = 1): Promise<void> => {
  await eventually(() => expect(served.every(({ isEmpty }) => isEmpty)).toBe(true));
  await fixture.untilIdle(connections);
};
const fill = async (queue: Queue, count: number): Promise<void> =>
  void (await queue.addAll(Array.from({ length: count }, () => ({ name: "job", data: queue.name }))));
const untilEmpty = async (): Promise<void> => {
  for (const name of names) await fixture.untilEmpty(name);
};

describe("an ordered worker", () => {
  it("starts jobs of a later queue only when the earlier ones are empty", async () => {
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
    const weights = { first: 1, second: 1, third: 2 };
    const { worker, served } = serving(queues, ({ data }) => void ran.push(data), { weights });
    await untilAllWait(served);
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

  it("starts a job of any queue immediately while all are idle, and serves a queue that is added later", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const { worker, served } = serving(queues.slice(0, 2), ({ data }) => void ran.push(data));
    await untilAllWait(served);
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

  it("has two connections for all its queues, until it is closed", async () => {
    const queues = queuesOf();
    const connections = async (): Promise<number> =>
      String(await redis.server.call("CLIENT", "LIST"))
        .trim()
        .split("\n").length;
    const before = await connections();
    const { worker, served } = serving(queues, () => undefined);
    await untilAllWait(served);
    expect((await connections()) - before).toBe(2);
    await worker.close();
    await eventually(async () => expect(await connections()).toBe(before));
  });

  it("wakes each queue again and again, while the others wait", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const { served } = serving(queues, ({ data }) => void ran.push(data));
    const wanted: string[] = [];
    for (const name of ["first", "third", "third", "second", "first", "second"]) {
      await untilAllWait(served);
      await fill(queues[names.indexOf(name as "first")]!, 1);
      wanted.push(name);
      await eventually(() => expect(ran).toEqual(wanted), { timeoutMs: unwokenMs });
    }
  });

  it.each(["pause", "close"] as const)(
    "returns the wake-up of a queue whose worker was told to %s meanwhile",
    async (end) => {
      const [ran, queues] = [[] as unknown[], queuesOf()];
      const { served } = serving(queues, ({ data }) => void ran.push(data));
      await untilAllWait(served);
      const { wake } = fixture.keysOf("second");
      // Its marker is popped before the pop is told to end.
      const marking = fixture.db.zadd(wake, 1, "timer");
      await Promise.all([served[1]![end](), marking]);
      await eventually(async () =>
        expect(await fixture.db.zrange(wake, "0", "-1", "WITHSCORES")).toEqual(["timer", "1"]),
      );
      await fill(queues[1]!, 1);
      await fill(queues[2]!, 1);
      await eventually(() => expect(ran).toEqual(["third"]));
      await fixture.untilIdle(1);
      expect(await fixture.db.zcard(wake)).toBe(2);
    },
  );

  it("returns a wake-up when it is closed as a whole", async () => {
    const { worker, served } = serving(queuesOf(), () => undefined);
    await untilAllWait(served);
    const { wake } = fixture.keysOf("second");
    const marking = fixture.db.zadd(wake, 0, "job");
    await Promise.all([worker.close(), marking]);
    expect(await fixture.db.zrange(wake, "0", "-1")).toEqual(["job"]);
    await fixture.db.del(wake);
  });

  it("serves all its queues after a restart of the server", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const { served } = serving(queues, ({ data }) => void ran.push(data));
    for (const one of served) one.on("error", () => undefined);
    await untilAllWait(served);
    const [node] = redis.server.nodes;
    await node!.kill();
    await node!.start();
    for (const queue of queues) await fill(queue, 1);
    await eventually(() => expect(new Set(ran)).toEqual(new Set(names)), { timeoutMs: 10_000 });
    await untilAllWait(served);
  });

  it.each(["client|id", "client|unblock"])("waits for each queue on its own connection without +%s", async (right) => {
    const username = `worker-${redis.prefix}`;
    await redis.server.call("ACL", "SETUSER", username, "on", ">pass", "~*", "&*", "+@all", `-${right}`);
    redis.defer(() => redis.server.call("ACL", "DELUSER", username));
    const client = redis.connect({ username, password: "pass" });
    const [ran, errors] = [[] as unknown[], [] as unknown[]];
    const queues = names.map((name) => fixture.on(client, { name }));
    const { served } = serving(queues, ({ data }) => void ran.push(data));
    for (const one of served) one.on("error", (error) => errors.push(error));
    for (let turn = 1; turn <= 2; turn++)
      for (const [index, queue] of queues.entries()) {
        await fill(queue, 1);
        const count = (turn - 1) * names.length + index + 1;
        await eventually(() => expect(ran).toHaveLength(count), { timeoutMs: unwokenMs });
      }
    await untilAllWait(served, names.length);
    expect(errors).toEqual([]);
  });

  it("serves the others while the server refuses to wait for one", async () => {
    const [ran, queues] = [[] as unknown[], queuesOf()];
    const { wake } = fixture.keysOf("first");
    const { served } = serving(queues, ({ data }) => void ran.push(data));
    const codes = new Set<string>();
    served[0]!.on("error", ({ code }) => codes.add(code));
    await untilAllWait(served);
    await fixture.db.set(wake, "spoilt");
    for (const index of [1, 2, 1, 2]) {
      await fill(queues[index]!, 1);
      await eventually(() => expect(ran.at(-1)).toBe(names[index]), { timeoutMs: unwokenMs });
    }
    await untilAllWait(served.slice(1), 2);
    await eventually(() => expect([...codes]).toContain("KIT_SERVER"));
    await fixture.db.del(wake);
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
