import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, onMovingSlots, rejection, scriptCalls } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type ContactBook, InvalidEntryError } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { fixtureOf } from "./harness.js";

const dayMs = 86_400_000;
const halfLifeMs = 14 * dayMs;
const idsOf = async (book: ContactBook): Promise<string[]> => (await book.list()).items.map(({ id }) => id);
const found = async (book: ContactBook, query: string): Promise<string[]> =>
  (await book.suggest(query)).items.map(({ text }) => text);

/** The behaviour of a contact book. */
inModes({ single: user.loginForText }, (mode, login) => {
  describe(`a contact book on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, ...(login && { args: user.serverArgs(mode) }) });
    if (login) guardUsers(redis);
    onMovingSlots(redis, scripts);
    const fixture = fixtureOf(redis, login);
    const calls = (): Promise<number> => scriptCalls(redis.server.nodes);
    /** The server's time, in milliseconds. */
    const now = async (): Promise<number> => {
      const [seconds, micros] = await fixture.db.time();
      return Number(seconds) * 1_000 + Number(micros) / 1_000;
    };
    /** Acts as if the last events had been at that time. */
    const age = async (scores: Readonly<Record<string, number>>): Promise<void> => {
      const { contacts } = fixture.bookKeysOf();
      for (const [id, score] of Object.entries(scores)) await fixture.db.zadd(contacts, score, id);
    };

    it("has the contact of the last event first", async () => {
      const book = fixture.book();
      for (const id of ["a", "b", "c", "a", "b"]) expect(await book.record(id)).toBe(true);
      expect(await idsOf(book)).toEqual(["b", "a", "c"]);
      const at = await now();
      const [{ score }] = (await book.list()).items as unknown as [{ score: number }];
      expect(Math.abs(score - at)).toBeLessThan(60_000);
      expect(await idsOf(fixture.book())).toEqual(["b", "a", "c"]);
    });

    it("finds contacts by their names, and gives cards as they are", async () => {
      const book = fixture.book<{ room: number }>();
      await book.record("7", { text: "Jean-Luc Picard", payload: { room: 1 } });
      await book.record("8", { text: "Zoë Piper" });
      await book.record("nameless");
      expect(await found(book, "pi")).toEqual(["Zoë Piper", "Jean-Luc Picard"]);
      expect(await found(book, "NAME")).toEqual(["nameless"]);
      expect(await found(book, "card")).toEqual([]);
      const { items } = await book.suggest("luc p");
      expect(items).toEqual([
        { id: "7", text: "Jean-Luc Picard", payload: { room: 1 }, ranges: [[5, 10]], score: expect.any(Number) },
      ]);
      expect((await book.suggest("picard jean", { words: "any-order" })).items).toMatchObject([
        {
          id: "7",
          ranges: [
            [0, 4],
            [9, 15],
          ],
        },
      ]);
      expect(await found(book, "picard jean")).toEqual([]);
      // An event alone leaves the card as it is; a card replaces it.
      await book.record("7");
      expect((await book.suggest("jean")).items[0]!.payload).toEqual({ room: 1 });
      await book.record("7", { text: "Captain" });
      expect((await book.suggest("cap")).items[0]!.payload).toBeUndefined();
      expect(await found(book, "jean")).toEqual([]);
      for (const query of ["\0", "\ud83d", "x\u0007"]) expect(await found(book, query)).toEqual([]);
      expect(await book.suggest("", { limit: 2 })).toMatchObject({
        hasMore: true,
        items: [{ id: "7" }, { id: "nameless" }],
      });
    });

    it("costs no round trip per keystroke, and one where another process changed something", async () => {
      const book = fixture.book({ maxAgeMs: 60_000 });
      await book.record("ann");
      const before = await calls();
      for (const query of ["", "a", "an", "ann"]) await book.suggest(query);
      expect((await calls()) - before).toBe(1);
      // Its own changes are seen at once.
      await book.record("amy");
      expect(await found(book, "a")).toEqual(["amy", "ann"]);
      await book.remove("ann");
      expect(await found(book, "a")).toEqual(["amy"]);
      // Another's as soon as it fetches.
      const other = fixture.bookOn(fixture.connect(), { maxAgeMs: 0 });
      const { version } = await other.list();
      expect((await book.list()).version).toBe(version);
      await book.record("abe");
      expect(await found(other, "a")).toEqual(["abe", "amy"]);
      expect((await other.list()).version).not.toBe(version);
    });

    it("finds nothing for a query that is longer than any name", async () => {
      const book = fixture.book();
      await book.record("amy");
      const ignored = "\u200b".repeat(600);
      expect(await found(book, "amy")).toEqual(["amy"]);
      expect(await found(book, `${ignored}amy`)).toEqual([]);
    });

    it("keeps the best `max` contacts, and the one that was just used", async () => {
      const book = fixture.book({ max: 3, ranking: "frecent" });
      for (const id of ["a", "b", "c"]) for (let at = 0; at < 3; at++) await book.record(id);
      await book.record("d");
      expect(await idsOf(book)).toEqual(["c", "b", "d"]);
      const { contacts, cards } = fixture.bookKeysOf();
      expect([await fixture.db.zcard(contacts), await fixture.db.hlen(cards)]).toEqual([3, 3]);
      // A smaller book, from its next event on.
      const smaller = fixture.book({ max: 1 });
      await smaller.record("e");
      expect(await idsOf(smaller)).toEqual(["e"]);
    });

    it("keeps blocked contacts out until the block ends", async () => {
      const book = fixture.book();
      await book.record("a");
      expect(await book.block("a")).toBe(true);
      expect(await book.block("a")).toBe(false);
      expect(await book.record("a")).toBe(false);
      expect(await book.list()).toMatchObject({ items: [], blocked: ["a"] });
      expect(await book.unblock("a")).toBe(true);
      expect(await book.unblock("a")).toBe(false);
      expect(await book.record("a")).toBe(true);
      expect(await book.list()).toMatchObject({ items: [{ id: "a" }], blocked: [] });
      expect(await book.remove("a")).toBe(true);
      expect(await book.remove("a")).toBe(false);
    });

    it("weighs events by their age: half of it after a half-life", async () => {
      const book = fixture.book({ ranking: "frecent", halfLifeMs });
      await book.record("fresh");
      await book.record("old");
      const at = await now();
      // Eight events at one time, four half-lives ago, are worth half of one now; forty are worth more than two.
      await age({ old: at - 4 * halfLifeMs + 3 * halfLifeMs, fresh: at });
      expect(await idsOf(fixture.book())).toEqual(["fresh", "old"]);
      await age({ old: at - 4 * halfLifeMs + Math.log2(40) * halfLifeMs, fresh: at });
      expect(await idsOf(fixture.book())).toEqual(["old", "fresh"]);
      // One more: 1 + 1 = 2 is one half-life more, still below 2.5; and 3 is above.
      await book.record("fresh");
      const score = async (id: string): Promise<number> =>
        Number(await fixture.db.zscore(fixture.bookKeysOf().contacts, id));
      const second = await score("fresh");
      expect(Math.abs(second - (at + halfLifeMs))).toBeLessThan(60_000);
      expect(await idsOf(book)).toEqual(["old", "fresh"]);
      await book.record("fresh");
      expect(Math.abs((await score("fresh")) - (at + Math.log2(3) * halfLifeMs))).toBeLessThan(60_000);
      expect(await idsOf(book)).toEqual(["fresh", "old"]);
    });

    it("never changes its order without an event, and keeps it when the ranking is changed", async () => {
      const book = fixture.book({ ranking: "frecent", halfLifeMs });
      for (const id of ["a", "b", "c"]) await book.record(id);
      const at = await now();
      await age({ a: at - 90 * dayMs, b: at - 91 * dayMs, c: at - 5_000 * dayMs });
      for (const options of [{}, { ranking: "recent" }, { ranking: "frecent", halfLifeMs: dayMs }] as const)
        expect(await idsOf(fixture.book(options))).toEqual(["a", "b", "c"]);
      await fixture.book({ ranking: "recent" }).record("c");
      expect(await idsOf(fixture.book())).toEqual(["c", "a", "b"]);
    });

    it("has the contact of the last event first, even where many events count for more than the present", async () => {
      const frecent = fixture.book({ ranking: "frecent", halfLifeMs });
      for (const id of ["a", "a", "b", "b", "b"]) await frecent.record(id);
      await fixture.book().record("b");
      expect(await idsOf(fixture.book())).toEqual(["b", "a"]);
    });

    it("keeps the name of a contact of which only the payload is recorded", async () => {
      const book = fixture.book<{ avatar: string }>();
      await book.record("user:7", { text: "Jean-Luc Picard", payload: { avatar: "1.png" } });
      await book.record("user:7", { payload: { avatar: "2.png" } });
      await book.record("user:8", { payload: { avatar: "8.png" } });
      await book.record("user:8");
      const cards = async (): Promise<unknown[]> =>
        (await book.list()).items.map(({ text, payload }) => [text, payload]);
      expect(await cards()).toEqual([
        ["user:8", { avatar: "8.png" }],
        ["Jean-Luc Picard", { avatar: "2.png" }],
      ]);
      await book.record("user:7", { text: "Picard" });
      expect((await cards())[0]).toEqual(["Picard", undefined]);
    });

    it("counts an operation once, however often it is sent", async () => {
      const book = fixture.book({ ranking: "frecent" });
      await book.record("a", {}, { op: "op-1" });
      const [first] = (await book.list()).items;
      await book.record("a", {}, { op: "op-1" });
      expect((await book.list()).items[0]).toEqual(first);
      expect(await book.remove("a", { op: "op-2" })).toBe(true);
      await book.record("a");
      expect(await book.remove("a", { op: "op-2" })).toBe(true);
      expect(await idsOf(book)).toEqual(["a"]);
      // With another change the `op` is refused, and nothing changes.
      for (const other of [
        () => book.remove("b", { op: "op-2" }),
        () => book.block("a", { op: "op-2" }),
        () => book.record("a", { text: "A" }, { op: "op-1" }),
      ])
        expect(await rejection(other())).toMatchObject({
          message: expect.stringContaining("another change") as unknown,
        });
      expect(await idsOf(book)).toEqual(["a"]);
      // The end of another operation's id is not that operation.
      await book.record("b", {}, { op: "1" });
      expect(new Set(await idsOf(book))).toEqual(new Set(["a", "b"]));
    });

    it("expires a year after its last change, after `keepMs`, or never", async () => {
      const ttls = async (): Promise<number[]> => {
        const keys = await redis.keys();
        expect(keys).toHaveLength(4);
        return await Promise.all(keys.map((key) => fixture.db.pttl(key)));
      };
      const book = fixture.book();
      await book.record("a");
      await book.block("b");
      for (const ttl of await ttls()) expect(ttl).toBeGreaterThan(364 * dayMs);
      await fixture.book({ keepMs: null }).record("a");
      expect(await ttls()).toEqual([-1, -1, -1, -1]);
      await fixture.book({ keepMs: 60_000 }).record("a");
      for (const ttl of await ttls()) expect(ttl).toBeLessThanOrEqual(60_000);
      await book.purge();
      expect(await redis.keys()).toEqual([]);
      expect(await book.list()).toEqual({ items: [], blocked: [], version: "" });
    });

    it("takes unusual owners and contacts literally, and refuses those that cannot be stored", async () => {
      const odd = ["{a}", "a:b", "*", "__proto__", "é".normalize("NFD")];
      for (const owner of odd) await fixture.book({ name: owner }).record(`of ${owner}\n\0`, { text: owner });
      for (const owner of odd)
        expect((await fixture.book({ name: owner }).list()).items).toMatchObject([{ id: `of ${owner}\n\0` }]);
      const book = fixture.book({ name: "none" });
      for (const [id, text] of [
        ["", "a"],
        ["a", "\0"],
        ["a", "\ud83d"],
        ["a", " "],
        ["\0", undefined],
      ] as const)
        expect(await rejection(book.record(id, { text }))).toBeInstanceOf(InvalidEntryError);
      expect(await rejection(book.record("a", { payload: 1n as never }))).toMatchObject({ fault: "payload-not-json" });
      expect(await rejection(book.record("a", { name: "a" } as never))).toBeInstanceOf(TypeError);
      expect((await book.list()).items).toEqual([]);
    });

    it("names a key of another type, and a layout of a newer version, and changes nothing", async () => {
      const keys = fixture.bookKeysOf();
      for (const key of Object.values(keys) as string[]) {
        await fixture.db.rpush(key, "x");
        await fixture.db.pexpire(key, 60_000);
        expect(await rejection(fixture.book().record("a"))).toMatchObject({ code: "KIT_KEY_TYPE", key });
        expect(await redis.keys()).toEqual([key]);
        await fixture.db.del(key);
      }
      await fixture.db.hset(keys.book, "layout", "2");
      await fixture.db.pexpire(keys.book, 60_000);
      for (const call of [
        () => fixture.book().record("a"),
        () => fixture.book().remove("a"),
        () => fixture.book().list(),
      ])
        expect(await rejection(call())).toMatchObject({ code: "KIT_LAYOUT" });
    });

    it("serves many readers at once with one fetch, and each may leave", async () => {
      const book = fixture.book();
      await book.record("ann");
      const before = await calls();
      const controller = new AbortController();
      const reason = new Error("left");
      const leaving = rejection(book.suggest("a", { signal: controller.signal }));
      const staying = Promise.all(Array.from({ length: 20 }, () => found(book, "a")));
      controller.abort(reason);
      expect(await leaving).toBe(reason);
      for (const texts of await staying) expect(texts).toEqual(["ann"]);
      expect((await calls()) - before).toBe(1);
      await eventually(async () => expect(await found(book, "a")).toEqual(["ann"]));
      await book.close();
      expect(await rejection(book.suggest("a"))).toMatchObject({ code: "KIT_CLOSED" });
    });
  });
});
