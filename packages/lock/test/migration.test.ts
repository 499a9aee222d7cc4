import { eventually, FaultProxy, startRedis, useRedis } from "@kit/testing";
import { closedPort, describeMigration, rejection } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import Redlock4 from "redlock4";
import Redlock5, { ExecutionError } from "redlock5";
import * as vitest from "vitest";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createLock } from "../src/index.js";
import { fixtureOf } from "./harness.js";

describeMigration(
  startRedis,
  new URL("../../../apps/docs/migration/redlock.md", import.meta.url),
  new URL("migration/", import.meta.url),
  (source) => source.replace(/"redlock[45]"/, '"redlock"'),
);
describeMigration(
  startRedis,
  new URL("../../../apps/docs/migration/redis-semaphore.md", import.meta.url),
  new URL("migration-mutex/", import.meta.url),
);

describe("what differs from redlock", () => {
  const redis = useRedis(vitest, { permanentKeys: ["*"] });
  const fixture = fixtureOf(redis);
  const once = { retryCount: 0 };
  const old4 = (): Redlock4 => new Redlock4([fixture.db], once);
  const old5 = (): Redlock5 => new Redlock5([fixture.db], once);
  const name = (): string => `${redis.prefix}:chest`;
  const unheard = (client: Redis): Redis => client.on("error", () => undefined);

  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("does not survive the loss of its server, where redlock continues with two of three", async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startRedis()));
    const clients = servers.map(({ url }) => unheard(new Redis(url, { maxRetriesPerRequest: 0 })));
    redis.defer(async () => {
      for (const client of clients) client.disconnect();
      await Promise.all(servers.map((server) => server.stop()));
    });
    const redlock = new Redlock5(clients, once);
    const held = await redlock.acquire(["chest"], 30_000);
    const lock = createLock(clients[0]!, { leaseMs: 1_000, deadlineMs: 300 });
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    const lease = await eventually(() => lock.acquire("chest"));

    await servers[0]!.stop();
    expect((await held.extend(30_000)).expiration).toBeGreaterThan(Date.now());
    expect(await rejection(redlock.acquire(["chest"], 30_000))).toBeInstanceOf(ExecutionError);
    await eventually(() => expect(lease.isHeld).toBe(false));
    expect(await rejection(lock.acquire("chest"))).toMatchObject({ code: "KIT_UNAVAILABLE" });
  });

  it("distinguishes a lock that is held from a server that cannot be reached", async () => {
    const nowhere = unheard(new Redis({ port: closedPort, maxRetriesPerRequest: 0 }));
    redis.defer(() => nowhere.disconnect());
    await old5().acquire([name()], 30_000);
    for (const client of [fixture.db, nowhere]) {
      expect(await rejection(new Redlock5([client], once).acquire([name()], 30_000))).toBeInstanceOf(ExecutionError);
      expect(await rejection(new Redlock4([client], once).lock(name(), 30_000))).toBeInstanceOf(Redlock4.LockError);
    }

    await fixture.make().acquire("chest");
    expect(await fixture.make().tryAcquire("chest")).toBeNull();
    expect(await rejection(fixture.on(nowhere, { deadlineMs: 300 }).tryAcquire("chest"))).toMatchObject({
      code: "KIT_UNAVAILABLE",
    });
  });

  it("reports a late release as such, instead of rejecting", async () => {
    const held4 = await old4().lock(name(), 30_000);
    await fixture.db.del(name());
    expect(await rejection(held4.unlock())).toBeInstanceOf(Redlock4.LockError);
    const held5 = await old5().acquire([name()], 30_000);
    await fixture.db.del(name());
    expect(await rejection(held5.release())).toBeInstanceOf(ExecutionError);

    const lease = await fixture.make().acquire("chest");
    await fixture.db.del(fixture.keysOf("chest").lease);
    expect(await lease.release()).toBe("not-held");
  });

  it("loses nothing by a wall clock that jumps", async () => {
    const held4 = await old4().lock(`${name()}:4`, 60_000);
    const held5 = await old5().acquire([`${name()}:5`], 60_000);
    const lease = await fixture.make({ leaseMs: 60_000 }).acquire("chest");
    const now = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(now + 3_600_000);
    expect(await rejection(held4.extend(60_000))).toBeInstanceOf(Redlock4.LockError);
    expect(await rejection(held5.extend(60_000))).toBeInstanceOf(ExecutionError);
    await lease.extend();
    expect(lease.isHeld).toBe(true);
  });

  it("never resolves with a lease that is over already, as redlock 5 does on a slow link", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = unheard(new Redis({ port: proxy.port }));
    redis.defer(() => client.disconnect());
    await client.ping();
    const lock = fixture.on(client, { leaseMs: 100 });
    proxy.down.latencyMs = 400;
    const late = await new Redlock5([client], once).acquire([name()], 100);
    expect(late.expiration).toBeLessThan(Date.now());
    expect(await rejection(new Redlock4([client], once).lock(`${name()}:4`, 100))).toBeInstanceOf(Redlock4.LockError);
    expect(await rejection(lock.acquire("chest"))).toMatchObject({ code: "KIT_LOCK_LOST" });
  });

  it("does not see the old locks, nor the other way round", async () => {
    const held = await old5().acquire(["chest"], 30_000);
    const lease = await fixture.make().acquire("chest");
    expect([lease.isHeld, await fixture.db.exists("chest")]).toEqual([true, 1]);
    await held.release();
    expect(lease.isHeld).toBe(true);
  });
});
