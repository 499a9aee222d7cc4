import { connect, defineScript, type KitError } from "@kit/core";
import { FaultProxy, useRedis } from "@kit/testing";
import { closedPort, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "item:42";

/** Calls as a user does, from a function whose name the stack must show. */
const buyerOf = (call: () => Promise<unknown>): Promise<Error> => {
  const theBuyersOwnFunction = async (): Promise<void> => {
    await call();
  };
  return rejection(theBuyersOwnFunction()) as Promise<Error>;
};

const home = /at (async )?theBuyersOwnFunction .*errors\.test\.ts/;

describe("the stack of an error leads to the caller", () => {
  it("of connect(), where there is no listener", async () => {
    const url = `redis://127.0.0.1:${closedPort}`;
    expect((await buyerOf(() => connect({ url, deadlineMs: 100 }))).stack).toMatch(home);
  });

  it("of a wait that times out", async () => {
    const lock = fixture.make();
    await lock.acquire(name);
    expect((await buyerOf(() => lock.acquire(name, { waitMs: 20 }))).stack).toMatch(home);
  });

  it("of a lease that was lost, for each who learns of it, once", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name);
    await fixture.db.del(fixture.keysOf(name).lease);
    for (const call of [() => lease.extend(), async () => lease.assertHeld()]) {
      const { stack = "" } = await buyerOf(call);
      expect(stack).toMatch(home);
      expect(stack.split("theBuyersOwnFunction")).toHaveLength(2);
    }
    const using = lock.using(name, () => fixture.db.del(fixture.keysOf(name).lease));
    expect((await buyerOf(() => using)).stack).toMatch(home);
  });

  it("of a server that is silent, also in a call that goes deep", async () => {
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = await connect({ url: `redis://127.0.0.1:${String(proxy.port)}`, deadlineMs: 30_000 });
    redis.defer(() => client.disconnect());
    const lock = fixture.on(client, { deadlineMs: 1_000 });
    const lease = await lock.acquire(name, { leaseMs: 60_000, renew: false });
    proxy.down.hole = true;
    for (const call of [() => lock.inspect(name), () => lease.extend()])
      expect((await buyerOf(call)).stack).toMatch(home);
    proxy.heal();
  });

  it("of a script of the caller's own", async () => {
    const script = defineScript({ name: "own.ping", source: "return 1", keys: [], args: [], reply: Number });
    const client = redis.connect({ port: closedPort, retryStrategy: () => 20 });
    expect((await buyerOf(() => script.run(client, {}, {}, { deadlineMs: 100 }))).stack).toMatch(home);
  });
});

describe("what an error says", () => {
  it("names the lock as its user does, not its key", async () => {
    const lock = fixture.make();
    await fixture.db.rpush(fixture.keysOf(name).lease, "not ours");
    await fixture.db.expire(fixture.keysOf(name).lease, 60);
    const error = (await rejection(lock.acquire(name))) as KitError;
    expect(error.message).toMatch(/^lock\.acquire of "item:42" failed: /);
  });
});
