import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { firstServing } from "@tooling/vitest/helpers";
import { slotOf } from "../src/kernel/base/keyspace.js";
import { optimistic } from "../src/transaction/optimistic.js";
import { attach } from "../src/kernel/context/context.js";
import { connectionsNamed, endMigrations, own, rejection } from "./harness.js";
import { increment, optimisticBehaviour } from "./optimistic-behaviour.js";

const redis = useRedis(vitest, { mode: "cluster" });

optimisticBehaviour(redis);

const keyOn = (node: number): string => {
  for (let number = 0; ; number++) {
    const key = `${redis.prefix}:${String(number)}`;
    if (firstServing(slotOf(key)) === node) return key;
  }
};

describe("optimistic on a Cluster", () => {
  it("goes to the node of the slot at once, and stays within its bound over all nodes", async () => {
    const client = await own(redis);
    const context = attach(client);
    redis.defer(() => context.detach());
    for (let round = 0; round < 3; round++)
      for (const node of [0, 1, 2]) expect((await increment(context, keyOn(node))).attempts).toBe(1);
    const ports = (await connectionsNamed(redis, "kit:exclusive")).map((id) => Number(id.split("#")[0]));
    expect(new Set(ports)).toEqual(new Set(redis.server.nodes.map(({ port }) => port)));
    expect(ports).toHaveLength(3);
    await Promise.all(Array.from({ length: 60 }, (_, index) => increment(context, keyOn(index % 3))));
    expect((await connectionsNamed(redis, "kit:exclusive")).length).toBeLessThanOrEqual(8);
  });

  it("refuses keys of several slots, typed", async () => {
    const error = await rejection(optimistic(redis.client, [keyOn(0), keyOn(1)], () => Promise.resolve()));
    expect(error).toMatchObject({ code: "KIT_CLUSTER", retryable: false });
  });

  it("applies nothing unguarded while its slot moves, and finds the new owner", async () => {
    const client = await own(redis);
    const key = keyOn(0);
    const slot = String(slotOf(key));
    const [source, target] = redis.server.nodes;
    const [sourceId, targetId] = await Promise.all(
      [source!, target!].map(async (node) => String(await node.call("CLUSTER", "MYID"))),
    );
    const move = async (from: typeof source, to: typeof source, fromId: string, toId: string): Promise<void> => {
      await to!.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
      await from!.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
      await from!.call("MIGRATE", to!.host, String(to!.port), key, "0", "5000");
      await to!.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
      await from!.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
    };
    await redis.client.set(key, "0", "PX", 60_000);
    let runs = 0;
    const { value } = await optimistic(
      client,
      [key],
      async (tx) => {
        const seen = Number(await tx.call("GET", key));
        if (++runs === 1) {
          // Between WATCH and EXEC the slot moves, and somebody writes at its new home.
          await move(source, target, sourceId!, targetId!);
          await target!.call("INCRBY", key, "7");
        }
        tx.queue("SET", key, seen + 100, "PX", 60_000);
        return seen;
      },
      { waitMs: 10_000 },
    );
    expect(value).toBe(7);
    expect(runs).toBe(2);
    expect(await redis.client.get(key)).toBe("107");
    await move(target, source, targetId!, sourceId!);
    expect((await increment(client, key)).value).toBe(108);
    await endMigrations(redis);
  });

  it("waits while a slot is between two nodes, and then continues", async () => {
    const client = await own(redis);
    const key = keyOn(1);
    const slot = String(slotOf(key));
    const [, source, target] = redis.server.nodes;
    const [sourceId, targetId] = await Promise.all(
      [source!, target!].map(async (node) => String(await node.call("CLUSTER", "MYID"))),
    );
    await target!.call("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceId!);
    await source!.call("CLUSTER", "SETSLOT", slot, "MIGRATING", targetId!);
    expect(await rejection(increment(client, key, 200))).toMatchObject({ code: "KIT_CLUSTER", retryable: true });
    const waiting = increment(client, key, 20_000);
    await source!.call("CLUSTER", "SETSLOT", slot, "STABLE");
    await target!.call("CLUSTER", "SETSLOT", slot, "STABLE");
    expect((await waiting).value).toBe(1);
  });

  it("makes another try when its slot moves between two reads of an attempt", async () => {
    const client = await own(redis);
    const [, one, other] = redis.server.nodes;
    // At first the slot is still moving at the second read (ASK); on its way back it has moved (MOVED).
    const key = keyOn(1);
    const slot = String(slotOf(key));
    await increment(client, key);
    for (const [value, source, target, isDone] of [
      [2, one!, other!, false],
      [3, other!, one!, true],
    ] as const) {
      const [sourceId, targetId] = await Promise.all(
        [source, target].map(async (node) => String(await node.call("CLUSTER", "MYID"))),
      );
      const finish = async (): Promise<void> => {
        for (const node of [target, source]) await node.call("CLUSTER", "SETSLOT", slot, "NODE", targetId!);
      };
      let tries = 0;
      const result = await optimistic(
        client,
        [key],
        async (tx) => {
          await tx.call("GET", key);
          if (++tries === 1) {
            await target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceId!);
            await source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", targetId!);
            await source.call("MIGRATE", target.host, String(target.port), key, "0", "2000");
            if (isDone) await finish();
          }
          const last = Number(
            await tx.call("GET", key).catch(async (error: unknown) => {
              if (!isDone) await finish();
              throw error;
            }),
          );
          tx.queue("SET", key, last + 1, "PX", 60_000);
          return last + 1;
        },
        { waitMs: 60_000 },
      );
      expect([result.value, tries]).toEqual([value, 2]);
      await endMigrations(redis);
    }
  });

  it("finds the node again after it was killed and came back", async () => {
    const client = await own(redis);
    const key = keyOn(2);
    await increment(client, key);
    await redis.server.nodes[2]!.kill();
    expect(["KIT_UNAVAILABLE", "KIT_CLUSTER"]).toContain((await rejection(increment(client, key, 300))).code);
    await redis.server.nodes[2]!.start();
    expect((await increment(client, key, 20_000)).value).toBe(1);
    await eventually(() => redis.client.exists(key), { timeoutMs: 15_000 });
  });
});
