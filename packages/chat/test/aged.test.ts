import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat, CreateOptions } from "../src/index.js";
import { fixtureOf, permanentKeys, room, sendMany, seqsOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const ageMs = 60_000;

/** A chat of which all messages are too old, and have expired. */
const aged = async (options: CreateOptions = {}): Promise<Chat> => {
  const chat = fixture.make();
  await chat.create(room, { members: ["ann", "bob"], ...options, retain: { ageMs, ...options.retain } });
  await sendMany(chat, "ann", 2);
  const { heads, messages } = fixture.keysOf(room);
  const [head, floor, at, ...rest] = (await fixture.db.hget(heads, room))!.split(" ");
  await fixture.db.hset(heads, room, [head, floor, Number(at) - 10 * ageMs, ...rest].join(" "));
  await fixture.db.del(messages);
  return chat;
};

describe("a chat of which all messages were too old", () => {
  it.each<[string, CreateOptions]>([
    ["by age alone", {}],
    ["by age and bytes", { retain: { bytes: 100_000 } }],
    ["that refuses", { retain: { count: 2 }, whenFull: "refuse" }],
    ["that refuses by bytes", { retain: { bytes: 4 }, whenFull: "refuse", maxBodyBytes: 4 }],
  ])("counts the next one alone, and says that retention dropped the others: %s", async (_, options) => {
    const chat = await aged(options);
    const { token } = await chat.fetch("bob");
    expect(await chat.send(room, { from: "ann", body: "new" })).toMatchObject({ seq: 3 });
    const page = await chat.fetch("bob");
    expect(page.chats).toMatchObject([{ unread: 1, gap: { from: 1, to: 2, reason: "retention" }, reset: undefined }]);
    expect(seqsOf(page)).toEqual([3]);
    expect(seqsOf(await chat.fetch("bob", { token }))).toEqual([3]);
    expect(await chat.unread("bob")).toEqual(new Map([[room, 1]]));
    expect(await chat.inspect(room)).toMatchObject({ head: 3, messages: 1 });
  });

  it("is done with once its gap was fetched with autoAck", async () => {
    const chat = await aged();
    expect((await chat.fetch("bob", { autoAck: true })).chats).toMatchObject([
      { messages: [], gap: { from: 1, to: 2 } },
    ]);
    expect((await chat.fetch("bob", { autoAck: true })).chats).toEqual([]);
    expect(await chat.wait("bob", { waitMs: 50 })).toBe(false);
  });
});
