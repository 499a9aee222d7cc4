import { hostname } from "node:os";
import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { keyHead, takenKeys } from "../src/job/keys.js";
import { inspectJob, listJobs, listWorkers, type QueueWorker } from "../src/manage/index.js";
import * as workers from "../src/workers/scripts/index.js";
import * as readers from "../src/workers/scripts/readers.js";
import { user } from "./acl.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** How long a worker is listed after its last sign of life. */
const listedMs = 30_000;

/** The records of workers, on one server (as the ACL user of a queue) or on a Cluster. */
inModes({ single: user.loginForText }, (mode, login) => {
  describe(`the workers of a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, { ...workers, ...readers });
    const fixture = fixtureOf(redis, login);
    const { make, work, spawn } = fixture;
    const client = (): ReturnType<typeof fixture.connect> => (lazy ??= fixture.connect());
    let lazy: ReturnType<typeof fixture.connect> | undefined;
    vitest.afterEach(() => (lazy = undefined));
    const list = async (): Promise<readonly QueueWorker[]> => (await listWorkers(client(), fixture.address)).workers;
    const until = (check: (listed: readonly QueueWorker[]) => void): Promise<void> =>
      eventually(async () => check(await list()), { timeoutMs: 20_000 });
    const record = async (id: string): Promise<string> => (await fixture.db.hget(fixture.keysOf().workers, id)) ?? "";
    /** Lets the last sign of life of a worker have been this long ago. */
    const age = async (id: string, ms: number): Promise<void> => {
      const [, ...lines] = (await record(id)).split("\n");
      const { now } = await listWorkers(client(), fixture.address);
      await fixture.db.hset(fixture.keysOf().workers, id, [now - ms, ...lines].join("\n"));
      for (const key of takenKeys(keyHead(redis.prefix, name), id)) await fixture.db.pexpire(key, 600_000 - ms);
    };

    it("are listed while they live, with their names, their handlers, and the job that each has run for longest", async () => {
      const held = latch();
      redis.defer(held.open);
      const queue = make();
      const options = { name: "mailer", concurrency: 7, leaseMs: 500, abortGraceMs: 100 };
      queue.work({ job: () => held.promise, "*": () => undefined }, options);
      const first = await queue.add("job", 1);
      await until(([worker]) =>
        expect(worker).toMatchObject({
          ...{ host: hostname(), pid: process.pid, name: "mailer", concurrency: 7, state: "running" },
          ...{ handles: ["job", "*"], handlesMore: false, version: "source", running: 1, longest: { id: first } },
        }),
      );
      await queue.add("job", 2);
      await until(([worker]) => expect(worker).toMatchObject({ running: 2, longest: { id: first } }));
      const [worker, ...none] = await list();
      expect(none).toEqual([]);
      const [since, startedAt, seenAt] = [worker!.since!, worker!.longest!.startedAt, worker!.seenAt].map(Date.parse);
      // The server's clock is known to within a round trip.
      expect(startedAt! - since!).toBeGreaterThan(-5_000);
      expect(seenAt).toBeGreaterThanOrEqual(startedAt!);
      expect(seenAt! - since!).toBeLessThan(20_000);
    });

    it("are named by their active jobs, with the time at which the handler started", async () => {
      const held = latch();
      redis.defer(held.open);
      const queue = make();
      work(queue, () => held.promise, { leaseMs: 500, name: "mailer", concurrency: 2 });
      const before = Date.now();
      const ids = [await queue.add("job", 1), await queue.add("job", 2, { priority: 3 })];
      await until(([worker]) => expect(worker?.running).toBe(2));
      const [{ id } = { id: "" }] = await list();
      const { jobs } = await listJobs(client(), fixture.address, { state: "active" });
      const run = {
        worker: { id, host: hostname(), pid: process.pid, name: "mailer" },
        startedAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      };
      expect(jobs).toMatchObject([run, run]);
      for (const job of ids) {
        const report = await inspectJob(redis.client, fixture.address, job);
        expect(report).toMatchObject({ state: "active", ...run });
        expect(Math.abs(Date.parse(report.startedAt!) - before)).toBeLessThan(20_000);
      }
      const delayed = await queue.add("job", 3, { delayMs: 60_000 });
      expect(await inspectJob(redis.client, fixture.address, delayed)).toMatchObject({ worker: null, startedAt: null });
    });

    it("are gone immediately when they close, and 30 s after their last sign of life when they die", async () => {
      const [queue, peer] = [make(), await spawn()];
      const worker = work(queue, () => undefined);
      await until((listed) => expect(listed).toHaveLength(2));
      await worker.close();
      const [other, ...none] = await list();
      expect(none).toEqual([]);
      expect(other!.pid).toBe(peer.pid);
      await peer.kill();
      await age(other!.id, listedMs - 10_000);
      expect(await list()).toHaveLength(1);
      await age(other!.id, listedMs + 1);
      expect(await list()).toEqual([]);
      expect(await record(other!.id)).not.toBe("");
    });

    it("that run short jobs write no record, and stay listed", async () => {
      const [queue, runs] = [make(), new Runs()];
      const worker = work(queue, runs.handler);
      await until((listed) => expect(listed).toHaveLength(1));
      const [{ id } = { id: "" }] = await list();
      await fixture.untilIdle(1);
      const before = await record(id);
      for (let count = 1; count <= 50; count++) {
        await queue.add("job", count);
        await runs.until(count);
      }
      expect(await record(id)).toBe(before);
      // Its takes alone show that it lives.
      const [at = "", ...lines] = before.split("\n");
      await fixture.db.hset(fixture.keysOf().workers, id, [Number(at) - 100_000, ...lines].join("\n"));
      expect(await list()).toHaveLength(1);
      await worker.close();
    });

    it("do not show a job that has ended since their last heartbeat", async () => {
      const [queue, held] = [make(), latch()];
      redis.defer(held.open);
      work(queue, () => held.promise, { leaseMs: 20_000 });
      const id = await queue.add("job", 1);
      await until(([worker]) => expect(worker).toMatchObject({ running: 1, longest: { id } }));
      held.open();
      await fixture.untilEmpty();
      const [worker] = await list();
      expect(worker).toMatchObject({ running: 0, longest: null });
      expect(await record(worker!.id)).toContain(id);
    });

    it("stay listed while they are paused, and report it", async () => {
      const worker = work(make(), () => undefined);
      await until((listed) => expect(listed).toMatchObject([{ state: "running" }]));
      await worker.pause();
      await until((listed) => expect(listed).toMatchObject([{ state: "paused" }]));
      worker.resume();
      await until((listed) => expect(listed).toMatchObject([{ state: "running" }]));
    });

    it("show themselves again after a lost connection, on which the server may have lost all", async () => {
      work(make(), () => undefined);
      await until((listed) => expect(listed).toHaveLength(1));
      await fixture.db.del(fixture.keysOf().workers);
      expect(await list()).toEqual([]);
      for (const node of redis.server.nodes) await node.call("CLIENT", "KILL", "TYPE", "normal");
      await until((listed) => expect(listed).toHaveLength(1));
    });

    it("leave records that cannot break a reader, whatever they contain", async () => {
      const held = latch();
      redis.defer(held.open);
      const queue = make();
      work(queue, () => held.promise);
      const job = await queue.add("job", 1);
      await until(([worker]) => expect(worker?.state).toBe("running"));
      await eventually(async () => expect((await fixture.counts()).leases).toBe(1));
      const [member = ""] = await fixture.db.zrange(fixture.keysOf().leases, "0", "-1");
      const own = member.slice(0, 7);
      const now = (await record(own)).split("\n", 1)[0]!;
      const wide = JSON.stringify({
        host: "h".repeat(9_999),
        pid: "1",
        name: 5,
        concurrency: -1,
        since: 1e300,
        state: "on",
      });
      const records: Record<string, string | Buffer> = {
        AAAAAAA: "",
        BBBBBBB: "\n\n\n\n",
        CCCCCCC: `${now}\n${wide}\n[1,"a",null,${JSON.stringify("n".repeat(999))}]\nx\ty\nx\t99999999999999999999\n`,
        DDDDDDD: `${now}\n{"host":\n{}`,
        EEEEEEE: `${now}\nnull\nnull\n\t\t\t`,
        FFFFFFF: `${now}\n[]\n[]\n${"x\t1\n".repeat(9_999)}`,
        GGGGGGG: "9".repeat(400),
        HHHHHHH: `${now}\n${"x".repeat(70_000)}\n`,
        IIIIIII: Buffer.concat([Buffer.from(`${now}\n`), Buffer.from([0xff, 0xfe, 0x0a, 0x0a, 0x80, 0x09, 0x31])]),
        JJJJJJJ: `${"9".repeat(30)}\n{}\n[]`,
        "a b\n": `${now}\n{}\n[]`,
        "": `${now}\n{}\n[]`,
      };
      for (const [id, text] of Object.entries(records)) await fixture.db.hset(fixture.keysOf().workers, id, text);
      const listed = await list();
      const readable = ["C", "D", "E", "F", "I"].map((letter) => letter.repeat(7));
      expect(listed.map(({ id }) => id).toSorted()).toEqual([...readable, own].toSorted());
      const odd = listed.find(({ id }) => id === "CCCCCCC")!;
      expect(odd).toMatchObject({
        ...{ host: "h".repeat(256), pid: null, name: null, concurrency: null, since: null, state: null },
        ...{ handles: ["a", "n".repeat(256)], handlesMore: true, running: 0, longest: null },
      });
      for (const text of Object.values(records)) {
        await fixture.db.hset(fixture.keysOf().workers, own, text);
        const report = await inspectJob(redis.client, fixture.address, job);
        expect(report).toMatchObject({ state: "active", worker: { id: own } });
        await listJobs(client(), fixture.address, { state: "active" });
      }
    });

    it("renew their leases though the key of the records is of another type", async () => {
      await fixture.db.set(fixture.keysOf().workers, "x", "EX", 60);
      const [queue, held, lost] = [make(), latch(), [] as unknown[]];
      redis.defer(held.open);
      const codes: string[] = [];
      const worker = work(queue, () => held.promise, { leaseMs: 400 });
      worker.on("lost", (event) => lost.push(event)).on("error", ({ code }) => codes.push(code));
      const crashed = new Runs();
      await queue.add("job", 1);
      await eventually(() => expect(worker.running).toBe(1));
      work(make(), crashed.handler, { leaseMs: 400 });
      const since = performance.now();
      await eventually(() => expect(performance.now() - since).toBeGreaterThan(1_200));
      expect([lost, crashed.jobs]).toEqual([[], []]);
      expect(codes).toEqual(["KIT_KEY_TYPE"]);
      await fixture.db.del(fixture.keysOf().workers);
    });

    it("remove a few records of the dead when they start", async () => {
      const dead = "1000\n{}\n[]";
      for (const id of ["AAAAAAA", "BBBBBBB"]) await fixture.db.hset(fixture.keysOf().workers, id, dead);
      await fixture.db.pexpire(fixture.keysOf().workers, 60_000);
      work(make(), () => undefined);
      await until((listed) => expect(listed).toHaveLength(1));
      expect(await fixture.db.hlen(fixture.keysOf().workers)).toBe(1);
    });

    if (mode === "cluster") {
      const seed = async (): Promise<void> => {
        await fixture.db.hset(fixture.keysOf().workers, "workerX", `${String(Date.now())}\n{}\n[]\n00001id\t5`);
        await fixture.db.pexpire(fixture.keysOf().workers, 60_000);
        await fixture.db.zadd(fixture.keysOf().leases, 9e15, "workerX00001id");
        for (const key of takenKeys(keyHead(redis.prefix, name), "workerX"))
          await fixture.db.set(key, "x", "PX", 600_000);
      };
      slots.itRanAll(
        () => {
          const [taken0, taken1, taken2] = takenKeys(keyHead(redis.prefix, name), "workerX");
          return { ...fixture.keysOf(), taken: [taken0!, taken1!, taken2!] } as never;
        },
        () => [
          { script: workers.present, args: ["workerX", "{}\n[]", "1"], seed },
          { script: workers.present, args: ["workerX", "", ""], seed },
          { script: readers.workerIds, args: [], seed },
          { script: readers.readWorkers, args: ["workerX"], seed },
          { script: readers.whoRuns, args: ["workerX00001id"], seed },
        ],
      );
    }
  });
});
