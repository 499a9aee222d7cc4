import { eventually, type RedisServer, startRedis } from "@kit/testing";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { lateGrants as lockOffers } from "../src/workloads/lock/controls.js";
import { lateGrants as semaphoreOffers } from "../src/workloads/semaphore/controls.js";

/** A script that asks before an offer, and makes none if nobody listens. */
const asking = (keys: readonly string[], lua: Readonly<Record<string, string>>): string =>
  [
    ...keys.map((key, at) => `local ${key} = KEYS[${String(at + 1)}]`),
    ...Object.values(lua),
    "return redis.pcall('PUBSUB', 'NUMSUB', ARGV[1])[2]",
  ].join("\n");

/** Subscribes on one server. */
const listen = async (port: number, channel: string): Promise<{ messages: string[]; end: () => void }> => {
  const client = new Redis(port);
  const messages: string[] = [];
  client.on("message", (_, message) => messages.push(message));
  await client.subscribe(channel);
  return { messages, end: () => client.disconnect() };
};

/** A client of the replica of a server, once that is promoted; and its port. */
const promoted = async (server: RedisServer): Promise<{ client: Redis; port: number }> => {
  const { port } = server.replicas[0]!;
  const client = new Redis(port);
  await eventually(async () => expect(await client.info("replication")).toContain("master_link_status:up"));
  await client.replicaof("NO", "ONE");
  return { client, port };
};

describe("A late offer", () => {
  it("of the lock reaches its waiter with the fencing token of the next grant", async () => {
    await using server = await startRedis({ replicas: 1 });
    const { client, port } = await promoted(server);
    await client.zadd("queue", 1, "first", 2, "second");
    await client.hset("waiters", { first: "9 9 400 there w1", second: "9 9 500 here w2" });
    await client.set("fence", "1:9007199254740000:op");
    const heard = await listen(port, "here");
    const script = asking(["fence", "queue", "waiters"], lockOffers);
    expect(await client.eval(script, 3, "fence", "queue", "waiters", "here")).toBe(0);
    await eventually(() => expect(heard.messages).toHaveLength(1));
    const [head, what, endsAt, ms, fencingToken] = heard.messages[0]?.split("\t") ?? [];
    expect([head, what, ms, fencingToken]).toEqual(["second", "granted", "500", "9007199254740001"]);
    expect(Number(endsAt)).toBeGreaterThan(1_700_000_000_000);
    heard.end();
    client.disconnect();
  });

  it("of the semaphore reaches its waiter, and passes suspended waiters over", async () => {
    await using server = await startRedis({ replicas: 1 });
    const { client, port } = await promoted(server);
    await client.zadd("queue", 0, " 0000000000000001 t1|1||w1", 0, "|99 t2|1||w1");
    await client.hset("waiters", { "#": "2", "t1|1||w1": "9 9 01 400 here", "t2|1||w1": "9 9 02 400 here" });
    const heard = await listen(port, "here");
    const script = asking(["queue", "waiters"], semaphoreOffers);
    expect(await client.eval(script, 2, "queue", "waiters", "here")).toBe(0);
    await eventually(() => expect(heard.messages).toHaveLength(1));
    expect(heard.messages[0]).toMatch(/^t1\tgranted\t\d+\t400$/);
    heard.end();
    client.disconnect();
  });

  it("is none on a server that was not promoted", async () => {
    await using server = await startRedis();
    const client = server.client();
    await client.zadd("queue", 1, "first");
    await client.hset("waiters", { first: "9 9 400 here w1" });
    const heard = await listen(server.nodes[0]?.port ?? 0, "here");
    const script = asking(["fence", "queue", "waiters"], lockOffers);
    expect(await client.eval(script, 3, "fence", "queue", "waiters", "here")).toBe(1);
    await client.publish("here", "last");
    await eventually(() => expect(heard.messages).toEqual(["last"]));
    heard.end();
  });
});
