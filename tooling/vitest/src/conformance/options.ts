import { describe, expect, it } from "vitest";
import { hostileNames, polluted } from "../hostile.js";
import { expectRefusal } from "../refusals.js";
import type { Conforming } from "./description.js";
import { type Fixture, type Client, keysOf, listenersOf, type Outcome, outcomeOf, shown } from "./ground.js";
import { type Refusals, refusals, requiredNames } from "./rules.js";

/** Names that cannot be part of a key. */
const badNames = ["", "x".repeat(513), "ä".repeat(257), "\ud800", "a\udc00b", 42, null, undefined, {}];

const expectRefused = (outcome: Outcome, option: string, value: unknown, { wanted }: Refusals): void => {
  const said = "error" in outcome ? outcome.error : `nothing: ${option} of ${String(value)} was taken`;
  if (wanted) expectRefusal(said, option, value, wanted(value));
  else expect(String(said)).toMatch(new RegExp(`^(?:Type|Range)Error: .*\\b${option}\\b`, "s"));
};

const expectUnknown = (outcome: Outcome, name: string, of = "it"): void => {
  expect("error" in outcome ? outcome.error : `nothing: ${of} took ${name}`).toBeInstanceOf(TypeError);
  expect(String("error" in outcome && outcome.error)).toContain(name);
};

/** Objects with unknown options. JSON makes `__proto__` an own property. */
const unknown: readonly (readonly [name: string, options: object])[] = ["leasems", ...hostileNames].map((name) => [
  name,
  JSON.parse(`{${JSON.stringify(name)}:{"leaseMs":1000}}`) as object,
]);

const noObjects = [null, "fast", true, []];

/** Options are checked by name when they are passed. Properties of `Object.prototype` are no options. */
export const options = (fixture: Fixture, object: Conforming): void => {
  const { redis } = fixture;
  const required = requiredNames(object.options);
  const makeOn = (client: unknown, given: object): Promise<Outcome> =>
    outcomeOf(() => object.make(client as never, given) as unknown);
  const make = (given: object): Promise<Outcome> => makeOn(redis.client, given);
  const withOptions = keysOf(object, (call) => call.options !== undefined);
  /** A client that has sent nothing while its status is "wait". */
  const silent = (): Client => fixture.connect({ lazyConnect: true });

  if (!object.hasNoClose) {
    it("refuses wrong options where it is made, and leaves the client alone", async () => {
      const client = redis.client as Client;
      const before = listenersOf(client);
      for (const [option, rule] of refusals(object))
        for (const value of [...rule.refused, ...(required.includes(option) ? [undefined] : [])])
          expectRefused(await make({ prefix: redis.prefix, [option]: value }), option, value, rule);
      for (const [name, given] of unknown) expectUnknown(await make(given), name);
      expect(listenersOf(client)).toEqual(before);
    });

    it("refuses a value that is no client, and a name that cannot be a key", async () => {
      for (const client of [null, undefined, 42, "redis://127.0.0.1:6379", {}, { on: 1, call: 2, duplicate: 3 }]) {
        const outcome = await makeOn(client, { prefix: redis.prefix });
        expect(String("error" in outcome && outcome.error)).toMatch(
          /^TypeError: Expected `redis` to be an ioredis Redis or Cluster, or fromNodeRedis\(client\)(?:, as the first argument)?, got `/,
        );
      }
      const before = listenersOf(redis.client as Client);
      const { named } = object;
      for (const name of named ? badNames : []) {
        const outcome = await outcomeOf(() => named?.(redis.client as never, name as string));
        expect([name, shown(outcome)]).toEqual([name, "KIT_NAME"]);
      }
      expect(listenersOf(redis.client as Client)).toEqual(before);
    });

    it("takes undefined for the default, and frozen options", async () => {
      const undefinedOf = (rules: object, required: readonly string[] = []): object =>
        Object.fromEntries(Object.keys(rules).flatMap((name) => (required.includes(name) ? [] : [[name, undefined]])));
      const given = undefinedOf(object.options, [...required, "prefix"]);
      const defaults = Object.freeze(given);
      for (const key of keysOf(object, ({ waits }) => !waits).slice(0, 3)) {
        const { options: rules = {}, required = {} } = object.calls[key]!;
        const ready = await fixture.ready(object, key, redis.client, defaults);
        const outcome = await ready.run(Object.freeze(undefinedOf(rules, Object.keys(required))));
        expect([key, "error" in outcome ? outcome.error : "well"]).toEqual([key, "well"]);
      }
    });
  }

  if (withOptions.length > 0)
    it("refuses wrong options of calls, and sends nothing", async () => {
      for (const key of withOptions) {
        const call = object.calls[key]!;
        const client = call.prepare ? fixture.connect() : silent();
        const ready = await fixture.ready(object, key, client);
        for (const [option, rule] of refusals(call))
          for (const value of rule.refused) expectRefused(await ready.run({ [option]: value }), option, value, rule);
        for (const [name, given] of unknown) expectUnknown(await ready.run(given), name, key);
        for (const value of noObjects)
          expect([key, value, await ready.run(value as never)]).toEqual([key, value, { error: expect.any(TypeError) }]);
        expect(call.prepare ? "wait" : client.status, `${key} used the client before it checked its options`).toBe(
          "wait",
        );
      }
    });

  const named = keysOf(object, (call) => call.named !== undefined);
  if (named.length > 0)
    it("refuses names that cannot be a key, and sends nothing", async () => {
      const client = silent();
      for (const key of named) {
        const made = fixture.make(object, client);
        for (const name of badNames) {
          const outcome = await outcomeOf(() => object.calls[key]!.named!(made as never, name as string));
          expect([key, name, shown(outcome)]).toEqual([key, name, "KIT_NAME"]);
          expect(String("error" in outcome && outcome.error).length).toBeLessThan(250);
        }
      }
      expect(object.readsFirst ? "wait" : client.status).toBe("wait");
    });

  describe("while Object.prototype is polluted", () => {
    if (!object.hasNoClose)
      it("takes none of it for an option of its own", async () => {
        for (const [option, { refused }] of refusals(object)) {
          const prefix = fixture.prefix();
          const given = option === "prefix" ? {} : { prefix };
          const made = polluted(option, refused[0], () => object.make(redis.client as never, given)) as never;
          redis.defer(() => (made as { close(o: object): unknown }).close({ timeoutMs: 0 }));
          expect(typeof made).toBe("object");
        }
      });

    if (withOptions.length > 0)
      it("takes none of it for an option of a call", async () => {
        for (const key of keysOf(object, (call) => call.options !== undefined && !call.waits))
          for (const [option, { refused }] of refusals(object.calls[key]!)) {
            // A polluted `signal` would also change calls of ioredis and Node.
            if (option === "signal") continue;
            const ready = await fixture.ready(object, key, redis.client);
            const calling = polluted(option, refused[0], () => ready.run());
            const outcome = await calling;
            expect([key, option, "error" in outcome ? outcome.error : "well"]).toEqual([key, option, "well"]);
          }
      });
  });
};
