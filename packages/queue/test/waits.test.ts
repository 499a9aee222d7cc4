import type { Connection } from "@kit/core";
import type { Report } from "@kit/core/toolkit";
import { eventually, useRedis } from "@kit/testing";
import { commandCall, inspectCall } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { addFlow } from "../src/flows/index.js";
import type { JobReport } from "../src/manage/index.js";
import { inspectJob, inspectQueue, pauseQueue, resumeQueue, setLimits } from "../src/manage/index.js";
import { RateLimitError } from "../src/index.js";
import { createSchedules } from "../src/schedules/index.js";
import { fixtureOf, latch, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const client = (): Connection => redis.client as unknown as Connection;

type Options = Parameters<typeof inspectCall>[2];
const look = async (thing: string, names: readonly string[], options?: Options): Promise<Report> =>
  await descriptor
    .inspectors!.find((one) => one.thing === thing)!
    .look(inspectCall(client(), redis.prefix, options), ...names);
const run = async (path: string, names: readonly string[], options?: Options): Promise<unknown> => {
  const call = commandCall(client(), redis.prefix, options);
  await descriptor.commands!.find((one) => one.path === path)!.run(call, ...names);
  return call.written.reports[0];
};

type Waits = JobReport & { readonly waits: readonly { code: string; text: string; until: string | null }[] };
const waitsOf = async (id: string): Promise<Waits["waits"]> => ((await look("job", ["mail", id])).data as Waits).waits;
const codesOf = async (id: string): Promise<string[]> => (await waitsOf(id)).map(({ code }) => code);

describe("why a job does not run", () => {
  it("has no worker, no worker with its handler, and no free handler", async () => {
    const queue = fixture.make();
    const id = await queue.add("job", 1);
    expect(await codesOf(id)).toEqual(["no-worker"]);
    const { promise, open } = latch();
    redis.defer(open);
    queue.work({ other: async () => await promise }, { leaseMs: 1_000, strict: true });
    // The worker hands it back until another one has its handler.
    await eventually(async () => expect(await codesOf(id)).toEqual(["no-handler", "due"]));
    await queue.add("other", 1);
    const second = await queue.add("other", 1);
    await eventually(async () => expect(await codesOf(second)).toEqual(["busy"]));
  });

  it("was passed on by a worker without its handler, while the handlers of another one are busy", async () => {
    const queue = fixture.make();
    const { promise, open } = latch();
    redis.defer(open);
    queue.work({ job: async () => await promise });
    await queue.add("job", 1);
    await eventually(async () => expect((await inspectQueue(client(), fixture.address)).active).toBe(1));
    const id = await queue.add("job", 2);
    queue.work({ other: () => undefined });
    await eventually(async () => {
      const waits = await waitsOf(id);
      expect(waits.map(({ code }) => code)).toEqual(["busy", "due"]);
      expect(waits[1]!.text).toMatch(/^Workers that cannot run it have passed it on \d+ times?\. It is due /);
    });
  });

  it("is held back by its group: a pause, a taken place, a retry that keeps the order", async () => {
    const queue = fixture.make();
    await queue.add("job", 1, { group: "a" });
    const id = await queue.add("job", 1, { group: "b" });
    expect(await codesOf(id)).toEqual(["no-worker"]);
    await pauseQueue(client(), fixture.address, { group: "b" });
    expect(await codesOf(id)).toEqual(["group-paused"]);
    await resumeQueue(client(), fixture.address, { group: "b" });
    const { promise, open } = latch();
    redis.defer(open);
    const worker = queue.work({ job: async () => await promise }, { concurrency: 2 });
    await eventually(async () => expect((await inspectQueue(client(), fixture.address)).active).toBe(2));
    const second = await queue.add("job", 1, { group: "b" });
    expect(await codesOf(second)).toEqual(["group-full"]);
    open();
    await eventually(async () => expect(await codesOf(second)).toEqual([]));
    await worker.close();
    const failing = fixture.make({ maxAttempts: 2, backoff: { firstMs: 60_000, jitter: 0 } });
    await failing.add("fails", 1, { group: "c" });
    const third = await failing.add("fails", 1, { group: "c" });
    failing.work({ fails: () => Promise.reject(new Error("not now")) });
    await eventually(async () => {
      const [wait] = await waitsOf(third);
      expect(wait?.code).toBe("group-retrying");
      expect(Date.parse(wait?.until ?? "")).toBeGreaterThan(Date.now());
    });
  });

  it("is held back by a pause of the queue, and by a pause of its name, until each is resumed", async () => {
    const queue = fixture.make();
    const [id, other] = [await queue.add("job", 1), await queue.add("other", 1)];
    await pauseQueue(client(), fixture.address);
    await pauseQueue(client(), fixture.address, { name: "job" });
    expect(await codesOf(id)).toEqual(["paused", "name-paused"]);
    expect(await codesOf(other)).toEqual(["paused"]);
    await resumeQueue(client(), fixture.address);
    expect(await codesOf(id)).toEqual(["name-paused"]);
    expect(await codesOf(other)).toEqual(["no-worker"]);
  });

  it("waits for the rate, until the server lets the next job start", async () => {
    const queue = fixture.make();
    await setLimits(client(), fixture.address, { rate: { count: 1, perMs: 60_000, burst: 1 } });
    fixture.work(queue, () => undefined, { leaseMs: 1_000 });
    await queue.add("job", 1);
    const id = await queue.add("job", 2);
    await eventually(async () => expect(await codesOf(id)).toEqual(["rate"]));
    expect((await look("queue", ["mail"])).data).toMatchObject({ waits: [{ code: "rate" }] });
    const [{ until } = { until: "" }] = await waitsOf(id);
    const { now } = await inspectQueue(client(), fixture.address);
    const left = Date.parse(until ?? "") - now;
    expect(left).toBeGreaterThan(30_000);
    expect(left).toBeLessThanOrEqual(60_000);
  });

  it("waits as long as a handler has asked for", async () => {
    const queue = fixture.make();
    fixture.work(queue, () => {
      throw new RateLimitError(60_000);
    });
    await queue.add("job", 1, { maxAttempts: 3 });
    const id = await queue.add("job", 2);
    await eventually(async () => expect(await codesOf(id)).toEqual(["held"]));
  });

  it("waits for the concurrency of the queue, and of its name", async () => {
    const queue = fixture.make();
    const { promise, open } = latch();
    redis.defer(open);
    await setLimits(client(), fixture.address, { concurrency: 1, names: { job: { concurrency: 1 } } });
    fixture.work(queue, async () => await promise, { leaseMs: 1_000, concurrency: 4 });
    await queue.add("job", 1);
    const id = await queue.add("job", 2);
    await eventually(async () => expect(await codesOf(id)).toEqual(["concurrency"]));
    await setLimits(client(), fixture.address, { concurrency: null });
    await eventually(async () => expect(await codesOf(id)).toEqual(["name-concurrency"]));
  });

  it("is due later, after a delay or a failed attempt, or after the active job of its key", async () => {
    const queue = fixture.make();
    const delayed = await queue.add("job", 1, { delayMs: 3_600_000 });
    expect((await waitsOf(delayed))[0]).toMatchObject({
      code: "due",
      text: expect.stringMatching(/^It is due in (59|60) min$/) as string,
      until: expect.stringMatching(/^20/) as string,
    });
    const { promise, open } = latch();
    redis.defer(open);
    const failing = await queue.add("fails", 1, { maxAttempts: 2, backoff: { firstMs: 3_600_000, jitter: 0 } });
    queue.work(
      {
        fails: () => {
          throw new Error("no");
        },
        held: async () => await promise,
      },
      { leaseMs: 1_000 },
    );
    await eventually(async () =>
      expect((await waitsOf(failing))[0]?.text).toMatch(/^Attempt 1 failed. It is due in (59|60) min$/),
    );
  });

  it("waits for its children", async () => {
    const queue = fixture.make();
    const { id } = await addFlow(queue, {
      name: "sum",
      data: 0,
      children: [
        { name: "a", data: 1 },
        { name: "b", data: 2 },
      ],
    });
    expect(await waitsOf(id)).toEqual([{ code: "children", text: "2 children are not finished", until: null }]);
  });

  it("gives no reason for a job that runs, is dead or is unknown, and one for a lost job", async () => {
    const queue = fixture.make();
    const { promise, open } = latch();
    redis.defer(open);
    const lost = await queue.add("job", 0);
    await fixture.db.del(fixture.keysOf().waiting);
    expect(await codesOf(lost)).toEqual(["lost"]);
    fixture.work(queue, async () => await promise, { leaseMs: 1_000 });
    const active = await queue.add("job", 1);
    await eventually(async () => expect((await inspectJob(client(), fixture.address, active)).state).toBe("active"));
    expect(await codesOf(active)).toEqual([]);
    expect(await codesOf("nobody")).toEqual([]);
  });

  it("is in the words of the reports of the job and of its queue", async () => {
    const id = await fixture.make().add("job", 1);
    for (const { facts } of [await look("job", ["mail", id]), await look("queue", ["mail"])])
      expect(facts).toContainEqual(["waits because", "No worker is connected to this queue"]);
  });
});

describe("a quick look at a job", () => {
  /** Stores further jobs with the header of the job `first`: a job that waits for each number, and `gone`, which no list has. */
  const crowd = async (jobs: number): Promise<void> => {
    const { waiting, jobs: stored } = fixture.keysOf();
    await fixture.db.eval(
      `local blob = redis.call('HGET', KEYS[2], 'first')
       for n = 1, ARGV[1] do
         redis.call('RPUSH', KEYS[1], 'j' .. n)
         redis.call('HSET', KEYS[2], 'j' .. n, blob)
       end
       redis.call('HSET', KEYS[2], 'gone', blob)`,
      2,
      ...[waiting, stored, jobs],
    );
  };
  const stateOf = async (id: string, quick = true): Promise<string> =>
    (await inspectJob(client(), fixture.address, id, { quick })).state;

  it("reads ready jobs only if the queue has lost some", async () => {
    await fixture.make().add("job", 1, { id: "first" });
    const seen = async (id: string): Promise<unknown> => {
      await fixture.db.config("RESETSTAT");
      return [await stateOf(id), (await fixture.db.info("commandstats")).includes("cmdstat_lrange")];
    };
    expect([await seen("first"), await seen("nobody")]).toEqual([
      ["ready", false],
      ["none", false],
    ]);
    await crowd(100);
    expect([await seen("gone"), await seen("first")]).toEqual([
      ["lost", true],
      ["ready", true],
    ]);
  });

  it("assumes after 8,000 entries that the job is ready", async () => {
    await fixture.make().add("job", 1, { id: "first" });
    await crowd(9_000);
    expect([await stateOf("gone"), await stateOf("gone", false)]).toEqual(["ready", "lost"]);
  });

  it("finds an active job", async () => {
    const queue = fixture.make();
    const { promise, open } = latch();
    redis.defer(open);
    queue.work({ job: async () => await promise });
    const id = await queue.add("job", 1);
    await eventually(async () => expect(await stateOf(id)).toBe("active"));
  });
});

describe("kit queue limit", () => {
  it("shows, sets and removes the limits of the queue and of a name", async () => {
    await fixture.make().add("job", 1);
    expect(await run("queue limit", ["mail"])).toMatchObject({ concurrency: null, rate: null, names: [] });
    await run("queue limit", ["mail"], { concurrency: 5, rate: 100, "per-ms": 60_000, burst: 7 });
    expect(await run("queue limit", ["mail"])).toMatchObject({
      concurrency: 5,
      rate: { count: 100, perMs: 60_000, burst: 7 },
    });
    await run("queue limit", ["mail"], { concurrency: 2, name: "job" });
    expect(await run("queue limit", ["mail"])).toMatchObject({
      concurrency: 5,
      names: [expect.objectContaining({ name: "job", concurrency: 2 })],
    });
    await run("queue limit", ["mail"], { concurrency: 0, rate: 0 });
    await run("queue limit", ["mail"], { concurrency: 0, name: "job" });
    expect(await run("queue limit", ["mail"])).toMatchObject({ concurrency: null, rate: null, names: [] });
  });

  it("knows no queue that has had nothing", async () => {
    expect(await run("queue limit", ["nowhere"], { concurrency: 1 })).toEqual({ queue: "nowhere" });
    expect(await fixture.db.exists(fixture.keysOf("nowhere").limits)).toBe(0);
  });
});

describe("kit queue reschedule and edit", () => {
  it("change a job that waits, and report one that they cannot change", async () => {
    const queue = fixture.make();
    const id = await queue.add("job", 1);
    expect(await run("queue reschedule", ["mail", id], { "delay-ms": 60_000 })).toMatchObject({ state: "delayed" });
    expect(
      await run("queue edit", ["mail", id], { priority: 3, "max-attempts": 4, "timeout-ms": 5_000 }),
    ).toMatchObject({
      outcome: "edited",
    });
    expect(await inspectJob(client(), fixture.address, id)).toMatchObject({
      ...{ state: "delayed", priority: 3, maxAttempts: 4, timeoutMs: 5_000 },
    });
    expect(await run("queue edit", ["mail", id], { data: '{"to":"bob"}' })).toMatchObject({ outcome: "edited" });
    expect(await inspectJob(client(), fixture.address, id, { withData: true })).toMatchObject({ data: { to: "bob" } });
    await expect(run("queue edit", ["mail", id], { data: "{to" })).rejects.toThrow("Expected --data to be JSON");
    expect(await run("queue edit", ["mail", "nobody"], { priority: 1 })).toMatchObject({ outcome: "none" });
    await expect(run("queue reschedule", ["mail", id])).rejects.toThrow("Pass --delay-ms");
  });
});

describe("kit queue schedule", () => {
  it("pauses, resumes and runs a schedule, and inspects it with its next ten runs", async () => {
    const schedules = createSchedules(client(), "mail", { prefix: redis.prefix });
    redis.defer(() => schedules.close());
    await schedules.upsert("nightly", { everyMs: 86_400_000, name: "report", data: { secret: 1 } });
    const { data, table } = await look("schedule", ["mail", "nightly"]);
    expect(data).toMatchObject({ queue: "mail", id: "nightly", name: "report", isPaused: false });
    expect(JSON.stringify(data)).not.toContain("secret");
    expect(table?.rows).toHaveLength(10);
    expect(await run("queue schedule pause", ["mail", "nightly"])).toMatchObject({ paused: true });
    expect((await look("schedule", ["mail", "nightly"])).data).toMatchObject({ isPaused: true, next: [] });
    expect(await run("queue schedule resume", ["mail", "nightly"])).toMatchObject({ resumed: true });
    expect(await run("queue schedule run", ["mail", "nightly"])).toMatchObject({
      added: expect.stringMatching(/^nightly@/) as string,
    });
    expect(await look("schedule", ["mail", "nobody"])).toMatchObject({ isUnknown: true });
    expect(await run("queue schedule run", ["mail", "nobody"])).toMatchObject({ added: null });
  });
});
