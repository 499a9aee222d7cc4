import { retry } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { describeLeaseLoss, type Proxy, proxied } from "@tooling/vitest/conformance";
import {
  aborted,
  atBest,
  block,
  callsOf,
  clock,
  cutOffRenewed,
  losingOnce,
  rejection,
  sentTwice,
  timed,
  watchStalls,
} from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";
import { enqueue, fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const leasing = leasingOf(redis);
const name = "chest";
const key = (): string => fixture.keysOf(name).lease;
const evals = (): Promise<number> => callsOf(redis.server, "evalsha");

/** How many keys of the server have expired. */
const expired = async (): Promise<string | undefined> =>
  /expired_keys:(\d+)/.exec(String(await redis.server.call("INFO", "stats")))?.[1];

/** How often the server has replied with this error. */
const refusals = async (error: string): Promise<number> => {
  const text = String(await redis.server.call("INFO", "errorstats"));
  return Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(text)?.[1] ?? 0);
};

const msLeft = (): Promise<number> => fixture.db.pttl(key());

const behindProxy = async (): Promise<{ proxy: Proxy; client: Redis }> => {
  const { proxy, connect } = await proxied(leasing.ground);
  return { proxy, client: connect() as Redis };
};

describeLeaseLoss(leasing);

describe("a release without a reply", () => {
  it("that is repeated after the end of the lease does not pass for one in time", async () => {
    const client = fixture.connect() as Redis;
    const lock = fixture.on(client, { leaseMs: 1_000, renew: false, deadlineMs: 100 });
    lock.on("error", () => undefined);
    const lease = await eventually(() => lock.acquire(name));
    // Every call after that gets lost on the way.
    const { call } = client;
    client.call = (() => new Promise(() => undefined)) as typeof call;
    expect(await rejection(lease.release())).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    await eventually(async () => expect(await msLeft()).toBe(-2));
    client.call = call;
    await eventually(async () => expect(await lease.release()).toBe("not-held"));
  });
});

describe("a forced release without a reply", () => {
  it("is not repeated by retry(), which would take the lock away from the next holder", async () => {
    const { proxy, client } = await behindProxy();
    const lock = fixture.on(client, { deadlineMs: 300 });
    await fixture.make().acquire(name);
    await lock.forceRelease(name);
    await fixture.make().acquire(name);
    const next = fixture.make().acquire(name, { waitMs: 60_000 });
    await eventually(async () => expect((await lock.inspect(name)).waiters).toBe(1));
    const { attempt, tries } = losingOnce(proxy, () => lock.forceRelease(name), { client, script: scripts.release });
    const error = await rejection(retry(attempt, { waitMs: 20_000 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: undefined, retryable: false });
    expect([tries(), (await next).isHeld]).toEqual([1, true]);
  });
});

describe("a server that falls silent", () => {
  it("costs the lease in time, even over a half-open link, and lock and client recover", async () => {
    const { proxy, client } = await behindProxy();
    const lock = fixture.on(client, { leaseMs: 3_000, deadlineMs: 300 });
    const lease = await eventually(() => lock.acquire(name));
    const { ends } = await cutOffRenewed([lease], msLeft, {
      cut: () => {
        proxy.up.hole = true;
        proxy.down.hole = true;
      },
      mend: () => proxy.heal(),
    });
    const stalls = watchStalls();
    expect(clock() + lease.remainingMs).toBeLessThanOrEqual(ends[0]!);
    await aborted(lease.signal);
    expect(clock() - stalls.end().sum).toBeLessThanOrEqual(ends[0]!);
    expect(proxy.stats.droppedBytes).toBeGreaterThan(0);
    proxy.heal();
    const again = await eventually(() => lock.acquire(name, { waitMs: 2_000 }), { timeoutMs: 20_000 });
    expect(BigInt(again.fencingToken)).toBeGreaterThan(BigInt(lease.fencingToken));
  });

  it("releases its leases immediately when only its replies are too late", async () => {
    const { proxy, client } = await behindProxy();
    const lock = fixture.on(client, { leaseMs: 2_000, deadlineMs: 200 });
    const lease = await eventually(() => lock.acquire(name));
    // From here on the server knows the scripts, and runs them without our hearing of it.
    await eventually(() => lease.extend());
    await eventually(async () => (await lock.acquire("warm-up")).release());
    proxy.down.latencyMs = 2_200;
    expect(await aborted(lease.signal)).toMatchObject({ reason: "deadline" });
    // As far as the server knows it was renewed shortly before, and would not expire for more than a second.
    const expiries = await expired();
    await eventually(async () => expect(await fixture.db.exists(key())).toBe(0));
    expect(await expired()).toBe(expiries);
    proxy.resetAll();
  });
});

describe("a refusal that passes by itself", () => {
  it("ends an acquire neither at its first reply nor at the deadline of a command, while waitMs lasts", async () => {
    const lock = fixture.make({ deadlineMs: 200 });
    await redis.server.call("CONFIG", "SET", "min-replicas-to-write", "1");
    redis.defer(() => redis.server.call("CONFIG", "SET", "min-replicas-to-write", "0"));
    const waiting = lock.acquire(name, { waitMs: 600_000 });
    // Within 200 ms a command is sent about five times.
    await eventually(async () => expect(await refusals("NOREPLICAS")).toBeGreaterThan(20));
    await redis.server.call("CONFIG", "SET", "min-replicas-to-write", "0");
    expect((await waiting).isHeld).toBe(true);
  });

  it("is waited out without waitMs: when a long script has ended, the acquire gets the lock", async () => {
    const lock = fixture.make({ deadlineMs: 200 });
    await lock.acquire("warm-up");
    await redis.server.call("CONFIG", "SET", "lua-time-limit", "20");
    redis.defer(() => redis.server.call("CONFIG", "SET", "lua-time-limit", "5000"));
    const reported = new Promise((resolve) => lock.once("error", resolve));
    const busy = rejection(redis.connect().eval("while true do end", 0));
    await eventually(async () => expect(String(await rejection(redis.server.call("PING")))).toContain("BUSY"));
    const waiting = lock.acquire(name);
    // The deadline of its first command is over.
    expect(await reported).toMatchObject({ code: "KIT_BUSY" });
    await redis.server.call("SCRIPT", "KILL");
    await busy;
    expect((await waiting).isHeld).toBe(true);
  });
});

describe("a renewal that fails", () => {
  it("is no loss: while the server says BUSY the lease is tried again", async () => {
    const lease = await fixture.make({ leaseMs: 6_000 }).acquire(name);
    await redis.server.call("CONFIG", "SET", "lua-time-limit", "20");
    redis.defer(() => redis.server.call("CONFIG", "SET", "lua-time-limit", "5000"));
    const busy = rejection(redis.connect().eval("while true do end", 0));
    // It is renewed when two thirds are left.
    await eventually(() => expect(lease.remainingMs).toBeLessThan(3_500));
    await redis.server.call("SCRIPT", "KILL");
    await busy;
    expect(await refusals("BUSY")).toBeGreaterThan(0);
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(5_000));
    expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
  });
});

describe("a blocked event loop", () => {
  it("costs nothing when it ends in time", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 3_000 });
    for (let round = 0; round < 2; round++) {
      block(1_200);
      lease.assertHeld();
      await eventually(() => expect(lease.remainingMs).toBeGreaterThan(2_000));
    }
    expect(lease.signal.aborted).toBe(false);
  });

  it("does not make a push that waited in the socket look fresher than it is", async () => {
    const lock = fixture.make();
    const holder = await lock.acquire(name);
    const other = fixture.on(redis.connect());
    const waiting = other.acquire(name, { leaseMs: 2_000, renew: false });
    await fixture.untilWaiting(name, 1);
    const released = redis.server.call("DEL", key());
    await released;
    await lock.forceRelease(name);
    holder.stopRenewal();
    const beating = lock.tryAcquire(name);
    block(300);
    await beating;
    const lease = await waiting;
    const left = await fixture.db.pttl(key());
    expect(lease.remainingMs).toBeLessThanOrEqual(left + 5);
  });
});

describe("renewal", () => {
  it("has one renewal under way at a time", async () => {
    const client = redis.connect();
    const lock = fixture.on(client);
    const lease = await lock.acquire(name, { leaseMs: 1_500 });
    const call = client.call.bind(client) as (...args: unknown[]) => Promise<unknown>;
    let flying = 0;
    let most = 0;
    let renewals = 0;
    client.call = (async (...args: unknown[]) => {
      most = Math.max(most, ++flying);
      renewals++;
      return await call(...args).finally(() => flying--);
    }) as typeof client.call;
    // Longer than the third of the lease after which a renewal is due.
    for (let wanted = 1; wanted <= 2; wanted++) {
      await redis.server.call("CLIENT", "PAUSE", "600", "ALL");
      await eventually(() => expect(renewals).toBeGreaterThanOrEqual(wanted));
      await eventually(() => expect(flying).toBe(0));
    }
    expect(most).toBe(1);
    expect(lease.isHeld).toBe(true);
  });

  it("comes immediately on a new connection, long before it is due", async () => {
    const lock = fixture.on(fixture.connect());
    await lock.acquire(name, { leaseMs: 600_000 });
    await fixture.db.pexpire(key(), 60_000);
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(async () => expect(await fixture.db.pttl(key())).toBeGreaterThan(60_000));
  });

  it.each([
    ["that is off", { renew: false }],
    ["that maxHoldMs has ended", { maxHoldMs: 600_000 }],
  ] as const)(
    "%s does not hide that the lease is gone: a new connection looks it up, and extends nothing",
    async (_, options) => {
      const lock = fixture.on(fixture.connect());
      const lease = await lock.acquire(name, { leaseMs: 600_000, ...options });
      await fixture.db.pexpire(key(), 60_000);
      const { remainingMs } = lease;
      const before = await evals();
      await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
      await eventually(async () => expect(await evals()).toBeGreaterThan(before));
      expect(await msLeft()).toBeLessThanOrEqual(60_000);
      expect(lease.isHeld).toBe(true);
      expect(lease.remainingMs).toBeGreaterThan(remainingMs - 60_000);
      await fixture.db.del(key());
      await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
      await aborted(lease.signal);
      expect(lease.signal.reason).toMatchObject({ reason: "expired" });
    },
  );
});

describe("a lease", () => {
  it("that ran out is replaced as soon ahead of many waiters of one process as ahead of one", async () => {
    // Each step of waiting for one's turn is 20 ms, half a second at most.
    await atBest(250, async () => {
      const lock = fixture.make();
      const lease = await lock.acquire(name, { leaseMs: 1_000, renew: false });
      const expired = aborted(lease.signal);
      const waiters = Array.from({ length: 40 }, () => lock.acquire(name));
      for (const waiter of waiters) waiter.catch(() => undefined);
      await expired;
      const { awakeMs } = await timed(Promise.race(waiters));
      await lock.close({ timeoutMs: 0 });
      return awakeMs;
    });
  });
});

describe("a release by force whose reply is lost", () => {
  it.each(["nobody waits", "another waits"])("still says whose lock it took: %s", async (who) => {
    const { proxy, client } = await behindProxy();
    const lock = fixture.on(client);
    // From here on the server has the scripts.
    await (await lock.acquire("warm-up")).release();
    expect(await lock.forceRelease("warm-up")).toBeNull();
    const others = fixture.make();
    await others.acquire(name, { holder: "hangs" });
    const next = who === "another waits" ? await enqueue(others, name) : undefined;
    const send = client.call.bind(client) as (...command: unknown[]) => Promise<unknown>;
    let calls = 0;
    client.call = (...command: unknown[]) => {
      // The first is a look.
      if (++calls === 2) proxy.down.cutNext = 1;
      return send(...command);
    };
    expect(await lock.forceRelease(name)).toBe("hangs");
    expect(proxy.stats.resets).toBe(1);
    await (await next?.promise)?.release();
  });
});

describe("a renewal of which a copy comes late", () => {
  it("takes nothing from an extension that was made meanwhile", async () => {
    const { proxy, client } = await behindProxy();
    const lease = await fixture.on(client).acquire(name, { leaseMs: 6_000 });
    // From here on the server has the script.
    await lease.extend();
    const before = await evals();
    await sentTwice(proxy, client, 1_500, async () => {
      let least = Infinity;
      await eventually(() => {
        least = Math.min(least, lease.remainingMs);
        if (lease.remainingMs < least + 1_000) throw new Error("not renewed yet");
      });
    });
    await lease.extend(60_000);
    await eventually(async () => expect(await evals()).toBeGreaterThanOrEqual(before + 3));
    expect(await fixture.db.pttl(key())).toBeGreaterThan(30_000);
    expect(await lease.release()).toBe("released");
  });

  it("takes nothing from an extension that was made meanwhile, even if it shortened the lease", async () => {
    const { proxy, client } = await behindProxy();
    const lease = await fixture.on(client).acquire(name, { leaseMs: 30_000, renew: false });
    // From here on the server has the script.
    await lease.extend();
    const before = await evals();
    await sentTwice(proxy, client, 1_500, () => lease.extend(20_000));
    await lease.extend(60_000);
    await eventually(async () => expect(await evals()).toBeGreaterThanOrEqual(before + 3));
    expect(await fixture.db.pttl(key())).toBeGreaterThan(30_000);
    expect(await lease.release()).toBe("released");
  });
});
