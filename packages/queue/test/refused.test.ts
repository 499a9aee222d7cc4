import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { JobRefusedError } from "../src/index.js";
import { inspectQueue } from "../src/manage/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const { make } = fixture;
const address = () => ({ queue: name, prefix: redis.prefix });

describe("a fleet in which one deploy lacks a handler", () => {
  it("runs every job once, counts no attempt, and reports the name once", async () => {
    const [invoices, mails, queue] = [new Runs(), new Runs(), make()];
    const errors: unknown[] = [];
    const wrong = queue.work({ mail: mails.handler }, { concurrency: 20 });
    wrong.on("error", (error) => errors.push(error));
    const names = ["invoice", "mail"];
    const [invoice] = await queue.addAll(
      Array.from({ length: 1_000 }, (_, data) => ({ name: names[data % 2]!, data })),
    );
    // The wrong worker is alone: it serves its other jobs.
    await mails.until(500);
    expect(await fixture.counts()).toMatchObject({ dead: 0 });
    // No hot loop: between passes a job waits, by the server's clock.
    const takes: number[] = [];
    wrong.on("snoozed", ({ job }) => {
      if (job.id === invoice) takes.push(job.takenAt);
    });
    await eventually(() => expect(takes.length).toBeGreaterThanOrEqual(3));
    expect(takes[2]! - takes[0]!).toBeGreaterThanOrEqual(2 * 250);
    queue.work({ invoice: invoices.handler, mail: mails.handler }, { concurrency: 20 });
    // Each pass doubles the delay of a job, up to a minute.
    await invoices.until(500, 45_000);
    await fixture.untilEmpty();
    expect([new Set(invoices.data).size, new Set(mails.data).size]).toEqual([500, 500]);
    expect(new Set([...invoices.jobs, ...mails.jobs].map(({ attempt, snoozes }) => attempt + snoozes))).toEqual(
      new Set([1]),
    );
    expect(await fixture.counts()).toMatchObject({ jobs: 0, dead: 0, failures: 0 });
    expect(errors).toMatchObject([{ code: "KIT_JOB_REFUSED", job: "invoice" }]);
  });

  it("lets a job that was passed on expire, and none that has started", async () => {
    const queue = make();
    const ids = await queue.addAll([
      { name: "job", data: "fresh", expiresMs: 600_000 },
      { name: "job", data: "begun", expiresMs: 600_000 },
    ]);
    const { failures } = fixture.keysOf();
    await redis.client.hset(failures, ids[0]!, "0\t0\t\t0\t3 fresh", ids[1]!, "0\t0\t\t0\t3");
    for (const id of ids) await fixture.age(id);
    const runs = new Runs();
    fixture.work(queue, runs.handler);
    await fixture.untilEmpty();
    expect(runs.data).toEqual(["begun"]);
  });
});

describe("a job that cannot be read", () => {
  it.each([
    ["data", "k1 job\n{"],
    ["header", "no header"],
  ])("in its %s says so, and is passed on", async (_what, blob) => {
    const queue = make();
    const id = await queue.add("job", 1, { delayMs: 600_000 });
    const { jobs, delayed, waiting } = fixture.keysOf();
    await redis.client.hset(jobs, id, blob);
    await redis.client.zrem(delayed, id);
    await redis.client.rpush(waiting, id);
    const worker = fixture.work(queue, () => undefined);
    const error = await new Promise<unknown>((resolve) => worker.once("error", resolve));
    expect(error).toBeInstanceOf(JobRefusedError);
    expect(String(error)).toMatch(/cannot run here: the stored data cannot be read$/);
    await eventually(async () => expect(await fixture.counts()).toMatchObject({ delayed: 1, dead: 0 }));
    await worker.close();
  });
});

describe("dead letters of the last hour", () => {
  it("are not dropped without an event that counts them", async () => {
    const queue = make({ deadLetters: { maxCount: 3 } });
    let dropped = 0;
    const worker = fixture.work(queue, () => {
      throw new Error("broken");
    });
    worker.on("dropped", ({ count }) => (dropped += count));
    await queue.addAll(Array.from({ length: 50 }, (_, data) => ({ name: "job", data })));
    await fixture.untilEmpty();
    await eventually(async () => {
      expect((await fixture.counts()).dead).toBe(3);
      expect(dropped).toBe((await inspectQueue(redis.client, address())).deadDropped);
    });
    expect(dropped).toBe(47);
  });
});

describe("handlers", () => {
  class Mail {
    job(): void {}
  }
  it.each([
    ["no object", 7],
    ["none", {}],
    ["a Map", new Map([["job", () => 0]])],
    ["an array", [() => 0]],
    ["an instance of a class", new Mail()],
    ["inherited ones", Object.create({ job: () => 0 })],
    ["a value that is no function", { job: 7 }],
  ])("that are %s throw a TypeError", (_what, handlers) => {
    expect(() => make().work(handlers as never)).toThrow(TypeError);
  });
});
