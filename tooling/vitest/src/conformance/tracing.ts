import { expect, it } from "vitest";
import { recordTraces } from "../traces.js";
import type { Call, Conformance, Conforming } from "./description.js";
import { type Fixture, keysOf } from "./ground.js";

export const isTraced = ({ trace }: Call): boolean => trace !== undefined;

/** Each call is traced on its channel: its facts at the start, its outcome at the end. */
export const tracing = (fixture: Fixture, object: Conforming): void => {
  const keys = keysOf(object, isTraced);
  const { redis } = fixture;

  it("traces each call that succeeds", async () => {
    for (const key of keys.filter((one) => !object.calls[one]!.waits)) {
      const [channel, facts] = object.calls[key]!.trace!;
      const ready = await fixture.ready(object, key, redis.client);
      const { events } = recordTraces(redis, channel);
      const outcome = await ready.run();
      const kinds = events.map(([kind]) => kind);
      expect([key, kinds.slice(0, 2), kinds.slice(-2)]).toEqual([key, ["start", "end"], ["asyncStart", "asyncEnd"]]);
      expect([key, events[0]![1]]).toEqual([key, facts]);
      const result = "error" in outcome ? outcome.error : outcome.value;
      const told = fixture.description.tracesResults ? result : (events.at(-1)![1]["result"] as unknown);
      expect([key, events.at(-1)![1]]).toEqual([key, { ...facts, result: told }]);
    }
  });

  it("traces each call that fails", async () => {
    for (const key of keys) {
      const client = fixture.own();
      const ready = await fixture.ready(object, key, client);
      client.disconnect();
      const { events } = recordTraces(redis, object.calls[key]!.trace![0]);
      const outcome = await ready.run();
      const failed = events.find(([kind]) => kind === "error")?.[1];
      expect([key, failed]).toEqual([
        key,
        { ...object.calls[key]!.trace![1], error: "error" in outcome && outcome.error },
      ]);
    }
  });
};

/** Expects that the description has every name that the package has traced so far. */
export const expectTracesDescribed = ({ name, objects }: Conformance): void => {
  const { [Symbol.for("kit.tracing")]: names } = globalThis as unknown as Record<symbol, ReadonlySet<string>>;
  const described = objects.flatMap(({ calls }) => Object.values(calls).map(({ trace }) => trace?.[0]));
  const traced = [...(names ?? [])].filter((one) => one.startsWith(`${name}.`)).map((one) => `kit:${one}`);
  expect(traced.filter((one) => !described.includes(one))).toEqual([]);
};
