import { useRedis } from "@kit/testing";
import { addContact, classicKeys, completeContact, completeMember, CONTACTS_KEPT, joinGuild } from "@tooling/classic";
import { callsOf, rejection, scriptCalls } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import type { PrefixIndex } from "../src/index.js";
import { expectWhole, fixtureOf, mortal, named, texts } from "./harness.js";

/** Each test shows a known fault of the classic algorithms on their ports, and then that the kit does not have it. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const prefix = (): string => `${redis.prefix}:classic:`;
const [node] = [() => redis.server.nodes[0]!];
/** The number of changes that the server has counted. */
const changes = async (): Promise<number> =>
  Number(/rdb_changes_since_last_save:(\d+)/.exec(String(await node().call("INFO", "persistence")))![1]);
const marksOf = async (guild: string): Promise<string[]> =>
  (await redis.client.zrange(classicKeys(prefix()).guild(guild), "0", "-1")).filter((name) => name.includes("{"));

describe("the classic contact list", () => {
  it("every keystroke fetches the whole list", async () => {
    const book = fixture.book();
    for (let number = 0; number < CONTACTS_KEPT; number++) {
      await addContact(redis.client, "ada", `contact ${number}`, prefix());
      await book.record(`contact ${number}`);
    }
    const before = await callsOf(node(), "lrange");
    const queries = ["c", "co", "con", "contact 4", "contact 42"];
    for (const query of queries) await completeContact(redis.client, "ada", query, prefix());
    expect((await callsOf(node(), "lrange")) - before).toBe(queries.length);

    const ours = await scriptCalls(redis.server.nodes);
    for (const query of queries) await book.suggest(query);
    expect((await scriptCalls(redis.server.nodes)) - ours).toBe(1);
    expect(texts((await book.suggest("contact 42")) as never)).toEqual(["contact 42"]);
  });
});

describe("the classic completion between two marks", () => {
  let index: PrefixIndex;
  beforeEach(() => {
    index = fixture.index();
  });
  const join = async (...members: readonly string[]): Promise<void> => {
    for (const member of members) await joinGuild(redis.client, "guild", member, prefix());
    await index.putMany(named(...members));
  };
  const classic = (text: string, client: Redis = redis.client): Promise<string[]> =>
    completeMember(client, "guild", text, prefix());
  const ours = async (text: string): Promise<string[]> => texts(await index.suggest(text));

  it("the example of the book gives the same completions", async () => {
    await join("abc", "abcd", "abcz", "abcx", "abcy", "abci", "abcj", "abd");
    const completed = ["abc", "abcd", "abci", "abcj", "abcx", "abcy", "abcz"];
    expect([await classic("abc"), await ours("abc")]).toEqual([completed, completed]);
  });

  it("a read writes", async () => {
    await join("bob", "carol");
    const before = await changes();
    await classic("b");
    expect((await changes()) - before).toBe(4);
    const between = await changes();
    expect(await ours("b")).toEqual(["bob"]);
    expect((await changes()) - between).toBe(0);
  });

  it("only the letters a to z are known", async () => {
    await join("Bob", "été", "~tilde", "x{y", "九");
    // A capital is not found; one beyond z comes along with others; a brace makes a name vanish.
    expect([await classic("bob"), await classic("é"), await classic("x")]).toEqual([[], ["~tilde", "été"], []]);
    expect([await ours("bob"), await ours("é"), await ours("x"), await ours("九")]).toEqual([
      ["Bob"],
      ["été"],
      ["x{y"],
      ["九"],
    ]);
  });

  it("no match gives wrong names, or the whole guild", async () => {
    await join("bob", "carol", "dave");
    expect([await classic("a"), await classic("B"), await classic("b9")]).toEqual([
      ["bob", "carol", "dave"],
      ["carol"],
      ["carol"],
    ]);
    expect([await ours("a"), await ours("b9"), await ours("x")]).toEqual([[], [], []]);
    // A capital is no other letter to us.
    expect(await ours("B")).toEqual(["bob"]);
  });

  it("a crash leaves marks for ever", async () => {
    await join("bob", "carol");
    const client = redis.connect();
    Object.assign(client, { watch: () => Promise.reject(new Error("the process died")) });
    expect(await rejection(classic("b", client))).toMatchObject({ message: "the process died" });
    expect(await marksOf("guild")).toHaveLength(2);

    for (const when of ["before", "after"] as const) {
      const dying = mortal(redis.connect(), 1, when);
      expect(await rejection(fixture.indexOn(dying.client).suggest("b", { signal: dying.signal }))).toBeInstanceOf(
        Error,
      );
      expect(dying.isDead()).toBe(true);
      await expectWhole(redis.client, fixture.keysOf());
    }
    expect(await index.inspect()).toMatchObject({ items: 2, rows: 2 });
  });

  it("the marks of other readers take places in the answer", async () => {
    const members = Array.from({ length: 12 }, (_, at) => `bo${String.fromCharCode(97 + at)}`);
    await join(...members);
    const client = redis.connect();
    Object.assign(client, { watch: () => Promise.reject(new Error("the process died")) });
    for (const text of ["boc", "bod"]) await rejection(classic(text, client));
    expect(await classic("bo")).toHaveLength(6);
    expect(await ours("bo")).toEqual(members.slice(0, 10));
  });

  it("readers make each other retry", async () => {
    await join("bob", "carol");
    const clients = Array.from({ length: 8 }, () => redis.connect());
    const each = 15;
    const read = async (complete: (client: number) => Promise<string[]>): Promise<void> => {
      await Promise.all(
        clients.map(async (_client, at) => {
          for (let round = 0; round < each; round++) expect(await complete(at)).toEqual(["bob"]);
        }),
      );
    };
    const before = await callsOf(node(), "watch");
    // Its answers may also be wrong meanwhile: only the tries are counted.
    await Promise.all(
      clients.map(async (client) => {
        for (let round = 0; round < each; round++) await classic("b", client);
      }),
    );
    expect((await callsOf(node(), "watch")) - before).toBeGreaterThan(8 * each);

    const own = clients.map((client) => fixture.indexOn(client));
    const earlier = await callsOf(redis.server.nodes[0]!, "zrangebylex");
    await read(async (at) => texts(await own[at]!.suggest("b")));
    expect((await callsOf(redis.server.nodes[0]!, "zrangebylex")) - earlier).toBe(8 * each);
  });
});
