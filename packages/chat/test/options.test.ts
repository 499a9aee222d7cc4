import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type ChatOptions, createChat, type CreateOptions } from "../src/index.js";
import { fixtureOf, permanentKeys, room } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

describe("options", () => {
  it("of an object are checked when it is made", () => {
    const wrong: [unknown, typeof TypeError | typeof RangeError][] = [
      [{ shards: 0 }, RangeError],
      [{ shards: 257 }, RangeError],
      [{ shards: "16" }, TypeError],
      [{ maxBodyBytes: 0 }, RangeError],
      [{ deadlineMs: 0 }, RangeError],
      [{ maxPending: 0 }, RangeError],
      [{ prefix: "a b" }, RangeError],
      [{ isolate: 1 }, TypeError],
      [{ shard: 16 }, TypeError],
      [null, TypeError],
    ];
    for (const [options, error] of wrong)
      expect(() => createChat(redis.client, options as ChatOptions), JSON.stringify(options)).toThrow(error);
    expect(() => createChat({} as never)).toThrow(TypeError);
  });

  it("of a chat are checked before anything is written", async () => {
    const chat = fixture.make();
    const wrong: [unknown, typeof TypeError | typeof RangeError][] = [
      [{ members: "ann" }, TypeError],
      [{ retain: { count: 0 } }, RangeError],
      [{ retain: { bytes: 10 } }, RangeError],
      [{ retain: { ageMs: 1.5 } }, RangeError],
      [{ retain: { readByAll: 1 } }, TypeError],
      [{ retain: { days: 1 } }, TypeError],
      [{ whenFull: "explode" }, RangeError],
      [{ whenFull: "refuse" }, RangeError],
      [{ senders: "ann" }, RangeError],
      [{ lag: { messages: 0 } }, RangeError],
      [{ maxBodyBytes: -1 }, RangeError],
      [{ dedupeMs: 10 }, RangeError],
    ];
    for (const [options, error] of wrong)
      expect(await rejection(chat.create(room, options as CreateOptions)), JSON.stringify(options)).toBeInstanceOf(
        error,
      );
    expect(await redis.keys()).toEqual([]);
  });

  it("of calls are checked before anything is sent", async () => {
    const chat = fixture.make();
    for (const call of [
      () => chat.send(room, { from: "ann", body: "x", clientId: "" }),
      () => chat.send(room, { from: "ann", body: "x", clientId: "x".repeat(129) }),
      () => chat.fetch("ann", { limit: 0 }),
      () => chat.fetch("ann", { maxBytes: 0 }),
      () => chat.wait("ann", { waitMs: -1 }),
      () => chat.join(room, "ann", { history: -1 }),
      () => chat.join(room, "ann", { history: "some" } as never),
      () => chat.members(room, { cursor: "x" }),
      () => chat.members(room, { limit: 0 }),
    ])
      expect(await rejection(call())).toBeInstanceOf(RangeError);
    for (const call of [
      () => chat.send(room, { from: "ann", body: "x", text: "y" } as never),
      () => chat.fetch("ann", { signal: 1 } as never),
      () => chat.fetch("ann", { autoAck: 1 } as never),
    ])
      expect(await rejection(call())).toBeInstanceOf(TypeError);
    expect(() => chat.listen("ann", { maxInFlight: 0 })).toThrow(RangeError);
    expect(await redis.keys()).toEqual([]);
  });
});
