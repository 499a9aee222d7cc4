import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { endMigrations, moveSlot } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createQueueEvents } from "../src/events/index.js";
import type { Worker, WorkerHealth } from "../src/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

const args = ["--cluster-require-full-coverage", "no"];
const redis = useRedis(vitest, { mode: "cluster", permanentKeys, args });
const fixture = fixtureOf(redis);

describe("a queue whose slot moves to another node", () => {
  it("continues there, idle and busy, with nothing lost or run twice", async () => {
    const queue = fixture.make({ deadlineMs: 5_000 });
    const runs = new Runs();
    const worker = fixture.work(queue, runs.handler, { concurrency: 3 });
    worker.on("error", () => undefined);
    const events = createQueueEvents(redis.client, name, { prefix: redis.prefix, deadlineMs: 5_000 });
    redis.defer(() => events.close());
    await events.ready();
    const completed: string[] = [];
    const reading = (async () => {
      for await (const event of events) {
        if (event.type === "gap") return "gap";
        if (event.type === "completed") completed.push(event.id);
      }
      return "closed";
    })();
    await queue.add("job", "before");
    await runs.until(1);
    await queue.add("job", "delayed", { delayMs: 1_500 });
    const [slot, from] = [
      String(await redis.server.nodes[0]!.call("CLUSTER", "KEYSLOT", fixture.keysOf(name).jobs)),
      await fixture.nodeOf(),
    ];
    const to = redis.server.nodes.find((node: RedisNode) => node !== from)!;
    const isMoving = { now: true };
    const adding = (async () => {
      for (let index = 0; isMoving.now || index < 50; index++) {
        await queue.add("job", index);
        if (index > 5_000) break;
      }
    })();
    await moveSlot(redis.server.nodes, { slot, from, to, login: [] });
    redis.defer(() => endMigrations(redis.server.nodes));
    isMoving.now = false;
    await adding;
    await eventually(() => expect(runs.data).toContain("delayed"), { timeoutMs: 20_000 });
    await fixture.untilEmpty();
    expect(new Set(runs.data).size).toBe(runs.data.length);
    await eventually(() => expect(completed).toHaveLength(runs.jobs.length));
    expect(new Set(completed)).toEqual(new Set(runs.jobs.map(({ id }) => id)));
    await events.close();
    expect(await reading).toBe("closed");
    expect(await to.call("HLEN", fixture.keysOf(name).jobs)).toBe(0);
    await moveSlot(redis.server.nodes, { slot, from: to, to: from, login: [] });
  });
});

describe("the health of a worker", () => {
  it("is that of the node with its queue: not ready while the node is silent, ready on another (bullmq#4585)", async () => {
    const node = await fixture.nodeOf();
    let elsewhere = "";
    for (let n = 0; elsewhere === ""; n++)
      if ((await fixture.nodeOf(`mail${String(n)}`)) !== node) elsewhere = `mail${String(n)}`;
    const [here, there, runs] = [fixture.make({ deadlineMs: 500 }), fixture.make({ name: elsewhere }), new Runs()];
    const workers = [fixture.work(here, runs.handler), fixture.work(there, runs.handler)] as const;
    const until = (worker: Worker, health: Partial<WorkerHealth>): Promise<void> =>
      eventually(async () => expect(await worker.health()).toMatchObject(health), { timeoutMs: 30_000 });
    for (const worker of workers) await until(worker, { isAlive: true, isReady: true });
    node.pause();
    redis.defer(() => node.resume());
    const [silent, other] = await Promise.all(workers.map((worker) => worker.health()));
    expect(silent).toMatchObject({ isAlive: true, isReady: false, isConnected: false });
    expect(other).toMatchObject({ isAlive: true, isReady: true, isConnected: true });
    node.resume();
    await until(workers[0], { isAlive: true, isReady: true });
    await here.add("job", "after");
    await runs.until(1);
  });
});
