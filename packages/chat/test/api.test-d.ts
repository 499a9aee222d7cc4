import type { Redis } from "ioredis";
import type { Redis as Redis5 } from "ioredis5";
import { type Chat, createChat, type DeliveredMessage, type FetchPage } from "../src/index.js";

declare const redis: Redis;
declare const older: Redis5;

interface Line {
  readonly text: string;
}

const chat: Chat<Line> = createChat<Line>(redis);
createChat(older);

export const page: Promise<FetchPage<Line>> = chat.fetch("ann", { token: undefined, limit: 10 });
export const text: Promise<string | undefined> = page.then(({ chats }) => chats[0]?.messages[0]?.body.text);
export const listened: Promise<void> = chat
  .listen("ann")
  .each((message: DeliveredMessage<Line>) => void message.body.text);
// @ts-expect-error a body of another type
void chat.send("room", { from: "ann", body: "text" });
// @ts-expect-error who sends it?
void chat.send("room", { body: { text: "x" } });
// @ts-expect-error no such option
void chat.create("room", { retention: { count: 1 } });
// @ts-expect-error one anchor has a number
void chat.history("room", { before: "1" });
