import { KitError } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import {
  aborted,
  block,
  callsOf,
  clock,
  cutOffRenewed,
  rejection,
  renewedTwice,
  timed,
  watchStalls,
} from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Permit, PermitLostError } from "../src/index.js";
import { fixtureOf, name, next, take } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const evals = (): Promise<number> => callsOf(redis.server, "evalsha");

/** Milliseconds that the server gives a permit from now on; 0: it has none. */
const msLeft = async ({ token }: Permit): Promise<number> => {
  const [seconds, micros] = await fixture.db.time();
  const rows = await fixture.db.zrange(fixture.keysOf(name).permits, "0", "-1", "WITHSCORES");
  const at = rows.findIndex((row) => row.startsWith(`${token}|`));
  return at < 0 ? 0 : Number(rows[at + 1]) - Number(seconds) * 1_000 - Number(micros) / 1_000;
};

/** When the signal aborted, and how late this process was for everything meanwhile. */
const abortedAt = async (permit: Permit): Promise<{ at: number; lateMs: number }> => {
  const stalls = watchStalls();
  await aborted(permit.signal);
  return { at: clock(), lateMs: stalls.end().worst };
};

describe("a server that falls silent", () => {
  it("costs each permit before it can have ended, by the local clock", async () => {
    const semaphore = fixture.make({ leaseMs: 3_000 });
    const permits = await take(semaphore, 2);
    const node = redis.server.nodes[0]!;
    const { renewedAt, ends } = await cutOffRenewed(permits, msLeft, {
      cut: () => node.pause(),
      mend: () => node.resume(),
    });
    const losses = await Promise.all(permits.map(abortedAt));
    for (const [index, permit] of permits.entries()) {
      expect(() => permit.assertHeld()).toThrow(PermitLostError);
      const { at, lateMs } = losses[index]!;
      expect(at - lateMs).toBeLessThanOrEqual(ends[index]!);
      expect(at - renewedAt).toBeGreaterThan(2_500);
      expect(permit.signal.reason).toMatchObject({ reason: "deadline", resource: name });
    }
    node.resume();
    expect(await permits[0]!.release()).toBe("not-held");
    await eventually(async () => expect(await fixture.used()).toBe(0));
  });

  it("costs nothing when it speaks again in time", async () => {
    const semaphore = fixture.make({ leaseMs: 6_000, deadlineMs: 200 });
    const permit = await eventually(() => semaphore.acquire());
    const [node] = redis.server.nodes;
    const failed = next(semaphore, "error");
    node!.pause();
    expect(await failed).toMatchObject({ retryable: true });
    node!.resume();
    await eventually(async () => expect(await msLeft(permit)).toBeGreaterThan(4_000));
    expect([permit.isHeld, permit.signal.aborted]).toEqual([true, false]);
  });
});

describe("a renewal", () => {
  it("that finds something else at the key is no verdict", async () => {
    const semaphore = fixture.make({ leaseMs: 6_000 });
    const permit = await semaphore.acquire();
    const { permits } = fixture.keysOf(name);
    const before = await evals();
    const reported = next(semaphore, "error");
    const [permitRecord] = (await fixture.db.zrange(permits, "0", "-1")) as [string];
    const [seconds] = await fixture.db.time();
    await fixture.db.multi().del(permits).rpush(permits, "stranger").pexpire(permits, 60_000).exec();
    expect(await rejection(permit.extend())).toMatchObject({ code: "KIT_KEY_TYPE", key: permits });
    await eventually(async () => expect((await evals()) - before).toBeGreaterThanOrEqual(2));
    expect(await reported).toMatchObject({ code: "KIT_KEY_TYPE", key: permits });
    const ending = (Number(seconds) + 20) * 1_000;
    await fixture.db.multi().del(permits).zadd(permits, ending, permitRecord).pexpire(permits, 60_000).exec();
    await eventually(async () => expect(Number(await fixture.db.zscore(permits, permitRecord))).not.toBe(ending));
    expect([permit.isHeld, permit.signal.aborted]).toEqual([true, false]);
  });

  it("takes one command for a hundred permits", async () => {
    const semaphore = fixture.make({ permits: 100, leaseMs: 3_600 });
    const permits = await take(semaphore, 100);
    const before = await evals();
    const renewals = await renewedTwice(permits);
    // They were taken one after another, and do not all fall due together.
    expect((await evals()) - before).toBeLessThanOrEqual(renewals / 10);
    expect(permits.every(({ isHeld }) => isHeld)).toBe(true);
    await Promise.all(permits.map((permit) => permit.release()));
  });

  it("takes one command for the permits of a hundred semaphores", async () => {
    const semaphores = Array.from({ length: 100 }, (_, index) =>
      fixture.make({ name: `account ${String(index)}`, leaseMs: 3_600 }),
    );
    const permits = await Promise.all(semaphores.map((semaphore) => semaphore.acquire()));
    const before = await evals();
    const renewals = await renewedTwice(permits);
    expect((await evals()) - before).toBeLessThanOrEqual(renewals / 10);
    expect(permits.every(({ isHeld }) => isHeld)).toBe(true);
    expect(await Promise.all(permits.map((permit) => permit.release()))).toEqual(permits.map(() => "released"));
  });

  it("of two semaphores is reported by each of them when it fails, and goes on when one is closed", async () => {
    const client = fixture.connect();
    const [a, b] = ["a", "b"].map((own) => fixture.on(client, { name: own, leaseMs: 6_000, deadlineMs: 500 }));
    const [first, second] = [await eventually(() => a!.acquire()), await eventually(() => b!.acquire())];
    const failures = Promise.all([next(a!, "error"), next(b!, "error")]);
    await fixture.db.call("CLIENT", "PAUSE", "3000", "ALL");
    expect((await failures).every((error) => KitError.is(error) && error.retryable)).toBe(true);
    await eventually(() => expect(Math.min(first.remainingMs, second.remainingMs)).toBeGreaterThan(4_100));
    await a!.close({ timeoutMs: 0 });
    expect(first.isHeld).toBe(false);
    const { permits } = fixture.keysOf("b");
    const [permitRecord] = (await fixture.db.zrange(permits, "0", "-1")) as [string];
    await fixture.db.zadd(permits, "XX", 9e15, permitRecord);
    await eventually(async () => expect(Number(await fixture.db.zscore(permits, permitRecord))).toBeLessThan(9e14));
    expect(second.isHeld).toBe(true);
  });

  it("of one permit that is gone notifies its holder, and leaves the others alone", async () => {
    const semaphore = fixture.make({ leaseMs: 3_000 });
    const [gone, stays] = (await take(semaphore, 2)) as [Permit, Permit];
    const lost = next(semaphore, "lost");
    await fixture.expire(gone);
    expect(await lost).toEqual({ weight: 1, tenant: null, reason: "expired" });
    expect([gone.signal.aborted, stays.signal.aborted, stays.isHeld]).toEqual([true, false, true]);
    // Read only now.
    expect(gone.signal.reason).toBeInstanceOf(PermitLostError);
  });
});

describe("a blocked event loop", () => {
  it("makes assertHeld throw first thing when the permit is over", async () => {
    const permit = await fixture.make().acquire({ leaseMs: 2_000 });
    permit.assertHeld();
    block(2_050);
    expect([permit.isHeld, permit.remainingMs]).toEqual([false, 0]);
    expect(() => permit.assertHeld()).toThrow(expect.objectContaining({ code: "KIT_PERMIT_LOST", reason: "deadline" }));
    expect(await permit.release()).toBe("not-held");
  });
});

describe("clocks", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each([3_600_000, -3_600_000])(
    "renew at once when the wall clock jumps by %i ms, and nothing is lost",
    async (jump) => {
      const permit = await fixture.make().acquire({ leaseMs: 60_000 });
      const { permits } = fixture.keysOf(name);
      const [permitRecord, ending] = (await fixture.db.zrange(permits, "0", "-1", "WITHSCORES")) as [string, string];
      await fixture.db.zadd(permits, "XX", Number(ending) - 30_000, permitRecord);
      const now = Date.now.bind(Date);
      vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
      await eventually(async () => expect(await msLeft(permit)).toBeGreaterThan(50_000));
      expect([permit.isHeld, permit.signal.aborted]).toEqual([true, false]);
    },
  );

  it("of a process that is an hour off neither lets more in nor costs a permit", async () => {
    const hour = 3_600_000;
    const peers = await Promise.all([fixture.spawn({}, hour), fixture.spawn({}, -hour)]);
    for (const [index, peer] of peers.entries())
      expect(((await peer.now()) - Date.now()) * (index === 0 ? 1 : -1)).toBeGreaterThan(hour - 60_000);
    const semaphore = fixture.make();
    const [ours] = await take(semaphore, 1, { leaseMs: 2_000 });
    const fast = await peers[0]!.acquire({ leaseMs: 2_000 });
    expect(await peers[1]!.tryAcquire()).toBeNull();
    // Longer than the leases: all are renewed, and nobody else gets in.
    const late = peers[1]!.acquire({ leaseMs: 2_000 });
    await fixture.untilWaiting(name, 1);
    await rejection(semaphore.acquire({ waitMs: 2_200 }));
    expect([await fixture.used(), await semaphore.tryAcquire(), await peers[0]!.tryAcquire()]).toEqual([2, null, null]);
    expect([ours!.isHeld, await peers[0]!.isHeld(fast)]).toEqual([true, true]);
    await ours!.release();
    const slow = await late;
    await rejection(semaphore.acquire({ waitMs: 2_200 }));
    expect([await peers[1]!.isHeld(slow), await fixture.used()]).toEqual([true, 2]);
    // A permit of a clock that is ahead ends when the server says.
    await peers[0]!.kill();
    const { awakeMs } = await timed(semaphore.acquire());
    // Not by its clock, which is an hour ahead or behind.
    expect(awakeMs).toBeLessThan(10_000);
    expect(await fixture.used()).toBe(2);
  });
});

describe("maxHoldMs", () => {
  it("ends renewal so that nobody holds a permit longer, and bounds the server's end too", async () => {
    const semaphore = fixture.make({ leaseMs: 10_000, maxHoldMs: 1_500 });
    const startedAt = clock();
    const permit = await semaphore.acquire();
    await permit.extend(5_000);
    expect(await msLeft(permit)).toBeLessThanOrEqual(1_500);
    expect(await aborted(permit.signal)).toMatchObject({ reason: "max-hold" });
    expect(clock() - startedAt).toBeGreaterThan(1_400);
    await eventually(async () => expect(await fixture.used()).toBe(0));
  });
});

describe("extend", () => {
  it("replaces what is left and gives the permit this length from then on, shorter ones too", async () => {
    const permit = await fixture.make().acquire({ leaseMs: 30_000 });
    await permit.extend(3_000);
    expect([permit.leaseMs, permit.remainingMs <= 3_000, (await msLeft(permit)) <= 3_000]).toEqual([3_000, true, true]);
    let least = 3_000;
    await eventually(() => {
      least = Math.min(least, permit.remainingMs);
      if (least > 2_500 || permit.remainingMs < least + 50) throw new Error("not renewed yet");
    });
    await permit.extend(60_000);
    expect(await msLeft(permit)).toBeGreaterThan(55_000);
  });
});

describe("using", () => {
  it("rejects with the loss after the routine has ended, and with the routine's own error before that", async () => {
    const semaphore = fixture.make({ leaseMs: 3_000 });
    let hasEnded = false;
    const losing = (end: () => void): Promise<void> =>
      semaphore.using(async (permit) => {
        await fixture.expire(permit);
        await aborted(permit.signal);
        await fixture.db.ping();
        hasEnded = true;
        end();
      });
    expect(await rejection(losing(() => undefined))).toMatchObject({ code: "KIT_PERMIT_LOST", reason: "expired" });
    expect(hasEnded).toBe(true);
    const own = new Error("the routine's own");
    const failing = losing(() => {
      throw own;
    });
    expect(await rejection(failing)).toBe(own);
  });

  it("keeps the result when only the release finds no server, and says so by an event", async () => {
    const semaphore = fixture.make({ deadlineMs: 1_000 });
    const [node] = redis.server.nodes;
    const failed = next(semaphore, "error");
    const result = await semaphore.using(() => {
      node!.pause();
      return "done";
    });
    node!.resume();
    expect(result).toBe("done");
    expect(await failed).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    await eventually(async () => expect(await fixture.used()).toBe(0));
  });
});
