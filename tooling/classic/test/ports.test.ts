import { useRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import {
  acquireFairSemaphore,
  acquireLockBySet,
  acquireSemaphore,
  acquireSemaphoreWithLock,
  ClassicConfigs,
  classicKeys,
  completeMember,
  createClassicChat,
  enqueue,
  executeLater,
  fetchChatMessages,
  joinGuild,
  moveDueOnce,
  purchaseItem,
  purchaseItemWithItemLock,
  purchaseItemWithLock,
  purchaseItemWithOwnerlessLock,
  type PurchaseResult,
  releaseFairSemaphore,
  releaseLock,
  releaseSemaphore,
  sendChatMessage,
  setConfig,
  updateCounter,
  updateStats,
  updateToken,
  updateTokenPipeline,
  workOnQueuesOnce,
} from "../src/index.js";

/** Each port does its work while nothing fails. Its defects are in its doc comment. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
let prefix: string;
let keys: ReturnType<typeof classicKeys>;
beforeEach(() => {
  prefix = `${redis.prefix}:`;
  keys = classicKeys(prefix);
});

it("the lock keeps four contenders apart and leaves nothing behind", async () => {
  const counter = `${prefix}counter`;
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      const client = redis.connect();
      for (let round = 0; round < 10; round++) {
        const token = (await acquireLockBySet(client, "chest", 20_000, 10, prefix))!;
        await client.set(counter, Number(await client.get(counter)) + 1);
        await releaseLock(client, "chest", token, prefix);
      }
    }),
  );
  expect(await redis.client.get(counter)).toBe("40");
  expect(await redis.client.exists(keys.lock("chest"))).toBe(0);
});

it.each([
  ["basic", acquireSemaphore, releaseSemaphore],
  ["fair", acquireFairSemaphore, releaseFairSemaphore],
  ["with lock", acquireSemaphoreWithLock, releaseFairSemaphore],
])("the semaphore (%s) lets the limit in and no more, and the next once one has left", async (_, acquire, release) => {
  const { client } = redis;
  const first = (await acquire(client, "market", 2, { prefix }))!;
  expect(await acquire(client, "market", 2, { prefix })).not.toBeNull();
  expect(await acquire(client, "market", 2, { prefix })).toBeNull();
  expect(await release(client, "market", first, prefix)).toBe(true);
  expect(await release(client, "market", first, prefix)).toBe(false);
  expect(await acquire(client, "market", 2, { prefix })).not.toBeNull();
});

type Buy = (client: Redis, buyer: string) => Promise<PurchaseResult>;
it.each(
  Object.entries<Buy>({
    WATCH: (client, buyer) => purchaseItem(client, buyer, "lamp", "ada", 97, { prefix }),
    "one lock": (client, buyer) => purchaseItemWithLock(client, buyer, "lamp", "ada", { prefix }),
    "item lock": (client, buyer) => purchaseItemWithItemLock(client, buyer, "lamp", "ada", { prefix }),
    ownerless: (client, buyer) => purchaseItemWithOwnerlessLock(client, buyer, "lamp", "ada", 97, { prefix }),
  }),
)("the market (%s) sells one item once to ten buyers, for its price", async (_, buy) => {
  const buyers = Array.from({ length: 10 }, (_, index) => `buyer-${index}`);
  await redis.client.zadd(keys.market, 97, keys.marketMember("lamp", "ada"));
  for (const buyer of buyers) await redis.client.hset(keys.user(buyer), "funds", 100);
  const results = await Promise.all(buyers.map((buyer) => buy(redis.connect(), buyer)));
  expect(results.filter(({ outcome }) => outcome === "bought")).toHaveLength(1);
  expect(await redis.client.hget(keys.user("ada"), "funds")).toBe("97");
  const funds = await Promise.all(buyers.map((buyer) => redis.client.hget(keys.user(buyer), "funds")));
  expect(funds.filter((left) => left === "3")).toHaveLength(1);
});

it("the chat gives each member new messages once, and drops messages that all have", async () => {
  const fetched = async (user: string): Promise<string[]> =>
    (await fetchChatMessages(redis.client, user, prefix)).flatMap(({ messages }) => messages.map((one) => one.message));
  const chat = await createClassicChat(redis.client, "ann", ["bob"], "one", undefined, { prefix });
  expect(await sendChatMessage(redis.client, chat, "bob", "two", { prefix })).toBe(2);
  expect([await fetched("bob"), await fetched("bob"), await fetched("ann")]).toEqual([
    ["one", "two"],
    [],
    ["one", "two"],
  ]);
  expect(await redis.client.zcard(keys.chatMessages(chat))).toBe(0);
});

it("the guild completes the names of its members, ten at most, and leaves no mark", async () => {
  const names = Array.from("abcdefghijkl", (letter) => `ab${letter}`);
  for (const name of [...names, "ac"]) await joinGuild(redis.client, "guild", name, prefix);
  expect(await completeMember(redis.client, "guild", "ab", prefix)).toEqual(names.slice(0, 10));
  expect(await redis.client.zcard(keys.guild("guild"))).toBe(13);
});

it("the configuration is read again once the wait is over", async () => {
  const configs = new ClassicConfigs(redis.client, prefix);
  for (const port of [1, 2]) {
    await setConfig(redis.client, "search", "web", { port }, prefix);
    expect(await configs.get("search", "web", -1)).toEqual({ port });
  }
});

it("the queue runs a job, and a delayed one after its move", async () => {
  const ran: unknown[] = [];
  const run = (): Promise<boolean> =>
    workOnQueuesOnce(redis.client, ["work"], { job: (data: unknown) => void ran.push(data) }, { prefix });
  await enqueue(redis.client, "work", "job", ["now"], prefix);
  await run();
  await executeLater(redis.client, "work", "job", ["later"], 1, { prefix, now: () => 0 });
  expect(await moveDueOnce(redis.client, { prefix })).toBe(true);
  expect([ran, await redis.client.llen(keys.queue("work"))]).toEqual([["now"], 1]);
});

describe.each([
  ["plain commands", updateToken],
  ["pipeline", updateTokenPipeline],
])("the login token (%s)", (_, update) => {
  it("remembers user, viewed item and view count", async () => {
    for (let view = 0; view < 2; view++) await update(redis.client, "token", "ada", "lamp", prefix);
    expect(await redis.client.hget(keys.login, "token")).toBe("ada");
    expect(await redis.client.zrange(keys.viewed("token"), "0", "-1")).toEqual(["lamp"]);
    expect(await redis.client.zscore(keys.views, "lamp")).toBe("-2");
  });
});

it("counters and statistics add up", async () => {
  for (let hit = 0; hit < 3; hit++) await updateCounter(redis.client, "hits", { prefix, now: 90 });
  expect(await redis.client.hgetall(keys.counter(60, "hits"))).toEqual({ 60: "3" });
  await updateStats(redis.client, "shop", "cart", 2, { prefix });
  expect(await updateStats(redis.client, "shop", "cart", 3, { prefix })).toEqual([2, 5, 13]);
});
