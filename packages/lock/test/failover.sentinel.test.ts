import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { allInStep, describeLeaseSentinels, failOver } from "@tooling/vitest/conformance";
import { callsOf, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Lock } from "../src/index.js";
import { enqueue, fenceGrows, fixtureOf, ownClient } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest, { mode: "sentinel" });
const fixture = fixtureOf(redis);
const leasing = leasingOf(redis);
const name = "chest";
const owned = async (): Promise<Lock> => fixture.on(await ownClient(redis));

describeLeaseSentinels(leasing, fenceGrows);

describe("a lock whose master fails", () => {
  it("hands out larger fencing tokens even when the last one was ahead of the new master's clock", async () => {
    const lock = await owned();
    const { fence } = fixture.keysOf(name);
    const before = await lock.acquire(name);
    await before.release();
    await allInStep(leasing);
    // As from a clock that was an hour ahead.
    const ahead = (BigInt(before.fencingToken) + 3_600_000_000n).toString();
    const [master] = redis.server.nodes as [RedisNode];
    await master.call("SET", fence, `1:${ahead}`, "PX", "600000");
    await allInStep(leasing);
    const granted = await lock.acquire(name);
    expect(BigInt(granted.fencingToken)).toBe(BigInt(ahead) + 1n);
    await allInStep(leasing);
    await failOver(leasing);
    await granted.release();
    const next = await lock.acquire(name, { waitMs: 30_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(granted.fencingToken));
    await next.release();
  });
});

describe("a lock with the option durable", () => {
  it("gives only grants that all replicas have, and a failover keeps them", async () => {
    const { replicas } = redis.server;
    const durable = { replicas: replicas.length, timeoutMs: 300 };
    const lock = fixture.on(await ownClient(redis), { durable });
    await eventually(() => lock.using("before", () => undefined), { timeoutMs: 15_000 });
    for (const replica of replicas) replica.pause();
    expect(await rejection(lock.acquire(name))).toMatchObject({ code: "KIT_LOCK_NOT_DURABLE" });
    for (const replica of replicas) replica.resume();
    const held = await eventually(() => lock.acquire(name, { leaseMs: 120_000, renew: false }), { timeoutMs: 15_000 });
    const [old] = redis.server.nodes as [RedisNode];
    await old.kill();
    redis.defer(() => old.start());
    await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
    const master = await redis.server.master();
    expect(await master.call("GET", fixture.keysOf(name).lease)).toBe(`${held.token}|${held.holder}`);
  });
});

describe("a lock whose master is stopped and continues", () => {
  it("is held by one at a time by the word of the new master, and the old one grants nothing to our clients", async () => {
    const [holding, waiting, idle] = [await owned(), await owned(), await owned()];
    await (await idle.acquire("before")).release();
    const held = await holding.acquire(name);
    const waiter = await enqueue(waiting, name, { waitMs: 60_000 });
    await allInStep(leasing);
    const [old] = redis.server.nodes as [RedisNode];
    const pausedAt = performance.now();
    old.pause();
    await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
    const master = await redis.server.master();
    await eventually(() => expect(performance.now() - pausedAt).toBeGreaterThan(6_000), { timeoutMs: 10_000 });
    old.resume();
    // It answers once it has read all that stood in its sockets.
    await old.call("PING");
    const before = await callsOf(old, "evalsha");
    const other = await idle.tryAcquire("other");
    expect(await master.call("EXISTS", fixture.keysOf("other").lease)).toBe(1);
    await other?.release();
    expect(held.isHeld).toBe(true);
    await held.release();
    const next = await waiter.promise;
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    await next.release();
    // It took none of all that.
    expect(await callsOf(old, "evalsha")).toBe(before);
  });
});
