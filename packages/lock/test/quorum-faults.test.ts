import { eventually, type FaultProxy } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import { describe, expect, it } from "vitest";
import { LockLostError } from "../src/index.js";
import type { QuorumError, QuorumLease, QuorumLock, QuorumLockOptions } from "../src/quorum/index.js";
import { quorumFixture } from "./quorum-harness.js";

const fixture = quorumFixture();
const votesOf = (error: unknown): string[] => (error as QuorumError).votes.map(({ vote }) => vote);
const black = (...proxies: readonly (FaultProxy | undefined)[]): void => {
  for (const proxy of proxies) Object.assign(proxy!.up, { hole: true });
};

/** Another holder tries until `until` resolves; it must never get the lock meanwhile. */
const intrude = async (name: string, until: Promise<unknown>): Promise<number> => {
  const intruder = fixture.make({ holder: "intruder", nodeTimeoutMs: 300 });
  let tries = 0;
  let isOver = false;
  const over = until.finally(() => (isOver = true));
  while (!isOver) {
    const lease: QuorumLease | null = await intruder.tryAcquire(name).catch(() => null);
    expect(lease).toBeNull();
    tries++;
    // One command takes its time.
    await fixture
      .node(0)
      .call("PING")
      .catch(() => undefined);
  }
  await over;
  return tries;
};

/** A lock whose connections are all open. */
const warm = async (lock: QuorumLock): Promise<QuorumLock> => {
  const lease = await lock.acquire("warm", { holder: "warm", leaseMs: 60_000 });
  await fixture.untilHeld("warm", ["warm", "warm", "warm"], lease);
  // A server that is late leaves it to the background.
  await lease.release().catch(() => undefined);
  await fixture.untilHeld("warm", [null, null, null]);
  return lock;
};

describe("answers that come too slowly", () => {
  it("are no grant, and everything is released, even late grants", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ holder: "me" }, clients));
    for (const { down } of proxies) down.latencyMs = 400;
    const error = await rejection(lock.acquire("chest", { leaseMs: 600, waitMs: 0 }));
    expect(votesOf(error).filter((vote) => vote === "granted").length).toBeGreaterThanOrEqual(2);
    await fixture.untilHeld("chest", [null, null, null]);
  });
});

describe("servers that hang", () => {
  it("of a majority end the try, and leave nothing", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ nodeTimeoutMs: 300, leaseMs: 5_000 }, clients));
    // The commands arrive, the answers do not.
    for (const proxy of proxies.slice(0, 2)) proxy.down.hole = true;
    const error = await rejection(lock.tryAcquire("chest"));
    expect(votesOf(error).slice(0, 2)).toEqual(["no-answer", "no-answer"]);
    expect(error).toMatchObject({ code: "KIT_LOCK_QUORUM", retryable: true });
    for (const proxy of proxies) proxy.heal();
    await fixture.untilHeld("chest", [null, null, null]);
    // They vote again as soon as they answer.
    (await lock.acquire("chest")).assertHeld();
  });

  it("as a minority delay nothing, after their first timeout", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ nodeTimeoutMs: 60_000 }, clients));
    black(proxies[2]);
    // Two votes decide: the third is not waited for.
    for (let round = 0; round < 20; round++) await (await lock.acquire("chest")).release();
    const impatient = fixture.make({ nodeTimeoutMs: 1_000 }, clients);
    await fixture.occupy("lamp", 0);
    const isRefused = async (): Promise<void> => expect(await impatient.tryAcquire("lamp")).toBeNull();
    await eventually(isRefused);
    // It is known to be away: a hundred refusals take less than one timeout each.
    const startedAt = performance.now();
    for (let round = 0; round < 100; round++) await eventually(isRefused);
    expect(performance.now() - startedAt).toBeLessThan(50_000);
    for (const proxy of proxies) proxy.heal();
  });
});

describe("a release", () => {
  it("that a majority does not answer rejects, and frees the others and later all", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ nodeTimeoutMs: 300, holder: "me", leaseMs: 60_000, renew: false }, clients));
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    black(proxies[0], proxies[1]);
    const error = await rejection(lease.release());
    expect(error).toMatchObject({ code: "KIT_LOCK_QUORUM" });
    await fixture.untilHeld("chest", ["me", "me", null]);
    for (const proxy of proxies) proxy.heal();
    await fixture.untilHeld("chest", [null, null, null]);
  });

  it("that a minority does not answer succeeds, and frees that server later", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ holder: "me", leaseMs: 60_000, renew: false }, clients));
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    black(proxies[1]);
    expect(await lease.release()).toBe("released");
    await fixture.untilHeld("chest", [null, "me", null]);
    for (const proxy of proxies) proxy.heal();
    await fixture.untilHeld("chest", [null, null, null]);
  });
});

describe("releases while a server is away", () => {
  it("send it one removal at a time, and remove all once it answers", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = fixture.make({ nodeTimeoutMs: 300, holder: "me", leaseMs: 60_000, renew: false }, clients);
    const names = Array.from({ length: 40 }, (_, index) => `chest-${String(index)}`);
    const leases = await Promise.all(names.map((name) => lock.acquire(name)));
    for (const lease of leases) await fixture.untilHeld(lease.name, ["me", "me", "me"], lease);
    black(proxies[2]);
    // A refusal needs the votes of all, so that the third server counts as away afterwards.
    await fixture.occupy("lamp", 0);
    await eventually(async () => expect(await lock.tryAcquire("lamp")).toBeNull());
    const { commandQueue } = clients[2] as unknown as { commandQueue: { length: number } };
    const before = commandQueue.length;
    for (const lease of leases) await lease.release().catch(() => undefined);
    expect(commandQueue.length - before).toBeLessThan(names.length / 2);
    proxies[2]!.heal();
    for (const name of names) await fixture.untilHeld(name, [null, null, null]);
  });
});

describe("a restart without data", () => {
  it("of each server in turn loses nothing: the holder keeps it, no other caller gets it, each server is refilled", async () => {
    const lock = fixture.make({ holder: "me", leaseMs: 9_000 });
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    const rolling = (async () => {
      for (const index of [0, 1, 2]) {
        await fixture.restart(index);
        await fixture.untilHeld("chest", ["me", "me", "me"]);
      }
    })();
    expect(await intrude("chest", rolling)).toBeGreaterThan(0);
    lease.assertHeld();
    expect(await lease.release()).toBe("released");
    await fixture.untilHeld("chest", [null, null, null]);
  });

  /** A lease whose holder is cut off, and of which the servers that had it have forgotten all. */
  const forgotten = async (options: QuorumLockOptions): Promise<{ lease: QuorumLease; proxies: FaultProxy[] }> => {
    const { clients, proxies } = await fixture.proxied();
    const lease = await fixture.make({ holder: "me", ...options }, clients).acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    black(...proxies);
    await fixture.restart(0);
    await fixture.restart(1);
    return { lease, proxies };
  };

  it("keeps a server from voting for as long as a lease it may have forgotten lasts", async () => {
    const { lease, proxies } = await forgotten({ leaseMs: 10_000 });
    // To this one they are young for a minute.
    const patient = fixture.make({ leaseMs: 10_000, restartGuardMs: 60_000 });
    const error = await rejection(patient.acquire("chest", { waitMs: 0 }));
    expect(votesOf(error)).toContain("abstained");
    const next = await fixture.make({ leaseMs: 10_000, restartGuardMs: 10_000 }).acquire("chest", { waitMs: 60_000 });
    expect(lease.isHeld).toBe(false);
    await next.release();
    for (const proxy of proxies) proxy.heal();
  });

  it("gives a held lease away if no server abstains", async () => {
    const { lease, proxies } = await forgotten({ leaseMs: 60_000 });
    const second = await fixture.make({ leaseMs: 60_000 }).acquire("chest");
    expect([lease.isHeld, second.isHeld]).toEqual([true, true]);
    await second.release();
    for (const proxy of proxies) proxy.heal();
  });

  it("does not keep a server from taking the lease of a valid holder back", async () => {
    const lock = fixture.make({ restartGuardMs: 60_000, leaseMs: 15_000, holder: "me" }, fixture.clients());
    const lax = fixture.make({ leaseMs: 15_000, holder: "me" });
    const lease = await lock.resume((await lax.acquire("chest")).handOver());
    await fixture.restart(0);
    await fixture.restart(1);
    await fixture.untilHeld("chest", ["me", "me", "me"]);
    lease.assertHeld();
    await lease.release();
  });
});

describe("a lease", () => {
  it("is lost when two of three servers are down, and released on the third", async () => {
    const lock = fixture.make({ holder: "me", leaseMs: 3_000, nodeTimeoutMs: 500 });
    const lease = await lock.acquire("chest");
    const codes: string[] = [];
    lock.on("error", ({ code }) => codes.push(code));
    const lost = new Promise((resolve) => lock.once("lost", resolve));
    await fixture.node(0).kill();
    await fixture.node(1).kill();
    expect(await lost).toEqual({ name: "chest", reason: "deadline" });
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    await fixture.untilHeld("chest", [undefined, undefined, null]);
    expect(codes).toEqual(["KIT_LOCK_QUORUM"]);
    await fixture.node(0).start();
    await fixture.node(1).start();
    await lock.acquire("chest", { waitMs: 60_000 });
    expect(codes).toEqual(["KIT_LOCK_QUORUM", "KIT_RECOVERED"]);
  });

  it("is kept while renewals are inconclusive, until its deadline", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = fixture.make({ holder: "me", leaseMs: 60_000, nodeTimeoutMs: 300 }, clients);
    const lease = await lock.acquire("chest");
    black(proxies[0], proxies[1]);
    expect(await rejection(lease.extend())).toMatchObject({ code: "KIT_LOCK_QUORUM" });
    lease.assertHeld();
    for (const proxy of proxies) proxy.heal();
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
  });

  it("is not released elsewhere by the failure of one server", async () => {
    const lock = fixture.make({ holder: "me", leaseMs: 15_000 });
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    await fixture.node(0).kill();
    await lease.extend();
    expect(await fixture.holders("chest")).toEqual([undefined, "me", "me"]);
    await fixture.node(0).start();
    await fixture.untilHeld("chest", ["me", "me", "me"]);
    await lease.release();
  });

  it("survives a partition of a minority, one that moves, and one in a single direction", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = fixture.make({ holder: "me", leaseMs: 60_000 }, clients);
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    const moving = (async () => {
      for (const [index, proxy] of proxies.entries()) {
        const direction = index === 1 ? proxy.down : proxy.up;
        direction.hole = true;
        await lease.extend();
        proxy.heal();
        // The rest of a lease from before the partition does not count.
        await fixture.node(index).call("PEXPIRE", fixture.keyOf("chest"), "30000");
        await eventually(async () => {
          await lease.extend();
          expect(await fixture.holders("chest")).toEqual(["me", "me", "me"]);
          expect(await fixture.node(index).call("PTTL", fixture.keyOf("chest"))).toBeGreaterThan(30_000);
        });
      }
    })();
    await intrude("chest", moving);
    lease.assertHeld();
    await lease.release();
    await fixture.untilHeld("chest", [null, null, null]);
  });
});

describe("a lost reply", () => {
  it("to an acquire leaves no lease without a holder", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ holder: "me" }, clients));
    for (const proxy of proxies.slice(0, 2)) proxy.down.cutNext = 1;
    const lease = await lock.acquire("chest", { waitMs: 20_000 });
    await lease.release();
    await fixture.untilHeld("chest", [null, null, null]);
  });

  it("to a release counts as released", async () => {
    const { clients, proxies } = await fixture.proxied();
    const lock = await warm(fixture.make({ holder: "me" }, clients));
    const lease = await lock.acquire("chest");
    await fixture.untilHeld("chest", ["me", "me", "me"], lease);
    for (const proxy of proxies) proxy.down.cutNext = 1;
    expect(await lease.release().catch(() => lease.release())).toBe("released");
    await fixture.untilHeld("chest", [null, null, null]);
  });
});

describe("a server without the right to INFO", () => {
  it("votes, and is reported once", async () => {
    await fixture.node(0).call("ACL", "SETUSER", "blind", "on", "nopass", "~*", "&*", "+@all", "-info");
    const clients = fixture.clients();
    const blind = fixture.servers[0]!.connect({ username: "blind", password: "x", enableReadyCheck: false });
    const lock = fixture.make({ restartGuardMs: 10_000 }, [blind, ...clients.slice(1)]);
    const seen: string[] = [];
    lock.on("unguarded", ({ server }) => seen.push(server));
    for (let round = 0; round < 3; round++)
      await lock.acquire("chest", { waitMs: 60_000 }).then((lease) => lease.release());
    await eventually(() => expect(seen).toEqual([`127.0.0.1:${String(fixture.node(0).port)}`]));
  });
});
