import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { firstServing } from "@tooling/vitest/helpers";
import { slotOf } from "../src/kernel/base/keyspace.js";
import { connectionsNamed, own, until } from "./harness.js";
import { inboxBehaviour, openInbox, publish } from "./inbox-behaviour.js";

const redis = useRedis(vitest, { mode: "cluster" });

inboxBehaviour(redis);

describe("inbox on a Cluster", () => {
  it("goes to another node when its own is killed", async () => {
    const client = await own(redis);
    for (let key = 0; key < 50; key++) await client.call("EXISTS", `${redis.prefix}:${String(key)}`);
    const inbox = await openInbox(redis, client);
    const [connection] = await connectionsNamed(redis, "kit:inbox");
    const port = Number(connection!.split("#")[0]);
    const index = redis.server.nodes.findIndex((node) => node.port === port);
    let times = 0;
    inbox.onResubscribed(() => times++);
    await redis.server.nodes[index]!.kill();
    // It may be closed for a moment that nobody sees.
    await until(() => times > 0 && inbox.isOpen, 10_000);
    const heard: string[] = [];
    inbox.expect("a", (payload) => heard.push(payload));
    // From a node that lives, whichever it subscribed to.
    const alive = redis.server.nodes.filter((node) => node.port !== port);
    for (const node of alive) await node.call("PUBLISH", inbox.channel, "a\tstill");
    await until(() => heard.length > 0);
    await redis.server.nodes[index]!.start();
    const lost = Array.from({ length: 3_000 }, (_, number) => `${redis.prefix}:${String(number)}`).filter(
      (key) => firstServing(slotOf(key)) === index,
    )[0]!;
    await eventually(() => redis.client.exists(lost), { timeoutMs: 15_000 });
    await publish(redis, inbox, "a\tagain");
    await until(() => heard.includes("again"));
    expect(heard).toContain("still");
  });
});
