import type { Redis } from "ioredis";
import { beforeEach, describe, expect, it } from "vitest";
import {
  classicKeys,
  createClassicChat,
  fetchChatMessages,
  joinClassicChat,
  leaveClassicChat,
  lookIntoMailbox,
  mail,
  popMail,
  sendChatMessage,
} from "../src/index.js";
import { useClassic } from "./harness.js";

const classic = useClassic();
let redis: Redis;
let prefix: string;

beforeEach(async () => {
  redis = await classic.connect();
  prefix = classic.prefix;
});

const textsOf = async (user: string): Promise<string[]> =>
  (await fetchChatMessages(redis, user, prefix)).flatMap(({ messages }) => messages.map(({ message }) => message));

describe("the classic chat", () => {
  it("gives each member new messages once, and drops messages that all have", async () => {
    const chat = await createClassicChat(redis, "ann", ["bob"], "one", undefined, { prefix, now: () => 5_000 });
    expect(await sendChatMessage(redis, chat, "bob", "two", { prefix })).toBe(2);
    expect((await fetchChatMessages(redis, "bob", prefix))[0]).toMatchObject({
      chat: "1",
      messages: [{ id: 1, ts: 5, sender: "ann", message: "one" }, { id: 2 }],
    });
    expect(await textsOf("bob")).toEqual([]);
    expect(await redis.zcard(classicKeys(prefix).chatMessages(chat))).toBe(2);
    expect(await textsOf("ann")).toEqual(["one", "two"]);
    expect(await redis.zcard(classicKeys(prefix).chatMessages(chat))).toBe(0);
  });

  it("lets a member join at the end and leave, and goes with its last member", async () => {
    const chat = await createClassicChat(redis, "ann", ["bob"], "one", "room", { prefix });
    await joinClassicChat(redis, chat, "carl", prefix);
    await sendChatMessage(redis, chat, "ann", "two", { prefix });
    expect(await textsOf("carl")).toEqual(["two"]);
    for (const user of ["ann", "bob", "carl"]) await leaveClassicChat(redis, chat, user, prefix);
    expect(await redis.keys(`${prefix}*`)).toEqual([]);
  });

  it("sends by six round trips, besides the connection's own", async () => {
    const { redis: counted, proxy } = await classic.connectThroughProxy();
    await sendChatMessage(counted, "room", "ann", "one", { prefix });
    expect(proxy.requests).toBe(6);
  });
});

it("the classic mailbox gives its messages in order, and their number", async () => {
  await mail(redis, "bob", "ann", "one", prefix);
  await mail(redis, "bob", "ann", "two", prefix);
  expect(await lookIntoMailbox(redis, "bob", prefix)).toBe(2);
  expect(await popMail(redis, "bob", prefix)).toEqual({ sender: "ann", message: "one" });
  expect(await popMail(redis, "bob", prefix)).toMatchObject({ message: "two" });
  expect(await popMail(redis, "bob", prefix)).toBeNull();
});
