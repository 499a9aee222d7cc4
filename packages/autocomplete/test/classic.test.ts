import { useRedis } from "@kit/testing";
import { callsOf, rejection, scriptCalls } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import type { PrefixIndex } from "../src/index.js";
import { expectWhole, fixtureOf, mortal, named, texts } from "./harness.js";

/** Each test shows that this package does not have a known defect of the completions in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const [node] = [() => redis.server.nodes[0]!];
/** The number of changes that the server has counted. */
const changes = async (): Promise<number> =>
  Number(/rdb_changes_since_last_save:(\d+)/.exec(String(await node().call("INFO", "persistence")))![1]);

describe("defects of the classic contact list, absent here", () => {
  it("every keystroke fetches the whole list", async () => {
    const book = fixture.book();
    for (let number = 0; number < 100; number++) await book.record(`contact ${number}`);
    const queries = ["c", "co", "con", "contact 4", "contact 42"];
    const ours = await scriptCalls(redis.server.nodes);
    for (const query of queries) await book.suggest(query);
    expect((await scriptCalls(redis.server.nodes)) - ours).toBe(1);
    expect(texts((await book.suggest("contact 42")) as never)).toEqual(["contact 42"]);
  });
});

describe("defects of the classic completion between two marks, absent here", () => {
  let index: PrefixIndex;
  beforeEach(() => {
    index = fixture.index();
  });
  const join = async (...members: readonly string[]): Promise<void> => {
    await index.putMany(named(...members));
  };
  const ours = async (text: string): Promise<string[]> => texts(await index.suggest(text));

  it("the example of the book gives the same completions", async () => {
    await join("abc", "abcd", "abcz", "abcx", "abcy", "abci", "abcj", "abd");
    const completed = ["abc", "abcd", "abci", "abcj", "abcx", "abcy", "abcz"];
    expect(await ours("abc")).toEqual(completed);
  });

  it("a read writes", async () => {
    await join("bob", "carol");
    const between = await changes();
    expect(await ours("b")).toEqual(["bob"]);
    expect((await changes()) - between).toBe(0);
  });

  it("only the letters a to z are known", async () => {
    await join("Bob", "été", "~tilde", "x{y", "九");
    expect([await ours("bob"), await ours("é"), await ours("x"), await ours("九")]).toEqual([
      ["Bob"],
      ["été"],
      ["x{y"],
      ["九"],
    ]);
  });

  it("no match gives wrong names, or the whole guild", async () => {
    await join("bob", "carol", "dave");
    expect([await ours("a"), await ours("b9"), await ours("x")]).toEqual([[], [], []]);
    // A capital is no other letter to us.
    expect(await ours("B")).toEqual(["bob"]);
  });

  it("a crash leaves marks forever", async () => {
    await join("bob", "carol");
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
    const own = clients.map((client) => fixture.indexOn(client));
    const earlier = await callsOf(redis.server.nodes[0]!, "zrangebylex");
    await read(async (at) => texts(await own[at]!.suggest("b")));
    expect((await callsOf(redis.server.nodes[0]!, "zrangebylex")) - earlier).toBe(8 * each);
  });
});
