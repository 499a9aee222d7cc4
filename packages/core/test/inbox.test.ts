import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { FaultProxy, startRedis, useRedis } from "@kit/testing";
import { health } from "../src/connect/health.js";
import { attach } from "../src/kernel/context/context.js";
import { inboxBehaviour, openInbox, publish } from "./inbox-behaviour.js";
import { connectionsNamed, opened, own, proxied, until } from "./harness.js";

const redis = useRedis(vitest);

inboxBehaviour(redis);

describe("inbox", () => {
  it("subscribes again after each of thirty CLIENT KILLs, and reports it each time", async () => {
    const client = await own(redis);
    const inbox = await openInbox(redis, client);
    let resubscribed = 0;
    inbox.onResubscribed(() => resubscribed++);
    for (let round = 1; round <= 30; round++) {
      await redis.server.call("CLIENT", "KILL", "TYPE", "pubsub");
      await until(() => resubscribed >= round && inbox.isOpen);
    }
    expect(resubscribed).toBe(30);
    const heard: string[] = [];
    inbox.expect("a", (payload) => heard.push(payload));
    await publish(redis, inbox, "a\tstill");
    await until(() => heard.length === 1);
  });

  it("stays closed when it is closed while it opens", async () => {
    const client = await own(redis);
    for (let round = 0; round < 10; round++) {
      const context = attach(client, { prefix: `${redis.prefix}${String(round)}` });
      context.inbox.start();
      setTimeout(() => context.detach(), round / 2);
      await until(() => context.inbox.state === undefined);
      expect(context.inbox.isOpen).toBe(false);
    }
    await until(async () => (await connectionsNamed(redis, "kit:inbox")).length === 0);
  });

  it("replaces a silent connection when asked to check", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const inbox = await openInbox(redis, client);
    await inbox.check();
    expect(inbox.isOpen).toBe(true);
    const resubscribed = new Promise<void>((resolve) => void inbox.onResubscribed(resolve));
    proxy.down.hole = true;
    const checking = inbox.check();
    await checking;
    expect(inbox.isOpen).toBe(false);
    proxy.heal();
    await resubscribed;
    expect(inbox.isOpen).toBe(true);
  });

  it("does not wait forever for a subscription that is never confirmed", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const inbox = await openInbox(redis, client, false);
    // New connections are silent from their first byte; only a later one works.
    proxy.down.hole = true;
    expect(await opened(inbox, 200)).toBe(false);
    expect(inbox.state).toBe("down");
    proxy.down.hole = false;
    // The silent connection itself is never reset: we have to give it up.
    expect(await opened(inbox, 20_000)).toBe(true);
  });

  it("gives up a connection whose subscription alone is never confirmed", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const inbox = await openInbox(redis, client, false);
    // Requests take a second, so that between the handshake and SUBSCRIBE there is time to go silent.
    proxy.up.latencyMs = 1_000;
    const opening = opened(inbox, 2_500);
    await until(async () => (await connectionsNamed(redis, "kit:inbox")).length === 1);
    proxy.down.hole = true;
    expect(await opening).toBe(false);
    proxy.up.latencyMs = 0;
    proxy.down.hole = false;
    expect(await opened(inbox, 20_000)).toBe(true);
  });

  it("reports that channels are forbidden to its user, and opens when a right is granted later", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "resetchannels", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = await own(redis, { url: redis.url.replace("redis://", "redis://ada:pw@") });
    const inbox = await openInbox(redis, client);
    expect([inbox.isOpen, inbox.isForbidden, inbox.state]).toEqual([false, true, "forbidden"]);
    const states: string[] = [];
    inbox.listen(`${redis.prefix}:news`, { message: () => undefined, state: (state) => states.push(state) });
    await until(() => states.length > 0);
    await redis.server.call("ACL", "SETUSER", "ada", `&${inbox.channel}`);
    await until(() => inbox.isOpen);
    await redis.server.call("ACL", "SETUSER", "ada", "allchannels");
    await until(() => states.length > 1);
    expect(states).toEqual(["forbidden", "open"]);
    inbox.close();
    await client.close();
  });

  it("backs off from a server that lets nobody in, and opens when it does", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await own(redis, { url: proxy.url });
    proxy.refuse = true;
    const inbox = await openInbox(redis, client, false);
    expect(await opened(inbox, 1_500)).toBe(false);
    expect(proxy.stats.refused).toBeLessThan(40);
    await until(() => proxy.stats.refused > 2);
    proxy.refuse = false;
    expect(await opened(inbox, 20_000)).toBe(true);
  });

  it("shows in the health of its client", async () => {
    const client = await own(redis);
    expect((await health(client)).pushes).toBeUndefined();
  });
});
