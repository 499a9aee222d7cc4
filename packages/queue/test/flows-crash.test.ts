import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { addFlow, readChildren, WaitForChildren } from "../src/flows/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

interface Flow {
  readonly name: "job";
  /** Half of the jobs have one. */
  readonly group?: string;
  readonly data: {
    readonly log: string;
    readonly act: "wait";
    readonly ms: number;
    /** Children that its handler adds, unless it has some. */
    adds?: readonly Omit<Flow, "children">[];
  };
  readonly children: Flow[];
}

/** `KIT_LARGE` runs 10,000 jobs. */
const flowCount = process.env["KIT_LARGE"] !== undefined ? 40 : 5;
const perFlow = process.env["KIT_LARGE"] !== undefined ? 200 : 60;

/** No place of a group is left. */
const noGroups = async (): Promise<void> => {
  const { grouped, turns, held } = fixture.keysOf();
  await eventually(async () => expect(await fixture.db.exists(grouped, turns, held)).toBe(0));
};

/** Numbers that look random and are the same in each run. */
const numbers = (seed: number) => (below: number) => {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % below;
};

it("flows end once and in order while workers are killed and replies are lost", async () => {
  const random = numbers(7);
  const flows = Array.from({ length: flowCount }, (_, flow) => {
    const nodes = Array.from({ length: perFlow }, (_unused, at): Flow => {
      const data = { log: `${String(flow)}.${String(at)}`, act: "wait", ms: 5 } as const;
      return { name: "job", ...(at % 2 === 0 ? {} : { group: `g${String(at % 6)}` }), data, children: [] };
    });
    nodes.forEach((node, at) => {
      for (let edge = 0; at > 0 && edge < 2; edge++) nodes[random(at)]!.children.push(node);
    });
    for (const { group, data, children } of nodes)
      if (children.length === 0)
        data.adds = ["a", "b"].map((own) => ({
          name: "job",
          ...(group === undefined ? {} : { group }),
          data: { log: `${data.log}.${own}`, act: "wait", ms: 5 },
        }));
    return nodes;
  });
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
  redis.defer(() => client.close());
  const log = `${redis.prefix}:queue:{log}:ran`;
  const worker = fixture.work(
    fixture.on(client),
    async (job) => {
      const { log: line, adds } = job.data as Flow["data"];
      await fixture.db.multi().rpush(log, line).pexpire(log, 60_000).exec();
      if (adds && (await readChildren(job)).children.length === 0) throw new WaitForChildren(adds);
    },
    { leaseMs: 1_000, maxCrashes: 1_000 },
  );
  worker.on("error", () => undefined);
  const queue = fixture.make();
  const logged = async (): Promise<string[]> => (await fixture.logged()).map((line) => line.split(" ", 1)[0]!);
  for (const [first] of flows) {
    const peer = await fixture.spawn({ leaseMs: 1_000, concurrency: 3, maxCrashes: 1_000 });
    const before = (await logged()).length;
    await addFlow(queue, first!);
    await eventually(async () => expect((await logged()).length).toBeGreaterThan(before));
    proxy.down.cutNext = 1;
    await peer.kill();
  }
  await fixture.untilEmpty();
  expect(await fixture.counts()).toMatchObject({ jobs: 0, dead: 0 });
  expect(await fixture.db.hlen(fixture.keysOf().families)).toBe(0);
  await noGroups();
  const lines = await logged();
  const nodes = flows.flat();
  const early = nodes.flatMap(({ data, children }) =>
    children
      .filter((child) => lines.indexOf(data.log) < lines.lastIndexOf(child.data.log))
      .map((child) => [data, child.data]),
  );
  expect(early).toEqual([]);
  const added = nodes.flatMap(({ data }) => (data.adds ?? []).map((child) => [data.log, child.data.log] as const));
  expect(added.filter(([own, child]) => lines.lastIndexOf(own) < lines.lastIndexOf(child))).toEqual([]);
  expect(new Set(lines).size).toBe(nodes.length + added.length);
  if (flowCount > 5)
    process.stdout.write(
      `${JSON.stringify({ flows: flowCount, jobs: nodes.length + added.length, starts: lines.length })}\n`,
    );
}, 600_000);

it.each([{}, { group: "a" }])(
  "a job (%o) adds its children once though each reply to that is lost",
  async (options) => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
    redis.defer(() => client.close());
    const rounds = 10;
    const tops: number[][] = [];
    const ran: unknown[] = [];
    const worker = fixture.on(client).work(
      {
        top: async (job) => {
          const { children } = await readChildren(job);
          tops.push([job.attempt, job.crashes, children.length]);
          if (children.length === 2 * rounds) return;
          proxy.down.cutNext = 1;
          throw new WaitForChildren([0, 1].map((at) => ({ name: "job", data: children.length + at, ...options })));
        },
        job: ({ data }) => ran.push(data),
      },
      { ack: "each", leaseMs: 60_000, abortGraceMs: 100 },
    );
    worker.on("error", () => undefined);
    await fixture.make().add("top", undefined, options);
    await fixture.untilEmpty();
    expect(tops).toEqual(Array.from({ length: rounds + 1 }, (_, round) => [1, 0, 2 * round]));
    expect(ran.toSorted((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 2 * rounds }, (_, at) => at));
    expect(proxy.stats.resets).toBeGreaterThanOrEqual(rounds);
    expect(await fixture.counts()).toMatchObject({ jobs: 0, failures: 0 });
    await noGroups();
  },
  60_000,
);
