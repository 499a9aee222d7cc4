import { FaultProxy, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
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
