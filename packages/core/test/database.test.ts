import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { durable } from "../src/durable/durable.js";
import { replicaReads } from "../src/durable/replica-reads.js";
import { Deadline } from "../src/kernel/base/deadline.js";
import { attach } from "../src/kernel/context/context.js";
import { reading } from "../src/kernel/execution/executor.js";
import { optimistic } from "../src/transaction/optimistic.js";
import { own, until } from "./harness.js";
import { addOnce } from "./scripts.js";

const redis = useRedis(vitest, { replicas: 1 });

const stored = async (db: number): Promise<unknown> => {
  const client = redis.connect({ db });
  const value = await client.get(redis.prefix);
  await client.del(redis.prefix);
  return value;
};

const clients = async () => [redis.connect(), await own(redis)] as const;

describe("after select() by its owner, on a client", () => {
  it("transactions and durable writes go to that database, also on connections that were open", async () => {
    const write = (name: string) => async (call: (...args: [string, ...string[]]) => unknown) => {
      await call("SET", redis.prefix, name, "PX", "60000");
    };
    for (const client of await clients()) {
      const context = attach(client);
      redis.defer(() => context.detach());
      for (const db of [0, 3, 1]) {
        await client.select(db);
        await optimistic(context, [redis.prefix], (tx) => write("transaction")((...args) => tx.queue(...args)));
        expect([db, await stored(db)]).toEqual([db, "transaction"]);
        await durable(client, { key: redis.prefix }, (scope) => write("durable")((...args) => scope.call(...args)));
        expect([db, await stored(db)]).toEqual([db, "durable"]);
      }
    }
  });

  it("a copy by `isolate` goes there as well, connected or not: what one holds is held for the other", async () => {
    for (const client of await clients()) {
      await client.select(4);
      const plain = attach(client);
      const copy = attach(client, { isolate: true });
      redis.defer(() => (plain.detach(), copy.detach()));
      const counted = async (key: string): Promise<readonly number[]> => [
        await addOnce.run(plain, { key }, { op: "plain" }, { deadlineMs: 10_000 }),
        await addOnce.run(copy, { key }, { op: "copy" }, { deadlineMs: 10_000 }),
      ];
      expect(await counted(`${redis.prefix}:4`)).toEqual([1, 2]);
      await client.select(5);
      expect(await counted(`${redis.prefix}:5`)).toEqual([1, 2]);
      const lost = new Promise((resolve) => copy.client.on("close", resolve));
      const id = await copy.executor.run("CLIENT", ["ID"], reading("CLIENT ID", Deadline.in(10_000)));
      await redis.server.call("CLIENT", "KILL", "ID", String(id));
      await lost;
      await client.select(6);
      await until(() => copy.client.status === "ready");
      expect(await counted(`${redis.prefix}:6`)).toEqual([1, 2]);
      for (const db of [4, 5, 6]) await redis.connect({ db }).del(`${redis.prefix}:${String(db)}`);
    }
  });

  it("a read that is blocked in the former database ends, and what follows is in the new one", async () => {
    const client = redis.connect();
    const context = attach(client);
    redis.defer(() => context.detach());
    const blocked = async (): Promise<unknown> => {
      const connection = await context.pool("test").checkOut(redis.prefix, Deadline.in(10_000), undefined);
      return connection
        .call("BLPOP", [redis.prefix, 60], 60_000)
        .catch(() => "ended")
        .finally(() => connection.returnToPool(false));
    };
    const before = blocked();
    await eventually(async () => expect(await redis.server.call("INFO", "clients")).toContain("blocked_clients:1"));
    await client.select(3);
    expect(await before).toBe("ended");
    const after = blocked();
    await client.rpush(redis.prefix, "x");
    expect(await after).toEqual([redis.prefix, "x"]);
  });

  it("replicas are read there", async () => {
    const client = redis.connect();
    const reads = replicaReads(client, { maxStaleMs: 60_000 });
    redis.defer(() => reads.close());
    const fromReplica = async (value: string): Promise<void> => {
      await client.set(redis.prefix, value, "PX", 60_000);
      await eventually(async () =>
        expect(await reads.call("GET", redis.prefix)).toMatchObject({
          value,
          from: `127.0.0.1:${String(redis.server.replicas[0]!.port)}`,
        }),
      );
    };
    await fromReplica("zero");
    await client.select(3);
    await fromReplica("three");
    for (const db of [0, 3]) await redis.connect({ db }).del(redis.prefix);
  });
});
