import { Deadline, resolve } from "@kit/core/toolkit";
import { useRedis } from "@kit/testing";
import { watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { chatRules } from "../src/options.js";
import { Reader } from "../src/read/reader.js";
import { ChatStore } from "../src/store.js";
import { startPosition } from "../src/read/position.js";
import { Watcher } from "../src/wait/watcher.js";
import { fixtureOf, permanentKeys, room, untilBlocked } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

it("wakes both of two waits of one member whose first reads overlapped", async () => {
  const chat = fixture.make();
  await chat.create(room, { members: ["bob"] });
  const store = new ChatStore(redis.client, resolve("options", { prefix: redis.prefix }, chatRules), () => undefined);
  const watcher = new Watcher(store);
  redis.defer(() => store.life.close({}, async () => watcher.close()));
  const [first, second] = [1, 2].map(() => new Reader(store, "bob", startPosition(16), false)) as [
    Reader<never>,
    Reader<never>,
  ];
  const looked = second.look(1, true, undefined);
  const crossed = untilBlocked(redis.server.nodes[0]!);
  second.look = async () => {
    await crossed;
    return await looked;
  };
  const waits = [first, second].map((reader) => watched(watcher.wait(reader, Deadline.in(60_000), undefined)));
  await Promise.all([looked, crossed]);
  await store.open();
  await chat.create("new", { members: ["bob"] });
  expect(await Promise.all(waits.map(({ promise }) => promise))).toEqual([true, true]);
});
