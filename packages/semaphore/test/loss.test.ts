import { KitError } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { aborted, block, callsOf, clock, rejection, timed, watchStalls } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Permit, PermitLostError } from "../src/index.js";
import { benchOf, name, next, take } from "./harness.js";

const redis = useRedis(vitest);
const bench = benchOf(redis);
const evals = (): Promise<number> => callsOf(redis.server, "evalsha");

/** Milliseconds that the server gives a permit from now on; 0: it has none. */
const msLeft = async ({ token }: Permit): Promise<number> => {
  const [seconds, micros] = await bench.db.time();
  const rows = await bench.db.zrange(bench.keysOf(name).permits, "0", "-1", "WITHSCORES");
  const at = rows.findIndex((row) => row.startsWith(`${token}|`));
  return at < 0 ? 0 : Number(rows[at + 1]) - Number(seconds) * 1_000 - Number(micros) / 1_000;
};

/** When the signal aborted, less what this process was late for everything. */
const abortedAt = async (permit: Permit): Promise<number> => {
  const stalls = watchStalls();
  await aborted(permit.signal);
  return clock() - stalls.end().worst;
};

describe("a server that falls silent", () => {
  it("costs each permit before it can have ended, by the local clock", async () => {
    const semaphore = bench.make({ leaseMs: 1_000 });
    const permits = await take(semaphore, 2);
    const [node] = redis.server.nodes;
    await Promise.all(permits.map((permit) => permit.extend()));
    const askedAt = clock();
    const ends = (await Promise.all(permits.map(msLeft))).map((ms) => askedAt + ms);
    node!.pause();
    const at = await Promise.all(permits.map(abortedAt));
    for (const [index, permit] of permits.entries()) {
      expect(() => permit.assertHeld()).toThrow(PermitLostError);
      expect(at[index]).toBeLessThanOrEqual(ends[index]!);
      expect(at[index]).toBeGreaterThan(ends[index]! - 500);
      expect(permit.signal.reason).toMatchObject({ reason: "deadline", resource: name });
    }
    node!.resume();
    expect(await permits[0]!.release()).toBe("not-held");
    await eventually(async () => expect(await bench.used()).toBe(0));
  });

  it("costs nothing when it speaks again in time", async () => {
    const permit = await bench.make({ leaseMs: 1_500, deadlineMs: 200 }).acquire();
    const [node] = redis.server.nodes;
    node!.pause();
    // Two of our commands go unanswered meanwhile.
    await rejection(bench.make({ name: "another", deadlineMs: 350 }).tryAcquire());
    node!.resume();
    await eventually(async () => expect(await msLeft(permit)).toBeGreaterThan(1_300));
    expect([permit.isHeld, permit.signal.aborted]).toEqual([true, false]);
  });
});

describe("a renewal", () => {
  it("that finds something else at the key is no verdict", async () => {
    const semaphore = bench.make({ leaseMs: 1_500 });
    const permit = await semaphore.acquire();
    const { permits } = bench.keysOf(name);
    const before = await evals();
    const told = next(semaphore, "error");
    const [claim] = (await bench.db.zrange(permits, "0", "-1")) as [string];
    const [seconds] = await bench.db.time();
    await bench.db.multi().del(permits).rpush(permits, "stranger").pexpire(permits, 5_000).exec();
    expect(await rejection(permit.extend())).toMatchObject({ code: "KIT_KEY_TYPE", key: permits });
    await eventually(async () => expect((await evals()) - before).toBeGreaterThanOrEqual(2));
    expect(await told).toMatchObject({ code: "KIT_KEY_TYPE", key: permits });
    const ending = (Number(seconds) + 3) * 1_000;
    await bench.db.multi().del(permits).zadd(permits, ending, claim).pexpire(permits, 5_000).exec();
    await eventually(async () => expect(Number(await bench.db.zscore(permits, claim))).not.toBe(ending));
    expect([permit.isHeld, permit.signal.aborted]).toEqual([true, false]);
  });

  it("takes one command for a hundred permits", async () => {
    const semaphore = bench.make({ permits: 100, leaseMs: 1_200 });
    const permits = await take(semaphore, 100);
    const before = await evals();
    const { ms } = await timed(rejection(semaphore.acquire({ waitMs: 1_800 })));
    // One try, a place in line, its end; the rest is renewals, each third of a lease.
    const renewals = (await evals()) - before - 3;
    expect(renewals).toBeGreaterThanOrEqual(3);
    // They were taken one after another, and do not all fall due together.
    expect(renewals).toBeLessThanOrEqual(4 * Math.ceil(ms / 400));
    expect(permits.every(({ isHeld }) => isHeld)).toBe(true);
    await Promise.all(permits.map((permit) => permit.release()));
  });

  it("takes one command for the permits of a hundred semaphores", async () => {
    const semaphores = Array.from({ length: 100 }, (_, index) =>
      bench.make({ name: `account ${String(index)}`, leaseMs: 1_200 }),
    );
    const permits = await Promise.all(semaphores.map((semaphore) => semaphore.acquire()));
    const before = await evals();
    const { ms } = await timed(rejection(bench.make({ permits: 0, name: "none" }).acquire({ waitMs: 1_800 })));
    const renewals = (await evals()) - before - 3;
    expect(renewals).toBeGreaterThanOrEqual(3);
    expect(renewals).toBeLessThanOrEqual(4 * Math.ceil(ms / 400));
    expect(permits.every(({ isHeld }) => isHeld)).toBe(true);
    expect(await Promise.all(permits.map((permit) => permit.release()))).toEqual(permits.map(() => "released"));
  });

  it("of two semaphores is told to each of them when it fails, and goes on when one is closed", async () => {
    const client = bench.connect();
    const [a, b] = ["a", "b"].map((own) => bench.on(client, { name: own, leaseMs: 1_500, deadlineMs: 100 }));
    const [first, second] = [await a!.acquire(), await b!.acquire()];
    const failures = Promise.all([next(a!, "error"), next(b!, "error")]);
    await bench.db.call("CLIENT", "PAUSE", "900", "ALL");
    expect((await failures).every((error) => KitError.is(error) && error.retryable)).toBe(true);
    await eventually(() => expect(Math.min(first.remainingMs, second.remainingMs)).toBeGreaterThan(1_000));
    await a!.close({ timeoutMs: 0 });
    expect(first.isHeld).toBe(false);
    const { permits } = bench.keysOf("b");
    const [claim] = (await bench.db.zrange(permits, "0", "-1")) as [string];
    await bench.db.zadd(permits, "XX", 9e15, claim);
    await eventually(async () => expect(Number(await bench.db.zscore(permits, claim))).toBeLessThan(9e14));
    expect(second.isHeld).toBe(true);
  });

  it("of one permit that is gone tells its holder, and leaves the others alone", async () => {
    const semaphore = bench.make({ leaseMs: 600 });
    const [gone, stays] = (await take(semaphore, 2)) as [Permit, Permit];
    const lost = next(semaphore, "lost");
    await bench.expire(gone);
    expect(await lost).toEqual({ weight: 1, tenant: null, reason: "expired" });
    expect([gone.signal.aborted, stays.signal.aborted, stays.isHeld]).toEqual([true, false, true]);
    // Read only now.
    expect(gone.signal.reason).toBeInstanceOf(PermitLostError);
  });
});

describe("a blocked event loop", () => {
  it("makes assertHeld throw first thing when the permit is over", async () => {
    const permit = await bench.make().acquire({ leaseMs: 200 });
    permit.assertHeld();
    block(250);
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
      const permit = await bench.make().acquire({ leaseMs: 60_000 });
      const { permits } = bench.keysOf(name);
      const [claim, ending] = (await bench.db.zrange(permits, "0", "-1", "WITHSCORES")) as [string, string];
      await bench.db.zadd(permits, "XX", Number(ending) - 30_000, claim);
      const now = Date.now.bind(Date);
      vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
      await eventually(async () => expect(await msLeft(permit)).toBeGreaterThan(50_000));
      expect([permit.isHeld, permit.signal.aborted]).toEqual([true, false]);
    },
  );

  it("of a process that is an hour off neither lets more in nor costs a permit", async () => {
    const hour = 3_600_000;
    const peers = await Promise.all([bench.spawn({}, hour), bench.spawn({}, -hour)]);
    for (const [index, peer] of peers.entries())
      expect(((await peer.now()) - Date.now()) * (index === 0 ? 1 : -1)).toBeGreaterThan(hour - 60_000);
    const semaphore = bench.make();
    const [ours] = await take(semaphore, 1, { leaseMs: 600 });
    const fast = await peers[0]!.acquire({ leaseMs: 600 });
    expect(await peers[1]!.tryAcquire()).toBeNull();
    // Longer than the leases: all are renewed, and nobody else gets in.
    const late = peers[1]!.acquire({ leaseMs: 600 });
    await bench.untilWaiting(name, 1);
    await rejection(semaphore.acquire({ waitMs: 1_500 }));
    expect([await bench.used(), await semaphore.tryAcquire(), await peers[0]!.tryAcquire()]).toEqual([2, null, null]);
    expect([ours!.isHeld, await peers[0]!.isHeld(fast)]).toEqual([true, true]);
    await ours!.release();
    const slow = await late;
    await rejection(semaphore.acquire({ waitMs: 900 }));
    expect([await peers[1]!.isHeld(slow), await bench.used()]).toEqual([true, 2]);
    // A permit of a clock that is ahead ends when the server says.
    await peers[0]!.kill();
    const { awakeMs } = await timed(semaphore.acquire());
    expect(awakeMs).toBeLessThan(750);
    expect(await bench.used()).toBe(2);
  });
});

describe("maxHoldMs", () => {
  it("ends renewal so that nobody holds a permit longer, and bounds the server's end too", async () => {
    const semaphore = bench.make({ leaseMs: 10_000, maxHoldMs: 500 });
    const startedAt = clock();
    const stalls = watchStalls();
    const permit = await semaphore.acquire();
    await permit.extend(5_000);
    expect(await msLeft(permit)).toBeLessThanOrEqual(500);
    expect(await aborted(permit.signal)).toMatchObject({ reason: "max-hold" });
    expect(clock() - startedAt).toBeGreaterThan(400);
    expect(clock() - startedAt - stalls.end().worst).toBeLessThan(550);
    await eventually(async () => expect(await bench.used()).toBe(0));
  });
});

describe("extend", () => {
  it("replaces what is left and gives the permit this length from then on, shorter ones too", async () => {
    const permit = await bench.make().acquire({ leaseMs: 30_000 });
    await permit.extend(600);
    expect([permit.leaseMs, permit.remainingMs <= 600, (await msLeft(permit)) <= 600]).toEqual([600, true, true]);
    let least = 600;
    await eventually(() => {
      least = Math.min(least, permit.remainingMs);
      if (least > 500 || permit.remainingMs < least + 50) throw new Error("not renewed yet");
    });
    await permit.extend(60_000);
    expect(await msLeft(permit)).toBeGreaterThan(55_000);
  });
});

describe("using", () => {
  it("rejects with the loss after the routine has ended, and with the routine's own error before that", async () => {
    const semaphore = bench.make({ leaseMs: 600 });
    let hasEnded = false;
    const losing = (end: () => void): Promise<void> =>
      semaphore.using(async (permit) => {
        await bench.expire(permit);
        await aborted(permit.signal);
        await bench.db.ping();
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
    const semaphore = bench.make({ deadlineMs: 150 });
    const [node] = redis.server.nodes;
    const failed = next(semaphore, "error");
    const result = await semaphore.using(() => {
      node!.pause();
      return "done";
    });
    node!.resume();
    expect(result).toBe("done");
    expect(await failed).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    await eventually(async () => expect(await bench.used()).toBe(0));
  });
});
