import { eventually, useRedis } from "@kit/testing";
import { promptMs, rejection, timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { createLock } from "../src/index.js";
import { fixtureOf, enqueue, next, works } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
type Client = Parameters<typeof createLock>[0];

const connections = async (pattern: RegExp): Promise<number> =>
  (String(await redis.server.call("CLIENT", "LIST")).match(new RegExp(pattern, "gm")) ?? []).length;
const subscribers = (): Promise<number> => connections(/name=kit:inbox/);

describe("a borrowed client", () => {
  it("opens no second connection before the first wait", async () => {
    const lock = fixture.on(redis.connect());
    const lease = await lock.acquire(name);
    expect(await lock.tryAcquire(name)).toBeNull();
    await rejection(lock.acquire(name, { waitMs: 0 }));
    await lease.release();
    expect(await subscribers()).toBe(0);
  });

  it("is served by one subscriber connection, however many locks work on it", async () => {
    const client = redis.connect();
    const [one, two] = [fixture.on(client), fixture.on(client)];
    await works(one, name);
    await works(two, name);
    expect(await subscribers()).toBe(1);
    await one.close();
    await works(two, name);
    expect(await subscribers()).toBe(1);
    await two.close();
    await eventually(async () => expect(await subscribers()).toBe(0));
  });

  it("lets the second lock on it hand over as the first one does", async () => {
    const client = redis.connect();
    await works(fixture.on(client), name);
    const lock = fixture.on(client);
    const holder = await lock.acquire(name);
    const dead = await fixture.spawn();
    dead.acquire(name).catch(() => undefined);
    await fixture.untilWaiting(name, 1);
    const waiter = await enqueue(lock, name);
    await dead.kill();
    await eventually(async () => expect(await subscribers()).toBe(1));
    await holder.release();
    expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
  });
});

describe("isolate", () => {
  it("replaces a connection that fell silent", async () => {
    const lock = fixture.make({ isolate: true, deadlineMs: 1_000 });
    await works(lock, name);
    const [node] = redis.server.nodes;
    node!.pause();
    expect(await rejection(lock.tryAcquire(name))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    node!.resume();
    const lease = await eventually(async () => {
      const got = await lock.tryAcquire(name);
      if (!got) throw new Error("still held");
      return got;
    });
    expect(await lease.release()).toBe("released");
  });
});

describe("an ACL user", () => {
  const user = async (...rules: readonly string[]): Promise<Client> => {
    await redis.server.call("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", ...rules);
    redis.defer(() => redis.server.call("ACL", "DELUSER", "limited"));
    // Else ioredis itself prints that it may not look whether the server is ready.
    return redis.connect({ username: "limited", password: "secret", enableReadyCheck: false });
  };

  it("without rights on channels still hands over, by polling", async () => {
    await works(fixture.on(await user("+@all", "resetchannels")), name);
  });

  it("without PUBLISH still hands over", async () => {
    await works(fixture.on(await user("+@all", "&*", "-publish")), name);
  });

  it("that may not subscribe waits beside one that may", async () => {
    const unreachable = fixture.on(await user("+@all", "resetchannels"));
    const lock = fixture.make();
    const holder = await lock.acquire(name);
    const first = await enqueue(unreachable, name);
    const second = await enqueue(lock, name);
    await holder.release();
    await (await timed(second.promise)).value.release();
    const { awakeMs, value } = await timed(first.promise);
    expect(awakeMs).toBeLessThan(promptMs);
    await value.release();
  });

  it("without INFO is served as on a Cluster", async () => {
    await works(fixture.on(await user("+@all", "&*", "-info")), name);
  });

  it("without scripts is told so, by a typed error without the command's arguments", async () => {
    const lock = fixture.on(await user("+@all", "&*", "-evalsha", "-eval"));
    const error = await rejection(lock.acquire(name, { holder: "canary" }));
    expect(error).toMatchObject({ code: "KIT_NO_PERMISSION", retryable: false });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain("canary");
  });
});

describe("a client whose connections are killed while somebody waits", () => {
  it("loses no place in the queue", async () => {
    const lock = fixture.on(redis.connect({ retryStrategy: () => 20 }));
    const holder = await fixture.make().acquire(name);
    const waiter = await enqueue(lock, name);
    for (const type of ["pubsub", "normal", "pubsub"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await subscribers()).toBe(1));
    }
    await fixture.untilWaiting(name, 1);
    const granted = next(lock, "acquired");
    await holder.release();
    expect(await granted).toMatchObject({ name });
    expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
  });

  it("is told so where its wait ends before they are back", async () => {
    await fixture.make().acquire(name);
    const lock = fixture.on(redis.connect({ retryStrategy: () => 60_000 }));
    expect(await rejection(lock.acquire(name, { waitMs: 50 }))).not.toHaveProperty("cause");
    const waiter = await enqueue(lock, name, { waitMs: 1_000 });
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    expect(await rejection(waiter.promise)).toMatchObject({
      code: "KIT_LOCK_TIMEOUT",
      message: expect.stringMatching(/ms left when last seen; Redis could not be asked at the end\)$/),
      cause: { code: "KIT_UNAVAILABLE" },
    });
  });

  it("hears of a grant whose push was lost with the connection", async () => {
    const lock = fixture.on(redis.connect({ retryStrategy: () => 20 }));
    for (let round = 0; round < 10; round++) {
      const holder = await fixture.make().acquire(name);
      const waiter = await enqueue(lock, name);
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
