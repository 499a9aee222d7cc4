import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { callsOf, rejection, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { PrefixIndex, SessionAnswer } from "../src/index.js";
import { fixtureOf, named, permanentKeys, texts } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const calls = (): Promise<number> => callsOf(redis.server.nodes[0]!, "zrangebylex");

const people = named("Ann", "Anna", "Annabel", "Annika", "Andrew", "Bob", "Ben", "Cara");
const filled = async (more: readonly string[] = []): Promise<PrefixIndex> => {
  const index = fixture.index();
  await index.putMany([...people, ...named(...more)]);
  return index;
};
const shown = (answer: SessionAnswer | null): unknown => answer && [answer.query, texts(answer), answer.isLocal];

/** An index whose client's replies can be held back. */
const slowed = async (): Promise<{ index: PrefixIndex; proxy: FaultProxy }> => {
  await filled();
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const index = fixture.indexOn(redis.connect({ port: proxy.port }));
  await index.suggest("warm");
  return { index, proxy };
};

describe("a session", () => {
  it("answers added and removed letters without a round trip", async () => {
    const index = await filled();
    const session = index.session();
    const before = await calls();
    expect(shown(await session.type("an"))).toEqual(["an", ["Andrew", "Ann", "Anna", "Annabel", "Annika"], false]);
    expect(shown(await session.type("ann"))).toEqual(["ann", ["Ann", "Anna", "Annabel", "Annika"], true]);
    expect(shown(await session.type("anna"))).toEqual(["anna", ["Anna", "Annabel"], true]);
    expect(shown(await session.type("annaz"))).toEqual(["annaz", [], true]);
    expect(shown(await session.type("An"))).toEqual(["An", ["Andrew", "Ann", "Anna", "Annabel", "Annika"], true]);
    expect(shown(await session.type("b"))).toEqual(["b", ["Ben", "Bob"], false]);
    expect(await calls()).toBe(before + 2);
    expect((await session.type("ann"))!.items[0]!.ranges).toEqual([[0, 3]]);
  });

  it("needs two round trips for six keystrokes in a guild of a thousand", async () => {
    const syllables = ["ka", "to", "mi", "re", "su", "no", "la", "ve", "du", "pi"];
    const entries = Array.from({ length: 1_000 }, (_, at) => {
      const text = Array.from(String(at).padStart(3, "0"), (digit) => syllables[Number(digit)]!).join("");
      return { id: String(at), text, weight: at % 97 };
    });
    const index = fixture.index({ order: "weight" });
    await index.putMany(entries);
    const session = index.session();
    const before = await calls();
    const answers: (SessionAnswer | null)[] = [];
    for (const query of ["t", "to", "tom", "tomi", "tomir", "tomire"]) answers.push(await session.type(query));
    expect((await calls()) - before).toBe(2);
    for (const answer of answers) expect(answer).toMatchObject(await index.suggest(answer!.query));
    expect(answers.map((answer) => answer!.items.length)).toEqual([10, 10, 10, 10, 1, 1]);
  });

  it("queries again when there are more matches than it has, for four times as many", async () => {
    const index = await filled();
    const session = index.session({ limit: 2, prefetch: 2 });
    expect(await session.type("an")).toMatchObject({ hasMore: true, isLocal: false });
    expect(shown(await session.type("ann"))).toEqual(["ann", ["Ann", "Anna"], false]);
    expect(shown(await session.type("anni"))).toEqual(["anni", ["Annika"], true]);
    expect(await session.type("a")).toMatchObject({ hasMore: true, isLocal: false });
    expect(shown(await session.type("annik"))).toEqual(["annik", ["Annika"], true]);
  });

  it("uses no answer for longer than maxAgeMs", async () => {
    const index = await filled();
    const session = index.session({ maxAgeMs: 0 });
    await session.type("an");
    await index.delete("Anna");
    expect(shown(await session.type("ann"))).toEqual(["ann", ["Ann", "Annabel", "Annika"], false]);
  });

  it("resolves superseded keystrokes with null, and never shows a late answer", async () => {
    const { index, proxy } = await slowed();
    const session = index.session();
    proxy.down.latencyMs = 150;
    const first = watched(session.type("a"));
    const second = watched(session.type("b"));
    expect(await first.promise).toBeNull();
    expect(second.isSettled).toBe(false);
    expect(shown(await second.promise)).toEqual(["b", ["Ben", "Bob"], false]);
    // The late answer to `a` was kept for later.
    expect(shown(await session.type("ann"))).toEqual(["ann", ["Ann", "Anna", "Annabel", "Annika"], true]);
  });

  it("waits for the answer to a shorter beginning, and is content with it", async () => {
    const { index, proxy } = await slowed();
    const session = index.session();
    const before = await calls();
    proxy.down.latencyMs = 100;
    const typed = ["a", "an", "ann", "anna"].map((query) => session.type(query));
    expect((await Promise.all(typed)).map(shown)).toEqual([null, null, null, ["anna", ["Anna", "Annabel"], true]]);
    expect((await calls()) - before).toBe(1);
  });

  it("waits for the next keystroke before it queries, with `debounceMs`", async () => {
    const index = await filled();
    const session = index.session({ debounceMs: 40 });
    const before = await calls();
    const typed = ["c", "b", "bo"].map((query) => session.type(query));
    expect((await Promise.all(typed)).map(shown)).toEqual([null, null, ["bo", ["Bob"], false]]);
    expect((await calls()) - before).toBe(1);
  });

  // `useRedis` fails a test that leaves a timer which keeps the process alive.
  it("leaves no timer when it is closed, or when the next keystroke comes", async () => {
    const index = await filled();
    const session = index.session({ debounceMs: 50_000 });
    const typed = ["b", "bo"].map((query) => session.type(query));
    session.close();
    expect(await Promise.all(typed)).toEqual([null, null]);
  });

  it("starts no timer after it is closed, for a keystroke that waits for the answer to a shorter beginning", async () => {
    const { index, proxy } = await slowed();
    const session = index.session({ debounceMs: 400 });
    const before = await calls();
    const first = session.type("a");
    proxy.down.hole = true;
    await eventually(async () => {
      expect(await calls()).toBe(before + 1);
    });
    const second = session.type("an");
    const timers = vitest.vi.spyOn(globalThis, "setTimeout");
    session.close();
    expect(await Promise.all([first, second])).toEqual([null, null]);
    await new Promise(setImmediate);
    expect(timers).not.toHaveBeenCalled();
    timers.mockRestore();
    proxy.heal();
  });

  it("rejects the keystroke that counts, and only that, when no server answers", async () => {
    const { proxy } = await slowed();
    const client = redis.connect({ port: proxy.port });
    await client.ping();
    const index = fixture.indexOn(client, { deadlineMs: 100 });
    const session = index.session();
    proxy.down.hole = true;
    const first = session.type("a");
    const second = session.type("b");
    expect(await first).toBeNull();
    expect(await rejection(second)).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.heal();
  });

  it("is closed for good, and so are those of an index that is closed", async () => {
    const { index, proxy } = await slowed();
    const session = index.session();
    proxy.down.latencyMs = 100;
    const typing = session.type("a");
    session.close();
    session.close();
    expect(await typing).toBeNull();
    expect(await rejection(session.type("b"))).toMatchObject({ code: "KIT_CLOSED" });
    expect(() => index.session({ limit: 10, prefetch: 9 })).toThrow(/`prefetch`/);
    const other = index.session();
    await index.close();
    expect(await rejection(other.type("b"))).toMatchObject({ code: "KIT_CLOSED" });
  });
});
