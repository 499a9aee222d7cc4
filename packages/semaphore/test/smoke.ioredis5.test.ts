import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { inboxes, rejection, runProgram } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, enqueue, name, works } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const group = { permits: 5, permitsPerTenant: 3 };

describe("a semaphore on ioredis 5", () => {
  it("works on a borrowed client, which gets its listeners back", async () => {
    const client = redis.connect({ keyPrefix: "app:" });
    await client.ping();
    const before = client.eventNames().map((event) => [event, client.listenerCount(event)]);
    const semaphore = fixture.on(client, group);
    await works(semaphore);
    await semaphore.close();
    expect(client.eventNames().map((event) => [event, client.listenerCount(event)])).toEqual(before);
    expect(await redis.client.exists(`app:${fixture.keysOf(name).meta}`)).toBe(1);
  });

  it("works on connections of its own, and on a client of core's connect()", async () => {
    await works(fixture.make({ ...group, isolate: true }));
    const connection = await connect({ url: redis.url });
    redis.defer(() => connection.close());
    const semaphore = fixture.on(connection, group);
    await works(semaphore);
    await semaphore.close();
  });

  it("hands over between processes", async () => {
    const held = await fixture.make({ permits: 1 }).acquire();
    const peer = await fixture.spawn({ permits: 1 });
    const acquiring = peer.acquire();
    await fixture.untilWaiting(name, 1);
    await held.release();
    expect(await peer.release(await acquiring)).toBe("released");
  });

  it("loses neither its permit nor a place in the queue when its connections are killed", async () => {
    const semaphore = fixture.on(redis.connect({ retryStrategy: () => 20 }), { permits: 1 });
    const holder = await semaphore.acquire();
    const waiter = await enqueue(semaphore);
    for (const type of ["pubsub", "normal"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    }
    await fixture.untilWaiting(name, 1);
    expect(await holder.release()).toBe("released");
    expect(await (await waiter.promise).release()).toBe("released");
  });

  it("ends a wait by its signal, and leaves the line", async () => {
    const semaphore = fixture.make({ permits: 1 });
    await semaphore.acquire();
    const controller = new AbortController();
    const waiter = await enqueue(semaphore, { signal: controller.signal });
    controller.abort(new Error("never mind"));
    expect(await rejection(waiter.promise)).toBe(controller.signal.reason);
    await fixture.untilWaiting(name, 0);
  });

  it.each(["close", "hold"])("lets a process end by itself, and prints nothing (%s)", async (how) => {
    const program = new URL("programs/closing.mjs", import.meta.url);
    expect(await runProgram(redis, program, [how, redis.url, redis.prefix])).toEqual({ printed: "", code: 0 });
  });
});
