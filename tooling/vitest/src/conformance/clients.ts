import { expect, it } from "vitest";
import type { Conforming } from "./description.js";
import { type Bench, type Client, codeOf, expectEach, keysOf, shown } from "./ground.js";

/** Kinds of clients that users have, and what `keys()` must not find then. */
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

/** What a value is made of: types instead of texts and numbers, which differ from run to run. */
const shapeOf = (value: unknown): unknown => {
  if (value instanceof Map) return ["Map", ...[...value.entries()].map(shapeOf)];
  if (Array.isArray(value)) return value.map(shapeOf);
  if (ArrayBuffer.isView(value)) return "bytes";
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shapeOf(part)]));
  return typeof value === "boolean" ? value : typeof value;
};

/** The same results on every kind of client. */
export const clients = (bench: Bench, object: Conforming, only: readonly string[] = Object.keys(kinds)): void => {
  const { redis } = bench;

  it.each(only)("gives the same results on a client with %s", async (kind) => {
    const client = bench.connect(kinds[kind]);
    const plain = await bench.tour(object, redis.client);
    const before = await redis.keys();
    expect(shapeOf(await bench.tour(object, client))).toEqual(shapeOf(plain));
    const made = (await redis.keys()).filter((key) => !before.includes(key));
    expect(made.filter((key) => key.startsWith("app:"))).toEqual(kind === "keyPrefix" ? made : []);
    if (kind === "db 3") await client.call("FLUSHDB");
  });

  it("gives the same results on a client of connect(), and on a connection of its own", async () => {
    const plain = await bench.tour(object, redis.client);
    expect(shapeOf(await bench.tour(object, await bench.connectByUrl(redis.url)))).toEqual(shapeOf(plain));
    if (!("isolate" in object.options)) return;
    expect(shapeOf(await bench.tour(object, redis.client, { isolate: true }))).toEqual(shapeOf(plain));
  });

  /** Nothing is closed here: what stays open then would fail the test that leaves it. */
  it.each(["disconnect", "quit"] as const)("ends with a client that its owner ends by %s()", async (how) => {
    const outcomes = new Map<string, unknown>();
    const end = async (client: Client): Promise<void> => {
      const ended = new Promise((resolve) => client.on("end", resolve as () => void));
      await client[how]();
      await ended;
    };
    const client = bench.own();
    const idle = [];
    for (const key of keysOf(object, ({ waits, isLocal }) => !waits && !isLocal)) {
      const ready = await bench.readyOn(object, key, bench.makeOpen(object, client));
      // Half of them have not sent anything yet.
      if (idle.length % 2 === 0 && ready.call.prepare === undefined) await ready.run();
      idle.push(ready);
    }
    await end(client);
    for (const ready of idle) {
      const outcome = await ready.run();
      if ("error" in outcome) expect(outcome.error).toMatchObject({ retryable: false });
      outcomes.set(ready.key, shown(outcome));
    }
    expectEach(outcomes, () => expect.stringMatching(/^KIT_(?:UNAVAILABLE|CLOSED)$/) as unknown);
    for (const key of keysOf(object, ({ waits }) => waits === true)) {
      const owned = bench.own();
      const ready = await bench.readyOn(object, key, bench.makeOpen(object, owned));
      const pending = ready.run();
      await bench.settle();
      await end(owned);
      const outcome = await pending;
      expect([key, "error" in outcome ? codeOf(outcome.error) : outcome]).toEqual([
        key,
        expect.stringMatching(/^KIT_(?:UNAVAILABLE|CLOSED)$/),
      ]);
    }
  });
};

/** What meets the client, for the run with the other major of ioredis. */
export const smokeKinds: readonly string[] = ["keyPrefix", "stringNumbers"];
