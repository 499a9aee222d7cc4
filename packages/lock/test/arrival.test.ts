import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { callsOf } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { enqueue, fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describe("the order of arrival at a client's first wait", () => {
  it("is that of the first command, not that of the connection for pushes", async () => {
    const holder = await fixture.make().acquire(name);
    const near = fixture.on(redis.connect());
    await (await near.acquire("another")).release();
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50 });
    redis.defer(() => client.disconnect());
    const far = fixture.on(client);
    await (await far.acquire("another")).release();
    proxy.down.latencyMs = 100;
    const served: string[] = [];
    const before = await callsOf(redis.server, "evalsha");
    const first = far.acquire(name).then((lease) => (served.push("far"), lease.release()));
    await eventually(async () => expect(await callsOf(redis.server, "evalsha")).toBeGreaterThan(before));
    const second = await enqueue(near, name);
    const last = second.promise.then((lease) => (served.push("near"), lease.release()));
    await holder.release();
    await Promise.all([first, last]);
    expect(served).toEqual(["far", "near"]);
  });

  it("is kept where thousands come at once to a lock that nobody has used", async () => {
    const lock = fixture.on(redis.connect());
    const count = 2_000;
    const served: number[] = [];
    await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const lease = await lock.acquire(name);
        served.push(index);
        await lease.release();
      }),
    );
    expect(served).toEqual(Array.from({ length: count }, (_, index) => index));
  });
});

describe("a grant that is over when its waiter hears of it", () => {
  it("is asked for again, as long as the waiter has time", async () => {
    // A user that may not subscribe asks, and is granted by the answer.
    const login = { username: "limited", password: "secret" };
    await redis.server.call(
      "ACL",
      "SETUSER",
      login.username,
      "on",
      `>${login.password}`,
      "~*",
      "+@all",
      "resetchannels",
    );
    redis.defer(() => redis.server.call("ACL", "DELUSER", login.username));
    const holder = await fixture.make().acquire(name);
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = new Redis({ ...login, port: proxy.port, enableReadyCheck: false, disconnectTimeout: 50 });
    redis.defer(() => client.disconnect());
    const far = fixture.on(client, { deadlineMs: 20_000 });
    const waiting = far.acquire(name, { leaseMs: 1_000, waitMs: 60_000 });
    await fixture.untilWaiting(name, 1);
    proxy.down.latencyMs = 1_500;
    await holder.release();
    await eventually(async () => expect(await fixture.db.exists(fixture.keysOf(name).lease)).toBe(1));
    await eventually(async () => expect(await fixture.db.exists(fixture.keysOf(name).lease)).toBe(0));
    proxy.heal();
    expect(await (await waiting).release()).toBe("released");
  });
});
