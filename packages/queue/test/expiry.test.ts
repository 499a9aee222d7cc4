import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { JobExpiredError } from "../src/index.js";
import { editJob, inspectJob, inspectQueue, promoteJob, rescheduleJob } from "../src/manage/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

describe("a job that expires", () => {
  const redis = useRedis(vitest, { permanentKeys });
  const fixture = fixtureOf(redis);
  const { make, work, age } = fixture;
  const long = { expiresMs: 600_000 };
  const address = () => ({ queue: name, prefix: redis.prefix });

  it("does not run once its time is over, is not completed, and is gone", async () => {
    const [queue, runs, expired] = [make(long), new Runs(), [] as unknown[]];
    const add = async (data: string, options = {}): Promise<string> => await queue.add("job", data, options);
    const ids = [await add("old"), await add("old own", { id: "own", priority: 3 })];
    await add("fresh");
    await add("for good", { expiresMs: 86_400_000 * 365 * 1_000 });
    ids.push(await add("old delayed", { delayMs: 600_000 }));
    const due = [await add("delayed", { delayMs: 86_400_000 }), await add("at", { dueAt: new Date("2100-01-01") })];
    for (const id of ids) await age(id);
    expect(await editJob(redis.client, address(), ids[0]!, { maxAttempts: 4 })).toBe("edited");
    expect((await inspectJob(redis.client, address(), ids[0]!)).expiresAt).toMatch(/^1970-01-01T00:10:00/);
    expect((await inspectJob(redis.client, address(), due[1]!)).expiresAt).toBe("2100-01-01T00:10:00.000Z");
    for (const id of [ids[2]!, ...due]) expect(await promoteJob(redis.client, address(), id)).toBe("ready");
    const worker = work(queue, runs.handler);
    worker.on("expired", ({ job }) => expired.push(job.data));
    await fixture.untilEmpty();
    expect(runs.data.map(String).toSorted()).toEqual(["at", "delayed", "for good", "fresh"]);
    await eventually(() => expect(expired.map(String).toSorted()).toEqual(["old", "old delayed", "old own"]));
    await worker.close();
    expect((await inspectQueue(redis.client, address())).completed).toBe(4);
  });

  it("runs again whatever its age after it failed, crashed, or was redriven", async () => {
    const [queue, runs] = [make({ ...long, maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } }), new Runs()];
    const first = work(queue, (job) => {
      runs.handler(job);
      throw new Error("broken");
    });
    const ended: string[] = [];
    for (const event of ["failed", "dead"] as const) first.on(event, ({ job: { id } }) => ended.push(id));
    const failed = await queue.add("job", "failed");
    const dead = await queue.add("job", "dead", { maxAttempts: 1 });
    await eventually(() => expect(ended).toHaveLength(3));
    await first.close();
    // A worker died with it.
    const crashed = await queue.add("job", "crashed");
    await fixture.db.lrem(fixture.keysOf().waiting, 1, crashed);
    await fixture.db.zadd(fixture.keysOf().leases, 1, `workerX00001${crashed}`);
    for (const id of [failed, dead, crashed]) await age(id);
    expect(await queue.redrive()).toBe(1);
    await promoteJob(redis.client, address(), failed);
    const [again, expired] = [new Runs(), [] as unknown[]];
    const second = work(queue, again.handler).on("expired", ({ job }) => expired.push(job.data));
    await fixture.untilEmpty();
    await second.close();
    expect(again.data.map(String).toSorted()).toEqual(["crashed", "dead", "failed"]);
    expect(again.jobs.find(({ id }) => id === dead)).toMatchObject({ attempt: 1 });
    expect(expired).toEqual([]);
    expect(await fixture.counts()).toMatchObject({ jobs: 0, failures: 0 });
  });

  it("has its time again when it is rescheduled", async () => {
    const queue = make();
    const expires = async (id: string): Promise<number> =>
      Date.parse((await inspectJob(redis.client, address(), id)).expiresAt ?? "");
    const dueAt = new Date("2100-01-01");
    const ids = [
      await queue.add("e5 e6", " e7", long),
      await queue.add("job", 1, { ...long, dueAt: 4e12, priority: 2 }),
    ];
    for (const id of ids) {
      expect(await rescheduleJob(redis.client, address(), id, { dueAt })).toBe("delayed");
      expect(await expires(id)).toBe(dueAt.getTime() + long.expiresMs);
    }
    const never = await queue.add("e5", " e7");
    await rescheduleJob(redis.client, address(), never, { dueAt });
    expect(await fixture.db.hget(fixture.keysOf().jobs, never)).toMatch(/^\w+ e5\n" e7"$/);
    expect(await fixture.db.hget(fixture.keysOf().jobs, ids[0]!)).toMatch(/^\w+ e5%20e6 e600000@\d+\n" e7"$/);
  });

  it("has its whole time, however late the reply to an earlier add was", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect({ url: proxy.url });
    redis.defer(() => client.close());
    const queue = fixture.on(client, { deadlineMs: 20_000 });
    await queue.add("job", "first");
    proxy.down.latencyMs = 500;
    await queue.add("job", "slow");
    proxy.heal();
    const [seconds, micros] = (await redis.server.call("TIME")) as [string, string];
    const id = await queue.add("job", "last", long);
    const expiresAt = Date.parse((await inspectJob(redis.client, address(), id)).expiresAt ?? "");
    expect(expiresAt).toBeGreaterThan(Number(seconds) * 1_000 + Number(micros) / 1_000 + long.expiresMs - 2);
  });

  it("runs again when its handler handed it over, or the worker closed before it had ended", async () => {
    const [queue, runs] = [make(long), new Runs()];
    const worker = work(
      queue,
      async (job) => {
        runs.handler(job);
        await new Promise((resolve) => job.closing.addEventListener("abort", resolve));
        if (job.data === "handed over") throw job.closing.reason;
        await new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(new Error("aborted"))));
      },
      { concurrency: 2 },
    );
    const ids = [await queue.add("job", "handed over"), await queue.add("job", "aborted", { priority: 1 })];
    await runs.until(2);
    for (const id of ids) await age(id);
    await worker.close({ timeoutMs: 0 });
    const [again, expired] = [new Runs(), [] as unknown[]];
    const second = work(make(), again.handler).on("expired", ({ job }) => expired.push(job.data));
    await again.until(2);
    expect(again.data).toEqual(["handed over", "aborted"]);
    expect(again.jobs.map(({ attempt, crashes }) => [attempt, crashes])).toEqual([
      [1, 0],
      [1, 0],
    ]);
    await second.close();
    expect(expired).toEqual([]);
  });

  it("rejects its call", async () => {
    const queue = make();
    const call = rejection(queue.call("job", 1, { delayMs: 86_400_000, ...long }));
    const [id] = await eventually(async () => {
      const ids = await fixture.db.hkeys(fixture.keysOf().jobs);
      expect(ids).toHaveLength(1);
      return ids;
    });
    expect(await fixture.db.hget(fixture.keysOf().jobs, id!)).toMatch(/^\w+ job e87000000 r\S+\n1$/);
    await age(id!);
    await promoteJob(redis.client, address(), id!);
    work(queue, () => undefined);
    expect(await call).toBeInstanceOf(JobExpiredError);
  });
});
