import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import type { Inbox } from "../src/kernel/context/inbox.js";
import { createConfig } from "../src/config/index.js";
import { openInbox } from "./inbox-behaviour.js";
import { own, proxied, until } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{/] });

const listen = (
  inbox: Inbox,
  name: string,
): { readonly heard: string[]; readonly states: string[]; readonly stop: () => void } => {
  const [heard, states]: [string[], string[]] = [[], []];
  const stop = inbox.listen(name, { message: (text) => heard.push(text), state: (state) => states.push(state) });
  redis.defer(stop);
  return { heard, states, stop };
};
const publish = (name: string, text: string): Promise<number> => redis.client.publish(name, text);

describe("channels of the inbox", () => {
  it("bring each message to everyone who listens, until they stop", async () => {
    const inbox = await openInbox(redis, redis.connect(), false);
    const [a, b] = [listen(inbox, "one"), listen(inbox, "one")];
    const other = listen(inbox, "two");
    await until(() => [a, b, other].every(({ states }) => states.length === 1));
    await publish("one", "1");
    await publish("two", "2");
    await until(() => other.heard.length === 1);
    expect([a.heard, b.heard, other.heard]).toEqual([["1"], ["1"], ["2"]]);
    a.stop();
    a.stop();
    expect(await publish("one", "3")).toBe(1);
    await until(() => b.heard.length === 2);
    b.stop();
    await until(async () => (await publish("one", "4")) === 0);
    const again = listen(inbox, "one");
    await until(() => again.states.includes("open"));
    expect(await publish("one", "5")).toBe(1);
    await until(() => again.heard.length === 1);
    expect([a.heard, again.heard]).toEqual([["1"], ["5"]]);
    const late = listen(inbox, "one");
    await until(() => late.states.length === 1);
    expect(late.states).toEqual(["open"]);
  });

  it("say when they are lost, and when they are there again", async () => {
    const inbox = await openInbox(redis, redis.connect());
    const { states, heard } = listen(inbox, "one");
    await until(() => states.length === 1);
    await redis.server.call("CLIENT", "KILL", "TYPE", "pubsub");
    await until(() => states.length === 3);
    expect(states).toEqual(["open", "down", "open"]);
    await publish("one", "1");
    await until(() => heard.length === 1);
  });

  it("are forbidden one by one", async () => {
    await redis.server.call("ACL", "SETUSER", "half", "on", ">pw", "~*", "resetchannels", "&open:*", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "half"));
    const client = await own(redis, { url: redis.url.replace("redis://", "redis://half:pw@") });
    const inbox = await openInbox(redis, client);
    const [open, shut] = [listen(inbox, "open:1"), listen(inbox, "shut:1")];
    await until(() => open.states.length === 1 && shut.states.length === 1);
    expect([open.states, shut.states, inbox.isForbidden]).toEqual([["open"], ["forbidden"], true]);
    await publish("open:1", "1");
    await until(() => open.heard.length === 1);
    inbox.close();
    await client.close();
  });

  it("are heard again after their connection went silent, even where the inbox itself is forbidden", async () => {
    await redis.server.call("ACL", "SETUSER", "half", "on", ">pw", "~*", "resetchannels", "&open:*", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "half"));
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url.replace("redis://", "redis://half:pw@") });
    const inbox = await openInbox(redis, client);
    const { states, heard } = listen(inbox, "open:1");
    await until(() => states.length === 1);
    expect(inbox.isForbidden).toBe(true);
    proxy.down.hole = true;
    await inbox.check();
    expect(states).toEqual(["open", "down"]);
    // Without a reset: the silent connection stays as it is.
    proxy.down.hole = false;
    await until(() => states.length === 3);
    await publish("open:1", "1");
    await until(() => heard.length === 1);
    expect(states).toEqual(["open", "down", "open"]);
    await client.close();
  });
});

it("a user that may do what the README says, and no more, can follow and write", async () => {
  const commands =
    "+evalsha +eval +ping +hmget +hget +hset +exists +lrange +lpush +ltrim +time +publish +subscribe +unsubscribe";
  const rules = [
    "on",
    ">pw",
    `~${redis.prefix}:config:*`,
    "resetchannels",
    `&${redis.prefix}:config:*`,
    "-@all",
    ...commands.split(" "),
  ];
  await redis.server.call("ACL", "SETUSER", "least", ...rules);
  redis.defer(() => redis.server.call("ACL", "DELUSER", "least"));
  const client = await own(redis, { url: redis.url.replace("redis://", "redis://least:pw@") });
  const config = createConfig<number>(client, "n", { prefix: redis.prefix, default: 0 });
  const other = createConfig<number>(redis.client, "n", { prefix: redis.prefix, default: 0 });
  redis.defer(() => other.close());
  const errors: unknown[] = [];
  config.on("error", (error) => errors.push(error));
  await Promise.all([config.ready(), other.ready()]);
  await config.set(1);
  await until(() => other.current === 1);
  await other.set(2);
  await until(() => config.current === 2);
  expect([(await config.history()).length, config.state, errors]).toEqual([2, "fresh", []]);
  await config.close();
  await client.close();
});
