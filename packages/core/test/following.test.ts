import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { Redis } from "ioredis";
import { eventually, FaultProxy, type RedisNode, startRedis, useRedis } from "@kit/testing";
import type { Connection } from "../src/connect/connect.js";
import { attach } from "../src/kernel/context/context.js";
import { optimistic } from "../src/transaction/optimistic.js";
import { Deadline } from "../src/kernel/base/deadline.js";
import { opened, own, proxied, until } from "./harness.js";
import { openInbox } from "./inbox-behaviour.js";

const redis = useRedis(vitest);

const roleOf = async (node: Pick<RedisNode, "call">): Promise<unknown> => ((await node.call("ROLE")) as unknown[])[0];

const connectionsTo = async (node: RedisNode, name: string): Promise<number> =>
  String(await node.call("CLIENT", "LIST"))
    .split("\n")
    .filter((line) => line.includes(` name=${name}`)).length;

interface Site {
  /** Of the address. */
  readonly port: number;
  readonly former: RedisNode;
  readonly next: RedisNode;
  readonly client: Connection;
  /** The address leads to another master, whose replica the former one becomes; its connections stay open. */
  failOver(): Promise<void>;
}

/** A master and its replica behind one address, and a client of ours. `user`: its login. */
const aSite = async (user = ""): Promise<Site> => {
  const server = await startRedis({ replicas: 1 });
  redis.defer(() => server.stop());
  const [former, next] = [server.nodes[0]!, server.replicas[0]!];
  if (user !== "")
    for (const node of [former, next])
      await node.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
  const proxy = await FaultProxy.start({ port: former.port });
  redis.defer(() => proxy.close());
  const client = await own(redis, { url: proxy.url.replace("redis://", `redis://${user}`) });
  return {
    former,
    next,
    client,
    port: proxy.port,
    failOver: async () => {
      proxy.redirect(next.port);
      await former.call("FAILOVER", "TO", "127.0.0.1", String(next.port));
      await eventually(async () => expect([await roleOf(former), await roleOf(next)]).toEqual(["slave", "master"]));
    },
  };
};

/** A write that is refused lets a client of ours connect anew. */
const write = async (client: Connection): Promise<void> =>
  await eventually(async () => void (await attach(client).executor.run("SET", ["moved", "1"], patient())));

const patient = () => ({ what: "SET", mutates: true, idempotent: true, deadline: Deadline.in(10_000) });

describe("behind one address, after a failover whose former master lives on", () => {
  it.each([
    ["who its server is", ""],
    ["not who its server is", "ada:pw@"],
  ])("the inbox goes where the client's commands go; the user may ask %s", async (_, user) => {
    const { former, next, client, failOver } = await aSite(user);
    const inbox = await openInbox(redis, client);
    await failOver();
    expect([await connectionsTo(former, "kit:inbox"), await connectionsTo(next, "kit:inbox")]).toEqual([1, 0]);
    await write(client);
    await eventually(async () => {
      expect([await connectionsTo(former, "kit:inbox"), await connectionsTo(next, "kit:inbox")]).toEqual([0, 1]);
      expect(inbox.isOpen).toBe(true);
    });
  });

  it("an inbox on a borrowed client that stays goes where the address leads", async () => {
    const { former, next, port, failOver } = await aSite();
    const client = new Redis(port, { retryStrategy: () => 20 });
    redis.defer(() => client.disconnect());
    await client.ping();
    const context = attach(client, { prefix: redis.prefix });
    redis.defer(() => context.detach());
    await failOver();
    // The client has sent nothing since: it is still with the former master, and only its owner may end that.
    expect(await opened(context.inbox, 20_000)).toBe(true);
    expect(await roleOf({ call: (command) => client.call(command) })).toBe("slave");
    expect([await connectionsTo(former, "kit:inbox"), await connectionsTo(next, "kit:inbox")]).toEqual([0, 1]);
  });

  it("a client of ours leaves a former master that refuses a command of its owner", async () => {
    const { next, client, failOver } = await aSite();
    await client.set("moved", "1");
    await failOver();
    await eventually(async () => expect(await client.set("moved", "2")).toBe("OK"));
    expect(await next.call("GET", "moved")).toBe("2");
  });

  it("a client of ours that only reads follows a connection that is opened again", async () => {
    const { former, next, client, failOver } = await aSite();
    const context = attach(client, { prefix: redis.prefix });
    redis.defer(() => context.detach());
    await failOver();
    await former.call("REPLICAOF", "127.0.0.1", "1");
    await next.call("SET", "stock", "99");
    expect(await client.get("stock")).toBeNull();
    expect(await opened(context.inbox, 20_000)).toBe(true);
    // Not at once: it connects anew.
    await eventually(async () => expect(await client.get("stock")).toBe("99"));
  });

  it("transactions read what the client reads, and not a former master", async () => {
    const { former, client, failOver } = await aSite();
    const context = attach(client, { prefix: redis.prefix });
    redis.defer(() => context.detach());
    const look = async (): Promise<unknown> =>
      (await optimistic(client, ["stock"], (transaction) => transaction.call("GET", "stock"))).value;
    await client.set("stock", "5");
    await Promise.all([look(), look(), look()]);
    await failOver();
    await write(client);
    // As when it is being retired: it is nobody's replica any more.
    await former.call("REPLICAOF", "127.0.0.1", "1");
    await client.set("stock", "99");
    expect(await Promise.all([look(), look(), look(), look()])).toEqual(["99", "99", "99", "99"]);
  });

  it("a client of ours whose address leads to any of several replicas stays where it is", async () => {
    const server = await startRedis({ replicas: 2 });
    redis.defer(() => server.stop());
    const [one, another] = [server.replicas[0]!, server.replicas[1]!];
    const proxy = await FaultProxy.start({ port: one.port });
    redis.defer(() => proxy.close());
    const client = await own(redis, { url: proxy.url });
    const context = attach(client, { prefix: redis.prefix });
    redis.defer(() => context.detach());
    const id = await client.call("CLIENT", "ID");
    proxy.redirect(another.port);
    expect(await opened(context.inbox, 20_000)).toBe(true);
    expect(await connectionsTo(another, "kit:inbox")).toBe(1);
    expect(await client.call("CLIENT", "ID")).toBe(id);
    expect(String(await client.call("INFO", "server"))).toContain(`tcp_port:${String(one.port)}`);
  });

  it("a connection for blocking reads that is checked out ends, so that its borrower takes another", async () => {
    const { client, failOver } = await aSite();
    const context = attach(client, { prefix: redis.prefix });
    redis.defer(() => context.detach());
    const connection = await context.pool("wait").checkOut("jobs", Deadline.in(5_000), undefined);
    const blocked = connection.call("XREAD", ["BLOCK", "0", "STREAMS", "jobs", "$"], 600_000).catch(String);
    await failOver();
    await write(client);
    // The server may end it first, as its role changes.
    expect(await blocked).toMatch(/did not answer in time|UNBLOCKED/);
    expect(connection.isBroken).toBe(true);
  });

  it("a copy of the client (isolate) follows it, even when it only reads", async () => {
    const { former, next, client, failOver } = await aSite();
    const context = attach(client, { prefix: redis.prefix, isolate: true });
    redis.defer(() => context.detach());
    const run = (): Promise<unknown> => context.executor.run("GET", ["moved"], { ...patient(), mutates: false });
    await run();
    await context.executor.run("CLIENT", ["SETNAME", "copy"], patient());
    expect(await connectionsTo(former, "copy")).toBe(1);
    await failOver();
    await write(client);
    await eventually(async () => expect(await connectionsTo(former, "copy")).toBe(0));
    await former.call("REPLICAOF", "127.0.0.1", "1");
    await next.call("SET", "moved", "2");
    expect(await run()).toBe("2");
  });
});

describe("an inbox that nobody needs at the moment", () => {
  it("is replaced when it has gone silent", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const inbox = await openInbox(redis, client);
    const resubscribed = new Promise<void>((resolve) => void inbox.onResubscribed(resolve));
    proxy.down.hole = true;
    // No call of ours: the connection is looked at by itself.
    await until(() => proxy.stats.droppedBytes > 0);
    proxy.down.hole = false;
    await resubscribed;
    expect(inbox.isOpen).toBe(true);
  });
});
