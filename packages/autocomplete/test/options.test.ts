import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createContactBook, createPrefixIndex } from "../src/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

type Refused = readonly [options: object, kind: typeof TypeError | typeof RangeError, text: RegExp];

describe("options", () => {
  const redis = useRedis(vitest, { permanentKeys });
  const fixture = fixtureOf(redis);

  const ofBoth: readonly Refused[] = [
    [{ deadlineMs: 0 }, RangeError, /`deadlineMs`/],
    [{ deadlineMs: "1" }, TypeError, /`deadlineMs`/],
    [{ match: "words" }, RangeError, /`match` to be "phrase" or "word-start"/],
    [{ match: 1 }, TypeError, /`match` to be "phrase" or "word-start", got `1`/],
    [{ marks: "drop" }, RangeError, /`marks`/],
    [{ locale: "" }, RangeError, /locale/],
    [{ locale: "not a locale" }, RangeError, /locale/],
    [{ maxPayloadBytes: 65_537 }, RangeError, /`maxPayloadBytes`/],
    [{ isolate: 1 }, TypeError, /isolate/],
    [{ unheardOf: 1 }, TypeError, /unheardOf/],
  ];
  const refuse = (make: (options: never) => unknown, list: readonly Refused[]): void => {
    for (const [options, kind, text] of list) {
      const attempt = (): unknown => make(options as never);
      expect(attempt, JSON.stringify(options)).toThrow(kind);
      expect(attempt, JSON.stringify(options)).toThrow(text);
    }
  };

  it("of an index are refused by name where they are not what they should be", () => {
    refuse(
      (options) => createPrefixIndex(redis.client, "refused", options),
      [
        ...ofBoth,
        [{ order: "rank" }, RangeError, /`order`/],
        [{ rankedLength: 0 }, RangeError, /`rankedLength`/],
        [{ rankedLength: 9 }, RangeError, /`rankedLength`/],
        [{ rankedLength: 1.5 }, RangeError, /`rankedLength`/],
        [{ empty: "all" }, RangeError, /`empty`/],
        [{ shards: 0 }, RangeError, /`shards`/],
        [{ shards: 65 }, RangeError, /`shards`/],
      ],
    );
  });

  it("of a book are refused by name where they are not what they should be", () => {
    refuse(
      (options) => createContactBook(redis.client, "refused", options),
      [
        ...ofBoth,
        [{ ranking: "best" }, RangeError, /`ranking`/],
        [{ halfLifeMs: 999 }, RangeError, /`halfLifeMs`/],
        [{ max: 0 }, RangeError, /`max`/],
        [{ max: 1_001 }, RangeError, /`max`/],
        [{ maxAgeMs: -1 }, RangeError, /`maxAgeMs`/],
        [{ keepMs: 999 }, RangeError, /`keepMs`/],
      ],
    );
  });

  it("of calls and sessions are refused before anything is sent", async () => {
    const [index, book] = [fixture.index({ order: "weight" }), fixture.book()];
    const calls: readonly [call: () => Promise<unknown>, kind: typeof TypeError | typeof RangeError][] = [
      [() => index.suggest("a", { limit: 0 }), RangeError],
      [() => index.suggest("a", { limit: 201 }), RangeError],
      [() => index.suggest(1 as never), TypeError],
      [() => index.suggest("a", { signal: {} as never }), TypeError],
      [() => index.put({ id: "1", text: "a", weight: -1 }), RangeError],
      [() => index.put({ id: "1", text: "a", weight: 10_000_000_000_000 }), RangeError],
      [() => index.put({ id: "1", text: "a" }, { op: "not an id" }), RangeError],
      [() => index.put(null as never), TypeError],
      [() => index.touch("1", { by: 0.5 }), RangeError],
      [() => index.putMany([], { onInvalid: 1 as never }), TypeError],
      [() => index.delete(1 as never), TypeError],
      [() => book.record("1", { txt: "a" } as never), TypeError],
      [() => book.suggest("a", { limit: 0 }), RangeError],
      [async () => index.session({ limit: 10, prefetch: 9 }), RangeError],
      [async () => index.session({ debounceMs: -1 }), RangeError],
      [async () => index.session({ maxAgeMs: 0.5 }), RangeError],
    ];
    for (const [call, kind] of calls) await expect(Promise.resolve().then(call), call.toString()).rejects.toThrow(kind);
    expect(await fixture.db.exists(fixture.keysOf().index, fixture.keysOf().items)).toBe(0);
    expect(await fixture.db.exists(fixture.bookKeysOf().book)).toBe(0);
  });
});
