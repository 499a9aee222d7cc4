import { eventually, useRedis } from "@kit/testing";
import { inboxes, promptMs, rejection, timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { createSemaphore } from "../src/index.js";
import { fixtureOf, enqueue, name, next, works } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const group = { permits: 5, permitsPerTenant: 3 };
type Client = Parameters<typeof createSemaphore>[0];

const subscribers = (): Promise<number> => inboxes(redis.server.nodes);

describe("a borrowed client", () => {
  it("is served by one subscriber connection, however many semaphores work on it, and none before the first wait", async () => {
    const client = redis.connect();
    const semaphore = fixture.on(client, group);
    const another = fixture.on(client, { ...group, name: "another" });
    expect(await subscribers()).toBe(0);
    await works(semaphore);
    await works(another);
    expect(await subscribers()).toBe(1);
    await Promise.all([semaphore.close(), another.close()]);
    await eventually(async () => expect(await subscribers()).toBe(0));
  });

  it("hears of a grant whose push was lost with its connection", async () => {
    const semaphore = fixture.on(redis.connect({ retryStrategy: () => 20 }), { permits: 1 });
    for (let round = 0; round < 5; round++) {
      const holder = await fixture.make({ permits: 1 }).acquire();
      const waiter = await enqueue(semaphore);
      const killed = redis.server.call("CLIENT", "KILL", "TYPE", "pubsub");
      await holder.release();
      await killed;
      // The next heartbeat would come after five seconds.
      const { awakeMs, value } = await timed(waiter.promise);
      expect(awakeMs).toBeLessThan(promptMs);
      await value.release();
      await eventually(async () => expect(await subscribers()).toBe(1));
    }
  });
});

describe("isolate", () => {
  it("replaces a connection that fell silent", async () => {
    const semaphore = fixture.make({ permits: 9, isolate: true, deadlineMs: 1_000 });
    await (await semaphore.acquire()).release();
    const [node] = redis.server.nodes;
    node!.pause();
    expect(await rejection(semaphore.tryAcquire())).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    node!.resume();
    const permit = await eventually(() => semaphore.tryAcquire());
    expect(await permit?.release()).toBe("released");
  });
});

describe("an ACL user", () => {
  const limited = async (...rules: readonly string[]): Promise<Client> => {
    await redis.server.call("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", ...rules);
    redis.defer(() => redis.server.call("ACL", "DELUSER", "limited"));
    // Else ioredis itself prints that it may not look whether the server is ready.
    return redis.connect({ username: "limited", password: "secret", enableReadyCheck: false });
  };

  it.each([
    ["channels, by polling", ["+@all", "resetchannels"]],
    ["PUBLISH, by polling", ["+@all", "&*", "-publish"]],
    ["INFO, as on a Cluster", ["+@all", "&*", "-info"]],
  ] as const)("is served without rights to %s", async (_what, rules) => {
    await works(fixture.on(await limited(...rules), group));
  });

  it("that may not subscribe waits beside one that may", async () => {
    const unreachable = fixture.on(await limited("+@all", "resetchannels"), { permits: 1 });
    const semaphore = fixture.make({ permits: 1 });
    const holder = await semaphore.acquire();
    const first = await enqueue(unreachable);
    const second = await enqueue(semaphore);
    await holder.release();
    await (await timed(second.promise)).value.release();
    const { awakeMs, value } = await timed(first.promise);
    expect(awakeMs).toBeLessThan(promptMs);
    await value.release();
  });

  it("without scripts is told so, by a typed error without the command's arguments", async () => {
    const semaphore = fixture.on(await limited("+@all", "&*", "-evalsha", "-eval"));
    const error = await rejection(semaphore.acquire({ holder: "canary" }));
    expect(error).toMatchObject({ code: "KIT_NO_PERMISSION", retryable: false });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain("canary");
  });
});

describe("a client whose connections are killed while somebody waits", () => {
  it("loses no place in the queue", async () => {
    const semaphore = fixture.on(redis.connect({ retryStrategy: () => 20 }), { permits: 1 });
    const holder = await fixture.make({ permits: 1 }).acquire();
    const waiter = await enqueue(semaphore);
    for (const type of ["pubsub", "normal", "pubsub"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await subscribers()).toBe(1));
    }
    await fixture.untilWaiting(name, 1);
    const granted = next(semaphore, "acquired");
    await holder.release();
    expect(await granted).toMatchObject({ weight: 1 });
    expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
  });

  it("is told so where its wait ends before they are back", async () => {
    await fixture.make({ permits: 1 }).acquire();
    const semaphore = fixture.on(redis.connect({ retryStrategy: () => 60_000 }), { permits: 1 });
    expect(await rejection(semaphore.acquire({ waitMs: 50 }))).not.toHaveProperty("cause");
    const waiter = await enqueue(semaphore, { waitMs: 1_000 });
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    expect(await rejection(waiter.promise)).toMatchObject({
      code: "KIT_SEMAPHORE_TIMEOUT",
      message: expect.stringMatching(/1 of 1 permits in use when last seen; Redis could not be asked at the end\)$/),
      cause: { code: "KIT_UNAVAILABLE" },
    });
  });
});

describe("a client without a connection", () => {
  it("is told so within waitMs, not that there was no room", async () => {
    const client = redis.connect({ retryStrategy: () => 60_000 });
    const semaphore = fixture.on(client, { permits: 1, deadlineMs: 20_000 });
    await semaphore.acquire({ renew: false });
    const closed = new Promise((resolve) => client.once("close", resolve));
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await closed;
    const { awakeMs, value } = await timed(rejection(semaphore.acquire({ waitMs: 100 })));
    expect(value).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(awakeMs).toBeLessThan(promptMs);
  });
});

describe("a server that is silent when a wait ends", () => {
  it("is said to be", async () => {
    await fixture.on(redis.connect(), { permits: 1 }).acquire({ leaseMs: 700, renew: false });
    const semaphore = fixture.on(redis.connect(), { permits: 1, deadlineMs: 100 });
    const waiter = await enqueue(semaphore, { waitMs: 1_500 });
    await redis.server.call("CLIENT", "PAUSE", "2500", "ALL");
    expect(await rejection(waiter.promise)).toMatchObject({
      code: "KIT_SEMAPHORE_TIMEOUT",
      cause: { code: expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/) },
    });
  });
});
