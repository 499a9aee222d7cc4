import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { expectWhole, fixtureOf, named, permanentKeys, texts } from "./harness.js";

/** All that meets the client, with each major of ioredis. */
const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

it("works from the first put to the last", async () => {
  const index = fixture.index<{ at: number }>({ order: "weight", isolate: true });
  await index.put({ id: "1\n", text: "Ünal 東京 \u{1f468}\u200d\u{1f469}", weight: 7, payload: { at: 1 } });
  await index.putMany(named("Una", "Under"));
  await index.touch("Una", { by: 9 });
  expect(texts(await index.suggest("un"))).toEqual(["Una", "Ünal 東京 \u{1f468}\u200d\u{1f469}", "Under"]);
  expect((await index.suggest("東")).items).toMatchObject([
    { id: "1\n", weight: 7, payload: { at: 1 }, ranges: [[5, 6]] },
  ]);
  expect(await index.delete("Under")).toBe(true);
  await expectWhole(redis.client, fixture.keysOf());
  expect(await index.rebuild(named("Unna"))).toEqual({ items: 1 });
  expect(await index.inspect()).toMatchObject({ items: 1, staged: null });
  const controller = new AbortController();
  controller.abort(new Error("left"));
  expect(await rejection(index.suggest("u", { signal: controller.signal }))).toMatchObject({ message: "left" });
  await index.purge();

  const book = fixture.book({ ranking: "frecent" });
  await book.record("7", { text: "Zoë" });
  expect((await book.suggest("zoe")).items).toMatchObject([{ id: "7", ranges: [[0, 3]] }]);
  await book.block("7");
  expect(await book.list()).toMatchObject({ items: [], blocked: ["7"] });
});
