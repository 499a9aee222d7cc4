import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { inboxes, rejection, runProgram } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, enqueue, next, works } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describe("a lock on ioredis 5", () => {
  it("works on a borrowed client, which gets its listeners back", async () => {
    const client = redis.connect({ keyPrefix: "app:" });
    await client.ping();
    const before = client.eventNames().map((event) => [event, client.listenerCount(event)]);
    const lock = fixture.on(client);
    await works(lock, name);
    await lock.close();
    expect(client.eventNames().map((event) => [event, client.listenerCount(event)])).toEqual(before);
    expect(await redis.client.exists(`app:${fixture.keysOf(name).fence}`)).toBe(1);
  });

  it("works on connections of its own, and on a client of core's connect()", async () => {
    await works(fixture.make({ isolate: true }), name);
    const connection = await connect({ url: redis.url });
    redis.defer(() => connection.close());
    const lock = fixture.on(connection);
    await works(lock, name);
    await lock.close();
  });

  it("hands over between processes", async () => {
    const lock = fixture.make();
    const held = await lock.acquire(name);
    const peer = await fixture.spawn();
    const acquiring = peer.acquire(name);
    await fixture.untilWaiting(name, 1);
    await held.release();
    const lease = await acquiring;
    expect(BigInt(lease.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(await peer.release(lease)).toBe("released");
  });

  it("loses neither its lease nor a place in the queue when its connections are killed", async () => {
    const lock = fixture.on(redis.connect({ retryStrategy: () => 20 }));
    const holder = await lock.acquire(name);
    const waiter = await enqueue(lock, name);
    for (const type of ["pubsub", "normal"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    }
    await fixture.untilWaiting(name, 1);
    const granted = next(lock, "acquired");
    expect(await holder.release()).toBe("released");
    expect(await granted).toMatchObject({ name });
    await (await waiter.promise).release();
  });

  it("ends a wait by its signal, and leaves the line", async () => {
    const lock = fixture.make();
    await lock.acquire(name);
    const controller = new AbortController();
    const waiter = await enqueue(lock, name, { signal: controller.signal });
    controller.abort(new Error("never mind"));
    expect(await rejection(waiter.promise)).toBe(controller.signal.reason);
    await fixture.untilWaiting(name, 0);
  });

  it.each(["close", "hold"])("lets a process end by itself, and prints nothing (%s)", async (how) => {
    const program = new URL("programs/closing.mjs", import.meta.url);
    expect(await runProgram(redis, program, [how, redis.url, redis.prefix])).toEqual({ printed: "", code: 0 });
  });
});
