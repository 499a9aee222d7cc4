import { eventually } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import { Cluster, Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { LockLostError } from "../src/index.js";
import { createQuorumLock, QuorumError, type QuorumLock, SameServerError } from "../src/quorum/index.js";
import { quorumFixture } from "./quorum-harness.js";

const fixture = quorumFixture();
const next = (lock: QuorumLock): Promise<unknown> => new Promise((resolve) => lock.once("error", resolve));
const voices = (error: unknown): string[] => (error as QuorumError).votes.map(({ vote }) => vote);

describe("a quorum lock", () => {
  it("is held on all servers, extended, and gone after its release", async () => {
    const lock = fixture.make({ holder: "me" });
    const lease = await lock.acquire("chest", { leaseMs: 20_000 });
    expect(lease.isHeld).toBe(true);
    expect(lease.remainingMs).toBeGreaterThan(10_000);
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    await lease.extend(50_000);
    expect(lease.remainingMs).toBeGreaterThan(20_000);
    for (const index of [0, 1, 2])
      await eventually(async () => {
        await lease.extend();
        expect(await fixture.node(index).call("PTTL", fixture.keyOf("chest"))).toBeGreaterThan(20_000);
      });
    expect(await lease.release()).toBe("released");
    await fixture.untilHeld("chest", [null, null, null]);
    expect(await lease.release()).toBe("released");
  });

  it("goes to the next holder when it is free", async () => {
    const [one, other] = [fixture.make({ holder: "one" }), fixture.make({ holder: "other" })];
    const lease = await one.acquire("chest");
    expect(await other.tryAcquire("chest")).toBeNull();
    const waiting = other.acquire("chest");
    await lease.release();
    const next = await waiting;
    expect(next.holder).toBe("other");
    await next.release();
  });

  it("runs a routine and releases it, even after an error", async () => {
    const lock = fixture.make();
    expect(await lock.using("chest", ({ isHeld }) => isHeld)).toBe(true);
    const failing = lock.using("chest", () => Promise.reject(new Error("routine")));
    expect(String(await rejection(failing))).toContain("routine");
    await fixture.untilHeld("chest", [null, null, null]);
  });

  it("emits what happens", async () => {
    const lock = fixture.make();
    const seen: string[] = [];
    lock.on("acquired", ({ name }) => seen.push(`acquired ${name}`));
    lock.on("released", ({ name }) => seen.push(`released ${name}`));
    lock.on("lost", ({ name, reason }) => seen.push(`lost ${name}: ${reason}`));
    await (await lock.acquire("chest")).release();
    const lease = await lock.acquire("lamp");
    await fixture.occupy("lamp", 0, 1);
    // A server that replies late gives no vote: then the call can be repeated.
    await eventually(async () => expect(await rejection(lease.extend())).toBeInstanceOf(LockLostError));
    expect(lease.signal.aborted).toBe(true);
    expect(seen).toEqual(["acquired chest", "released chest", "acquired lamp", "lost lamp: taken"]);
    // Its rest on the third server is released.
    await fixture.untilHeld("lamp", ["other", "other", null]);
  });

  it("expires by itself when it is not renewed", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire("chest", { leaseMs: 300, renew: false });
    const next = await fixture.make().acquire("chest");
    expect(lease.isHeld).toBe(false);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    await next.release();
  });

  it("is renewed for longer than its lease", async () => {
    const [lock, intruder] = [fixture.make(), fixture.make({ holder: "intruder" })];
    let overlaps = 0;
    // A machine that stands still for the length of the lease ends it: then once more.
    await eventually(async () => {
      await using lease = await lock.acquire("chest", { leaseMs: 600 });
      for (const end = performance.now() + 1_500; performance.now() < end;) {
        await using second = await intruder.tryAcquire("chest");
        if (second && lease.isHeld) overlaps++;
        lease.assertHeld();
      }
    });
    expect(overlaps).toBe(0);
  });

  it("is handed over to another object, which a quorum confirms", async () => {
    const lease = await fixture.make().acquire("chest");
    const text = lease.handOver();
    expect(lease.isHeld).toBe(false);
    const taken = await fixture.make().resume(text);
    taken.assertHeld();
    expect(await taken.release()).toBe("released");
    expect(await rejection(fixture.make().resume(text))).toBeInstanceOf(LockLostError);
    // A resumed lease is never written where it is gone.
    await fixture.untilHeld("chest", [null, null, null]);
  });

  it("is not longer than the time for which a server abstains after its start", async () => {
    expect(() => fixture.make({ restartGuardMs: 5_000 })).toThrow(RangeError);
    const lock = fixture.make({ restartGuardMs: 5_000, leaseMs: 5_000 });
    expect(await rejection(lock.acquire("chest", { leaseMs: 5_001 }))).toBeInstanceOf(RangeError);
  });

  it("shows the vote of each server", async () => {
    const lock = fixture.make({ holder: "me", leaseMs: 60_000, renew: false });
    // A server that is down has its answer no sooner than this.
    const observer = fixture.make({ deadlineMs: 500 });
    await eventually(async () =>
      expect(await observer.inspect("chest")).toMatchObject({ state: "free", holder: null, msLeft: null }),
    );
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    await fixture.node(1).call("DEL", fixture.keyOf("chest"));
    await fixture.node(2).kill();
    await eventually(async () => {
      const seen = await observer.inspect("chest");
      expect(seen.state).toBe("unknown");
      expect(seen.votes.map(({ vote }) => vote)).toEqual(["held", "free", "no-answer"]);
    });
    await lease.extend();
    await eventually(async () =>
      expect(await observer.inspect("chest")).toMatchObject({ state: "held", holder: "me" }),
    );
    await fixture.node(2).start();
    await lease.release();
  });
});

describe("a majority of servers", () => {
  for (let mask = 0; mask < 8; mask++) {
    const taken = [0, 1, 2].filter((index) => mask & (1 << index));
    const isFree = taken.length < 2;
    it(`that are free decides: with ${taken.length === 0 ? "none" : taken.join(", ")} taken`, async () => {
      const lock = fixture.make({ holder: "me" });
      await fixture.occupy("chest", ...taken);
      const lease = await lock.tryAcquire("chest");
      expect(lease !== null).toBe(isFree);
      const mine = isFree ? "me" : null;
      await fixture.untilHeld(
        "chest",
        [0, 1, 2].map((index) => (taken.includes(index) ? "other" : mine)),
        lease ?? undefined,
      );
      await lease?.release();
      // The values of the other holder stay.
      await fixture.untilHeld(
        "chest",
        [0, 1, 2].map((index) => (taken.includes(index) ? "other" : null)),
      );
    });
  }

  it("is more than half of an even number, and a tie ends", async () => {
    const two = fixture.clients().slice(0, 2);
    const lock = fixture.make({}, two);
    await fixture.occupy("chest", 0);
    expect(await lock.tryAcquire("chest")).toBeNull();
    const error = await rejection(lock.acquire("chest", { waitMs: 300 }));
    expect(error).toMatchObject({ code: "KIT_LOCK_QUORUM", quorum: 2, retryable: true });
    await fixture.untilHeld("chest", ["other", null, null]);
  });

  it("lists each vote in the error, and names the holder", async () => {
    await fixture.occupy("chest", 0, 1);
    const error = await rejection(fixture.make().acquire("chest", { waitMs: 0 }));
    expect(error).toBeInstanceOf(QuorumError);
    expect(voices(error).slice(0, 2)).toEqual(["held", "held"]);
    expect(String(error)).toMatch(/^QuorumError: Lock "chest" was not granted: 2 of 3 servers must agree \(/);
    expect(String(error)).toContain('held by "other"');
  });

  it("is won by a later try after a partial win", async () => {
    const lock = fixture.make({ holder: "me" });
    await fixture.occupy("chest", 0, 1);
    const before = await fixture.grants(2);
    const waiting = lock.acquire("chest");
    // A try has won the third server, and must not be in the way of the next one.
    await eventually(async () => expect(await fixture.grants(2)).toBeGreaterThan(before));
    for (const index of [0, 1]) await fixture.node(index).call("DEL", fixture.keyOf("chest"));
    const lease = await waiting;
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    await lease.release();
  });

  it("whose errors last ends the wait with the error", async () => {
    for (const index of [0, 1]) await fixture.node(index).call("RPUSH", fixture.keyOf("chest"), "x");
    const error = await rejection(fixture.make().acquire("chest"));
    expect(error).toMatchObject({ code: "KIT_LOCK_QUORUM", retryable: false, cause: { code: "KIT_KEY_TYPE" } });
    for (const index of [0, 1]) await fixture.node(index).call("DEL", fixture.keyOf("chest"));
  });

  it("is needed if one of two servers fails", async () => {
    await fixture.node(1).call("RPUSH", fixture.keyOf("chest"), "x");
    const error = await rejection(fixture.make({}, fixture.clients().slice(0, 2)).acquire("chest"));
    expect(error).toMatchObject({ code: "KIT_LOCK_QUORUM", retryable: false, cause: { code: "KIT_KEY_TYPE" } });
    await fixture.node(1).call("DEL", fixture.keyOf("chest"));
    await fixture.untilHeld("chest", [null, null, null]);
  });

  it("cannot be lowered", () => {
    expect(() => fixture.make({ quorum: 1 } as never)).toThrow(TypeError);
  });

  it("is reached by five callers with one lock, one after the other", async () => {
    const callers = Array.from({ length: 5 }, (_, index) => fixture.make({ holder: String(index), leaseMs: 60_000 }));
    let inside = 0;
    const counts = callers.map(() => 0);
    await Promise.all(
      callers.map(async (lock, index) => {
        while (counts[index]! < 5)
          await lock.using("chest", async () => {
            expect(++inside).toBe(1);
            await fixture.holders("chest");
            inside--;
            counts[index]!++;
          });
      }),
    );
    expect(counts).toEqual([5, 5, 5, 5, 5]);
    await fixture.untilHeld("chest", [null, null, null]);
  });
});

describe("what a quorum lock refuses", () => {
  it("at the call: no clients, a Cluster client, the same client twice, no client", () => {
    const [client] = fixture.clients();
    const cluster = new Cluster([{ port: 1 }], { lazyConnect: true });
    expect(() => createQuorumLock([])).toThrow(RangeError);
    expect(() => createQuorumLock(undefined as never)).toThrow(TypeError);
    expect(() => createQuorumLock([cluster])).toThrow(TypeError);
    expect(() => createQuorumLock([client!, client!])).toThrow(TypeError);
    expect(() => createQuorumLock([client!, {} as never])).toThrow(TypeError);
    for (const nothing of [null, undefined])
      expect(() => createQuorumLock([client!, nothing as never])).toThrow(
        `Expected \`clients[1]\` to be an ioredis Redis, or fromNodeRedis(client), got ${String(nothing)}`,
      );
    cluster.disconnect();
  });

  it("two clients of one server, at the first use", async () => {
    const [first, second] = fixture.clients();
    const again = fixture.clients()[1]!;
    const lock = fixture.make({}, [first!, second!, again]);
    const emitted = next(lock);
    // Two servers may grant it before the third client is connected.
    await eventually(async () => {
      const lease = await lock.acquire("chest").catch(() => undefined);
      await lease?.release();
      if (lease) throw new Error("it was granted");
    });
    const error = await rejection(lock.acquire("chest"));
    expect(await emitted).toBeInstanceOf(SameServerError);
    expect(error).toBeInstanceOf(SameServerError);
    expect((error as SameServerError).servers).toEqual([1, 1].map((index) => `127.0.0.1:${fixture.node(index).port}`));
    expect((error as SameServerError).positions).toEqual([1, 2]);
    expect(await rejection(lock.tryAcquire("chest"))).toBeInstanceOf(SameServerError);
    await fixture.untilHeld("chest", [null, null, null]);
  });
});

describe("two clients of one server that does not identify itself", () => {
  it("never make a quorum, and are refused", async () => {
    await fixture.node(1).call("ACL", "SETUSER", "blind", "on", "nopass", "~*", "&*", "+@all", "-info");
    const blind = (): Redis =>
      fixture.servers[1]!.connect({ username: "blind", password: "x", enableReadyCheck: false });
    const lock = fixture.make({ holder: "me" }, [fixture.clients()[0]!, blind(), blind()]);
    // The first server is another's, so only the votes of the second would count.
    await fixture.occupy("chest", 0);
    const error = await rejection(lock.acquire("chest"));
    expect(error).toBeInstanceOf(SameServerError);
    const [position] = (error as SameServerError).positions;
    expect([1, 2]).toContain(position);
    expect(String(error)).toContain(`clients[${String(position)}] (127.0.0.1:${String(fixture.node(1).port)})`);
    await fixture.untilHeld("chest", ["other", null, null]);
  });
});

describe("close()", () => {
  it("ends waiting acquires, and releases what is held", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire("chest");
    const waiting = rejection(lock.acquire("chest"));
    await lock.close({ timeoutMs: 0 });
    expect(await waiting).toMatchObject({ code: "KIT_CLOSED" });
    expect(lease.signal.reason).toMatchObject({ code: "KIT_LOCK_LOST", reason: "closed" });
    await fixture.untilHeld("chest", [null, null, null]);
    expect(await rejection(lock.acquire("chest"))).toMatchObject({ code: "KIT_CLOSED" });
  });
});

describe("a signal", () => {
  it("ends the wait, and leaves nothing", async () => {
    await fixture.occupy("chest", 0, 1);
    const before = await fixture.grants(2);
    const controller = new AbortController();
    const waiting = rejection(fixture.make().acquire("chest", { signal: controller.signal }));
    await eventually(async () => expect(await fixture.grants(2)).toBeGreaterThan(before));
    controller.abort(new Error("enough"));
    expect(String(await waiting)).toContain("enough");
    await fixture.untilHeld("chest", ["other", "other", null]);
  });

  it("that has aborted keeps every command back", async () => {
    const lock = fixture.make({}, [new Redis({ lazyConnect: true })]);
    const error = await rejection(lock.acquire("chest", { signal: AbortSignal.abort(new Error("before")) }));
    expect(String(error)).toContain("before");
  });
});
