import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import {
  createQueueEvents,
  type QueueEvent,
  type QueueEventReader,
  type QueueEventsOptions,
} from "../src/events/index.js";
import * as ownScripts from "../src/events/scripts/index.js";
import { SnoozeError } from "../src/index.js";
import { keyHead, takenKey } from "../src/job/keys.js";
import {
  cancelJob,
  drainQueue,
  listWorkers,
  pauseQueue,
  promoteJob,
  type QueueAddress,
  removeJob,
  rescheduleJob,
  resumeQueue,
} from "../src/manage/index.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** The events of a queue, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`events of a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...ownScripts });
    const fixture = fixtureOf(redis);
    const { make, work, keysOf } = fixture;
    const address = (): QueueAddress => ({ queue: name, prefix: redis.prefix });
    const reader = (options: QueueEventsOptions = {}): QueueEventReader => {
      const events = createQueueEvents(redis.client, name, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
      redis.defer(() => events.close());
      return events;
    };
    /** Collects what a reader gives until it is closed, from now on. */
    const collect = async (options?: QueueEventsOptions): Promise<{ all: QueueEvent[]; events: QueueEventReader }> => {
      const events = reader(options);
      const all: QueueEvent[] = [];
      await events.ready();
      void (async () => {
        for await (const event of events) all.push(event);
      })();
      return { all, events };
    };
    /** Without where and when it happened. */
    const facts = (all: readonly QueueEvent[]): object[] =>
      all.map(({ position: _position, at: _at, ...rest }) => rest);
    const typesOf = (all: readonly QueueEvent[], id: string): string[] =>
      all.filter((event) => "id" in event && event.id === id).map(({ type }) => type);
    const take = async (events: QueueEventReader, count: number): Promise<QueueEvent[]> => {
      const found: QueueEvent[] = [];
      for await (const event of events) if (found.push(event) === count) break;
      return found;
    };
    const until = async (all: readonly QueueEvent[], type: QueueEvent["type"], count = 1): Promise<void> => {
      await eventually(() => expect(all.filter((event) => event.type === type).length).toBeGreaterThanOrEqual(count));
    };

    it("come from every process, in order, with ids and names and no data", async () => {
      const { all } = await collect();
      const queue = make();
      const first = await queue.add("job", "secret");
      await fixture.spawn();
      await until(all, "drained");
      expect(facts(all)).toEqual([
        { type: "added", id: first, name: "job", state: "ready" },
        { type: "active", id: first, name: "job", worker: expect.stringMatching(/^\w{7}$/) as string },
        { type: "completed", id: first },
        { type: "drained" },
      ]);
      expect(Math.abs(all[0]!.at - Date.now())).toBeLessThan(60_000);
      const stored = JSON.stringify(await fixture.db.xrange(keysOf().events, "-", "+"));
      expect(stored).toContain(first);
      expect(stored).not.toContain("secret");
    });

    it("report each attempt, snooze, death and end", async () => {
      const { all } = await collect();
      const queue = make({ maxAttempts: 2, backoff: { firstMs: 1, jitter: 0 } });
      const worker = work(queue, (job) => {
        if (job.data === "broken") throw Object.assign(new Error("no"), { code: "E_NO" });
        if (job.data === "snooze" && job.snoozes === 0) throw new SnoozeError(5);
      });
      const [broken, snoozed, called, urgent] = [
        await queue.add("job", "broken"),
        await queue.add("job", "snooze", { id: "own" }),
        queue.call("job", "called", { waitMs: 10_000 }),
        await queue.add("job", "urgent", { priority: -1, delayMs: 20 }),
      ];
      await called;
      await until(all, "dead");
      await until(all, "completed", 3);
      await worker.close();
      expect(typesOf(all, broken)).toEqual(["added", "active", "failed", "ready", "active", "failed", "dead"]);
      expect(typesOf(all, snoozed)).toEqual(["added", "active", "snoozed", "ready", "active", "completed"]);
      expect(typesOf(all, urgent)).toEqual(["added", "ready", "active", "completed"]);
      const failed = facts(all).filter((event) => "attempts" in event);
      const error = { name: "Error", message: "no", code: "E_NO" };
      expect(failed).toEqual([
        { type: "failed", id: broken, attempts: 1, error, retryInMs: 1 },
        { type: "failed", id: broken, attempts: 2, error, retryInMs: undefined },
      ]);
      expect(facts(all)).toContainEqual(
        expect.objectContaining({ type: "snoozed", id: "own", retryInMs: 5, error: expect.anything() as unknown }),
      );
      await queue.redrive([broken], { spreadMs: 60_000 });
      await until(all, "delayed");
    });

    it("report management: cancel, remove, promote, drain, pause, and expiry", async () => {
      const { all } = await collect();
      const queue = make();
      const { promise, open } = latch();
      const runs = new Runs();
      const later = { delayMs: 600_000 };
      const removed = await queue.add("job", 1, later);
      const promoted = await queue.add("job", 2, later);
      const moved = await queue.add("job", 3, later);
      await removeJob(redis.client, address(), removed);
      await rescheduleJob(redis.client, address(), moved, { delayMs: 700_000 });
      const expired = await queue.add("job", 4, { expiresMs: 1 });
      const renewed = { id: "renewed", expiresMs: 1 };
      await queue.add("job", 5, renewed);
      await pauseQueue(redis.client, address());
      await pauseQueue(redis.client, address());
      const worker = work(queue, async (job) => {
        runs.handler(job);
        await promise;
      });
      await fixture.untilIdle(1);
      await eventually(async () => expect(await queue.addOnce("job", 6, renewed)).toMatchObject({ isAdded: true }));
      // A worker that is quick would take it before its millisecond is over.
      await fixture.age("renewed");
      await resumeQueue(redis.client, address());
      await until(all, "expired", 3);
      await promoteJob(redis.client, address(), promoted);
      await runs.until(1);
      expect(await cancelJob(redis.client, address(), promoted)).toBe("cancelled");
      open();
      await drainQueue(redis.client, address(), { delayed: true });
      await until(all, "removed", 2);
      await worker.close();
      expect(typesOf(all, removed)).toEqual(["added", "removed"]);
      expect(typesOf(all, promoted)).toEqual(["added", "ready", "active", "cancelled"]);
      expect(typesOf(all, moved)).toEqual(["added", "delayed", "removed"]);
      expect(typesOf(all, expired)).toEqual(["added", "active", "expired"]);
      expect(typesOf(all, "renewed")).toEqual(["added", "expired", "added", "active", "expired"]);
      expect(all.map(({ type }) => type).filter((type) => /^(?:paused|resumed)$/.test(type))).toEqual([
        "paused",
        "resumed",
      ]);
    });

    it("report that a worker died, and that its jobs go back", async () => {
      const { all } = await collect();
      const queue = make();
      const id = await queue.add("job", { log: "died", act: "hang" });
      const peer = await fixture.spawn({ leaseMs: 60_000 });
      await until(all, "active");
      const dead = await eventually(async () => {
        const { workers } = await listWorkers(redis.client, address());
        expect(workers).toHaveLength(1);
        return workers[0]!.id;
      });
      await peer.kill();
      await fixture.expireLeases();
      const worker = work(queue, () => undefined, { leaseMs: 500 });
      await until(all, "completed");
      await worker.close();
      expect(typesOf(all, id)).toEqual(["added", "active", "crashed", "active", "completed"]);
      expect(facts(all)).toContainEqual({ type: "active", id, name: "job", worker: dead });
      expect(facts(all)).toContainEqual({ type: "crashed", id, crashes: 1, isDead: false, worker: dead });
    });

    it("have errors without stacks, whatever these are", async () => {
      const { all } = await collect();
      const queue = make();
      const stacks = ["", "\\", 'a "quoted" C:\\', '\\",\\"x\u0001\n', ',"stack":"x"', undefined];
      const worker = work(queue, ({ data }) => {
        const stack = stacks[data as number];
        const cause = Object.assign(new Error('inner "\\', { cause: "text" }), { stack });
        throw Object.assign(new Error('outer \\",\\'), { stack, cause });
      });
      await queue.addAll(stacks.map((_, data) => ({ name: "job", data })));
      await until(all, "dead", stacks.length);
      await worker.close();
      const cause = { name: "Error", message: 'inner "\\', cause: { name: "string", message: "text" } };
      const error = { name: "Error", message: 'outer \\",\\', cause };
      expect(all.flatMap((event) => (event.type === "failed" ? [event.error] : []))).toEqual(stacks.map(() => error));
    });

    it("can be read on between two that one step made", async () => {
      const { all } = await collect();
      const queue = make();
      const worker = work(queue, () => {
        throw new Error("no");
      });
      await queue.addAll([1, 2].map((data) => ({ name: "job", data })));
      await until(all, "drained");
      await worker.close();
      // A line that this version does not know, as a newer one may write in front of others.
      const { events } = keysOf();
      const entry = await fixture.db.xadd(events, "*", "e", `unknown\tx\nfailed\town\tdead\t\t1 0\nready\tlast\n`);
      await until(all, "ready");
      expect(all.slice(-3).map(({ position }) => position)).toEqual(
        ["1.0", "1.1", "2.0"].map((at) => `${entry}.${at}`),
      );
      for (const [index, { position }] of all.slice(0, -1).entries())
        expect(await take(reader({ after: position }), all.length - 1 - index)).toEqual(all.slice(index + 1));
    });

    it("are replayed to a reader that comes back, each once and none missing", async () => {
      const queue = make();
      const ids: string[] = [];
      const seen: string[] = [];
      let after: string | undefined;
      const first = reader();
      await first.ready();
      ids.push(...(await queue.addAll(Array.from({ length: 300 }, (_, data) => ({ name: "job", data })))));
      // In the middle of an entry, again and again.
      for (let round = 0; seen.length < 900; round++) {
        const events = round === 0 ? first : reader({ after });
        let count = 0;
        for await (const event of events) {
          expect(event.type).not.toBe("gap");
          after = event.position;
          if ("id" in event) seen.push(event.id);
          if (++count === 77 || seen.length === 900) break;
        }
        if (round === 1) {
          const worker = work(queue, () => undefined, { concurrency: 20 });
          await fixture.untilEmpty();
          await worker.close();
        }
      }
      for (const id of ids) expect(seen.filter((one) => one === id)).toHaveLength(3);
    });

    it("cost nothing while there is no reader, and end after `recordMs`", async () => {
      const queue = make();
      const worker = work(queue, () => undefined);
      await queue.add("job", 1);
      await fixture.untilIdle(1);
      const node = await fixture.nodeOf();
      const commands = async (): Promise<Record<string, number>> => {
        const stats = String(await node.call("INFO", "commandstats"));
        const found = [...stats.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(([, one = "", calls]) => [
          one,
          Number(calls),
        ]);
        return Object.fromEntries(found) as Record<string, number>;
      };
      await worker.close();
      await node.call("CONFIG", "RESETSTAT");
      await queue.add("job", 2);
      // As many in its script as before there were events: nine in an empty queue, where one looks whether the server lost its data.
      const inner = Object.entries(await commands()).filter(([one]) => /^(?:time|exists|x|h|l|r|z|get|set)/.test(one));
      expect(Object.fromEntries(inner)).toEqual({
        ...{ time: 1, hlen: 1, llen: 1, hget: 1, zcard: 1, zadd: 2, hset: 1, rpush: 1 },
      });
      expect(await fixture.db.exists(keysOf().events, keysOf().limits)).toBe(0);

      const { all, events } = await collect({ recordMs: 1_000 });
      await queue.add("job", 3);
      await until(all, "added");
      await events.close();
      await eventually(async () => expect(await fixture.db.exists(keysOf().events)).toBe(0));
      await queue.add("job", 4);
      expect(await fixture.db.exists(keysOf().events)).toBe(0);
      // The first step removes what tells the scripts to record.
      work(queue, () => undefined);
      await fixture.untilEmpty();
      expect(await fixture.db.exists(keysOf().events, keysOf().limits)).toBe(0);
    });

    it("do not limit the queue: workers take ahead as before", async () => {
      await collect();
      const queue = make();
      await queue.addAll(Array.from({ length: 5 }, (_, data) => ({ name: "job", data })));
      const takeId = "worker000003";
      const keys = { ...keysOf(), taken: takenKey(keyHead(redis.prefix, name), takeId), replies: [] };
      const bounds = "2 10000 1209600000 67108864";
      const request = {
        takeId,
        count: 3,
        sure: 1,
        room: "",
        leaseMs: 60_000,
        flags: "",
        bounds,
        maintenance: "",
        done: "",
      };
      const reply = await scripts.step.run(redis.client, keys, { ...request, others: [] });
      expect(reply).toMatchObject({ nextStart: undefined });
      expect(reply.entries).toHaveLength(3);
    });

    it("are recorded once, however often a call arrives", async () => {
      const { all } = await collect();
      const keys = { ...keysOf(), others: [] };
      const args = { producer: "AAAAAAAAA", sequence: 1, isNew: "1", plan: "AAAAAAAAA.0001", blobs: ["k1 job\n1"] };
      const takeId = "worker000003";
      const taken = takenKey(keyHead(redis.prefix, name), takeId);
      const bounds = "2 10000 1209600000 67108864";
      const request = { leaseMs: 60_000, flags: "", bounds, maintenance: "", sure: 1, room: "", others: [] };
      const member = `${takeId}AAAAAAAAA.0001`;
      for (let n = 0; n < 2; n++) await scripts.add.run(redis.client, keys, args);
      const take = { ...request, takeId, count: 1, done: "" };
      for (let n = 0; n < 2; n++) await scripts.step.run(redis.client, { ...keys, taken, replies: [] }, take);
      const end = { ...request, takeId: "worker000006", count: 0, done: member };
      for (let n = 0; n < 2; n++) await scripts.step.run(redis.client, { ...keys, taken, replies: [] }, end);
      await pauseQueue(redis.client, address());
      await until(all, "paused");
      expect(all.map(({ type }) => type)).toEqual(["added", "active", "completed", "drained", "paused"]);
    });

    it("announce a gap if entries were trimmed, or were not recorded", async () => {
      const queue = make();
      const { all, events } = await collect({ recordMs: 60_000 });
      await queue.add("job", 1);
      await until(all, "added");
      await events.close();
      const after = all.at(-1)!.position;
      for (let data = 2; data < 5; data++) await queue.add("job", data);
      await fixture.db.xtrim(keysOf().events, "MAXLEN", 1);
      const trimmed: QueueEvent[] = [];
      for await (const event of reader({ after })) {
        trimmed.push(event);
        if (trimmed.length === 2) break;
      }
      expect(trimmed.map(({ type }) => type)).toEqual(["gap", "added"]);

      // As after the time of the recording.
      await fixture.db.del(keysOf().events, keysOf().limits);
      await queue.add("job", "unrecorded");
      const late = reader({ after: trimmed[1]!.position });
      await late.ready();
      const next = await queue.add("job", 6);
      const found: QueueEvent[] = [];
      for await (const event of late) {
        found.push(event);
        if (found.length === 2) break;
      }
      expect(facts(found)).toEqual([{ type: "gap" }, { type: "added", id: next, name: "job", state: "ready" }]);

      // Another stream, as after a failover that lost it, whose ids are lower.
      const lower = reader({ after: "99999999999999-0.0.0" });
      const [one] = await take(lower, 1);
      expect(one).toMatchObject({ type: "gap" });
    });

    it("announce a gap to a reader that is too slow", async () => {
      const queue = make();
      const events = reader();
      await events.ready();
      await queue.add("job", 1);
      const found: QueueEvent[] = [];
      for await (const event of events) {
        if (found.push(event) === 3) break;
        if (found.length > 1) continue;
        for (let data = 2; data < 5; data++) await queue.add("job", data);
        await fixture.db.xtrim(keysOf().events, "MAXLEN", 1);
      }
      expect(found.map(({ type }) => type)).toEqual(["added", "gap", "added"]);
    });

    it("announce a gap to a reader that waits as well, and it continues", async () => {
      const queue = make();
      const { all } = await collect();
      await queue.add("job", 1);
      await until(all, "added");
      await fixture.db.del(keysOf().events, keysOf().limits);
      await reader().ready();
      const next = await queue.add("job", 2);
      await until(all, "added", 2);
      expect(facts(all).slice(1)).toEqual([{ type: "gap" }, { type: "added", id: next, name: "job", state: "ready" }]);
    });

    it("end immediately when the reader is closed or aborted, and leave no connection", async () => {
      const connections = async (): Promise<number> => {
        const lists = await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST")));
        return lists.join("").match(/name=kit:queue-events/g)?.length ?? 0;
      };
      const controller = new AbortController();
      const closed = reader();
      const aborted = reader({ signal: controller.signal });
      const loops = [closed, aborted].map((events) => take(events, 1));
      await eventually(async () => expect(await connections()).toBe(2));
      await closed.close();
      expect(await loops[0]).toEqual([]);
      const reason = new Error("enough");
      controller.abort(reason);
      expect(await rejection(loops[1]!)).toBe(reason);
      await eventually(async () => expect(await connections()).toBe(0));
      expect(() => closed[Symbol.asyncIterator]()).toThrow(/closed/);
      await expect(closed.ready()).rejects.toMatchObject({ code: "KIT_CLOSED" });
    });

    it("end with an error when the owner of the client ends it, and leave no connection", async () => {
      for (const end of ["quit", "disconnect"] as const) {
        const client = redis.connect();
        const events = createQueueEvents(client, name, { prefix: redis.prefix });
        await events.ready();
        const loop = rejection(take(events, 1));
        const clients = async (): Promise<string> =>
          (await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST")))).join("");
        await eventually(async () => expect(await clients()).toMatch(/name=kit:queue-events.* cmd=xread/));
        void client[end]();
        expect(await loop).toMatchObject({ code: "KIT_CLOSED" });
        await eventually(async () => expect(await clients()).not.toContain("name=kit:queue-events"));
      }
    });

    it("continue after the connection broke, with what happened meanwhile", async () => {
      const queue = make();
      const { all, events } = await collect();
      const errors: string[] = [];
      events.on("error", ({ code }) => errors.push(code));
      await queue.add("job", 1);
      await until(all, "added");
      for (const node of redis.server.nodes) await node.call("CLIENT", "KILL", "TYPE", "normal");
      const ids = [];
      for (let data = 2; data < 6; data++)
        ids.push(await eventually(() => queue.add("job", data, { id: `own${String(data)}` })));
      await until(all, "added", 5);
      expect(facts(all).slice(1)).toEqual(ids.map((id) => ({ type: "added", id, name: "job", state: "ready" })));
    });

    it("refuses options that it cannot work with", async () => {
      const wrong = (options: object): unknown => {
        try {
          return void createQueueEvents(redis.client, name, options);
        } catch (error) {
          return error;
        }
      };
      for (const after of ["17-0", "17-0.1"]) expect(wrong({ after })).toBeInstanceOf(TypeError);
      expect(wrong({ after: 17 })).toBeInstanceOf(TypeError);
      expect(wrong({ recordMs: 1 })).toBeInstanceOf(RangeError);
      expect(wrong({ other: 1 })).toBeInstanceOf(TypeError);
      const events = reader();
      events[Symbol.asyncIterator]();
      expect(() => events[Symbol.asyncIterator]()).toThrow(TypeError);
    });

    it("a recording that fails does not keep jobs from their work", async () => {
      await reader().ready();
      await fixture.db.set(keysOf().events, "not a stream", "EX", 60);
      const queue = make();
      await queue.add("job", 1);
      const runs = new Runs();
      work(queue, runs.handler);
      await runs.until(1);
      await fixture.untilEmpty();
      expect(await fixture.db.get(keysOf().events)).toBe("not a stream");
    });
  });
});
