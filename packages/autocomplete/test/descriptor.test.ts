import { connect } from "@kit/core";
import { useRedis } from "@kit/testing";
import { describeDescriptor, inspectCall } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { fixtureOf, named, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

describeDescriptor(descriptor, redis);

describe("kit inspect", () => {
  const fixture = fixtureOf(redis);
  const look = async (thing: string, options: Record<string, number>, ...args: string[]) => {
    const inspector = descriptor.inspectors!.find((one) => one.thing === thing)!;
    const client = await connect({ url: redis.url, deadlineMs: 30_000 });
    redis.defer(() => client.close());
    return await inspector.look(inspectCall(client, redis.prefix, options), ...args);
  };
  const facts = async (...args: Parameters<typeof look>): Promise<Record<string, string>> =>
    Object.fromEntries((await look(...args)).facts ?? []);

  it("autocomplete: says how large an index is, and by which rules it was written", async () => {
    const index = fixture.index({ order: "weight", locale: "tr" });
    await index.putMany(named("Ann Lee", "Bob"));
    expect(await look("autocomplete", {}, "guild")).toMatchObject({
      data: { index: "guild", shards: 1, items: 2, rows: 3, ranked: 9, staged: null, rules: { order: "weight" } },
    });
    expect(await facts("autocomplete", {}, "guild")).toMatchObject({
      items: "2",
      "word starts": "3",
      order: "weight; 9 rows for the first 3 characters",
      folding: expect.stringMatching(/^ignores accents, locale tr, version /) as string,
      rebuild: "none",
    });
    const inspector = descriptor.inspectors![0]!;
    expect(inspector.keys!(redis.prefix, "guild")).toContain(fixture.keysOf().rows);
  });

  it("autocomplete: finds an index in several shards, and says that an item counts in each", async () => {
    const index = fixture.index({ shards: 3 });
    await index.put({ id: "1", text: "Ann Bob" });
    const found = await facts("autocomplete", { shards: 3 }, "guild");
    expect(found).toMatchObject({ shards: "3", "word starts": "2" });
    expect(found["items"]).toMatch(/^[12] \(an item in several shards counts in each\)$/);
  });

  it("autocomplete: shows a running rebuild, another fold version, and an index that is not there", async () => {
    expect(await facts("autocomplete", {}, "guild")).toMatchObject({ items: "none: this index was never written" });
    const index = fixture.index();
    await index.putMany(named("Old"));
    const source = async function* () {
      yield* named(...Array.from({ length: 300 }, (_, at) => `New ${String(at)}`));
      const { rebuild } = await facts("autocomplete", {}, "guild");
      expect(rebuild).toMatch(/^running, [1-9]\d* items written$/);
    };
    await index.rebuild(source());
    const { index: head } = fixture.keysOf();
    const settings = (await fixture.db.hget(head, "settings"))!;
    await fixture.db.hset(head, "settings", settings.replace(/fold=\S+/, "fold=1/1.0"));
    expect((await facts("autocomplete", {}, "guild"))["folding"]).toMatch(
      /version 1\/1\.0, this release uses .*: rebuild the index$/,
    );
  });

  it("contact-book: lists contacts and blocks without payloads, and an owner who has none", async () => {
    const book = fixture.book();
    await book.record("1", { text: "Ann", payload: { phone: "secret" } });
    await book.record("2", { text: "Bob" });
    await book.block("3");
    const { data, facts: shown, table } = await look("contact-book", {}, "guild");
    expect(data).toMatchObject({ owner: "guild", contacts: [{ id: "2", text: "Bob" }, { id: "1" }], blocked: ["3"] });
    expect(JSON.stringify([data, table])).not.toContain("secret");
    expect(Object.fromEntries(shown!)).toMatchObject({ contacts: "2", blocked: "1: 3" });
    expect(table!.rows.map(([id]) => id)).toEqual(["2", "1"]);
    const nobody = await look("contact-book", {}, "nobody");
    expect(nobody.isUnknown).toBe(true);
    expect(nobody.table).toBeUndefined();
  });
});
