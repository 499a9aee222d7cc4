import { tracingChannel } from "node:diagnostics_channel";
import { setImmediate } from "node:timers/promises";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { attach, ObjectLife } from "../src/toolkit/index.js";
import { rejection } from "./harness.js";

const redis = useRedis(vitest);

const made = (): ObjectLife => new ObjectLife(redis.client, { prefix: redis.prefix }, "The thing");
const noFacts = (): object => ({});

/** A call that settles when the test says so. */
const pending = () => {
  let finish = (): void => undefined;
  const promise = new Promise<void>((resolve) => (finish = resolve));
  return { promise, finish };
};

it("lets calls start until close(), and detaches behind the end", async () => {
  const life = made();
  const { context } = life;
  expect(await life.call("thing.do", noFacts, async () => "done")).toBe("done");
  const seen: unknown[] = [];
  life.onClosed(() => seen.push("undone", life.signal.aborted));
  await life.close({}, async () => {
    seen.push(life.isClosed, life.signal.aborted, attach(redis.client, { prefix: redis.prefix }) === context);
    context.detach();
    expect(await rejection(life.call("thing.do", noFacts, async () => "done"))).toMatchObject({ code: "KIT_CLOSED" });
  });
  expect(seen).toEqual([true, false, true, "undone", true]);
  expect(life.signal.aborted).toBe(true);
  expect(() => life.assertOpen()).toThrow("The thing is closed");
  const next = attach(redis.client, { prefix: redis.prefix });
  expect(next).not.toBe(context);
  next.detach();
});

it("waits for calls under way, at most until the deadline", async () => {
  const life = made();
  const { promise, finish } = pending();
  const order: string[] = [];
  const call = life.call("thing.do", noFacts, () => promise).then(() => order.push("call"));
  const closed = life.close({ timeoutMs: 600_000 }, (deadline) => life.untilIdle(deadline));
  void closed.then(() => order.push("close"));
  await setImmediate();
  expect(order).toEqual([]);
  finish();
  await Promise.all([call, closed]);
  expect(order).toEqual(["call", "close"]);

  const impatient = made();
  const endless = pending();
  const left = impatient.call("thing.do", noFacts, () => endless.promise);
  await impatient.close({ timeoutMs: 0 }, (deadline) => impatient.untilIdle(deadline));
  endless.finish();
  await left;
});

it("waits also for a call that fails, and closes then", async () => {
  const life = made();
  const failing = life.call("thing.do", noFacts, () => Promise.reject(new Error("no")));
  const closed = life.close({}, (deadline) => life.untilIdle(deadline));
  await expect(failing).rejects.toThrow("no");
  await closed;
});

it("waits also for work of its own, which may start while it closes and settles as it does", async () => {
  const life = made();
  const { promise, finish } = pending();
  const order: string[] = [];
  const closed = life.close({ timeoutMs: 600_000 }, async (deadline) => {
    void life.track(promise.then(() => order.push("work")));
    await life.untilIdle(deadline);
    await expect(life.track(Promise.reject(new Error("no")))).rejects.toThrow("no");
  });
  void closed.then(() => order.push("close"));
  await setImmediate();
  expect(order).toEqual([]);
  finish();
  await closed;
  expect(order).toEqual(["work", "close"]);
});

it("closes once, with the options of the first call", async () => {
  const life = made();
  const ends: number[] = [];
  const end = async ({ remainingMs }: { remainingMs: number }): Promise<void> => void ends.push(remainingMs);
  await Promise.all([life.close({ timeoutMs: 1_000_000 }, end), life.close({ timeoutMs: 0 }, end)]);
  expect(ends).toHaveLength(1);
  expect(ends[0]).toBeGreaterThan(500_000);
});

it("closes once, even when the end closes it again", async () => {
  const life = made();
  let ends = 0;
  const end = async (): Promise<void> => {
    if (++ends < 3) void life.close({}, end);
  };
  await life.close({}, end);
  expect(ends).toBe(1);
});

it("stays open when the options of close() are wrong", async () => {
  const life = made();
  const end = (): Promise<void> => Promise.resolve();
  expect(() => life.close({ timeoutMs: -1 }, end)).toThrow(RangeError);
  life.assertOpen();
  await life.close({}, end);
});

it("detaches even when the end fails", async () => {
  const life = made();
  await expect(life.close({}, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  const next = attach(redis.client, { prefix: redis.prefix });
  expect(next).not.toBe(life.context);
  next.detach();
});

it("aborts its signal with the error of later calls at cancel()", async () => {
  const life = made();
  await life.close({}, async () => {
    life.cancel();
    expect(life.signal.reason).toMatchObject({ code: "KIT_CLOSED", message: life.closedError().message });
  });
});

it("traces a private call without its result", async () => {
  const life = made();
  const results: unknown[] = [];
  const channel = tracingChannel<object, object>("kit:thing.show");
  const subscribers = {
    start: () => undefined,
    end: () => undefined,
    asyncStart: () => undefined,
    asyncEnd: (context: object) => void results.push((context as { result?: unknown }).result),
    error: () => undefined,
  };
  channel.subscribe(subscribers);
  redis.defer(() => channel.unsubscribe(subscribers));
  expect(await life.privateCall("thing.show", noFacts, async () => "secret")).toBe("secret");
  expect(await life.call("thing.show", noFacts, async () => "shown")).toBe("shown");
  expect(results).toEqual([undefined, "shown"]);
  await life.close({}, () => Promise.resolve());
});
