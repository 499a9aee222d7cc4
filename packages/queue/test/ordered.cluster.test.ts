import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Job } from "../src/index.js";
import { createOrderedWorker } from "../src/ordered/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys });
const fixture = fixtureOf(redis);

describe("an ordered worker on a Cluster", () => {
  it("serves queues of all nodes in order, on one connection for each node and one for each queue", async () => {
    const names = Array.from({ length: 8 }, (_, index) => `queue-${String(index)}`);
    const queues = names.map((name) => fixture.make({ name }));
    const connections = async (): Promise<number> => {
      const lists = await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST")));
      // Without the nodes' own.
      return lists.join("").match(/^id=.* (?!flags=[MS] )flags=/gm)?.length ?? 0;
    };
    for (const [index, queue] of queues.entries()) await queue.add("job", index);
    const before = await connections();
    const ran: unknown[] = [];
    const worker = createOrderedWorker();
    redis.defer(() => worker.close({ timeoutMs: 0 }));
    const served = queues.map((queue) => worker.serve(queue, { job: ({ data }: Job) => void ran.push(data) }));
    await eventually(() => expect(ran).toHaveLength(names.length));
    await eventually(() => expect(served.every(({ isEmpty }) => isEmpty)).toBe(true));
    await fixture.untilIdle(names.length);
    expect((await connections()) - before).toBe(redis.server.nodes.length + names.length);
    await worker.close();
    await eventually(async () => expect(await connections()).toBe(before));
  });
});
