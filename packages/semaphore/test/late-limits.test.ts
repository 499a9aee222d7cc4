import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { rejection, sentTwice } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

it("limits that a client sends again after their call has ended do not replace newer ones", async () => {
  await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  const client = new Redis({
    port: proxy.port,
    disconnectTimeout: 50,
    retryStrategy: () => 20,
    maxRetriesPerRequest: null,
  });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  const far = fixture.on(client, { permits: 1, deadlineMs: 1_000 });
  await client.ping();
  await far.setPermits(3);
  proxy.up.hole = true;
  expect(await rejection(far.setPermits(5))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
  const near = fixture.make({ permits: 1 });
  await near.setPermits(10);
  proxy.heal();
  proxy.resetAll();
  // Behind what ioredis sends again.
  await client.ping();
  expect(await near.inspect()).toMatchObject({ permits: 10 });
});

it("limits whose request arrives again within their deadline do not replace newer ones", async () => {
  await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  const client = new Redis({ port: proxy.port, retryStrategy: () => 20, maxRetriesPerRequest: null });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  const [far, near] = [fixture.on(client, { permits: 1, deadlineMs: 30_000 }), fixture.make({ permits: 1 })];
  const scriptCalls = async (): Promise<number> => {
    const stats = String(await redis.server.nodes[0]!.call("INFO", "commandstats"));
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]);
  };
  await far.setPermits(3);
  await near.setPermits(4);
  const before = await scriptCalls();
  await sentTwice(proxy, client, 1_000, () => far.setPermits(5));
  await near.setPermits(10);
  await eventually(async () => expect(await scriptCalls()).toBeGreaterThanOrEqual(before + 3));
  expect(await near.inspect()).toMatchObject({ permits: 10 });
  // Its own later change holds.
  await far.setPermits(6);
  expect(await near.inspect()).toMatchObject({ permits: 6 });
});
