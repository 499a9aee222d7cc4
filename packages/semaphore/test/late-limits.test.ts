import { eventually, useRedis } from "@kit/testing";
import { proxied } from "@tooling/vitest/conformance";
import { callsOf, rejection, sentTwice } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const leasing = leasingOf(redis);

it("limits that a client sends again after their call has ended do not replace newer ones", async () => {
  const { proxy, connect } = await proxied(leasing.ground);
  const client = connect() as Redis;
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
  const { proxy, connect } = await proxied(leasing.ground);
  const client = connect() as Redis;
  const [far, near] = [fixture.on(client, { permits: 1, deadlineMs: 30_000 }), fixture.make({ permits: 1 })];
  const scriptCalls = (): Promise<number> => callsOf(redis.server, "evalsha");
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

it("limits whose reply is lost do not replace newer ones when their call continues over the next connection", async () => {
  const { proxy, connect } = await proxied(leasing.ground);
  const client = connect() as Redis;
  const [far, near] = [fixture.on(client, { permits: 1, deadlineMs: 30_000 }), fixture.make({ permits: 1 })];
  await far.setPermits(3);
  proxy.down.cutNext = 1;
  proxy.refuse = true;
  const going = far.setPermits(8);
  await eventually(async () => expect(await near.inspect()).toMatchObject({ permits: 8 }));
  await near.setPermits(0);
  proxy.refuse = false;
  await going;
  expect(await near.inspect()).toMatchObject({ permits: 0 });
  // A call that begins now comes after it.
  await far.setPermits(6);
  expect(await near.inspect()).toMatchObject({ permits: 6 });
});
