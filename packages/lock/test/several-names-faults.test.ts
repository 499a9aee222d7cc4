import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { aborted, Peer, promptMs, rejection, timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { AcquireOptions, Lock, LockOptions } from "../src/index.js";
import { fixtureOf, next } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const names = ["bow", "chest", "lamp"];
const [bow, chest, lamp] = names as [string, string, string];
const key = (name: string): string => fixture.keysOf(name).lease;
const held = async (): Promise<string[]> => {
  const exist = await Promise.all(names.map((name) => fixture.db.exists(key(name))));
  return names.filter((_, index) => exist[index] === 1);
};
const untilHeld = (wanted: readonly string[]): Promise<void> =>
  eventually(async () => expect(await held()).toEqual(wanted));

/** A process that takes several names, and can be killed. */
class SetHolder extends Peer {
  acquireAll(wanted: readonly string[], options: AcquireOptions): Promise<string[]> {
    return this.ask("acquireAll", wanted, options);
  }
}

const spawn = async (): Promise<SetHolder> => {
  const ports = redis.server.nodes.map(({ port }) => port).join(",");
  const program = new URL("programs/set-holder.mjs", import.meta.url);
  const peer = new SetHolder(program, ["single", ports, JSON.stringify({ prefix: redis.prefix })]);
  redis.defer(() => peer.kill());
  await peer.ready;
  return peer;
};

/** A lock behind a proxy, whose scripts the server knows. */
const proxied = async (options?: LockOptions): Promise<{ lock: Lock; proxy: FaultProxy }> => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const lock = fixture.on(redis.connect({ port: proxy.port }), options);
  await (await lock.acquireAll(names)).release();
  return { lock, proxy };
};

describe("a process that is killed", () => {
  it("frees all names of its set when their leases are over", async () => {
    const peer = await spawn();
    const tokens = await peer.acquireAll(names, { leaseMs: 1_000 });
    await peer.kill();
    const { awakeMs, value: set } = await timed(fixture.make().acquireAll(names, { waitMs: 20_000 }));
    expect(awakeMs).toBeLessThan(promptMs);
    for (const [index, token] of [...set.fencingTokens.values()].entries())
      expect(BigInt(token)).toBeGreaterThan(BigInt(tokens[index]!));
  });

  it("frees the names that it held while it waited for another", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(chest);
    const peer = await spawn();
    const waiting = peer.acquireAll(names, { leaseMs: 4_000 });
    waiting.catch(() => undefined);
    await fixture.untilWaiting(chest, 1);
    expect(await held()).toEqual([bow, chest]);
    await peer.kill();
    const value = await lock.acquire(bow, { waitMs: 20_000 });
    // The dead waiter holds nobody up.
    await lease.release();
    await (await lock.acquireAll([chest, lamp], { waitMs: 20_000 })).release();
    await value.release();
  });
});

describe("a lost reply", () => {
  it("to an acquire takes each name once, and leaves nothing", async () => {
    const { lock, proxy } = await proxied();
    proxy.down.cutNext = 1;
    const set = await lock.acquireAll(names);
    expect(proxy.stats.droppedBytes).toBeGreaterThan(0);
    for (const [name, token] of set.fencingTokens)
      expect(await fixture.db.get(fixture.keysOf(name).fence)).toBe(`1:${token}`);
    expect(await held()).toEqual(names);
    expect(await set.release()).toBe("released");
    await untilHeld([]);
  });

  it("to a release is a release", async () => {
    const { lock, proxy } = await proxied();
    const set = await lock.acquireAll(names);
    proxy.down.cutNext = 1;
    expect(await set.release()).toBe("released");
    expect(proxy.stats.droppedBytes).toBeGreaterThan(0);
    expect(await held()).toEqual([]);
  });
});

describe("a server that falls silent", () => {
  it("while a set is acquired rejects by the deadline, and nothing is left when it speaks again", async () => {
    const { lock, proxy } = await proxied({ deadlineMs: 500 });
    const lease = await fixture.make().acquire(lamp);
    proxy.down.hole = true;
    const error = await rejection(lock.acquireAll(names, { leaseMs: 600_000 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    await untilHeld(names);
    proxy.heal();
    await untilHeld([lamp]);
    await lease.release();
  });

  it("while a set waits ends the wait by waitMs, and nothing is left when it speaks again", async () => {
    const { lock, proxy } = await proxied();
    const lease = await fixture.make().acquire(lamp);
    const waiting = next(lock, "waiting");
    const acquiring = rejection(lock.acquireAll(names, { leaseMs: 600_000, waitMs: 2_000 }));
    await waiting;
    proxy.up.hole = true;
    proxy.down.hole = true;
    expect(await acquiring).toMatchObject({ code: "KIT_LOCK_TIMEOUT", resource: lamp });
    expect(await held()).toEqual(names);
    proxy.heal();
    await untilHeld([lamp]);
    await fixture.untilWaiting(lamp, 0);
    await lease.release();
  });

  it("costs the set before any of its leases can have ended", async () => {
    const { lock, proxy } = await proxied();
    const set = await lock.acquireAll(names, { leaseMs: 1_500 });
    proxy.up.hole = true;
    proxy.down.hole = true;
    const loss = await aborted(set.signal);
    expect(loss).toMatchObject({ code: "KIT_LOCK_LOST", reason: "deadline" });
    expect(() => set.assertHeld()).toThrow("was lost");
    proxy.heal();
    expect(await set.release()).toBe("not-held");
    await untilHeld([]);
  });
});

describe("two callers with two names in opposite orders", () => {
  it("do not wait for each other", async () => {
    const [first, second] = [fixture.make(), fixture.on(redis.connect())];
    let sections = 0;
    const loop = async (lock: Lock, own: readonly string[]): Promise<void> => {
      for (let round = 0; round < 50; round++) await lock.usingAll(own, () => sections++, { waitMs: 60_000 });
    };
    await Promise.all([loop(first, [bow, chest]), loop(second, [chest, bow])]);
    expect(sections).toBe(100);
  });
});
