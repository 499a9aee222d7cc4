import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { addDefaults } from "../src/add/options.js";
import { descriptor } from "../src/descriptor/index.js";
import {
  addFlow,
  type FlowJob,
  FlowTakenError,
  inspectFlow,
  readChildren,
  strandedParents,
  unfinishedFlows,
} from "../src/flows/index.js";
import { FlowPlan } from "../src/flows/plan.js";
import { stageFlow, startFlow } from "../src/slices/scripts.js";
import { slicesOf } from "../src/slices/index.js";
import type { AnyJobs } from "../src/index.js";
import { IdSource } from "../src/job/ids.js";
import { inspectJob, removeJob, repairQueue } from "../src/manage/index.js";
import { queueSettings } from "../src/store/options.js";
import { fixtureOf, permanentKeys, Runs } from "./harness.js";

type Flow = FlowJob<AnyJobs>;

interface Node {
  readonly name: "job";
  readonly data: number;
  readonly children: Node[];
}

/** Flows that are added in slices. */
describe("a large flow", () => {
  const redis = useRedis(vitest, { permanentKeys });
  const fixture = fixtureOf(redis);
  const { address, make } = fixture;
  const job = (data: unknown, options: object = {}): Flow => ({ name: "job", data, ...options }) as Flow;
  const jobs = (count: number): Flow[] => Array.from({ length: count }, (_, at) => job(at));
  const staged = (): string => fixture.keysOf().staged;
  const left = async (): Promise<unknown> => {
    const { families } = fixture.keysOf();
    return [await fixture.db.hlen(staged()), await fixture.db.hlen(families)];
  };
  const nothing = { jobs: 0, waiting: 0, delayed: 0, leases: 0, failures: 0, dead: 0 };

  /** What a client does that adds a flow and dies before it moves the slice of this number. */
  const dies = async (root: Flow, before: number): Promise<void> => {
    const settings = { defaults: addDefaults(queueSettings({})), maxPayloadBytes: 1_024 };
    const plan = new FlowPlan(root as never, new IdSource(), settings);
    const all = [...slicesOf(plan.newJobs(), "k1")];
    const [token, own] = ["t", plan.ownRoot ?? ""];
    for (const [number, slice] of all.entries())
      await stageFlow.run(redis.client, fixture.keysOf(), { token, number, root: own, slice });
    for (let number = 0; number < before; number++)
      await startFlow.run(redis.client, fixture.keysOf(), { token, number, total: all.length, root: own });
  };

  it("runs each of its jobs once, after the jobs below it", async () => {
    // Numbers that look random and are the same in each run.
    let seed = 11;
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const nodes = Array.from({ length: 3_000 }, (_, at): Node => ({ name: "job", data: at, children: [] }));
    nodes.forEach((node, at) => {
      for (let edge = 0; at > 0 && edge < 2; edge++) nodes[random(Math.min(at, 500))]!.children.push(node);
    });
    const queue = make();
    const runs = new Runs();
    fixture.work(queue, runs.handler, { concurrency: 50 });
    const { id, ids } = await addFlow(queue, nodes[0]!);
    expect([ids.get(nodes[0]!), ids.size]).toEqual([id, 3_000]);
    await runs.until(3_000);
    await fixture.untilEmpty();
    const at = new Map(runs.data.map((data, place) => [data, place]));
    expect([runs.jobs.length, at.size]).toEqual([3_000, 3_000]);
    const early = nodes.flatMap((node) =>
      node.children.filter((child) => at.get(child.data)! > at.get(node.data)!).map((child) => [node.data, child.data]),
    );
    expect(early).toEqual([]);
    expect(await left()).toEqual([0, 0]);
  });

  it("has no job in the queue before all of its slices are there, and is forgotten if they do not come", async () => {
    const queue = make();
    const runs = new Runs();
    fixture.work(queue, runs.handler);
    await dies(job("top", { id: "top", children: jobs(1_500) }), 0);
    expect(await fixture.counts()).toMatchObject(nothing);
    expect(await fixture.db.pttl(staged())).toBeGreaterThan(500_000);
    expect(await repairQueue(fixture.db, address, { run: true })).toEqual([]);
    expect(await fixture.counts()).toMatchObject(nothing);
    const first = { token: "t", number: 0, total: 7, root: "top" };
    // Another job was faster.
    await queue.add("job", "other", { id: "top", delayMs: 60_000 });
    expect(await startFlow.run(redis.client, fixture.keysOf(), first)).toMatchObject({ next: -1, isTaken: true });
    expect(await fixture.counts()).toMatchObject({ ...nothing, jobs: 1, delayed: 1 });
    await removeJob(fixture.db, address, "top");
    // A slice is gone: the others do not start.
    await fixture.db.hdel(staged(), "t\t2");
    expect(await startFlow.run(redis.client, fixture.keysOf(), first)).toMatchObject({ next: -1, isTaken: false });
    expect(await fixture.counts()).toMatchObject(nothing);
    await addFlow(queue, job("top", { id: "top", children: jobs(1_500) }));
    await runs.until(1_501);
    expect(runs.data.at(-1)).toBe("top");
    expect(runs.jobs.length).toBe(1_501);
  });

  it("whose client died continues with the next call that has its id", async () => {
    const queue = make();
    const flow = (): Flow => job("top", { id: "top", children: jobs(1_500) });
    await dies(flow(), 2);
    expect(await fixture.db.pttl(staged())).toBeGreaterThan(1e12);
    const runs = new Runs();
    fixture.work(queue, runs.handler, { concurrency: 50 });
    await runs.until(499);
    expect((await inspectJob(fixture.db, address, "top")).state).toBe("waiting-for-children");
    expect(await strandedParents(fixture.db, address)).toEqual([]);
    expect(await rejection(addFlow(queue, flow()))).toBeInstanceOf(FlowTakenError);
    await runs.until(1_501);
    await fixture.untilEmpty();
    expect(runs.data.at(-1)).toBe("top");
    expect(new Set(runs.data).size).toBe(1_501);
    expect(runs.jobs.length).toBe(1_501);
    expect(await fixture.db.hexists(staged(), "")).toBe(0);
  });

  it("whose client died is found by kit doctor, and repaired", async () => {
    await dies(job("top", { children: jobs(1_500) }), 1);
    const check = descriptor.checks!.find(({ id }) => id === "queue-flows")!;
    const look = async () =>
      await check.look({ redis: fixture.db, prefix: redis.prefix, signal: AbortSignal.timeout(5_000) } as never);
    expect(await look()).toMatchObject([{ severity: "problem", fix: "kit queue repair mail --run" }]);
    expect(await unfinishedFlows(fixture.db, address)).toBe(1);
    expect(await repairQueue(fixture.db, address)).toEqual([]);
    expect(await fixture.counts()).toMatchObject({ jobs: 250 });
    // This call arrives again.
    const again = { token: "t", number: 0, total: 7, root: "" };
    expect(await startFlow.run(redis.client, fixture.keysOf(), again)).toMatchObject({ next: 1 });
    expect(await fixture.counts()).toMatchObject({ jobs: 250, waiting: 249 });
    expect(await repairQueue(fixture.db, address, { run: true })).toEqual([]);
    expect(await fixture.counts()).toMatchObject({ jobs: 1_501, waiting: 1_500, delayed: 1 });
    expect(await look()).toMatchObject([{ severity: "ok" }]);
    expect(await fixture.db.hlen(staged())).toBe(0);
    expect(await unfinishedFlows(fixture.db, address)).toBe(0);
  });

  it("counts no further child for a parent that was deleted meanwhile, even if a new job has its id", async () => {
    const queue = make();
    await dies(job("top", { id: "top", children: jobs(1_500) }), 2);
    await removeJob(fixture.db, address, "top");
    await addFlow(queue, job("new", { id: "top", children: [job("child")] }));
    expect(await repairQueue(fixture.db, address, { run: true })).toEqual([]);
    expect(await inspectFlow(fixture.db, address, "top")).toMatchObject({ open: 1, children: [{ outcome: "open" }] });
    const runs = new Runs();
    fixture.work(queue, runs.handler, { concurrency: 50 });
    await fixture.untilEmpty();
    expect(runs.jobs.length).toBe(1_502);
    expect(runs.data.indexOf("new")).toBeGreaterThan(runs.data.indexOf("child"));
    expect(await left()).toEqual([0, 0]);
  });

  it("is added once though replies to its slices are lost", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
    redis.defer(() => client.close());
    const queue = fixture.on(client);
    await queue.add("job", "first");
    const adding = addFlow(queue, job("top", { children: jobs(4_000) }));
    for (let cut = 0; cut < 5; cut++) {
      const before = proxy.stats.resets;
      proxy.down.cutNext = 1;
      await eventually(() => expect(proxy.stats.resets).toBeGreaterThan(before));
    }
    proxy.down.cutNext = 0;
    await adding;
    const runs = new Runs();
    fixture.work(make(), runs.handler, { concurrency: 50 });
    await fixture.untilEmpty();
    expect(runs.data.length).toBe(4_002);
    expect(new Set(runs.data).size).toBe(4_002);
    expect(runs.data.at(-1)).toBe("top");
    expect(await left()).toEqual([0, 0]);
  });

  it("is added before its queue is closed", async () => {
    const queue = make();
    const added = addFlow(queue, job("top", { children: jobs(2_000) }));
    await queue.close();
    expect(await fixture.counts()).toMatchObject({ jobs: 2_001, waiting: 2_000 });
    await added;
  });

  it("hands its root all results, page by page", async () => {
    const queue = make();
    await addFlow(queue, job("top", { children: jobs(2_000) }));
    const read: unknown[] = [];
    fixture.work(
      queue,
      async (taken) => {
        if (taken.data !== "top") return taken.data;
        for (let start: number | undefined = 0; start !== undefined;) {
          const page: Awaited<ReturnType<typeof readChildren>> = await readChildren(taken, { start });
          read.push(...page.children.map(({ result }) => result));
          start = page.next;
        }
        return undefined;
      },
      { concurrency: 50 },
    );
    await fixture.untilEmpty();
    expect(read).toEqual(Array.from({ length: 2_000 }, (_, at) => at));
    expect(await left()).toEqual([0, 0]);
  });

  it("ends with its children when it is removed", async () => {
    const { id } = await addFlow(make(), job("top", { children: jobs(1_200) }));
    await removeJob(fixture.db, address, id, { children: true });
    expect(await fixture.counts()).toMatchObject(nothing);
    expect(await left()).toEqual([0, 0]);
  });

  it("may be large by its bytes", async () => {
    const text = "x".repeat(200_000);
    const children = Array.from({ length: 25 }, (_, at) => job(`${String(at)} ${text}`));
    await addFlow(make(), job("top", { children }));
    expect(await fixture.counts()).toMatchObject({ jobs: 26, waiting: 25 });
  });

  it.each([
    ["a child's id", () => job("top", { children: [...jobs(1_000), job("own", { id: "own" })] }), TypeError],
    ["10,001 children of a job", () => job("top", { children: jobs(10_001) }), RangeError],
    [
      "1,001 levels",
      () => {
        let flow = job("leaf");
        for (let level = 0; level < 1_000; level++) flow = job(level, { children: [flow] });
        return flow;
      },
      RangeError,
    ],
  ])("is refused with %s", async (_, flow, error) => {
    expect(await rejection(addFlow(make(), flow()))).toBeInstanceOf(error);
    expect(await fixture.counts()).toMatchObject(nothing);
  });
});
