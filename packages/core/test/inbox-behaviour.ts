import type { RedisMode, TestRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import type { RedisLike } from "../src/kernel/connection/client.js";
import { health } from "../src/connect/health.js";
import type { Inbox } from "../src/kernel/context/inbox.js";
import { attach } from "../src/kernel/context/context.js";
import { connectionsNamed, opened, until } from "./harness.js";

/** The inbox of a context on `client`, let go after the test. */
export const openInbox = async (redis: TestRedis<RedisMode>, client: RedisLike, isOpen = true): Promise<Inbox> => {
  const context = attach(client, { prefix: redis.prefix });
  redis.defer(() => context.detach());
  if (isOpen && !(await opened(context.inbox, 5_000))) throw new Error("the inbox did not open");
  return context.inbox;
};

export const publish = (redis: TestRedis<RedisMode>, inbox: Inbox, message: string): Promise<unknown> =>
  redis.server.call("PUBLISH", inbox.channel, message);

/** For a single server and for a Cluster. */
export const inboxBehaviour = (redis: TestRedis<RedisMode>): void => {
  describe("inbox: delivery", () => {
    it("delivers each message to who expects its id, and to nobody else", async () => {
      const inbox = await openInbox(redis, redis.client);
      const heard: string[] = [];
      inbox.expect("a", (payload) => heard.push(`a ${payload}`));
      inbox.expect("b", (payload) => heard.push(`b ${payload}`));
      inbox.expect("c", (payload) => heard.push(`c ${payload}`));
      inbox.forget("c");
      for (const message of ["b\t1", "x\t1", "a\tmore\ttabs", "c\t1", "no tab", "", "a\t", "a\té😀\n"])
        await publish(redis, inbox, message);
      await until(() => heard.length >= 4);
      expect(heard).toEqual(["b 1", "a more\ttabs", "a ", "a é😀\n"]);
    });

    it("uses one connection for one client, opened on first use, and none after the last release", async () => {
      const client = redis.connect();
      const first = attach(client, { prefix: redis.prefix });
      const second = attach(client, { prefix: redis.prefix });
      expect(second).toBe(first);
      expect(await connectionsNamed(redis, "kit:inbox")).toHaveLength(0);
      expect(first.inbox.state).toBeUndefined();
      await Promise.all([opened(first.inbox, 5_000), opened(second.inbox, 5_000)]);
      expect(await connectionsNamed(redis, "kit:inbox")).toHaveLength(1);
      expect((await health(first)).pushes).toBe("open");
      first.detach();
      expect(first.inbox.isOpen).toBe(true);
      second.detach();
      await until(async () => (await connectionsNamed(redis, "kit:inbox")).length === 0);
      await expect(opened(first.inbox, 100)).rejects.toMatchObject({ code: "KIT_CLOSED" });
    });

    it("receives its channel also on a client with a key prefix", async () => {
      const client = redis.connect({ keyPrefix: "app:" });
      await client.ping();
      const inbox = await openInbox(redis, client);
      const heard: string[] = [];
      inbox.expect("a", (payload) => heard.push(payload));
      await publish(redis, inbox, "a\t1");
      await until(() => heard.length === 1);
      expect(inbox.channel.startsWith(`${redis.prefix}:inbox:`)).toBe(true);
    });

    it("is its own channel for each prefix and each client", async () => {
      const channels = [redis.client, redis.client, redis.connect()].map((client, index) => {
        const context = attach(client, { prefix: `${redis.prefix}${String(index)}` });
        redis.defer(() => context.detach());
        return context.inbox.channel;
      });
      expect(new Set(channels).size).toBe(3);
    });

    it("survives answers to its pings in subscriber mode", async () => {
      const inbox = await openInbox(redis, redis.client);
      await Promise.all([inbox.check(), inbox.check(), inbox.check()]);
      expect(inbox.isOpen).toBe(true);
    });
  });
};
