import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { describeLeaseArrival } from "@tooling/vitest/conformance";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describeLeaseArrival(leasingOf(redis));

describe("a grant that is over when its waiter learns of it", () => {
  it("is asked for again, as long as the waiter has time", async () => {
    // A user that may not subscribe asks, and is granted by the answer.
    const login = { username: "limited", password: "secret" };
    await redis.server.call("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "limited"));
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
