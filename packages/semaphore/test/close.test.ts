import { eventually, useRedis } from "@kit/testing";
import { aborted, promptMs, rejection, runProgram, timed, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, enqueue, name, take } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const closedError = { name: "KitClosedError", code: "KIT_CLOSED" };
const program = new URL("programs/closing.mjs", import.meta.url);

describe("close", () => {
  it("rejects who waits, and takes each out of the queue", async () => {
    const semaphore = fixture.make();
    const holders = await take(fixture.on(redis.connect()), 2);
    const waiters = [await enqueue(semaphore), await enqueue(semaphore)];
    const errors = Promise.all(waiters.map(({ promise }) => rejection(promise)));
    await semaphore.close();
    expect(await errors).toMatchObject([closedError, closedError]);
    expect(await fixture.db.zcard(fixture.keysOf(name).queue)).toBe(0);
    for (const holder of holders) expect(await holder.release()).toBe("released");
  });

  it("waits for permits that are held, which go on being renewed", async () => {
    const semaphore = fixture.make({ permits: 1 });
    const permit = await semaphore.acquire({ leaseMs: 2_400 });
    const closing = watched(semaphore.close());
    await rejection(fixture.on(redis.connect(), { permits: 1 }).acquire({ waitMs: 3_000 }));
    expect([closing.isSettled, permit.isHeld]).toEqual([false, true]);
    await permit.release();
    await closing.promise;
    expect(await fixture.used()).toBe(0);
  });

  it("takes permits from their holders at timeoutMs, and releases them", async () => {
    const semaphore = fixture.make({ permits: 5 });
    const permits = await take(semaphore, 2, { weight: 2 });
    const waiter = await enqueue(fixture.on(redis.connect(), { permits: 5 }), { weight: 5 });
    const { ms, awakeMs } = await timed(() => semaphore.close({ timeoutMs: 100 }));
    expect(ms).toBeGreaterThan(95);
    expect(awakeMs).toBeLessThan(promptMs);
    for (const permit of permits) {
      expect(await aborted(permit.signal)).toMatchObject({ reason: "closed" });
      expect(await permit.release()).toBe("not-held");
    }
    expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
  });

  it.each(["try", "acquire"])("leaves nothing held by a %s that is under way", async (what) => {
    const semaphore = fixture.make();
    await (await semaphore.acquire()).release();
    await redis.server.call("CLIENT", "PAUSE", "150", "ALL");
    const call = rejection(what === "try" ? semaphore.tryAcquire() : semaphore.acquire());
    await semaphore.close({ timeoutMs: 0 });
    expect(await call).toMatchObject(closedError);
    await eventually(async () => expect(await fixture.used()).toBe(0));
  });

  it("ends in time when the server is gone", async () => {
    const client = redis.connect({ retryStrategy: () => 20 });
    const semaphore = fixture.on(client, { permits: 1, deadlineMs: 1_000 });
    await semaphore.acquire();
    const gaveUp = rejection((await enqueue(semaphore)).promise);
    const [node] = redis.server.nodes;
    await node!.kill();
    const { awakeMs } = await timed(() => semaphore.close({ timeoutMs: 100 }));
    await node!.start();
    expect(awakeMs).toBeLessThan(promptMs);
    expect(await gaveUp).toMatchObject(closedError);
    client.disconnect();
  });
});

describe("a process with a semaphore", () => {
  it.each(["close", "hold"])("ends by itself, and has printed nothing: %s", async (how) => {
    expect(await runProgram(redis, program, [how, redis.url, redis.prefix])).toEqual({ printed: "", code: 0 });
    expect(await fixture.used()).toBe(how === "hold" ? 1 : 0);
  });
});
