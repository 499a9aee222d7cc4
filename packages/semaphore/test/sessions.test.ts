import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { createSemaphore } from "../src/index.js";
import { semaphoreKeys } from "../src/keys.js";

const redis = useRedis(vitest);

/** Web sessions: one permit each, never renewed, 5 for each user. */
const sessions = 20_000;
const leaseMs = 600_000;

/** How many commands all scripts have run inside the server. */
const commandsInScripts = async (): Promise<number> => {
  const stats = await redis.client.info("commandstats");
  return [...stats.matchAll(/cmdstat_([\w|]+):calls=(\d+)/g)]
    .filter(([, name]) => !["info", "evalsha", "eval", "hello", "client|setinfo"].includes(name!))
    .reduce((sum, [, , calls]) => sum + Number(calls), 0);
};

it("lets users return when thousands of sessions have died: null means full, and each call does a bounded part", async () => {
  const db = redis.client;
  const web = createSemaphore(redis.client, "web", {
    prefix: redis.prefix,
    permits: 1_000_000,
    permitsPerTenant: 5,
    leaseMs,
    renew: false,
  });
  const { permits, meta } = semaphoreKeys(redis.prefix, "web");
  const signIn = async (user: string): Promise<boolean> => {
    const permit = await web.tryAcquire({ tenant: user });
    permit?.handOver();
    return permit !== null;
  };
  const all = async (users: readonly string[]): Promise<void> => {
    for (let at = 0; at < users.length; at += 500)
      expect(await Promise.all(users.slice(at, at + 500).map(signIn))).not.toContain(false);
  };
  const users = Array.from({ length: sessions }, (_, index) => `user-${String(index)}`);
  await all([...users, ...Array.from({ length: 5 }, () => "bob")]);
  expect(await signIn("bob")).toBe(false);
  // All of them end; Bob's are the last that a call would come across.
  await db.eval(
    "for i, row in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf')) do redis.call('ZADD', KEYS[1], string.find(row, '|bob|') and 2 or 1, row) end",
    1,
    permits,
  );

  const fields = await db.hlen(meta);
  const before = await commandsInScripts();
  const { calls } = await countedCalls(async () => expect(await signIn("bob")).toBe(true));
  // One call of about thirty commands, whatever has died: it drops Bob's own, and 200 others.
  expect(calls).toBe(1);
  expect((await commandsInScripts()) - before).toBeLessThan(40);
  expect(await db.zcount(permits, "(0", "+inf")).toBe(sessions - 200 + 1);
  const refused = await countedCalls(async () => {
    await all(Array.from({ length: 4 }, () => "bob"));
    expect(await signIn("bob")).toBe(false);
  });
  expect(refused.calls).toBe(5);
  expect(await db.zcount(permits, "(0", "+inf")).toBeGreaterThan(sessions - 6 * 200);

  await all(users);
  expect([await db.zcount(permits, "(0", "+inf"), await db.hlen(meta)]).toEqual([sessions + 5, fields]);
  expect(await web.inspect({ tenant: "user-7" })).toMatchObject({ used: 1, free: 4 });
  // The counts expire with the permits.
  await db.pexpire(permits, 0);
  expect(await db.keys(`${redis.prefix}:*`)).toEqual([meta]);
  expect(await signIn("bob")).toBe(true);
  await web.close();
});

/** Runs an action, and returns how many scripts the server ran for it. */
async function countedCalls(action: () => Promise<unknown>): Promise<{ readonly calls: number }> {
  const scriptCalls = async (): Promise<number> =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.client.info("commandstats"))?.[1] ?? 0);
  const before = await scriptCalls();
  await action();
  return { calls: (await scriptCalls()) - before };
}
