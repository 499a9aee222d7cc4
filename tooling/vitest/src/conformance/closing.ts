import { expect, it } from "vitest";
import type { Conforming } from "./description.js";
import { type Fixture, expectEach, keysOf, listenersOf, type Made, type Ready, shown } from "./ground.js";

/** After `close()` no call begins and nothing is left. The borrowed client goes on. */
export const closing = (fixture: Fixture, object: Conforming): void => {
  const { redis } = fixture;
  const ending = keysOf(object, ({ waits }) => !waits);
  const waiting = keysOf(object, ({ waits }) => waits === true);

  const closed = (key: string): unknown => ("closed" in object.calls[key]! ? object.calls[key].closed : "KIT_CLOSED");

  it("lets no call begin after close()", async () => {
    const outcomes = new Map<string, unknown>();
    for (const key of keysOf(object)) {
      const ready = await fixture.ready(object, key, redis.client);
      await ready.object.close({ timeoutMs: 0 });
      outcomes.set(key, shown(await ready.run()));
    }
    expectEach(outcomes, closed);
  });

  if (waiting.length > 0)
    it("rejects waiting calls when close() is called", async () => {
      const outcomes = new Map<string, unknown>();
      for (const key of waiting) {
        const ready = await fixture.ready(object, key, redis.client);
        const pending = ready.run();
        await fixture.settle();
        await ready.object.close({ timeoutMs: 0 });
        outcomes.set(key, shown(await pending));
      }
      expectEach(outcomes, closed);
    });

  it("closes twice, and gives the borrowed client back as it was", async () => {
    const client = fixture.connect();
    await client.ping();
    const before = listenersOf(client);
    const options = { ...client.options };
    const made: Made[] = [];
    for (const key of ending) {
      const one = fixture.makeOpen(object, client);
      made.push(one);
      const outcome = await (await fixture.readyOn(object, key, one)).run();
      expect([key, outcome]).not.toEqual([key, { error: expect.anything() as unknown }]);
    }
    for (const one of made) {
      await Promise.all([one.close({ timeoutMs: 0 }), one.close({ timeoutMs: 0 })]);
      await one.close();
      await one[Symbol.asyncDispose]();
    }
    expect(listenersOf(client)).toEqual(before);
    expect({ ...client.options }).toEqual(options);
    expect(await client.ping()).toBe("PONG");
  });

  it("ends where `await using` ends", async () => {
    const [key = ""] = keysOf(object, (call) => !call.waits && !("closed" in call));
    let left: Ready;
    {
      await using made = fixture.makeOpen(object, redis.client);
      left = await fixture.readyOn(object, key, made);
    }
    expect(shown(await left.run())).toBe("KIT_CLOSED");
  });

  it("refuses a wrong timeoutMs, and stays open", async () => {
    const made = fixture.make(object, redis.client);
    for (const timeoutMs of [-1, 0.5, "1000", null])
      await expect((async () => made.close({ timeoutMs }))()).rejects.toThrow(
        "`timeoutMs` to be an integer from 0 to 86400000",
      );
    for (const options of [{ timeoutMS: 1 }, null, "fast"])
      await expect((async () => made.close(options as object))()).rejects.toThrow(TypeError);
    expect(shown(await (await fixture.readyOn(object, ending[0]!, made)).run())).not.toBe("KIT_CLOSED");
  });
};
