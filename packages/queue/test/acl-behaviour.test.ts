import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { describeUser, grantedCommands, inModes, rejection, usedCommands } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createQueueEvents } from "../src/events/index.js";
import { keepHistory } from "../src/history/index.js";
import type { Job } from "../src/index.js";
import { cancelledChannel, keyHead } from "../src/job/keys.js";
import { listWorkers, setLimits } from "../src/manage/index.js";
import { readCheckpoint, saveCheckpoint } from "../src/progress/index.js";
import { user } from "./acl.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** The descriptor grants a queue the commands that it needs and no other, and docs/operations.md shows it. */
inModes({}, (mode) => {
  describe(`the ACL user of a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);

    it("is granted the commands that a queue runs, and no other", async () => {
      const { server } = redis;
      const spoilt = fixture.keysOf("spoilt").jobs;
      await fixture.db.set(spoilt, "not jobs", "EX", 60);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      redis.defer(() => client.close());
      const events = createQueueEvents(client, name, { prefix: redis.prefix });
      redis.defer(() => events.close());
      await events.ready();
      const reading = (async () => {
        for await (const event of events) if (event.type === "completed") return event.id;
        return undefined;
      })();
      const queue = fixture.on(client, { maxAttempts: 2, backoff: { firstMs: 5 }, deadLetters: { maxCount: 1 } });
      const runs = new Runs();
      const { promise, open } = latch();
      const options = { concurrency: 1, leaseMs: 400 };
      const worker = fixture.work(
        queue,
        async (job) => {
          runs.handler(job);
          if (job.data === "broken") throw new Error("broken");
          if (job.data === "long") await promise;
        },
        options,
      );
      await queue.addAll([
        { name: "job", data: "broken", priority: 1 },
        { name: "job", data: "broken", id: "own", delayMs: 20 },
        { name: "job", data: "last", lifo: true },
        { name: "job", data: "urgent", priority: -1 },
      ]);
      await queue.add("job", "op", { op: "AAAAAAAAA:5:AAAAAAAAA.0000", unique: { key: "op" } });
      await eventually(async () => expect(await queue.deadLetters()).toHaveLength(1));
      await eventually(() => expect(runs.data.filter((data) => data === "broken")).toHaveLength(4));
      await queue.redrive();
      await queue.add("job", "long");
      await eventually(() => expect(runs.data).toContain("long"));
      // A lease that expires, a heartbeat that finds it gone, an end that comes too late, and a job handed back.
      await queue.add("job", "behind");
      const peer = await fixture.spawn({ leaseMs: 300 });
      await eventually(async () => expect(await fixture.logged()).not.toEqual([]));
      await peer.kill();
      await fixture.expireLeases();
      open();
      await worker.close();
      // A wait that is cut off has its step undone.
      const idle = fixture.work(queue, () => undefined);
      await fixture.untilIdle(1);
      await eventually(async () => expect((await listWorkers(client, fixture.address)).workers).not.toEqual([]));
      await idle.close();
      await eventually(async () => expect(await usedCommands(server.nodes)).toContain("get"));
      await queue.dropDeadLetters(["none"]);
      const [limited, limitedRuns] = [fixture.on(client, { name: "limited" }), new Runs()];
      await setLimits(client, { queue: "limited", prefix: redis.prefix }, { names: { job: { concurrency: 1 } } });
      fixture.work(limited, limitedRuns.handler);
      await limited.add("job", 1);
      await limitedRuns.until(1);
      expect(await rejection(fixture.on(client, { name: "spoilt" }).add("job", 1))).toMatchObject({
        code: "KIT_KEY_TYPE",
      });

      expect(await reading).toMatch(/./);
      const granted = grantedCommands(user.grants(mode));
      const used = await usedCommands(server.nodes);
      // Commands of the tests themselves, and of rare paths that other tests cover.
      const own = new Set([
        "lrange",
        // Of core, for replies.
        "publish",
        "pubsub|numsub",
        "subscribe",
        "unsubscribe",
        "set",
        "del",
        "hlen",
        "rpush",
        "ping",
        "cluster|shards",
        "zmscore",
        "zremrangebyscore",
        "linsert",
        "lpos",
        "lpush",
        "config|get",
        "client|list",
        "multi",
        "exec",
      ]);
      expect(used.filter((command) => !granted.includes(command) && !own.has(command))).toEqual([]);
      expect(granted.filter((command) => !used.includes(command) && !own.has(command))).toEqual([]);
    });

    describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
      const queue = fixture.on(client, { history: keepHistory() });
      const runs = new Runs();
      const run = async (job: Job): Promise<void> => {
        await saveCheckpoint(job, (await readCheckpoint(job)) ?? 1);
        runs.handler(job);
      };
      fixture.work(queue, run, { cancelBy: "push" });
      const channel = cancelledChannel(keyHead(redis.prefix, name));
      await eventually(async () => {
        const nodes = redis.server.nodes.map((node) => node.call("PUBSUB", "CHANNELS", channel));
        expect((await Promise.all(nodes)).flat()).toEqual([channel]);
      });
      await queue.add("job", 1);
      await runs.until(1);
      const { jobs, kept } = fixture.keysOf(name);
      await eventually(async () => expect(await fixture.db.zcard(kept)).toBe(1));
      return jobs;
    });
  });
});
