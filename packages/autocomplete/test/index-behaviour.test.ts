import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import { exposures, guardUsers, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Entry, InvalidEntryError, type PrefixIndexOptions, type Suggestions } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { fixtureOf, ids, name, named, permanentKeys, texts } from "./harness.js";

/** The names among which the book "Redis in Action" completes `abc`. */
const bookNames = ["abc", "abcd", "abcz", "abcx", "abcy", "abci", "abcj", "abd"];
const orders = ["alphabetical", "weight"] as const;

/** The behaviour of an index, on a given kind of server and as a given user. */
inModes({ single: user.loginForText, nodeRedis: onNodeRedis(user.login, fromNodeRedis) }, (mode, login) => {
  describe(`a prefix index on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, ...(login && { args: user.serverArgs(mode) }) });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts);
    const fixture = fixtureOf(redis, login);

    describe.each(orders)("in %s order", (order) => {
      const make = (options: PrefixIndexOptions = {}) => fixture.index<unknown>({ order, ...options });

      it("completes names in alphabetical order by default", async () => {
        const index = make();
        expect(await index.putMany(named(...bookNames))).toBe(8);
        expect(texts(await index.suggest("abc"))).toEqual(["abc", "abcd", "abci", "abcj", "abcx", "abcy", "abcz"]);
        expect(await index.suggest("abc", { limit: 3 })).toMatchObject({ hasMore: true, truncated: false });
        expect(texts(await index.suggest("abc", { limit: 3 }))).toEqual(["abc", "abcd", "abci"]);
      });

      it("gives nothing where nothing matches: before, between and after all names", async () => {
        const index = make();
        await index.putMany(named("bob", "carol", "dave"));
        for (const query of ["a", "B9", "b9", "bobb", "cz", "zz", "d v", "~", "\u{10ffff}"])
          expect(await index.suggest(query), query).toEqual({ items: [], hasMore: false, truncated: false });
        expect(texts(await index.suggest("B"))).toEqual(["bob"]);
        expect(await fixture.index({ order, name: "none" }).suggest("a")).toMatchObject({ items: [] });
      });

      it("returns nothing, or the top, for an empty query: never all", async () => {
        await make().putMany(named(...bookNames));
        for (const query of ["", "  ", "\t"]) expect((await make().suggest(query)).items).toEqual([]);
        const top = fixture.index({ order, name: "top", empty: "top" });
        await top.putMany(bookNames.map((text, weight) => ({ id: text, text, weight })));
        const answer = await top.suggest("", { limit: 3 });
        expect(texts(answer)).toEqual(order === "weight" ? ["abd", "abcj", "abci"] : ["abc", "abcd", "abci"]);
        expect(answer.hasMore).toBe(true);
        expect(answer.items[0]!.ranges).toEqual([]);
      });

      it("takes every character literally, in names, queries, ids and names of indexes", async () => {
        const odd = ["{", "}", "*", "?", "[", "(a", "-", "+", "\\", "%41", "a:b", "'", '"', "--", "]]"];
        const index = make();
        const nested = fixture.index({ order, name: "a}{b:*" });
        await index.putMany([...odd.map((text) => ({ id: `${text}\n\0`, text })), ...named("apple", "zebra")]);
        await nested.putMany(named("other guild"));
        for (const text of odd) {
          expect(texts(await index.suggest(text)), text).toContain(text);
          expect(texts(await index.suggest(text)), text).not.toContain("zebra");
        }
        expect(texts(await index.suggest("b*"))).toEqual(["a:b"]);
        expect(texts(await index.suggest("a* z"))).toEqual([]);
        for (const query of ["\0", "a\0", "\u0007", "\u007f", "\ud83d", "a\udc00", `${"\u200b".repeat(600)}a`])
          expect((await index.suggest(query)).items, query).toEqual([]);
        expect(texts(await nested.suggest("o"))).toEqual(["other guild"]);
        expect(await index.delete("{\n\0")).toBe(true);
        expect(texts(await index.suggest("{"))).toEqual([]);
      });

      it("finds names whatever their case, width and accents, and gives them back as they are", async () => {
        const index = make();
        await index.putMany(named("Zoe\u0301 ÅNGSTRÖM", "ＷＩＤＥ", "ﬁne Straße", "ΣΊΣΥΦΟΣ", "한글 사랑", "½ pint"));
        for (const [query, text] of [
          ["zoe", "Zoe\u0301 ÅNGSTRÖM"],
          ["ZO\u00c9 a", "Zoe\u0301 ÅNGSTRÖM"],
          ["angst", "Zoe\u0301 ÅNGSTRÖM"],
          ["wid", "ＷＩＤＥ"],
          ["fin", "ﬁne Straße"],
          ["STRASSE", "ﬁne Straße"],
          ["STRAẞ", "ﬁne Straße"],
          ["σισυφος", "ΣΊΣΥΦΟΣ"],
          ["하", "한글 사랑"],
          ["살", "한글 사랑"],
          ["1⁄", "½ pint"],
        ] as const)
          expect(texts(await index.suggest(query)), query).toEqual([text]);
      });

      it("finds emoji by what they start with, and marks whole ones", async () => {
        const index = make();
        await index.putMany(named("👨‍👩‍👧 family", "👍🏽 thumb", "🇩🇪 flag"));
        expect(await index.suggest("👨")).toMatchObject({ items: [{ text: "👨‍👩‍👧 family", ranges: [[0, 8]] }] });
        expect(await index.suggest("👍")).toMatchObject({ items: [{ text: "👍🏽 thumb", ranges: [[0, 4]] }] });
        expect(await index.suggest("🇩")).toMatchObject({ items: [{ text: "🇩🇪 flag", ranges: [[0, 4]] }] });
      });

      it("finds each word of a name, once, and marks what matched", async () => {
        const index = make();
        await index.putMany(named("Bob Bobson", "Jean-Luc O'Brien", "東京都庁", "New York City"));
        expect(await index.suggest("bob")).toMatchObject({
          items: [
            {
              text: "Bob Bobson",
              ranges: [
                [0, 3],
                [4, 7],
              ],
            },
          ],
        });
        for (const [query, range] of [
          ["luc o", [5, 10]],
          ["brien", [11, 16]],
          ["o'b", [9, 12]],
        ] as const)
          expect(await index.suggest(query)).toMatchObject({ items: [{ text: "Jean-Luc O'Brien", ranges: [range] }] });
        expect(texts(await index.suggest("京都"))).toEqual(["東京都庁"]);
        expect(texts(await index.suggest("york c"))).toEqual(["New York City"]);
        expect(texts(await index.suggest("ork"))).toEqual([]);
        const phrases = fixture.index({ order, name: "phrases", match: "phrase" });
        await phrases.putMany(named("New York", "York"));
        expect(texts(await phrases.suggest("york"))).toEqual(["York"]);
      });

      it("treats a space at the end as the end of a word", async () => {
        const index = make();
        await index.putMany(named("Bob", "Bobby", "Bob Smith", "Jim Bob"));
        expect(texts(await index.suggest("bob")).toSorted()).toEqual(["Bob", "Bob Smith", "Bobby", "Jim Bob"]);
        expect(texts(await index.suggest("bob "))).toEqual(
          order === "weight" ? ["Bob", "Jim Bob", "Bob Smith"] : ["Bob", "Bob Smith", "Jim Bob"],
        );
        expect(texts(await index.suggest("bob s "))).toEqual([]);
        expect((await index.suggest("bob ")).items[0]!.ranges).toEqual([[0, 3]]);
      });

      it("finds words in any order on request, the last one incomplete", async () => {
        const index = make();
        const names = ["John Smith", "Smith, John", "Smithson Jo", "Jo Smith-Jones", "Joan Smithers", "Bob Élan Bob"];
        await index.putMany(named(...names));
        const found = async (query: string) => texts(await index.suggest(query, { words: "any-order" })).toSorted();
        expect(await found("smith jo")).toEqual(["Jo Smith-Jones", "John Smith", "Smith, John"]);
        expect(await found("jo smith")).toEqual(["Jo Smith-Jones", "Smithson Jo"]);
        expect(await found("SMITH  john ")).toEqual(["John Smith", "Smith, John"]);
        expect(await found("smith smith jo")).toEqual(await found("smith jo"));
        expect(await found("elan bob b")).toEqual(["Bob Élan Bob"]);
        expect(await found("smi")).toEqual(texts(await index.suggest("smi")).toSorted());
        expect(await found("smith x")).toEqual([]);
        expect(await found(Array.from({ length: 40 }, (_, at) => `w${String(at)}`).join(" "))).toEqual([]);
        expect(await index.suggest("smith jo", { words: "any-order", limit: 2 })).toMatchObject({ hasMore: true });
        const [john] = (await index.suggest("smith joh", { words: "any-order" })).items.filter(
          ({ text }) => text === "John Smith",
        );
        expect(john!.ranges).toEqual([
          [0, 3],
          [5, 10],
        ]);
        for (const options of [{ match: "phrase" }, { shards: 2 }] as const) {
          const other = fixture.index({ order, name: "other", ...options });
          expect(await rejection(other.suggest("a", { words: "any-order" }))).toBeInstanceOf(TypeError);
          expect(() => other.session({ words: "any-order" })).toThrow(TypeError);
        }
      });

      it("tolerates one wrong character on request if too few names match", async () => {
        const index = make({ empty: "top" });
        const names = ["Barbara Smith", "Bob York", "東京都庁", "Zoë", "New York City", "Barbican"];
        await index.putMany(named(...names));
        const found = async (query: string, limit = 10) => texts(await index.suggest(query, { typos: 1, limit }));
        for (const [query, ...wanted] of [
          // One character is missing, too many, wrong, or swapped; also the first one, and within a phrase.
          ["barara", "Barbara Smith"],
          ["barbbara s", "Barbara Smith"],
          ["borbara", "Barbara Smith"],
          ["brabara", "Barbara Smith"],
          ["arbara", "Barbara Smith"],
          ["xmith", "Barbara Smith"],
          ["new yrok c", "New York City"],
          ["newyork", "New York City"],
          ["york ", "Bob York", "New York City"],
          ["yorx ", "Bob York", "New York City"],
          ["都庁東京"],
          ["東京都丁", "東京都庁"],
          // Two are too many, and a word of three letters is taken as it is.
          ["brabra"],
          ["zie"],
          ["bbo york"],
          ["bob yrk"],
          [""],
        ] as const)
          expect((await found(query)).toSorted(), query).toEqual(
            query === "" ? (await found("")).toSorted() : wanted.toSorted(),
          );
        // Those that match come first, and alone where they are enough.
        expect(await found("barb")).toEqual(["Barbara Smith", "Barbican"]);
        await index.put({ id: "1", text: "Garbage", weight: 9 });
        expect((await found("barb")).at(-1)).toBe("Garbage");
        expect(await found("barb", 2)).toEqual(["Barbara Smith", "Barbican"]);
        expect(texts(await index.suggest("borbara"))).toEqual([]);
        expect((await index.suggest("borbara", { typos: 1 })).items[0]!.ranges).toEqual([[0, 7]]);
        // A session also requests them, and never takes a narrowed answer for all.
        const session = index.session({ typos: 1, limit: 2 });
        for (const query of ["barba", "barbar", "barbarx"])
          expect(texts((await session.type(query))!), query).toEqual(await found(query, 2));
        expect(await rejection(index.suggest("a", { typos: 1, words: "any-order" }))).toBeInstanceOf(TypeError);
        // Folded it has thousands of characters, and no name has so many.
        expect(await found("ﷺ".repeat(512))).toEqual([]);
        const sharded = fixture.index({ order, name: "sharded", shards: 3 });
        await sharded.putMany(named(...names));
        expect(texts(await sharded.suggest("xmith", { typos: 1 }))).toEqual(["Barbara Smith"]);
      });

      it("finds a rare word among common ones, and reports when all are too common to be sure", async () => {
        const index = make();
        const many = (name: string) =>
          Array.from({ length: 600 }, (_, at) => ({ id: `${name}${String(at)}`, text: `${name} ${String(at)}` }));
        await index.putMany([...many("Ann Lee"), ...many("Bob Mo").map((one) => ({ ...one, weight: 1 }))]);
        const any = (query: string) => index.suggest(query, { words: "any-order" });
        expect(await any("lee ann 77")).toMatchObject({ items: [{ text: "Ann Lee 77" }], truncated: false });
        expect(await any("599 mo bob ")).toMatchObject({ items: [{ text: "Bob Mo 599" }], hasMore: false });
        const common = await any("mo b");
        expect([common.items.length, common.hasMore]).toEqual([10, true]);
        for (const { text } of common.items) expect(text).toMatch(/^Bob Mo/);
        expect(await any("mo a")).toMatchObject({ items: [], truncated: true });
        if (order === "alphabetical") return;
        // Those in the order of the query are found even where all are common, and no heavy one has them.
        await index.put({ id: "0", text: "Bob Lee" });
        expect(await any("bob lee")).toMatchObject({ items: [{ text: "Bob Lee" }], truncated: true });
      });

      it("finds for each beginning at least what it finds for a longer one", async () => {
        const index = make();
        await index.putMany(named("Little Mermaid", "Little Merchant", "Mere Littleness", "A Little Mercy"));
        let before: string[] | undefined;
        for (let length = "little merm".length; length > 0; length--) {
          const found = ids(await index.suggest("little merm".slice(0, length)));
          expect(found).toEqual(expect.arrayContaining(before ?? []));
          before = found;
        }
        expect(before).toHaveLength(4);
      });

      it("replaces an entry whole: its old name is no longer found", async () => {
        const index = make();
        await index.put({ id: "7", text: "Anna Lee", weight: 4, payload: { at: 1 } });
        await index.put({ id: "8", text: "anna lee" });
        expect(ids(await index.suggest("ann"))).toEqual(["7", "8"]);
        // One that folds equally, and one that does not.
        await index.put({ id: "7", text: "ANNA  LEE", payload: { at: 2 } });
        const { items } = await index.suggest("lee");
        expect(items.find(({ id }) => id === "7")).toMatchObject({ text: "ANNA  LEE", weight: 4, payload: { at: 2 } });
        await index.put({ id: "7", text: "Zoë" });
        expect(ids(await index.suggest("ann"))).toEqual(["8"]);
        expect(await index.suggest("zo")).toMatchObject({ items: [{ id: "7", weight: 4, payload: undefined }] });
        expect(await index.inspect()).toMatchObject({ items: 2, rows: 3, staged: null });
      });

      it("deletes an entry with all that finds it", async () => {
        const index = make({ empty: "top" });
        await index.putMany(named("Anna Maria", "Anna"));
        expect(await index.delete("Anna Maria")).toBe(true);
        expect(await index.delete("Anna Maria")).toBe(false);
        expect(ids(await index.suggest("ann"))).toEqual(["Anna"]);
        expect(ids(await index.suggest("mar"))).toEqual([]);
        await index.delete("Anna");
        expect(await index.inspect()).toMatchObject({ items: 0, rows: 0, ranked: 0 });
      });

      it("keeps payloads as JSON does", async () => {
        const index = make();
        const at = new Date(0);
        await index.put({ id: "1", text: "one", payload: { at, none: undefined, nan: Number.NaN, text: "\0\u2028" } });
        await index.put({ id: "2", text: "one b" });
        await index.put({ id: "3", text: "one c", payload: null });
        const payloads = (await index.suggest("one")).items.map(({ payload }) => payload);
        expect(payloads).toEqual([{ at: at.toJSON(), nan: null, text: "\0\u2028" }, undefined, null]);
      });

      it.each([
        ["an empty id", { id: "", text: "a" }, "id"],
        ["a long id", { id: "x".repeat(257), text: "a" }, "id"],
        ["an id that is long in bytes", { id: "€".repeat(86), text: "a" }, "id"],
        ["half a surrogate pair as an id", { id: "\ud800", text: "a" }, "id"],
        ["a separator of replies in an id", { id: "a\u0001", text: "a" }, "id"],
        ["an empty text", { id: "1", text: "" }, "text-empty"],
        ["a text of which nothing is left", { id: "1", text: " \u200b\u00ad " }, "text-empty"],
        ["10 KB of text", { id: "1", text: "x".repeat(10_240) }, "text-too-long"],
        ["a text that is short only when it is folded", { id: "1", text: `${"\u200b".repeat(600)}a` }, "text-too-long"],
        ["a text that grows when it is folded", { id: "1", text: "\ufdfa".repeat(100) }, "text-too-long"],
        ["half a surrogate pair", { id: "1", text: "a\udc00" }, "text-ill-formed"],
        ["a NUL", { id: "1", text: "a\0b" }, "text-control"],
        ["a bigint", { id: "1", text: "a", payload: 1n }, "payload-not-json"],
        ["a function", { id: "1", text: "a", payload: () => 1 }, "payload-not-json"],
        ["a large payload", { id: "1", text: "a", payload: "x".repeat(5_000) }, "payload-too-large"],
      ])("refuses %s, and writes nothing", async (_what, entry, fault) => {
        const index = make();
        const error = await rejection(index.put(entry));
        expect(error).toBeInstanceOf(InvalidEntryError);
        expect(error).toMatchObject({ code: "KIT_AUTOCOMPLETE_ENTRY", fault, id: fault === "id" ? "" : "1" });
        expect(exposures(error, ["xxxxx", "\ufdfa", "a\udc00", "a\0b"])).toEqual([]);
        expect(await redis.keys()).toEqual([]);
      });

      it.each([
        ["no object", null, TypeError],
        ["a text that is none", { id: "1", text: 5 }, TypeError],
        ["an id that is none", { id: 1, text: "a" }, TypeError],
        ["a weight that is no integer", { id: "1", text: "a", weight: 1.5 }, RangeError],
        ["a weight below 0", { id: "1", text: "a", weight: -1 }, RangeError],
        ["a weight beyond the largest", { id: "1", text: "a", weight: 1e13 }, RangeError],
      ])("refuses %s", async (_what, entry, kind) => {
        const index = make();
        expect(await rejection(index.put(entry as never))).toBeInstanceOf(kind);
        for (const call of [() => index.suggest(1 as never), () => index.delete(1 as never)])
          expect(await rejection(call())).toBeInstanceOf(TypeError);
        expect(await redis.keys()).toEqual([]);
      });

      it("stores the valid ones of many entries, and reports the others", async () => {
        const index = make();
        const refused: unknown[] = [];
        const source = async function* (): AsyncGenerator<Entry> {
          yield* named("one", "two");
          yield { id: "bad", text: "\0" };
          yield* named("three");
        };
        expect(await index.putMany(source(), { onInvalid: (error, { id }) => refused.push([id, error.name]) })).toBe(3);
        expect(refused).toEqual([["bad", "InvalidEntryError"]]);
        expect(await rejection(index.putMany(source()))).toMatchObject({ fault: "text-control", id: "bad" });
        expect(await index.inspect()).toMatchObject({ items: 3 });
        for (const entries of [null, undefined, "text", 1, {}, () => []] as never[])
          for (const call of [index.putMany(entries), index.rebuild(entries, { allowEmpty: true })]) {
            const error = await rejection(call);
            expect([error instanceof TypeError, String(error)]).toEqual([true, expect.stringContaining("`entries`")]);
          }
        expect(await index.inspect()).toMatchObject({ items: 3, staged: null });
        expect(() => make({ locale: " " })).toThrow("`locale`");
      });

      it("stores thousands, all of which are found", async () => {
        const index = make();
        const all = Array.from({ length: 2_000 }, (_, number) => `name ${String(number).padStart(4, "0")} of many`);
        expect(await index.putMany(named(...all))).toBe(2_000);
        expect(await index.inspect()).toMatchObject({ items: 2_000, rows: 8_000 });
        expect(texts(await index.suggest("name 01", { limit: 200 }))).toEqual(all.slice(100, 200));
        expect(texts(await index.suggest("1999 of"))).toEqual(["name 1999 of many"]);
        expect((await index.suggest("many", { limit: 7 })).items).toHaveLength(7);
      });

      it("ends a call by its signal", async () => {
        const index = make();
        const reason = new Error("enough");
        expect(await rejection(index.suggest("a", { signal: AbortSignal.abort(reason) }))).toBe(reason);
        const controller = new AbortController();
        const endless = function* (): Generator<Entry> {
          for (let number = 0; ; number++) {
            if (number === 1_000) controller.abort(reason);
            yield { id: String(number), text: `n${String(number)}` };
          }
        };
        expect(await rejection(index.putMany(endless(), { signal: controller.signal }))).toBe(reason);
        expect((await index.inspect()).items).toBeLessThanOrEqual(1_000);
      });

      it("ends a call whose source has stalled, by its signal and when it is closed", async () => {
        const silent = async function* (): AsyncGenerator<Entry> {
          yield { id: "1", text: "Ann" };
          await new Promise(() => undefined);
        };
        const index = make();
        const controller = new AbortController();
        const calls = [index.putMany(silent(), { signal: controller.signal }), index.rebuild(silent())].map(rejection);
        await eventually(async () => expect((await index.inspect()).staged).toBe(0));
        const reason = new Error("enough");
        controller.abort(reason);
        expect(await calls[0]).toBe(reason);
        await index.close({ timeoutMs: 1 });
        expect(await calls[1]).toMatchObject({ code: "KIT_CLOSED" });
      });

      it("answers each of many queries of one moment as if it were alone", async () => {
        for (const order of ["weight", "alphabetical"] as const) {
          const index = fixture.index({ order, name: order });
          await index.putMany(named("Ann", "Anna", "Annabel", "Bob Ann", "Cléo", "Cleopatra"));
          const queries = ["a", "ann", "anna", "b", "clé", "x", "", "an", "anna b", "B", "cleo"];
          const alone: Suggestions[] = [];
          for (const query of queries) alone.push(await index.suggest(query, { limit: 2 }));
          const reason = new Error("enough");
          const controller = new AbortController();
          const batched = queries.map((query) => index.suggest(query, { limit: 2 }));
          const given = index.suggest("a", { signal: controller.signal });
          const more = queries.map((query) => index.suggest(query, { limit: 2 }));
          controller.abort(reason);
          expect(await rejection(given)).toBe(reason);
          expect(await Promise.all(batched)).toEqual(alone);
          expect(await Promise.all(more)).toEqual(alone);
          const { rows } = fixture.keysOf(order);
          await fixture.db.del(rows);
          await fixture.db.rpush(rows, "x");
          const errors = await Promise.all([1, 2, 3].map(() => rejection(index.suggest("anna"))));
          for (const error of errors) expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: rows, found: "list" });
          await fixture.db.del(rows);
        }
      });

      it("counts an operation once, however often it is sent", async () => {
        const index = make();
        await index.put({ id: "1", text: "first" }, { op: "op-1" });
        await index.put({ id: "1", text: "second" });
        await index.put({ id: "1", text: "first" }, { op: "op-1" });
        expect(texts(await index.suggest("f"))).toEqual([]);
        expect(await index.delete("1", { op: "op-2" })).toBe(true);
        await index.put({ id: "1", text: "third" });
        expect(await index.delete("1", { op: "op-2" })).toBe(true);
        expect(texts(await index.suggest("t"))).toEqual(["third"]);
        // With another change the `op` is refused, and nothing changes.
        const others = [
          () => index.delete("3", { op: "op-2" }),
          () => index.put({ id: "1", text: "third" }, { op: "op-2" }),
          () => index.put({ id: "1", text: "fourth" }, { op: "op-1" }),
          () => index.delete("1", { op: "op-1" }),
        ];
        for (const other of others)
          expect(await rejection(other())).toMatchObject({
            message: expect.stringContaining("another change") as unknown,
          });
        expect(texts(await index.suggest("t"))).toEqual(["third"]);
        expect(texts(await index.suggest("f"))).toEqual([]);
        const { ops } = fixture.keysOf();
        expect(await fixture.db.pttl(ops)).toBeGreaterThan(0);
        expect(await fixture.db.pttl(ops)).toBeLessThanOrEqual(60_000);
      });

      it("is deleted whole by purge()", async () => {
        const index = make();
        await index.putMany(named("one", "two"));
        await index.purge();
        expect(await redis.keys()).toEqual([]);
        expect(texts(await index.suggest("o"))).toEqual([]);
        await index.put({ id: "1", text: "once more" });
        expect(texts(await index.suggest("o"))).toEqual(["once more"]);
      });
    });

    describe("by weight", () => {
      const make = (options: PrefixIndexOptions = {}) => fixture.index({ order: "weight", ...options });

      it("puts the name that equals the query first, then the highest weight, then the alphabet", async () => {
        const index = make();
        await index.putMany([
          { id: "1", text: "Ana", weight: 1 },
          { id: "2", text: "Anabel", weight: 9 },
          { id: "3", text: "Mary Ana", weight: 7 },
          { id: "4", text: "Anastasia", weight: 7 },
          { id: "5", text: "ana", weight: 2 },
          { id: "6", text: "Anab", weight: 3 },
        ]);
        const wanted = ["5", "1", "2", "3", "4", "6"];
        expect(ids(await index.suggest("ana"))).toEqual(wanted);
        expect(ids(await index.suggest("ana", { limit: 2 }))).toEqual(wanted.slice(0, 2));
        expect(ids(await index.suggest("an"))).toEqual(["2", "3", "4", "6", "5", "1"]);
        expect(ids(await index.suggest("anab"))).toEqual(["6", "2"]);
        expect(ids(await index.suggest("anas"))).toEqual(["4"]);
      });

      it("moves an entry when its weight changes", async () => {
        const index = make();
        await index.putMany([
          { id: "1", text: "Alfa", weight: 5 },
          { id: "2", text: "Alpha", weight: 5 },
        ]);
        expect(ids(await index.suggest("al"))).toEqual(["1", "2"]);
        expect(await index.touch("2")).toBe(true);
        expect(ids(await index.suggest("al"))).toEqual(["2", "1"]);
        expect(await index.touch("1", { by: 3, op: "op-1" })).toBe(true);
        expect(await index.touch("1", { by: 3, op: "op-1" })).toBe(true);
        expect((await index.suggest("al")).items.map(({ id, weight }) => [id, weight])).toEqual([
          ["1", 8],
          ["2", 6],
        ]);
        await index.touch("1", { by: -100 });
        await index.touch("2", { by: 9_999_999_999_999 });
        expect((await index.suggest("al")).items.map(({ weight }) => weight)).toEqual([9_999_999_999_999, 0]);
        expect(await index.touch("none")).toBe(false);
        expect(await rejection(fixture.index({ name: "abc" }).touch("1"))).toBeInstanceOf(TypeError);
      });

      it("has the next one ready when the best of a common prefix goes", async () => {
        const index = make();
        const all = Array.from({ length: 300 }, (_, weight) => ({ id: `${weight}`, text: `A${weight}`, weight }));
        await index.putMany(all);
        for (let best = 299; best > 289; best--) {
          expect(ids(await index.suggest("a", { limit: 2 }))).toEqual([`${best}`, `${best - 1}`]);
          await index.delete(`${best}`);
        }
      });

      it("ranks a long prefix that is common, or says that it may have missed some", async () => {
        const index = make();
        const all = Array.from({ length: 1_500 }, (_, at) => ({
          id: `${at}`,
          text: `User ${(at * 7_919) % 1_500} of ${at % 3 === 0 ? "Rome" : "Oslo"}`,
          weight: at,
        }));
        await index.putMany(all);
        const top = await index.suggest("user");
        expect([ids(top), top.truncated, top.hasMore]).toEqual([
          Array.from({ length: 10 }, (_, at) => `${1_499 - at}`),
          false,
          true,
        ]);
        // All that begins with `use` and is heavy goes on otherwise.
        await index.putMany(
          all.filter(({ text }) => text.startsWith("User 1")).map((entry) => ({ ...entry, weight: 1 })),
        );
        const rare = await index.suggest("user 1", { limit: 100 });
        expect(rare.truncated).toBe(true);
        expect(rare.items).toHaveLength(100);
        expect(rare.items.every(({ text }) => text.startsWith("User 1"))).toBe(true);
        const one = await index.suggest("user 1499");
        expect([one.items.length, one.truncated]).toEqual([1, false]);
      });
    });

    describe("another index of the same name, with other rules", () => {
      it("answers and writes by the stored ones, emits that once, and rebuilds to its own", async () => {
        const old = fixture.index({ marks: "keep", match: "phrase" });
        await old.putMany(named("Zoé Ann", "Bob"));
        const index = fixture.index({ order: "weight" });
        const emitted: unknown[] = [];
        index.on("mismatch", (event) => emitted.push(event));
        expect(texts(await index.suggest("zoe"))).toEqual([]);
        expect(texts(await index.suggest("zoé"))).toEqual(["Zoé Ann"]);
        await index.put({ id: "new", text: "Noël Ann" });
        expect(texts(await old.suggest("noël"))).toEqual(["Noël Ann"]);
        expect(emitted).toMatchObject([
          {
            configured: { order: "weight", marks: "fold", match: "word-start" },
            stored: { order: "alphabetical", marks: "keep", match: "phrase" },
          },
        ]);
        expect(await index.rebuild(named("Zoé Ann", "Bob"))).toEqual({ items: 2 });
        expect(texts(await index.suggest("zoe"))).toEqual(["Zoé Ann"]);
        expect(texts(await old.suggest("ann"))).toEqual(["Zoé Ann"]);
        expect(texts(await old.suggest("noel"))).toEqual([]);
      });

      it("answers an empty query by the stored ones", async () => {
        await fixture.index({ empty: "top" }).putMany(named("Ann", "Bob"));
        expect(texts(await fixture.index().suggest(""))).toEqual(["Ann", "Bob"]);
        expect(texts(await fixture.index({ name: "unwritten" }).suggest(""))).toEqual([]);
      });

      it("works next to one whose Unicode version differs", async () => {
        const index = fixture.index();
        await index.put({ id: "1", text: "Ann" });
        const { index: head } = fixture.keysOf();
        const stored = (await fixture.db.hget(head, "settings"))!.replace(/fold=.*/, "fold=1/13.0");
        // The item as the other object would have written it.
        await index.purge();
        await fixture.db.hset(head, "layout", "1", "settings", stored);
        await fixture.index().put({ id: "1", text: "Ann" });
        const emitted: unknown[] = [];
        index.on("mismatch", ({ stored: { foldVersion } }) => emitted.push(foldVersion));
        expect(texts(await index.suggest("a"))).toEqual(["Ann"]);
        await index.put({ id: "2", text: "Abe" });
        expect(texts(await index.suggest("a"))).toEqual(["Abe", "Ann"]);
        expect(emitted).toEqual(["1/13.0"]);
        await index.rebuild(named("Ann"));
        expect((await index.inspect()).rules!.foldVersion).not.toBe("1/13.0");
      });

      it("is refused where a newer version wrote it", async () => {
        const { index: head } = fixture.keysOf();
        await fixture.index().put({ id: "1", text: "Ann" });
        await fixture.db.hset(head, "layout", "2");
        for (const call of [
          () => fixture.index().suggest("b"),
          () => fixture.index({ order: "weight" }).suggest("a"),
          () => fixture.index().put({ id: "1", text: "Ann" }),
          () => fixture.index().rebuild([]),
          () => fixture.index().inspect(),
        ])
          expect(await rejection(call())).toMatchObject({ code: "KIT_LAYOUT" });
        await fixture.db.hset(head, "layout", "1", "settings", "order=newest");
        expect(await rejection(fixture.index().suggest("b"))).toMatchObject({ code: "KIT_LAYOUT" });
      });
    });

    describe("of whose data something is lost", () => {
      const rebuilt = async (
        lost: "index" | "rows" | "items",
        order: PrefixIndexOptions["order"],
      ): Promise<unknown[]> => {
        const index = fixture.index({ order });
        await index.putMany(named("Ann", "Abe"));
        await fixture.db.del(fixture.keysOf()[lost]);
        const emitted: string[] = [];
        index.on("error", ({ code }) => emitted.push(code));
        const seen = [texts(await index.suggest("a")), texts(await index.suggest("a"))];
        const put = await index.put({ id: "Amy", text: "Amy" }).then(
          () => "put",
          (error: unknown) => (error as { code: string }).code,
        );
        await index.rebuild(named("Ann", "Abe"));
        expect(texts(await index.suggest("a"))).toEqual(["Abe", "Ann"]);
        return [seen, emitted, put];
      };

      it("answers without it, reports it once, and is restored by a rebuild", async () => {
        const both = ["Abe", "Ann"];
        expect(await rebuilt("items", "weight")).toEqual([[[], []], ["KIT_AUTOCOMPLETE_DAMAGED"], "put"]);
        await fixture.index().purge();
        expect(await rebuilt("index", "weight")).toEqual([[[], []], [], "KIT_LAYOUT"]);
        await fixture.index().purge();
        // The rows of an alphabetical index are all that a reader needs.
        expect(await rebuilt("items", "alphabetical")).toEqual([[both, both], [], "put"]);
        await fixture.index().purge();
        expect(await rebuilt("rows", "alphabetical")).toEqual([[[], []], [], "put"]);
        await fixture.index().purge();
        expect(await rebuilt("index", "alphabetical")).toEqual([[both, both], [], "KIT_LAYOUT"]);
      });

      it("names a key that holds another type, and changes nothing", async () => {
        const keys = fixture.keysOf();
        const wrong: string[] = [];
        for (const [part, key] of Object.entries(keys)) {
          await fixture.index().put({ id: "1", text: "Ann" });
          await fixture.db.del(key);
          await fixture.db.rpush(key, "x");
          const error = await rejection(fixture.index().put({ id: "1", text: "Bob" }));
          expect(error, part).toMatchObject({ code: "KIT_KEY_TYPE", key, found: "list" });
          wrong.push(part);
          await fixture.db.del(...(Object.values(keys) as string[]));
        }
        expect(wrong).toHaveLength(9);
      });
    });

    it("answers by the stored rules, whatever rebuilds a reader has missed", async () => {
      const reader = fixture.index({ marks: "keep" });
      const writer = fixture.index();
      const keeping = fixture.index({ marks: "keep" });
      const entries = named("Zoë", "Zoe", "Zora");
      await keeping.putMany(entries);
      expect(texts(await reader.suggest("zoë"))).toEqual(["Zoë"]);
      expect(texts(await reader.suggest("zoé"))).toEqual([]);
      await writer.rebuild(entries);
      expect(texts(await reader.suggest("zoé"))).toEqual(["Zoe", "Zoë"]);
      // And back, twice over, while it does not look.
      await keeping.rebuild(entries);
      await writer.rebuild(entries);
      await keeping.rebuild(entries);
      expect(texts(await reader.suggest("zoé"))).toEqual([]);
      expect(texts(await reader.suggest("zo"))).toEqual(["Zoe", "Zora", "Zoë"]);
      // Staged data is not seen, whatever its rules.
      const seen: string[][] = [];
      const source = async function* () {
        yield* named(...Array.from({ length: 200 }, (_, at) => `Zo ${String(at)}`));
        seen.push(texts(await reader.suggest("zo")), texts(await reader.suggest("zo 1")));
      };
      await keeping.rebuild(source());
      expect(seen).toEqual([["Zoe", "Zora", "Zoë"], []]);
      expect((await reader.suggest("zo")).items).toHaveLength(10);
    });

    it("gives an entry once that matches with many words, and says when it gave up looking for more", async () => {
      const index = fixture.index();
      const many = (count: number, word: string): Entry[] =>
        Array.from({ length: count }, (_, at) => ({ id: String(at), text: `${word}${String(at)} `.repeat(30) }));
      await index.putMany(many(12, "ab"));
      expect(await index.suggest("ab", { limit: 10 })).toMatchObject({ hasMore: true, truncated: false });
      const { items, truncated } = await index.suggest("ab", { limit: 12 });
      expect([new Set(items.map(({ id }) => id)).size, truncated]).toEqual([12, false]);
      await index.rebuild(many(100, "cd"));
      expect(await index.suggest("cd", { limit: 40 })).toMatchObject({ hasMore: true, truncated: true });
    });

    it("sorts names, and puts those that start with the query before those of which a later word does", async () => {
      const index = fixture.index({ empty: "top" });
      await index.putMany(named("Zed Ba", "Bob", "Carl", "Anna Bo", "Ba Zed", "Bo Bo"));
      expect(texts(await index.suggest("b"))).toEqual(["Ba Zed", "Bo Bo", "Bob", "Anna Bo", "Zed Ba"]);
      expect(texts(await index.suggest(""))).toEqual(["Anna Bo", "Ba Zed", "Bo Bo", "Bob", "Carl", "Zed Ba"]);
      expect(await index.suggest("b", { limit: 2 })).toMatchObject({ hasMore: true, truncated: false });
      for (let limit = 1; limit <= 6; limit++) {
        const all = texts(await index.suggest("b", { limit: 200 })).slice(0, limit);
        expect(texts(await index.suggest("b", { limit }))).toEqual(all);
      }
      // Rows of later words may fill what one query reads.
      await index.putMany(
        Array.from({ length: 900 }, (_, at) => ({ id: `r${String(at)}`, text: `X${String(at)} Road` })),
      );
      await index.putMany(named("Roadside", "Roanne"));
      expect(await index.suggest("roa", { limit: 5 })).toMatchObject({ hasMore: true, truncated: true });
      expect(texts(await index.suggest("roads"))).toEqual(["Roadside"]);
    });

    it("finds what starts with the last characters that there are", async () => {
      const index = fixture.index();
      const entries = named("\u{10ffff}a", "\ud7ffb", "\ue000c", "zd", "\u{1f600}e");
      await index.putMany(entries);
      for (const { text } of entries) {
        const [first = ""] = Array.from(text);
        expect(texts(await index.suggest(first)), text).toEqual([text]);
      }
      // The stored rules count, which say that nothing gives nothing.
      expect(texts(await fixture.index({ empty: "top" }).suggest(""))).toEqual([]);
    });

    it("lets readers and writers of one index change only what they should", async () => {
      const index = fixture.index({ order: "weight" });
      await index.putMany(named(...bookNames));
      const before = await redis.keys();
      const clients = Array.from({ length: 8 }, () => fixture.indexOn(fixture.connect(), { order: "weight" }));
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, at) => clients[at % 8]!.suggest("abc", { limit: 3 })),
      );
      for (const answer of answers) expect(texts(answer)).toEqual(["abc", "abcd", "abci"]);
      expect(await redis.keys()).toEqual(before);
    });

    it("shows concurrent readers a change completely or not at all", async () => {
      const index = fixture.index();
      await index.put({ id: "1", text: "Ann Ball", payload: 0 });
      let isDone = false;
      const writing = (async () => {
        for (let at = 1; at <= 60; at++)
          await index.put({ id: "1", text: at % 2 === 0 ? "Ann Ball" : "Ann Cook", payload: at });
        isDone = true;
      })();
      const reader = fixture.indexOn(fixture.connect());
      let reads = 0;
      while (!isDone) {
        const { items } = await reader.suggest("ann");
        expect(items).toHaveLength(1);
        const [{ text, payload }] = items as unknown as [{ text: string; payload: number }];
        expect(text).toBe(payload % 2 === 0 ? "Ann Ball" : "Ann Cook");
        reads++;
      }
      await writing;
      expect(reads).toBeGreaterThan(0);
    });

    it("is closed once, for good, and leaves the client alone", async () => {
      const index = fixture.index();
      const putting = index.put({ id: "1", text: "Ann" });
      await Promise.all([index.close(), index.close()]);
      await putting;
      for (const call of [() => index.suggest("a"), () => index.put({ id: "1", text: "a" }), () => index.rebuild([])])
        expect(await rejection(call())).toMatchObject({ code: "KIT_CLOSED" });
      expect(texts(await fixture.index().suggest("a"))).toEqual(["Ann"]);
      expect(name).toBe(fixture.index().name);
    });

    if (mode === "cluster") {
      const keys = () => ({ ...fixture.keysOf(), ...fixture.bookKeysOf(), keys: fixture.keysOf().live });
      const settings = "order=alphabetical ranked=3";
      const aContact = async (): Promise<void> => {
        await fixture.db.zadd(keys().contacts, 1, "a");
        await fixture.db.hset(keys().cards, "a", "Ann");
      };
      const anItem = async (): Promise<void> => {
        const staging = { layout: "1", settings, staged: settings, staging: "token" };
        await fixture.db.hset(keys().index, staging);
        await fixture.db.hset(keys().stagedItems, "", "token");
        await fixture.db.pexpire(keys().stagedItems, 60_000);
        for (const key of [keys().items, keys().stagedItems])
          await fixture.db.hset(key, "1", ["1", "1", "0", "ann ", "Ann"].join("\0"));
      };
      const { fetch, forget, purge, record, revision, survey, weights, write } = scripts;
      const dropped = ["1", "5", "", "", "", "", "", ""];
      slots.itRanAll(keys, () => [
        { script: record, args: ["op1", "b", "", 0, 1, 60_000], seed: aContact },
        { script: forget, args: ["op2", "remove", "b", 100, 60_000] },
        { script: fetch, args: ["-"] },
        { script: write, args: ["op3", "", settings, "", 60_000, ...dropped], seed: anItem },
        { script: survey, args: [] },
        { script: weights, args: ["1"] },
        { script: revision, args: [settings] },
        { script: purge, args: [] },
      ]);
    }
  });
});
