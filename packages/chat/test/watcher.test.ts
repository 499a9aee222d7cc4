import { Deadline } from "@kit/core/toolkit";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { chatSettings } from "../src/options.js";
import { Reader } from "../src/reader.js";
import { ChatStore } from "../src/store.js";
import { nowhere } from "../src/token.js";
import { Watcher } from "../src/watcher.js";
import { fixtureOf, permanentKeys, room } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

it("wakes both of two waits of one member whose first looks crossed", async () => {
  const chat = fixture.make();
  await chat.create(room, { members: ["bob"] });
  const store = new ChatStore(redis.client, chatSettings({ prefix: redis.prefix }));
  const watcher = new Watcher(store, () => undefined);
  redis.defer(() => {
    watcher.close();
    store.close();
  });
  const looks = await Promise.all(
    [1, 2].map(() => new Reader(store, "bob", nowhere(16), false).look(1, true, undefined)),
  );
  const waits: Promise<boolean>[] = [];
  for (const shards of looks) {
    const parts = shards.map(({ part }) => part);
    watcher.learn(
      "bob",
      parts,
      shards.map(({ names }) => names),
    );
    waits.push(watcher.wait("bob", parts, Deadline.in(10_000), undefined));
    await store.open();
  }
  await chat.create("new", { members: ["bob"] });
  expect(await Promise.all(waits)).toEqual([true, true]);
});
