import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import type { Call, Conforming } from "./description.js";
import { type Fixture, expectEach, keysOf, type Outcome } from "./ground.js";

export const takesSignal = ({ options = {} }: Call): boolean => "signal" in options;

/** A signal ends a call with its reason, before or during the call. Afterwards the signal has no listener. */
export const cancellation = (fixture: Fixture, object: Conforming): void => {
  const keys = keysOf(object, takesSignal);
  const { redis } = fixture;
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
      const client = prepare ? fixture.connect() : fixture.connect({ lazyConnect: true });
      const controller = new AbortController();
      controller.abort(reason);
      const ready = await fixture.ready(object, key, client);
      outcomes.set(key, ended(await ready.run({ signal: controller.signal }), controller));
      expect(prepare ? "wait" : client.status, `${key} used the client, although its signal had aborted`).toBe("wait");
    }
    expectEach(outcomes, wanted);
  });

  const cancelled = keys.filter((key) => !object.calls[key]!.isFinished);
  if (cancelled.length > 0)
    it("rejects by a signal that aborts while the server is silent", async () => {
      const { proxy, client } = await fixture.proxied();
      const controller = new AbortController();
      const { signal } = controller;
      // The deadline is longer than a test may take.
      const calls = await Promise.all(
        cancelled.map((key) => fixture.ready(object, key, client, { deadlineMs: 600_000 })),
      );
      proxy.down.hole = true;
      const pending = Object.fromEntries(calls.map((ready) => [ready.key, ready.run({ signal })] as const));
      await fixture.settle();
      controller.abort(reason);
      const settled = await fixture.all(pending);
      // Ends the commands that were sent, too.
      await fixture.end(client);
      expectEach(new Map(Array.from(settled, ([key, outcome]) => [key, ended(outcome, controller)])), wanted);
    });

  const waiting = keys.filter((key) => object.calls[key]!.waits);
  if (waiting.length > 0)
    it("rejects by a signal that aborts while it waits", async () => {
      const outcomes = new Map<string, unknown>();
      for (const key of waiting) {
        const controller = new AbortController();
        const pending = (await fixture.ready(object, key, redis.client)).run({ signal: controller.signal });
        await fixture.settle();
        controller.abort(reason);
        outcomes.set(key, ended(await pending, controller));
      }
      expectEach(outcomes, wanted);
    });

  it("leaves no listener on the signal of a call that ended well", async () => {
    for (const key of keys.filter((one) => !object.calls[one]!.waits)) {
      const controller = new AbortController();
      const outcome = await (await fixture.ready(object, key, redis.client)).run({ signal: controller.signal });
      expect([key, "error" in outcome ? outcome.error : "well"]).toEqual([key, "well"]);
      ended(outcome, controller);
    }
  });
};
