import { contract, useRedis } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";
import { fixtureOf, permanentKeys, room } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
onMovingSlots(redis, scripts);

it("keeps the contract of scripts", async () => {
  expect(await contract(scripts, redis.server)).toEqual([]);
});

it("a repeat of a send gets its refusals, though there is room by now, and another call with its client ids does not", async () => {
  const chat = fixture.make();
  await chat.create(room, {
    members: ["ann", "eve"],
    whenFull: "refuse",
    retain: { count: 1, readByAll: true },
    maxBodyBytes: 9,
  });
  const send = async (call: string, ...messages: (readonly [from: string, clientId: string, body: string])[]) => {
    const members = messages.map(([from]) => fixture.memberKey(room, from));
    const items = messages.map(([from, clientId, body]) => ({ from, clientId, kind: "s", body }));
    const args = { chat: room, call, items };
    const { sent } = await scripts.send.run(redis.client, { ...fixture.keysOf(room), members }, args);
    return sent.map(({ code, seq }) => [code, seq]);
  };
  const batch = [
    ["ann", "1", "one"],
    ["ann", "2", "two"],
    ["bob", "3", "no member"],
    ["ann", "4", "far too large"],
  ] as const;
  const refusals = [
    [4, 0],
    [2, 0],
    [3, 9],
  ];
  expect(await send("caller 1", ...batch)).toEqual([[0, 1], ...refusals]);
  // A call with no other message, too.
  expect(await send("other 1", ["ann", "5", "five"])).toEqual([[4, 0]]);
  await chat.ack("eve", { chat: room, seq: 1 });
  await chat.join(room, "bob");
  await redis.client.hset(fixture.keysOf(room).meta, "config", "9 0 0 1 1 0 1000 0 0 600000");
  expect(await send("caller 1", ...batch)).toEqual([[5, 1], ...refusals.with(2, [3, 1_000])]);
  expect(await send("other 1", ["ann", "5", "five"])).toEqual([[4, 0]]);
  expect((await chat.inspect(room)).head).toBe(1);
  expect((await send("caller 2", ...batch)).map(([code]) => code)).toEqual([5, 0, 0, 0]);
  expect(await send("other 2", ["ann", "5", "five"])).toEqual([[0, 5]]);
});
