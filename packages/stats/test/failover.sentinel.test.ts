import { connect } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { inStep, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Stats } from "../src/index.js";
import { drops, fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel" });
const fixture = fixtureOf(redis);

const onOwned = async (): Promise<Stats> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return fixture.on(client, { deadlineMs: 500, flushMs: 50 });
};

/** Kills the master, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<RedisNode> => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 20_000 });
  return await redis.server.master();
};

const patience = { timeoutMs: 20_000 };

describe("statistics whose master fails", () => {
  it("keep counting: every amount once, when all had reached the replicas", async () => {
    const stats = await onOwned();
    const dropped = drops(stats);
    const counter = stats.counter("orders_total");
    const latency = stats.distribution("request_ms");
    let sent = 0;
    let isOver = false;
    const counting = (async () => {
      while (!isOver) {
        counter.inc(3);
        latency.observe(1);
        sent++;
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await eventually(async () => expect(await counter.total()).toBeGreaterThan(0), patience);
    await inStep(redis.server.nodes[0]!, redis.server.replicas);
    // A call under way from here on may not have reached a replica: counting stops, and all that was sent arrives.
    isOver = true;
    await counting;
    await eventually(() => stats.flush(), patience);
    await inStep(redis.server.nodes[0]!, redis.server.replicas);
    await failOver();
    counter.inc(3);
    latency.observe(1);
    sent++;
    await eventually(() => stats.flush(), patience);
    expect([await counter.total(), (await latency.total()).count, dropped]).toEqual([3 * sent, sent, {}]);
  });

  it("count an open amount once, whether its ledger survived or was lost with it", async () => {
    const [survives, isLost] = [await onOwned(), await onOwned()];
    for (const stats of [survives, isLost]) await stats.counter("warm_total").add(1);
    await inStep(redis.server.nodes[0]!, redis.server.replicas);
    const [master] = redis.server.nodes as [RedisNode];
    // One call reaches the master and its replicas before its connection is lost, the other reaches no server.
    await survives.counter("survives_total").add(7);
    await inStep(master, redis.server.replicas);
    master.pause();
    isLost.counter("lost_total").inc(5);
    survives.counter("survives_total").inc(1);
    // Both at the same time: the one after the other could meet the next master.
    const failures = await Promise.all([isLost, survives].map((stats) => rejection(stats.flush())));
    const failure = { code: expect.stringMatching(/KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)/) as unknown };
    expect(failures).toMatchObject([failure, failure]);
    redis.defer(() => master.start());
    await master.kill();
    await eventually(async () => expect(await redis.server.master()).not.toBe(master), patience);
    await eventually(() => Promise.all([survives.flush(), isLost.flush()]), patience);
    const look = (name: string): Promise<number> => isLost.counter(name).total();
    expect([await look("survives_total"), await look("lost_total")]).toEqual([8, 5]);
  });

  it("start again like a reset when all data is lost, and never go below zero", async () => {
    const stats = await onOwned();
    const counter = stats.counter("reset_total");
    await counter.add(50);
    await redis.server.nodes[0]!.call("FLUSHALL");
    expect(await counter.total()).toBe(0);
    expect(await counter.add(2)).toBe(2);
    const buckets = await counter.read({ lastMs: 60_000 });
    expect(buckets.every(({ value }) => value >= 0)).toBe(true);
  });
});
