import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Lease, Lock } from "../src/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
const make = (): Lock => fixture.make({ reentrant: true });
const selfDeadlock = {
  name: "LockSelfDeadlockError",
  code: "KIT_LOCK_SELF_DEADLOCK",
  retryable: false,
  resource: name,
};

describe("a reentrant lock", () => {
  it("runs a section inside a section of the same name immediately, in the same lease, without a command", async () => {
    const lock = make();
    const deeper = async (outer: Lease): Promise<string> => {
      const before = await fixture.scriptCalls();
      const result = await lock.using(name, async (lease) => {
        expect(lease).toBe(outer);
        return await lock.using(name, (same) => (same === outer ? "ran" : "another lease"));
      });
      expect(await fixture.scriptCalls()).toBe(before);
      expect(outer.isHeld).toBe(true);
      return result;
    };
    expect(await lock.using(name, (outer) => lock.using("lamp", () => deeper(outer)))).toBe("ran");
    expect(await fixture.db.exists(fixture.keysOf(name).lease)).toBe(0);
  });

  it("passes on errors of a section inside, and stays held", async () => {
    const lock = make();
    await lock.using(name, async (lease) => {
      const failed = lock.using(name, () => {
        throw new Error("too heavy");
      });
      expect(await rejection(failed)).toMatchObject({ message: "too heavy" });
      const aborted = lock.using(name, () => "ran", { signal: AbortSignal.abort(new Error("enough")) });
      expect(await rejection(aborted)).toMatchObject({ message: "enough" });
      expect(await rejection(lock.using(name, () => "ran", { waitMs: -1 }))).toBeInstanceOf(RangeError);
      expect(lease.isHeld).toBe(true);
    });
  });

  it("refuses to wait for itself, and reports it", async () => {
    const lock = make();
    await lock.using(name, async () => {
      expect(await rejection(lock.acquire(name))).toMatchObject(selfDeadlock);
      expect(await rejection(lock.acquireAll(["lamp", name]))).toMatchObject(selfDeadlock);
      expect(await rejection(lock.usingAll([name], () => "ran"))).toMatchObject(selfDeadlock);
      expect(await lock.tryAcquire(name)).toBeNull();
      expect(await fixture.db.exists(fixture.keysOf("lamp").lease)).toBe(0);
      await (await lock.acquire("lamp")).release();
    });
    await lock.usingAll(["lamp", name], async () => {
      expect(await rejection(lock.using(name, () => "ran"))).toMatchObject(selfDeadlock);
      expect(await rejection(lock.acquire(name))).toMatchObject(selfDeadlock);
    });
    await (await lock.acquire(name)).release();
  });

  it("stays held until the sections inside have ended, even if there is no waiter for them", async () => {
    const lock = make();
    let finish!: () => void;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    let isOver = false;
    let begun!: () => void;
    const beginning = new Promise<void>((resolve) => (begun = resolve));
    const inner = (): Promise<void> => {
      begun();
      return finished;
    };
    const using = lock.using(name, () => void lock.using(name, inner)).then(() => (isOver = true));
    await beginning;
    // Round trips behind any release.
    await lock.using("other", () => undefined);
    expect(await fixture.make().tryAcquire(name)).toBeNull();
    expect(isOver).toBe(false);
    finish();
    await using;
    await (await fixture.make().acquire(name)).release();
  });

  it("excludes other callers and objects, and work that a section leaves running gets its own lease", async () => {
    const lock = make();
    let later!: () => void;
    const over = new Promise<void>((resolve) => (later = resolve));
    let left: Promise<string> | undefined;
    const first = await lock.using(name, async ({ fencingToken }) => {
      left = over.then(() => lock.using(name, (own) => own.fencingToken));
      const error = { code: "KIT_LOCK_TIMEOUT" };
      expect(await rejection(fixture.make({ reentrant: true }).acquire(name, { waitMs: 20 }))).toMatchObject(error);
      return fencingToken;
    });
    later();
    expect(BigInt((await left)!)).toBeGreaterThan(BigInt(first));
    const held = await lock.acquire(name);
    expect(await rejection(lock.using(name, () => "ran", { waitMs: 20 }))).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
    await held.release();
  });

  it("runs nothing inside a section whose lease is lost, and reports a loss meanwhile", async () => {
    const lock = make();
    const lost = { code: "KIT_LOCK_LOST" };
    const take = async (lease: Lease): Promise<void> => {
      await fixture.db.del(fixture.keysOf(name).lease);
      expect(await rejection(lease.extend())).toMatchObject(lost);
    };
    const outer = lock.using(name, async (lease) => {
      expect(await rejection(lock.using(name, () => take(lease)))).toMatchObject(lost);
      expect(await rejection(lock.using(name, () => expect.unreachable()))).toMatchObject(lost);
    });
    expect(await rejection(outer)).toMatchObject(lost);
  });

  it("refuses a section inside once it is closed", async () => {
    const lock = make();
    await lock.using(name, async () => {
      const closing = lock.close({ timeoutMs: 60_000 });
      expect(await rejection(lock.using(name, () => "ran"))).toMatchObject({ code: "KIT_CLOSED" });
      redis.defer(() => closing);
    });
  });
});

it("a lock without the option waits, as for any other holder", async () => {
  const lock = fixture.make();
  await lock.using(name, async () => {
    expect(await rejection(lock.acquire(name, { waitMs: 20 }))).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
    expect(await rejection(lock.using(name, () => "ran", { waitMs: 20 }))).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
  });
});
