import { eventually, useRedis } from "@kit/testing";
import { RequestProxy } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Job, WorkOptions } from "../src/index.js";
import { createOrderedWorker } from "../src/ordered/index.js";
import { fixtureOf, latch, name, Runs } from "./harness.js";

/** Each test shows that this queue does not have a known defect of those in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const { make, work } = fixture;
const hourMs = 3_600_000;
const shortLease: WorkOptions = { leaseMs: 300 };

/** A connection that stays lost when it is cut, as that of a crashed process does. */
const mortal = async (): Promise<{ client: Redis; proxy: RequestProxy }> => {
  const proxy = await RequestProxy.open(redis.server.nodes[0]!.port);
  redis.defer(() => proxy[Symbol.asyncDispose]());
  const client = new Redis(proxy.url, { retryStrategy: () => null, disconnectTimeout: 50 });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  await client.ping();
  proxy.reset();
  return { client, proxy };
};

/** A worker whose connections stay lost once it has begun a job and was cut off, as after a crash. */
const crashInHandler = async (): Promise<void> => {
  const { client, proxy } = await mortal();
  const { promise, open } = latch();
  redis.defer(open);
  const begun = latch();
  const queue = fixture.on(client, { deadlineMs: 200 });
  queue.on("error", () => undefined);
  const worker = work(
    queue,
    () => {
      begun.open();
      return promise;
    },
    shortLease,
  );
  worker.on("error", () => undefined);
  await begun.promise;
  proxy.cut();
  await proxy[Symbol.asyncDispose]().catch(() => undefined);
};

describe("defects of the classic queue, absent here", () => {
  it("a crash after the pop loses the job", async () => {
    const [queue, runs] = [make(), new Runs()];
    const id = await queue.add("job", { to: "ann" });
    await crashInHandler();
    work(queue, runs.handler, shortLease);
    await runs.until(1);
    expect(runs.jobs[0]).toMatchObject({ id, data: { to: "ann" }, crashes: 1, attempt: 1 });
  });

  it("a failed send is dropped, never tried again", async () => {
    const queue = make({ maxAttempts: 2, backoff: { firstMs: 1 } });
    const attempts: number[] = [];
    work(queue, ({ attempt }) => {
      attempts.push(attempt);
      throw new Error("busy");
    });
    await queue.add("job", { to: "ann" });
    await fixture.untilEmpty();
    expect(attempts).toEqual([1, 2]);
    expect(await queue.deadLetters()).toMatchObject([{ data: { to: "ann" }, error: { message: "busy" } }]);
  });
});

describe("defects of the classic callbacks, absent here", () => {
  it("a job whose name is unknown vanishes", async () => {
    const queue = make();
    work(queue, () => undefined);
    await queue.add("other", [1]);
    await eventually(async () => expect(await fixture.counts()).toMatchObject({ delayed: 1, dead: 0 }));
    const ran = new Promise((resolve) => queue.work({ other: ({ data }) => resolve(data) }));
    expect(await ran).toEqual([1]);
  });

  it("a callback that throws ends the worker, and its job is gone", async () => {
    const callbacks = {
      job: (data: unknown) => {
        if (data === "bad") throw new Error("broken");
      },
    };
    const [queue, runs] = [make(), new Runs()];
    work(queue, (job) => {
      callbacks.job(job.data);
      runs.handler(job);
    });
    await queue.add("job", "bad");
    await queue.add("job", "good");
    await fixture.untilEmpty();
    expect(runs.data).toEqual(["good"]);
    expect(await queue.deadLetters()).toMatchObject([{ data: "bad", error: { message: "broken" } }]);
  });

  it("a delayed job carries four values, of which the worker unpacks two", async () => {
    const [queue, runs] = [make(), new Runs()];
    await queue.add("job", "later", { delayMs: 1 });
    work(queue, runs.handler);
    await runs.until(1);
    expect(runs.data).toEqual(["later"]);
  });
});

describe("defects of the classic delayed jobs, absent here", () => {
  it("a crash between taking a delayed job out and pushing it loses the job", async () => {
    // One script moves it: it is always in exactly one place.
    const [queue, runs] = [make(), new Runs()];
    let id = "";
    await crashWhileMoving(async () => void (id = await queue.add("job", 1, { delayMs: 200 })));
    work(queue, runs.handler, shortLease);
    await runs.until(1);
    expect(runs.jobs[0]!.id).toBe(id);
  });

  it("a crash while the lock of the first one is held stops all delayed jobs", async () => {
    const [queue, runs] = [make(), new Runs()];
    await crashWhileMoving(async () => {
      for (const data of ["first", "second"]) await queue.add("job", data, { delayMs: 100 });
    });
    work(queue, runs.handler, shortLease);
    await runs.until(2);
    expect(new Set(runs.data)).toEqual(new Set(["first", "second"]));
  });

  it("the clients' clocks decide which jobs are due", async () => {
    const [queue, runs] = [make(), new Runs()];
    await queue.add("job", "in an hour", { delayMs: hourMs });
    await queue.add("job", "now");
    vitest.vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * hourMs });
    redis.defer(() => void vitest.vi.useRealTimers());
    work(queue, runs.handler);
    await runs.until(1);
    expect(runs.data).toEqual(["now"]);
    expect((await fixture.counts()).delayed).toBe(1);
  });

  it("seven round trips a move, and a query each 10 ms while idle", async () => {
    const ours = await mortal();
    const [queue, runs] = [fixture.on(ours.client), new Runs()];
    work(queue, runs.handler);
    await fixture.untilIdle(1);
    ours.proxy.reset();
    await queue.add("job", 1, { delayMs: 400 });
    await runs.until(1);
    await fixture.untilEmpty();
    await fixture.untilIdle(1);
    // The queue's own opening, the add, the waits before, until and after the instant, the look at it, the job's end.
    expect(ours.proxy.requests).toBeLessThan(16);
  });
});

describe("defects of the classic priorities and the pop when due, absent here", () => {
  it("a job that was popped when due is lost with the client", async () => {
    const [queue, runs] = [make(), new Runs()];
    const id = await queue.add("job", 1, { delayMs: 1 });
    await crashInHandler();
    expect(await fixture.counts()).toMatchObject({ jobs: 1, leases: 1 });
    work(queue, runs.handler, shortLease);
    await runs.until(1);
    expect(runs.jobs[0]).toMatchObject({ id, crashes: 1 });
  });

  it("while the first list has work, the others get none; the number of priorities is fixed", async () => {
    const begun: unknown[] = [];
    const [high, low] = [make({ name: "high" }), make({ name: "low" })];
    await low.add("job", "low");
    await high.addAll(Array.from({ length: 20 }, () => ({ name: "job", data: "high" })));
    const ordered = createOrderedWorker({ maxPassedOver: 5 });
    redis.defer(() => ordered.close({ timeoutMs: 0 }));
    for (const queue of [high, low]) ordered.serve(queue, { job: ({ data }: Job) => void begun.push(data) });
    await eventually(() => expect(begun).toHaveLength(21));
    expect(begun.indexOf("low")).toBeLessThan(20);

    const [queue, runs] = [make({ name }), new Runs()];
    const priorities = [7, -7, 0, 1_000_000, 3];
    await queue.addAll(priorities.map((priority) => ({ name: "job", data: priority, priority })));
    work(queue, runs.handler);
    await runs.until(5);
    expect(runs.data).toEqual([-7, 0, 3, 7, 1_000_000]);
  });
});

/** A worker that is cut off when its step that moves due jobs is about to be sent, or on its way. */
async function crashWhileMoving(add: () => Promise<void>): Promise<void> {
  const { client, proxy } = await mortal();
  const queue = fixture.on(client, { deadlineMs: 200 });
  const worker = work(queue, () => new Promise(() => undefined), shortLease);
  worker.on("error", () => undefined);
  queue.on("error", () => undefined);
  await fixture.untilIdle(1);
  await add();
  proxy.before = (text) => {
    if (/evalsha/i.test(text)) proxy.cut();
  };
  await eventually(async () => {
    const [, due] = await redis.client.zrange(fixture.keysOf().delayed, "0", "0", "WITHSCORES");
    const [seconds, micros] = await redis.client.time();
    if (due !== undefined && Number(due) > Number(seconds) * 1_000 + Number(micros) / 1_000) throw new Error("not due");
  });
  await proxy[Symbol.asyncDispose]();
}
