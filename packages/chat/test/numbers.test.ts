import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf, permanentKeys, room } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

it("rejects sends if numbers would no longer be exact", async () => {
  const chat = fixture.make();
  await chat.create(room, { members: ["ann"] });
  const { heads, messages } = fixture.keysOf(room);
  const [, , at] = (await fixture.db.hget(heads, room))!.split(" ");
  const near = "8999999999999999";
  await fixture.db.xadd(messages, `${near}-${at!}`, "f", "ann", "s", "x");
  await fixture.db.hset(heads, room, `${near} ${near} ${at!} 0 0`);
  expect(await chat.send(room, { from: "ann", body: "last" })).toMatchObject({ seq: 9e15 });
  expect((await fixture.db.xrevrange(messages, "+", "-", "COUNT", 1))[0]![0]).toMatch(/^9000000000000000-/);
  expect(await rejection(chat.send(room, { from: "ann", body: "more" }))).toMatchObject({ code: "KIT_CHAT_FULL" });
});
