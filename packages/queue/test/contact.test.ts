import { eventually, useRedis } from "@kit/testing";
import { aborted } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { keyHead, takenKey } from "../src/job/keys.js";
import { heartbeat, step, type StepReply } from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

const leaseMs = 2_000;

describe("an outage in which leases end", () => {
  const redis = useRedis(vitest, { persistence: "everysec", permanentKeys });
  const fixture = fixtureOf(redis);
  const { make, work } = fixture;
  const server = () => redis.server.nodes[0]!;

  /** The server does not answer from `stop` to `go`, until the leases at that time have ended by its clock. */
  const outage = async (stop: () => unknown, go: () => unknown): Promise<void> => {
    const leases = await fixture.db.zrange(fixture.keysOf().leases, "0", "-1", "WITHSCORES");
    const ends = Math.max(...leases.filter((_, index) => index % 2 === 1).map(Number));
    expect(ends).toBeGreaterThan(0);
    await stop();
    // A silence of half a lease and a second counts as an outage.
    await eventually(() => expect(Date.now()).toBeGreaterThan(ends + 500), { timeoutMs: 20_000 });
    await go();
  };
  const stopping = (): Promise<void> =>
    outage(
      () => server().pause(),
      () => server().resume(),
    );
  const restarting = (): Promise<void> =>
    outage(
      () => server().kill(),
      () => server().start(),
    );
  const options = { leaseMs, maxCrashes: 1 };
  const crashes = async (): Promise<unknown> => await fixture.db.hget(fixture.keysOf().meta, "crashed");

  it("charges no crash to a job whose handler stops, in three outages in a row", async () => {
    const [runs, done] = [new Runs(), latch()];
    const workers = [1, 2].map(() =>
      work(
        make(),
        async (job) => {
          runs.handler(job);
          if (runs.jobs.length > 3) return done.open();
          await aborted(job.signal);
          throw job.signal.reason;
        },
        options,
      ),
    );
    const crashed: unknown[] = [];
    for (const worker of workers) worker.on("crashed", (fact) => crashed.push(fact));
    await make().add("job", 1);
    for (let run = 1; run <= 3; run++) {
      await runs.until(run);
      // Its first heartbeat: from then on a silence is noticed.
      await eventually(async () => expect(await fixture.db.hget(fixture.keysOf().meta, "contactAt")).not.toBeNull());
      await stopping();
    }
    await done.promise;
    await fixture.untilEmpty();
    expect(runs.jobs.map((job) => [job.crashes, job.attempt])).toEqual([1, 2, 3, 4].map(() => [0, 1]));
    expect([crashed, await crashes()]).toEqual([[], null]);
  });

  it.each([
    ["stops", stopping, leaseMs],
    // Connections take longer to come back.
    ["is restarted", restarting, 3 * leaseMs],
  ])("leaves a job with a handler that continues to its worker, when the server %s", async (_, cut, ownMs) => {
    const [runs, held] = [new Runs(), latch()];
    redis.defer(held.open);
    const handler = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
      runs.handler(job);
      await held.promise;
    };
    const workers = [1, 2].map(() => work(make(), handler, { ...options, leaseMs: ownMs }));
    const events: string[] = [];
    for (const worker of workers)
      for (const event of ["completed", "lost", "dead"] as const) worker.on(event, () => events.push(event));
    await make().add("job", 1);
    await runs.until(1);
    await eventually(async () => expect(await fixture.db.hget(fixture.keysOf().meta, "contactAt")).not.toBeNull());
    await cut();
    // Its worker renews the lease again.
    const end = async (): Promise<number> => {
      const [, score] = await fixture.db.zrange(fixture.keysOf().leases, "0", "-1", "WITHSCORES");
      return Number(score);
    };
    await eventually(async () => expect(await end()).toBeGreaterThan(Date.now() + ownMs / 2), { timeoutMs: 15_000 });
    held.open();
    await fixture.untilEmpty();
    await eventually(() => expect(events).toEqual(["lost", "completed"]));
    expect([runs.jobs.length, await crashes()]).toEqual([1, null]);
  });

  it("leaves a job to the only worker of its queue", async () => {
    const [runs, held] = [new Runs(), latch()];
    redis.defer(held.open);
    const worker = work(
      make(),
      async (job) => {
        runs.handler(job);
        await held.promise;
      },
      { leaseMs, maxCrashes: 2, concurrency: 1 },
    );
    await make().add("job", 1);
    await runs.until(1);
    await eventually(async () => expect(await fixture.db.hget(fixture.keysOf().meta, "contactAt")).not.toBeNull());
    const lost = new Promise((resolve) => worker.once("lost", resolve));
    await stopping();
    await lost;
    held.open();
    await fixture.untilEmpty();
    expect([runs.jobs.length, await crashes()]).toEqual([1, null]);
  });

  it("still charges a crash to the job of a worker that died in it, and to no other", async () => {
    const peer = await fixture.spawn({ leaseMs });
    await make().add("job", { log: "theirs", act: "hang" });
    await eventually(async () => expect(await fixture.logged()).toHaveLength(1));
    const [runs, held] = [new Runs(), latch()];
    redis.defer(held.open);
    const worker = work(
      make(),
      async (job) => {
        runs.handler(job);
        if ((job.data as { log: string }).log === "ours") await held.promise;
      },
      { leaseMs, concurrency: 2 },
    );
    const crashed: unknown[] = [];
    worker.on("crashed", ({ crashes: count }) => crashed.push(count));
    await make().add("job", { log: "ours" });
    await runs.until(1);
    await eventually(async () => expect(await fixture.db.hget(fixture.keysOf().meta, "contactAt")).not.toBeNull());
    await outage(
      async () => {
        server().pause();
        await peer.kill();
      },
      () => server().resume(),
    );
    await runs.until(2);
    held.open();
    await fixture.untilEmpty();
    expect(runs.jobs.map((job) => [(job.data as { log: string }).log, job.crashes])).toEqual([
      ["ours", 0],
      ["theirs", 1],
    ]);
    expect([crashed, await crashes()]).toEqual([[1], "1"]);
  });

  it("is not seen in the death of one worker next to an idle one, however long the queue was silent before", async () => {
    const { meta, leases } = fixture.keysOf();
    const peer = await fixture.spawn({ leaseMs });
    const runs = new Runs();
    const worker = work(make(), runs.handler, { leaseMs });
    await fixture.untilIdle(2);
    // Whichever takes it first: the other one is idle.
    await worker.pause();
    await make().add("job", { log: "theirs", act: "hang" });
    await eventually(async () => expect(await fixture.logged()).toHaveLength(1));
    worker.resume();
    await fixture.untilIdle(1);
    await peer.kill();
    await fixture.db.hset(meta, "contactAt", Date.now() - 3_600_000);
    const end = Number((await fixture.db.zrange(leases, "0", "-1", "WITHSCORES"))[1]);
    await runs.until(1);
    expect(runs.jobs[0]!.crashes).toBe(1);
    // It ended before the lease did, so the job was not late.
    expect(Number(await fixture.db.hget(meta, "graceUntil"))).toBeLessThanOrEqual(end);
    expect(Number(await fixture.db.hget(meta, "contactAt"))).toBeGreaterThanOrEqual(end);
  });
});

describe("a step that finds ended leases", () => {
  const redis = useRedis(vitest, { permanentKeys });
  const fixture = fixtureOf(redis);
  const member = "workerX00003own";
  const second = 1_000;

  const look = async (maintenance = ""): Promise<StepReply> => {
    const keys = { ...fixture.keysOf(), taken: takenKey(keyHead(redis.prefix, name), "worker000003"), replies: [] };
    const args = { takeId: "worker000003", count: 0, sure: 0, room: "", leaseMs: 10 * second, flags: "look" };
    return await step.run(redis.client, keys, { ...args, bounds: "3 9 9 9", maintenance, done: "", others: [] });
  };
  const fill = async (contactAt: number | undefined, graceUntil?: number): Promise<number> => {
    const { jobs, leases, meta } = fixture.keysOf();
    const now = Date.now();
    await fixture.db.hset(jobs, "own", "k1 job\n1");
    await fixture.db.zadd(leases, now - second, member);
    if (contactAt !== undefined) await fixture.db.hset(meta, "contactAt", now + contactAt);
    if (graceUntil !== undefined) await fixture.db.hset(meta, "graceUntil", now + graceUntil);
    return now;
  };

  it("reclaims none after a silence, until their holders had time", async () => {
    const { meta, leases } = fixture.keysOf();
    const now = await fill(-7 * second);
    for (let looks = 0; looks < 3; looks++) {
      const { reclaimed, nextEnd } = await look(looks === 1 ? "0" : "");
      expect(reclaimed).toEqual([]);
      expect(nextEnd).toBeGreaterThanOrEqual(now + 3.5 * second);
      expect(nextEnd).toBeLessThan(now + 8 * second);
    }
    expect(await fixture.db.hget(meta, "crashed")).toBeNull();
    // Its holder is alive.
    const beat = { leaseMs: 10 * second, members: member, record: "" };
    expect(await heartbeat.run(redis.client, fixture.keysOf(), beat)).toMatchObject({ lost: [] });
    expect(Number(await fixture.db.zscore(leases, member))).toBeGreaterThanOrEqual(now + 10 * second);
    await fixture.db.zadd(leases, now - second, member);
    await fixture.db.hset(meta, "graceUntil", now - 1);
    expect(await look()).toMatchObject({ reclaimed: [{ member, crashes: 1 }] });
  });

  it.each([
    ["workers were in contact", -3 * second, undefined],
    ["no worker ever left its time", undefined, undefined],
    ["the clock was set back", 3_600 * second, undefined],
    ["the clock was set back in such a time", -second, 3_600 * second],
    ["that time is over", -second, -second],
  ])("reclaims them if %s", async (_, contactAt, graceUntil) => {
    await fill(contactAt, graceUntil);
    expect(await look()).toMatchObject({ reclaimed: [{ member, crashes: 1 }] });
  });
});
