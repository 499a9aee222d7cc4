import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { addFlow } from "../src/flows/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

interface Flow {
  readonly name: "job";
  readonly data: { readonly log: string; readonly act: "wait"; readonly ms: number };
  readonly children: Flow[];
}

/** Numbers that look random and are the same in each run. */
const numbers = (seed: number) => (below: number) => {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed % below;
};

it("flows end once and in order while workers are killed and replies are lost", async () => {
  const random = numbers(7);
  const flows = Array.from({ length: 5 }, (_, flow) => {
    const nodes = Array.from({ length: 60 }, (_unused, at): Flow => {
      return { name: "job", data: { log: `${String(flow)}.${String(at)}`, act: "wait", ms: 5 }, children: [] };
    });
    nodes.forEach((node, at) => {
      for (let edge = 0; at > 0 && edge < 2; edge++) nodes[random(at)]!.children.push(node);
    });
    return nodes;
  });
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
  redis.defer(() => client.close());
  const log = `${redis.prefix}:queue:{log}:ran`;
  const worker = fixture.work(
    fixture.on(client),
    ({ data }) =>
      fixture.db
        .multi()
        .rpush(log, (data as Flow["data"]).log)
        .pexpire(log, 60_000)
        .exec(),
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
  const lines = await logged();
  const early = flows
    .flat()
    .flatMap(({ data, children }) =>
      children
        .filter((child) => lines.indexOf(data.log) < lines.indexOf(child.data.log))
        .map((child) => [data, child.data]),
    );
  expect(early).toEqual([]);
  expect(new Set(lines).size).toBe(5 * 60);
}, 180_000);
