import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import type { Conforming } from "./description.js";
import { type Bench, expectEach, keysOf, type Outcome } from "./ground.js";

/** A signal ends a call with its reason, before or during it, and carries no listener afterwards. */
export const cancellation = (bench: Bench, object: Conforming): void => {
  const keys = keysOf(object, ({ options = {} }) => "signal" in options);
  if (keys.length === 0) return;
  const { redis } = bench;
  const reason = new Error("never mind");
  const ended = (outcome: Outcome, { signal }: AbortController): unknown => {
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    return "error" in outcome ? outcome.error : outcome.value;
  };
  const wanted = (key: string): unknown => ("aborted" in object.calls[key]! ? object.calls[key].aborted : reason);

  it("rejects by a signal that has aborted, and sends nothing", async () => {
    const outcomes = new Map<string, unknown>();
    for (const key of keys) {
      const { prepare } = object.calls[key]!;
      const client = prepare ? bench.connect() : bench.connect({ lazyConnect: true });
      const controller = new AbortController();
      controller.abort(reason);
      const ready = await bench.ready(object, key, client);
      outcomes.set(key, ended(await ready.run({ signal: controller.signal }), controller));
      if (!prepare) expect([key, client.status]).toEqual([key, "wait"]);
    }
    expectEach(outcomes, wanted);
  });

  it("rejects by a signal that aborts while the server is silent", async () => {
    const { proxy, client } = await bench.proxied();
    const controller = new AbortController();
    const { signal } = controller;
    // The deadline is longer than a test may take.
    const calls = await Promise.all(keys.map((key) => bench.ready(object, key, client, { deadlineMs: 600_000 })));
    proxy.down.hole = true;
    const pending = calls.map((ready) => ready.run({ signal }));
    await bench.settle();
    controller.abort(reason);
    const settled = await Promise.all(pending);
    proxy.heal();
    expectEach(new Map(settled.map((outcome, index) => [keys[index]!, ended(outcome, controller)])), wanted);
  });

  const waiting = keysOf(object, ({ options = {}, waits }) => waits === true && "signal" in options);
  if (waiting.length > 0)
    it("rejects by a signal that aborts while it waits", async () => {
      const outcomes = new Map<string, unknown>();
      for (const key of waiting) {
        const controller = new AbortController();
        const pending = (await bench.ready(object, key, redis.client)).run({ signal: controller.signal });
        await bench.settle();
        controller.abort(reason);
        outcomes.set(key, ended(await pending, controller));
      }
      expectEach(outcomes, wanted);
    });

  it("leaves no listener on the signal of a call that ended well", async () => {
    for (const key of keys.filter((one) => !object.calls[one]!.waits)) {
      const controller = new AbortController();
      const outcome = await (await bench.ready(object, key, redis.client)).run({ signal: controller.signal });
      expect([key, "error" in outcome ? outcome.error : "well"]).toEqual([key, "well"]);
      ended(outcome, controller);
    }
  });
};
