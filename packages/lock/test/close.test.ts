import { eventually, useRedis } from "@kit/testing";
import { aborted, closedPort, promptMs, rejection, runProgram, timed, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, enqueue } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
const closedError = { name: "KitClosedError", code: "KIT_CLOSED" };

const program = new URL("programs/closing.mjs", import.meta.url);

describe("close", () => {
  it("rejects who waits, and takes each out of the queue", async () => {
    const lock = fixture.make();
    const other = fixture.on(redis.connect());
    const holder = await other.acquire(name);
    const waiters = [await enqueue(lock, name), await enqueue(lock, name)];
    const errors = Promise.all(waiters.map(({ promise }) => rejection(promise)));
    await lock.close();
    expect(await errors).toMatchObject([closedError, closedError]);
    expect(await fixture.db.zcard(fixture.keysOf(name).queue)).toBe(0);
    await holder.release();
  });

  it("rejects also whose place in the queue is confirmed in the very moment of close()", async () => {
    const lock = fixture.make();
    const other = fixture.on(redis.connect());
    const holder = await other.acquire(name);
    await rejection(lock.acquire(name, { waitMs: 50 }));
    let closing: Promise<void> | undefined;
    // The answers to all three come together; the first is told of while the others are on their way to their callers.
    lock.on("waiting", () => void (closing ??= lock.close({ timeoutMs: 100 })));
    const errors = await Promise.all([1, 2, 3].map(() => rejection(lock.acquire(name))));
    expect(errors).toMatchObject([closedError, closedError, closedError]);
    await closing;
    expect(await fixture.db.zcard(fixture.keysOf(name).queue)).toBe(0);
    expect(await holder.release()).toBe("released");
  });

  it("waits for leases that are held, which go on being renewed", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name, { leaseMs: 2_000 });
    const closing = watched(lock.close());
    await rejection(fixture.on(redis.connect()).acquire(name, { waitMs: 2_200 }));
    expect([closing.isSettled, lease.isHeld]).toEqual([false, true]);
    await lease.release();
    await closing.promise;
    expect(await fixture.db.exists(fixture.keysOf(name).lease)).toBe(0);
  });

  it("takes leases from their holders at timeoutMs, and releases them", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name);
    const waiter = await enqueue(fixture.on(redis.connect()), name);
    const { ms, awakeMs } = await timed(() => lock.close({ timeoutMs: 100 }));
    expect(ms).toBeGreaterThan(95);
    expect(awakeMs).toBeLessThan(promptMs);
    expect(await aborted(lease.signal)).toMatchObject({ reason: "closed" });
    expect(await lease.release()).toBe("not-held");
    expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
  });

  it.each([
    ["try", false],
    ["acquire", true],
  ])("leaves nothing held by a %s that is under way", async (_what, waits) => {
    const lock = fixture.make();
    await (await lock.acquire("warm-up")).release();
    await redis.server.call("CLIENT", "PAUSE", "150", "ALL");
    const call = rejection(waits ? lock.acquire(name) : lock.tryAcquire(name));
    await lock.close({ timeoutMs: 0 });
    expect(await call).toMatchObject(closedError);
    await eventually(async () => expect(await fixture.db.exists(fixture.keysOf(name).lease)).toBe(0));
  });

  it.each([false, true])("lets a release that is under way finish (isolate: %s)", async (isolate) => {
    const lock = fixture.make({ isolate });
    const lease = await lock.acquire(name);
    await redis.server.call("CLIENT", "PAUSE", "150", "ALL");
    const releasing = lease.release();
    await lock.close();
    expect(await releasing).toBe("released");
    expect(await fixture.db.exists(fixture.keysOf(name).lease)).toBe(0);
  });

  it("ends in time and leaves no timer behind when the server is gone", async () => {
    const client = redis.connect({ retryStrategy: () => 20 });
    const lock = fixture.on(client, { deadlineMs: 1_000 });
    await lock.acquire(name);
    const waiter = await enqueue(lock, name);
    const gaveUp = rejection(waiter.promise);
    const [node] = redis.server.nodes;
    await node!.kill();
    const { awakeMs } = await timed(lock.close({ timeoutMs: 100 }));
    await node!.start();
    expect(awakeMs).toBeLessThan(promptMs);
    expect(await gaveUp).toMatchObject(closedError);
    client.disconnect();
  });
});

describe("a process with a lock", () => {
  it("ends by itself after close(), and has printed nothing", async () => {
    const { printed, code } = await runProgram(redis, program, ["close", redis.url, redis.prefix]);
    expect([printed, code]).toEqual(["", 0]);
  });

  it("ends by itself while it holds a lease, and has printed nothing", async () => {
    const { printed, code } = await runProgram(redis, program, ["hold", redis.url, redis.prefix]);
    expect([printed, code]).toEqual(["", 0]);
    expect(await fixture.db.pttl(fixture.keysOf(name).lease)).toBeGreaterThan(0);
  });

  it("gets one typed error where there is no Redis, and has printed nothing", async () => {
    const url = `redis://127.0.0.1:${closedPort}`;
    const { printed, code } = await runProgram(redis, program, ["absent", url, redis.prefix]);
    expect([printed, code]).toEqual(["", 0]);
  });

  it.each([
    ["quit", "waited", false],
    ["disconnect", "waited", false],
    ["close", "waited", false],
    ["quit", "waits", false],
    ["close", "waits", false],
    ["disconnect", "waits", true],
  ])("ends by itself after %s() of its client while it %s (isolate: %s)", async (how, what, isolate) => {
    const args = [how, what, String(isolate), redis.url, redis.prefix];
    const { printed, code } = await runProgram(redis, new URL("programs/ending.mjs", import.meta.url), args);
    expect([printed, code]).toEqual(["", 0]);
  });
});
