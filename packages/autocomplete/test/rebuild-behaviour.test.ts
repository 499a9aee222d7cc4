import { Readable } from "node:stream";
import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, lapse, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Entry, PrefixIndex } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { expectWhole, fixtureOf, ids, mortal, name, named, permanentKeys, texts } from "./harness.js";

const shards = 4;
const whens = ["before", "after"] as const;
const count = 250;
const oldNames = named(...Array.from({ length: 30 }, (_, at) => `Old ${at} name`));
const newNames = named(...Array.from({ length: count }, (_, at) => `New ${at} name`));

/** A source that waits at some entries until it is let on. */
const gated = (entries: readonly Entry[], at: number) => {
  let letOn = (): void => undefined;
  let arrive = (): void => undefined;
  const gate = new Promise<void>((resolve) => (letOn = resolve));
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const source = async function* (): AsyncGenerator<Entry> {
    for (const [index, entry] of entries.entries()) {
      if (index === at) {
        arrive();
        await gate;
      }
      yield entry;
    }
  };
  return { source: source(), arrived, letOn: () => letOn() };
};

/** Holds back all commands of a client that match, from the nth on, until they are let on. */
const holding = (client: Redis, held: RegExp, from: number) => {
  const send = client.call.bind(client) as (...of: unknown[]) => Promise<unknown>;
  let letOn = (): void => undefined;
  let arrive = (): void => undefined;
  const gate = new Promise<void>((resolve) => (letOn = resolve));
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  let seen = 0;
  const call = async (command: string, ...args: unknown[]): Promise<unknown> => {
    if (held.test(command) && ++seen >= from) {
      arrive();
      await gate;
    }
    return await send(command, ...args);
  };
  Object.assign(client, { call });
  return { arrived, letOn: () => letOn() };
};

/** Changes of more than one step: rebuilding, and an index of several shards. */
inModes({ single: user.loginForText }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`a rebuild on a ${where}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, ...(login && { args: user.serverArgs(mode) }) });
    if (login) guardUsers(redis);
    onMovingSlots(redis, scripts);
    const fixture = fixtureOf(redis, login);
    const whole = (): Promise<void> => expectWhole(fixture.db, fixture.keysOf());

    it("answers from the old index until it switches, and from the new one at once", async () => {
      const index = fixture.index({ order: "weight" });
      await index.putMany(oldNames);
      const { source, arrived, letOn } = gated(newNames, 240);
      const rebuilding = index.rebuild(source);
      await arrived;
      const reader = fixture.indexOn(fixture.connect(), { order: "weight" });
      expect((await reader.suggest("old", { limit: 100 })).items).toHaveLength(30);
      expect(texts(await reader.suggest("new"))).toEqual([]);
      expect((await reader.inspect()).staged).toBeGreaterThan(0);
      letOn();
      expect(await rebuilding).toEqual({ items: count });
      expect((await reader.suggest("new", { limit: 200 })).items).toHaveLength(200);
      expect(texts(await reader.suggest("old"))).toEqual([]);
      expect(await reader.inspect()).toMatchObject({ items: count, rows: 3 * count, staged: null });
      await whole();
      // And once more, into the other generation.
      await index.rebuild(oldNames);
      expect(texts(await reader.suggest("new"))).toEqual([]);
      await whole();
    });

    it("keeps the changes that others make meanwhile, whether it has read those entries or not", async () => {
      const index = fixture.index({ order: "weight" });
      await index.putMany(oldNames);
      const { source, arrived, letOn } = gated(newNames, 150);
      const rebuilding = index.rebuild(source);
      await arrived;
      const other = fixture.indexOn(fixture.connect(), { order: "weight" });
      await other.put({ id: "New 1 name", text: "Changed early" });
      await other.put({ id: "New 200 name", text: "Changed late" });
      await other.put({ id: "added", text: "Changed anew" });
      await other.delete("New 2 name");
      await other.delete("New 201 name");
      await other.delete("Old 1 name");
      await other.touch("Old 2 name");
      expect(texts(await other.suggest("changed"))).toEqual(["Changed anew", "Changed early", "Changed late"]);
      letOn();
      await rebuilding;
      expect(texts(await other.suggest("changed"))).toEqual(["Changed anew", "Changed early", "Changed late"]);
      expect(await index.inspect()).toMatchObject({ items: count - 2 + 1 });
      for (const gone of ["New 2 name", "New 201 name", "Old 1 name"])
        expect(texts(await index.suggest(gone)), gone).toEqual([]);
      await whole();
    });

    it("keeps the changes of processes that still fold by the old rules", async () => {
      const old = fixture.index({ marks: "keep", match: "phrase" });
      await old.put({ id: "1", text: "Zoé Ann" });
      const { source, arrived, letOn } = gated(newNames, 150);
      const index = fixture.index({ order: "weight", empty: "top" });
      const rebuilding = index.rebuild(source);
      await arrived;
      await old.put({ id: "1", text: "Noé Ann", weight: 5 });
      await old.put({ id: "2", text: "Eva" });
      expect(texts(await old.suggest("noé"))).toEqual(["Noé Ann"]);
      expect(await index.touch("2")).toBe(true);
      letOn();
      await rebuilding;
      expect(texts(await index.suggest("noe"))).toEqual(["Noé Ann"]);
      expect(texts(await index.suggest("", { limit: 2 }))).toEqual(["Noé Ann", "Eva"]);
      await old.put({ id: "1", text: "Joé Ann" });
      expect(texts(await old.suggest("joe"))).toEqual(["Joé Ann"]);
      await whole();
    });

    it("rejects with the error of a stream that fails before it is read", async () => {
      const rows = Readable.from(newNames).destroy(new Error("no such table"));
      expect(String(await rejection(fixture.index({ shards }).rebuild(rows)))).toBe("Error: no such table");
    });

    it("ends when another one takes its place, and leaves nothing", async () => {
      const index = fixture.index();
      await index.putMany(oldNames);
      const { source, arrived, letOn } = gated(newNames, 150);
      const rebuilding = index.rebuild(source);
      await arrived;
      await fixture.indexOn(fixture.connect()).rebuild(named("Winner"));
      letOn();
      expect(await rejection(rebuilding)).toMatchObject({ code: "KIT_AUTOCOMPLETE_REBUILD", index: name });
      expect(texts(await index.suggest("n"))).toEqual([]);
      expect(texts(await index.suggest("w"))).toEqual(["Winner"]);
      await whole();
    });

    it("ends when its staged data has expired, and leaves the index unchanged", async () => {
      const index = fixture.index();
      await index.putMany(oldNames);
      const { source, arrived, letOn } = gated(newNames, 150);
      const rebuilding = index.rebuild(source);
      await arrived;
      const { stagedRows, stagedItems } = fixture.keysOf();
      expect(await fixture.db.pttl(stagedRows)).toBeGreaterThan(0);
      await lapse(fixture.db, stagedItems);
      await lapse(fixture.db, stagedRows);
      letOn();
      expect(await rejection(rebuilding)).toMatchObject({ code: "KIT_AUTOCOMPLETE_REBUILD" });
      // A live change finds no rebuild, and stages nothing.
      await index.put({ id: "1", text: "Old one more" });
      expect((await index.suggest("old", { limit: 100 })).items).toHaveLength(31);
      expect(await fixture.db.exists(stagedRows)).toBe(0);
      await whole();
    });

    it("ends when a server that restarted has lost the newest batch, and leaves the index unchanged", async () => {
      const index = fixture.index();
      await index.putMany(oldNames);
      const { source, arrived, letOn } = gated(newNames, 150);
      const rebuilding = index.rebuild(source);
      await arrived;
      const { index: head, stagedRows, stagedRanked } = fixture.keysOf();
      await eventually(async () => expect(Number(await fixture.db.hget(head, "batches"))).toBeGreaterThan(0));
      await fixture.db.hincrby(head, "batches", -1);
      await fixture.db.del(stagedRows, stagedRanked);
      letOn();
      expect(await rejection(rebuilding)).toMatchObject({ code: "KIT_AUTOCOMPLETE_REBUILD" });
      expect((await index.suggest("old", { limit: 100 })).items).toHaveLength(30);
      expect((await index.suggest("new", { limit: 100 })).items).toEqual([]);
    });

    it("writes the entries of a slow source without waiting for a full batch", async () => {
      const index = fixture.index();
      let given = 0;
      const slow = async function* (): AsyncGenerator<Entry> {
        for (let written = 0; written === 0; given++) {
          yield { id: `n${given}`, text: "New one" };
          const at = performance.now();
          await eventually(() => expect(performance.now() - at).toBeGreaterThan(200));
          written = (await index.inspect()).staged ?? 0;
        }
      };
      await index.rebuild(slow());
      expect(given).toBeLessThan(32);
    });

    it("can start an index; empties one only if that is allowed", async () => {
      const index = fixture.index();
      expect(await index.rebuild([], { allowEmpty: true })).toEqual({ items: 0 });
      expect(texts(await index.suggest("a"))).toEqual([]);
      await index.rebuild(named("Ann"));
      const onInvalid = (): void => undefined;
      for (const source of [[], [{ id: "1", text: "" }]])
        expect(await rejection(index.rebuild(source, { onInvalid }))).toMatchObject({ code: "KIT_AUTOCOMPLETE_EMPTY" });
      expect(texts(await index.suggest("a"))).toEqual(["Ann"]);
      await index.rebuild([], { allowEmpty: true });
      expect(texts(await index.suggest("a"))).toEqual([]);
      await whole();
    });

    it.each(whens)(
      "leaves the old index or the new one, and nothing else, %s whichever script its process dies",
      async (when) => {
        // Staging, three batches of 6 names at most, and the switch.
        const total = 5;
        const outcomes = new Set<string>();
        for (let dieAt = 1; dieAt <= total + 1; dieAt++) {
          const own = `${when}${dieAt}`;
          const keys = fixture.keysOf(own);
          const reader = fixture.index({ name: own, order: "weight" });
          await reader.putMany(oldNames);
          const { client, isDead, signal } = mortal(fixture.connect() as Redis, dieAt, when);
          const index = fixture.indexOn(client, { name: own, order: "weight" });
          const ended = await index.rebuild(newNames.slice(0, 16), { signal }).then(
            () => "done",
            () => "died",
          );
          expect([ended, isDead()]).toEqual(dieAt > total ? ["done", false] : ["died", true]);
          const [old, now] = await Promise.all(
            ["old", "new"].map(async (query) => (await reader.suggest(query, { limit: 200 })).items.length),
          );
          outcomes.add(`${old},${now}`);
          const isSwitched = dieAt > total || (dieAt === total && when === "after");
          expect([old, now]).toEqual(isSwitched ? [0, 16] : [30, 0]);
          await expectWhole(fixture.db, keys);
          // The next process is not hindered.
          await reader.put({ id: "next", text: "Newcomer" });
          expect(texts(await reader.suggest("newc"))).toEqual(["Newcomer"]);
          await expectWhole(fixture.db, keys);
          await reader.rebuild(named("Again"));
          expect(await reader.inspect()).toMatchObject({ items: 1, staged: null });
          await expectWhole(fixture.db, keys);
        }
        expect(outcomes.size).toBe(2);
      },
    );
  });

  describe(`an index of several shards on a ${where}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, ...(login && { args: user.serverArgs(mode) }) });
    if (login) guardUsers(redis);
    const fixture = fixtureOf(redis, login);
    const wholeOf = async (own = name): Promise<void> => {
      for (let shard = 0; shard < shards; shard++) await expectWhole(fixture.db, fixture.keysOf(own, shard, shards));
    };
    const before: Entry = { id: "1", text: "Anna Bell Quill Zimmer", weight: 3 };
    const after: Entry = { id: "1", text: "Dora Kay Quill Moss", payload: { is: "new" } };
    const words = (entry: Entry): string[] => entry.text.split(" ");
    const found = async (index: PrefixIndex, word: string): Promise<string[]> => texts(await index.suggest(word));

    it("does what an index of one shard does, on more than one slot", async () => {
      const index = fixture.index({ shards, order: "weight", empty: "top" });
      await index.putMany([before, { id: "2", text: "Anna Kay", weight: 9 }]);
      for (const word of words(before)) expect(await found(index, word), word).toContain(before.text);
      expect(ids(await index.suggest("ann"))).toEqual(["2", "1"]);
      expect(ids(await index.suggest(""))).toEqual(["2", "1"]);
      expect(await index.touch("1", { by: 10 })).toBe(true);
      for (const word of ["ann", "a", ""]) expect(ids(await index.suggest(word)), word).toEqual(["1", "2"]);
      const used = new Set((await redis.keys()).map((key) => /\{(.*)\}/.exec(key)![1]));
      expect(used.size).toBeGreaterThan(1);
      await index.put(after);
      for (const word of words(after))
        expect(await found(index, word), word).toEqual(expect.arrayContaining([after.text]));
      for (const word of ["anna b", "bell", "zim"]) expect(await found(index, word), word).toEqual([]);
      await wholeOf();
      expect(await index.delete("1")).toBe(true);
      expect(await index.delete("1")).toBe(false);
      expect(await found(index, "quill")).toEqual([]);
      await index.rebuild(named("Fresh One", "Fresh Two"));
      expect(await found(index, "fresh")).toEqual(["Fresh One", "Fresh Two"]);
      expect(await found(index, "anna")).toEqual([]);
      await wholeOf();
      await index.purge();
      expect(await redis.keys()).toEqual([]);
    });

    it("keeps the later one of two entries of one id in one call", async () => {
      const index = fixture.index({ shards });
      await index.putMany([
        { id: "1", text: "Ann" },
        { id: "1", text: "Bob" },
        { id: "1", text: "Carl" },
      ]);
      for (const [word, texts] of [
        ["ann", []],
        ["bob", []],
        ["carl", ["Carl"]],
      ] as const)
        expect(await found(index, word), word).toEqual(texts);
      await wholeOf();
    });

    it("goes by the stored rules in all shards, also by which shard a name lies in, and rebuilds to others", async () => {
      // Each of these begins with another character, and so in another shard, by the rules of one and of the other.
      const accented = named("Éric", "Öland", "Ñandu", "Žofie");
      const [folded, kept] = [
        ["eric", "oland", "nandu", "zofie"],
        ["éric", "öland", "ñandu", "žofie"],
      ];
      const all = (index: PrefixIndex, queries: readonly string[]) =>
        Promise.all(queries.map(async (query) => await found(index, query)));
      const each = accented.map(({ text }) => [text]);
      const keeping = fixture.index({ shards: 64, marks: "keep" });
      await keeping.putMany(named("Ida", "Eve", "Oda", "Nina", "Zoe"));
      const folding = fixture.index({ shards: 64 });
      await folding.putMany(accented);
      for (const index of [keeping, folding, fixture.index({ shards: 64 })]) {
        expect(await all(index, kept!)).toEqual(each);
        expect(await all(index, folded!)).toEqual(each.map(() => []));
      }
      await folding.rebuild(accented);
      for (const index of [keeping, folding, fixture.index({ shards: 64 })])
        expect(await all(index, folded!)).toEqual(each);
    });

    it("has one version of an entry in the end, when several processes change it at once", async () => {
      const clients = Array.from({ length: 4 }, () => fixture.indexOn(fixture.connect(), { shards }));
      const versions = [before, after, { id: "1", text: "Bea Dorn" }, { id: "1", text: "Max Zorn Anders" }] as const;
      for (let round = 0; round < 12; round++) {
        await Promise.all(clients.map((index, at) => index.put(versions[(at + round) % 4]!)));
        const seen = new Set<string>();
        for (const version of versions)
          for (const word of words(version)) for (const text of await found(clients[0]!, word)) seen.add(text);
        expect(seen.size).toBe(1);
        const [text] = seen;
        for (const word of text!.split(" ")) expect(await found(clients[1]!, word), word).toEqual([text]);
      }
      await wholeOf();
    });

    it("removes what it added when a later change overtook it", async () => {
      await fixture.index({ shards }).put(before);
      const client = fixture.connect() as Redis;
      const { letOn, arrived } = holding(client, /^evalsha$/i, 2);
      const late = fixture.indexOn(client, { shards, deadlineMs: 10_000 }).put(after);
      await arrived;
      const later: Entry = { id: "1", text: "Max Zorn" };
      const index = fixture.index({ shards });
      await index.put(later);
      letOn();
      await late;
      for (const word of words(after)) expect(await found(index, word), word).toEqual([]);
      for (const word of words(later)) expect(await found(index, word), word).toEqual([later.text]);
      await wholeOf();
    });

    it.each(whens)(
      "loses no entry, and nothing that the next change does not clean, %s whichever script a put dies",
      async (when) => {
        let deaths = 0;
        for (let dieAt = 1; ; dieAt++) {
          const own = `${when}${dieAt}`;
          const reader = fixture.index({ name: own, shards });
          await reader.put(before);
          const { client, isDead, signal } = mortal(fixture.connect() as Redis, dieAt, when);
          const ended = await fixture
            .indexOn(client, { name: own, shards })
            .put(after, { signal })
            .then(
              () => "done",
              () => "died",
            );
          expect(ended).toBe(isDead() ? "died" : "done");
          if (!isDead()) break;
          deaths++;
          await wholeOf(own);
          // A word that both versions have is always found, by one name or the other.
          expect(await found(reader, "quill")).toHaveLength(1);
          await (dieAt % 2 === 0 ? reader.put({ id: "1", text: "Moritz" }) : reader.delete("1"));
          await wholeOf(own);
          const all = (
            await Promise.all([...words(before), ...words(after)].map((word) => found(reader, word)))
          ).flat();
          expect(all.filter((text) => text !== "Moritz")).toEqual([]);
          expect(await reader.inspect()).toMatchObject({
            items: dieAt % 2 === 0 ? 1 : 0,
            rows: dieAt % 2 === 0 ? 1 : 0,
          });
        }
        // The revision, and each of the shards.
        expect(deaths).toBe(1 + shards);
      },
    );

    it("serves each shard old or new, whole, when a rebuild dies between two of them, and the next makes them one", async () => {
      for (let dieAt = 1; ; dieAt++) {
        const own = `r${dieAt}`;
        const reader = fixture.index({ name: own, shards });
        await reader.putMany([before]);
        const { client, isDead, signal } = mortal(fixture.connect() as Redis, dieAt, "after");
        await fixture
          .indexOn(client, { name: own, shards })
          .rebuild([after], { signal })
          .catch(() => undefined);
        await wholeOf(own);
        for (const word of words(before).filter((one) => one !== "Quill"))
          expect([[], [before.text]], word).toContainEqual(await found(reader, word));
        await reader.delete("1");
        for (const word of [...words(before), ...words(after)]) expect(await found(reader, word), word).toEqual([]);
        await reader.rebuild([after]);
        await wholeOf(own);
        for (const word of words(after)) expect(await found(reader, word), word).toEqual([after.text]);
        if (!isDead()) break;
      }
    });
  });
});
