import { expect, it } from "vitest";
import type { Conforming } from "./description.js";
import { type Fixture, expectEach, keysOf, type Outcome, outcomeOf, shown } from "./ground.js";

/** Options of clients that users have. */
const kinds: Readonly<Record<string, object>> = {
  stringNumbers: { stringNumbers: true },
  keyPrefix: { keyPrefix: "app:" },
  "db 3": { db: 3 },
  lazyConnect: { lazyConnect: true },
  enableAutoPipelining: { enableAutoPipelining: true },
  "autoResendUnfulfilledCommands: false": { autoResendUnfulfilledCommands: false },
  "enableOfflineQueue: false": { enableOfflineQueue: false },
  "maxRetriesPerRequest: null": { maxRetriesPerRequest: null },
  commandTimeout: { commandTimeout: 20_000 },
  "replies as RESP3": { replyMapping: "resp3" },
};

/** The shape of a value: types instead of texts and numbers, which differ from run to run. */
const shapeOf = (value: unknown): unknown => {
  if (value instanceof Map) return ["Map", ...[...value.entries()].map(shapeOf)];
  if (Array.isArray(value)) return value.map(shapeOf);
  if (ArrayBuffer.isView(value)) return "bytes";
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shapeOf(part)]));
  return typeof value === "boolean" ? value : typeof value;
};

/** The same results on every kind of client. */
export const clients = (fixture: Fixture, object: Conforming, only: readonly string[] = Object.keys(kinds)): void => {
  const { redis } = fixture;

  /** The prefix of the object whose key this is: that of the test, and a number. */
  const ownerOf = (key: string): string => key.slice(key.indexOf(redis.prefix)).split(":", 2).join(":");

  it("gives the same results on every kind of client", async () => {
    const plain = shapeOf(await fixture.tour(object, redis.client));
    for (const kind of only) {
      const client = fixture.connect(kinds[kind]);
      const before = new Set((await redis.keys()).map(ownerOf));
      expect([kind, shapeOf(await fixture.tour(object, client))]).toEqual([kind, plain]);
      // Objects of former tours may still work.
      const made = (await redis.keys()).filter((key) => !before.has(ownerOf(key)));
      expect(made.filter((key) => key.startsWith("app:"))).toEqual(kind === "keyPrefix" ? made : []);
      if (kind === "db 3") await client.call("FLUSHDB");
    }
    const connection = await fixture.connectByUrl(redis.url);
    expect(["connect()", shapeOf(await fixture.tour(object, connection))]).toEqual(["connect()", plain]);
    const isolate = "isolate" in object.options ? { isolate: true } : {};
    expect(["isolate", shapeOf(await fixture.tour(object, redis.client, isolate))]).toEqual(["isolate", plain]);
  });

  const { wakes } = object;
  if (wakes)
    it("is woken by what it waits for on every kind of client", async () => {
      const pending: Record<string, Promise<Outcome>> = {};
      const begin = (kind: string, client: object, options: object = {}): void => {
        for (const [key, wake] of Object.entries(wakes)) {
          const made = fixture.make(object, client, options);
          pending[`${key} on a client with ${kind}`] = outcomeOf(() => wake(made as never, () => fixture.settle()));
        }
      };
      for (const kind of only) begin(kind, fixture.connect(kinds[kind]));
      begin("connect()", await fixture.connectByUrl(redis.url));
      if ("isolate" in object.options) begin("isolate", fixture.connect(kinds["replies as RESP3"]), { isolate: true });
      for (const [key, wake] of Object.entries(wakes)) {
        const plain = shapeOf(await wake(fixture.make(object, redis.client) as never, () => fixture.settle()));
        const outcomes = [...(await fixture.all(pending))].filter(([name]) => name.startsWith(`${key} on `));
        expectEach(new Map(outcomes.map(([name, outcome]) => [name, shapeOf(outcome)])), () => ({ value: plain }));
      }
      if (only.includes("db 3")) await fixture.connect(kinds["db 3"]).call("FLUSHDB");
    });

  /** Nothing is closed here, so that an object that stays open fails the test. */
  it("ends with a client that its owner ends", async () => {
    for (const how of ["disconnect", "quit"] as const) await endsBy(how);
  });

  const endsBy = async (how: "disconnect" | "quit"): Promise<void> => {
    const outcomes = new Map<string, unknown>();
    const client = fixture.own();
    const idle = [];
    const retryable: unknown[] = [];
    for (const key of keysOf(object, ({ waits, isLocal }) => !waits && !isLocal)) {
      const ready = await fixture.readyOn(object, key, fixture.makeOpen(object, client));
      // Half of them have sent no command yet.
      if (idle.length % 2 === 0 && ready.call.prepare === undefined) await ready.run();
      idle.push(ready);
    }
    await fixture.end(client, how);
    for (const ready of idle) {
      const outcome = await ready.run();
      retryable.push("error" in outcome && (outcome.error as { retryable?: unknown }).retryable);
      outcomes.set(ready.key, shown(outcome));
    }
    for (const key of keysOf(object, ({ waits }) => waits === true)) {
      const owned = fixture.own();
      const ready = await fixture.readyOn(object, key, fixture.makeOpen(object, owned));
      const pending = ready.run();
      await fixture.settle();
      await fixture.end(owned, how);
      outcomes.set(key, shown((await fixture.all({ [key]: pending })).get(key)!));
    }
    expect(retryable).not.toContain(true);
    expectEach(outcomes, () => expect.stringMatching(/^KIT_(?:UNAVAILABLE|CLOSED|UNKNOWN_OUTCOME)$/) as unknown);
  };
};

/** The kinds of clients for the run with the other major of ioredis. */
export const smokeKinds: readonly string[] = ["keyPrefix", "stringNumbers"];
