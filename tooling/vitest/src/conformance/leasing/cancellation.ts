import { getEventListeners } from "node:events";
import { beforeEach, describe, expect, it } from "vitest";
import { drawing } from "../../hostile.js";
import { rejection } from "../../promises.js";
import { sentTwice } from "../../servers.js";
import { atBest, promptMs, timed } from "../../time.js";
import type { Client, Proxy } from "../ground.js";
import { command, exists, type Held, isFree, type Leaser, type Leasing, proxied } from "./leasing.js";

const reason = new Error("never mind");

/** A cancelled acquire leaves no lease and no place in the queue, under every fault of the network. */
export const describeLeaseCancellation = (leasing: Leasing): void => {
  const { name } = leasing;
  const { redis, eventually } = leasing.ground;
  const granted = (): Promise<unknown> => exists(leasing, leasing.lastingKey(name));

  describe("an AbortSignal", () => {
    it("carries one listener for a hundred waiters, and none after them", async () => {
      const leaser = leasing.make();
      const held = await leaser.acquire();
      const { signal, abort } = aborting();
      const outcomes = Promise.allSettled(Array.from({ length: 100 }, () => leaser.acquire({ signal })));
      await leasing.untilWaiting(100);
      expect(getEventListeners(signal, "abort")).toHaveLength(1);
      abort();
      expect(new Set((await outcomes).map((outcome) => outcome.status === "rejected" && outcome.reason))).toEqual(
        new Set([reason]),
      );
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
      await leasing.untilWaiting(0);
      await held.release();
    });

    it("ends the wait when it aborts while the first reply is on its way, at whichever step", async () => {
      const holder = await leasing.make().acquire();
      const client = redis.connect() as Client;
      const leaser = leasing.on(client);
      await leaser.inspect();
      let { signal, abort } = aborting();
      const waited: boolean[] = [];
      leaser.once("waiting", () => waited.push(signal.aborted));
      let steps = 0;
      for (; waited.length === 0; steps++) {
        ({ signal, abort } = aborting());
        afterNextReply(client, steps, abort);
        expect(await rejection(leaser.acquire({ signal, waitMs: 10_000 }))).toBe(reason);
        await leasing.untilWaiting(0);
      }
      // A wait that had ended before it began is not reported.
      expect(waited).toEqual([false]);
      // The first step ends the command and the last one a wait that had begun. There were steps in between.
      expect(steps).toBeGreaterThan(2);
      await holder.release();
    });

    it("has no influence on a lease once it is held", async () => {
      const { signal, abort } = aborting();
      const held = await leasing.make().acquire({ signal });
      abort();
      await held.extend();
      expect([held.isHeld, held.signal.aborted]).toEqual([true, false]);
      expect(await held.release()).toBe("released");
    });
  });

  describe("an acquire that is cancelled while it is on its way", () => {
    let proxy: Proxy;
    let connect: () => object;
    beforeEach(async () => {
      ({ proxy, connect } = await proxied(leasing.ground));
    });
    const through = (): Leaser => leasing.on(connect());

    it("rejects at once, and its grant is released", async () => {
      const client = connect();
      await leasing.on(client, { name: "warm-up" }).tryAcquire();
      const leaser = leasing.on(client);
      await leaser.inspect();
      proxy.up.latencyMs = 1_500;
      const { signal, abort } = aborting();
      // The lease is longer than the test, so it does not end by itself.
      const tried = rejection(leaser.tryAcquire({ signal, leaseMs: 600_000 }));
      setImmediate(() => setImmediate(abort));
      expect(await tried).toBe(reason);
      // The acquire is still on its way to the server.
      expect(await granted()).toBe(0);
      await eventually(async () => expect(await granted()).toBe(1));
      await isFree(leasing);
    });

    it("rejects at once when it would have queued, and its place in the queue is removed", async () => {
      const holder = await leasing.make().acquire();
      const leaser = through();
      const warm = await leaser.enqueue({ waitMs: 60_000 });
      const tickets = async (): Promise<number> =>
        Number(await command(leasing, "HGET", leasing.keysOf(name).waiters, "#"));
      const last = await tickets();
      proxy.up.latencyMs = 1_500;
      const { signal, abort } = aborting();
      const waiting = rejection(leaser.acquire({ signal }));
      setImmediate(() => setImmediate(abort));
      expect(await waiting).toBe(reason);
      expect(await tickets()).toBe(last);
      // By its ticket, the acquire joined the queue, and leaves it again.
      await eventually(async () => expect(await tickets()).toBe(last + 1));
      await leasing.untilWaiting(1);
      proxy.up.latencyMs = 0;
      await holder.release();
      await (await warm.promise).release();
    });

    it("passes a grant on that crosses its abort", async () => {
      const near = leasing.make();
      // Well before the end of the two seconds for which the lease was granted.
      await atBest(1_700, async () => {
        const holder = await near.acquire();
        const { signal, abort } = aborting();
        const crossing = await through().enqueue({ signal });
        const behind = await near.enqueue();
        proxy.down.latencyMs = 300;
        await holder.release();
        const { holders, queue } = await near.inspect();
        abort();
        const outcome = await crossing.promise.catch((error: unknown) => error);
        // The message came before the abort: a round that shows nothing.
        if (outcome !== reason) await (outcome as Held).release();
        const { awakeMs, value } = await timed(behind.promise);
        proxy.heal();
        await value.release();
        expect([holders, queue]).toEqual([[expect.anything()], [expect.anything()]]);
        expect(outcome).toBe(reason);
        return awakeMs;
      });
      await isFree(leasing);
    });

    it.each(["up", "down"] as const)("is undone also when the undoing is lost on its way %s", async (way) => {
      const holder = await leasing.make().acquire();
      const { signal, abort } = aborting();
      const waiter = await through().enqueue({ signal });
      proxy[way].cutNext = 1;
      abort();
      expect(await rejection(waiter.promise)).toBe(reason);
      await eventually(() => expect(proxy.stats.droppedBytes).toBeGreaterThan(0));
      await leasing.untilWaiting(0);
      await holder.release();
      await isFree(leasing);
    });

    describe("an acquire with a copy that arrives after its end", () => {
      /** Time for what has to happen before the copy comes. */
      const lateMs = 1_500;
      let client: object;
      let leaser: Leaser;
      beforeEach(async () => {
        client = connect();
        // Long enough that a copy which a busy machine delays is accepted.
        leaser = leasing.on(client, { deadlineMs: 6_000 });
        // From here on the server has the scripts and the client has its inbox.
        const held = await leaser.acquire();
        await rejection(leaser.acquire({ waitMs: 50 }));
        await leasing.untilWaiting(0);
        await held.release();
      });
      /**
       * Expects that the copy creates a key, which is removed when the server accepts no more copies. That is sooner than a
       * whole lease, or than the 15 s of a waiter.
       */
      const comesAndGoes = async (key: string): Promise<void> => {
        const until = (count: number): Promise<void> =>
          eventually(async () => expect(await exists(leasing, key)).toBe(count));
        await until(0);
        await until(1);
        expect((await timed(until(0))).awakeMs).toBeLessThan(14_000);
      };

      it("holds no lease when its lease was released before", async () => {
        const held = await sentTwice(proxy, client, lateMs, () => leaser.acquire({ leaseMs: 120_000 }));
        expect(await held.release()).toBe("released");
        await comesAndGoes(leasing.heldKey(name));
        await isFree(leasing);
      });

      it("is in no queue when its caller had cancelled before", async () => {
        const holder = await leasing.make().acquire();
        const { signal, abort } = aborting();
        const waiting = rejection(sentTwice(proxy, client, lateMs, () => leaser.acquire({ signal })));
        await leasing.untilWaiting(1);
        abort();
        expect(await waiting).toBe(reason);
        await comesAndGoes(leasing.keysOf(name).queue);
        await holder.release();
        await isFree(leasing);
      });
    });

    it.each([
      ["before the first command", (leaser: Leaser): Promise<unknown> => leaser.inspect()],
      ["before the first wait", (leaser: Leaser): Promise<unknown> => leaser.tryAcquire()],
      ["after the first wait", (leaser: Leaser): Promise<unknown> => rejection(leaser.acquire({ waitMs: 50 }))],
    ])("waits no longer than waitMs, also for a silent server: %s", async (_when, warm) => {
      const client = connect();
      const deadlineMs = 20_000;
      await leasing.make({ name: "warm-up" }).acquire();
      await warm(leasing.on(client, { name: "warm-up", deadlineMs }));
      const leaser = leasing.on(client, { deadlineMs });
      proxy.down.hole = true;
      const { ms, awakeMs, value } = await timed(() => rejection(leaser.acquire({ waitMs: 200 })));
      expect(value).toMatchObject({ code: expect.stringMatching(/^KIT_/) as unknown });
      expect(ms).toBeGreaterThan(190);
      expect(awakeMs).toBeLessThan(promptMs);
      proxy.heal();
      await isFree(leasing);
    });
  });

  describe("giving up in the middle of contention", () => {
    const byWaitMs = (leaser: Leaser, ms: number): Promise<Held> => leaser.acquire({ waitMs: ms });
    const bySignal = (leaser: Leaser, ms: number): Promise<Held> => {
      const { signal, abort } = aborting();
      const timer = setTimeout(abort, ms);
      return leaser.acquire({ signal }).finally(() => clearTimeout(timer));
    };

    it.each([
      ["waitMs", byWaitMs],
      ["AbortSignal", bySignal],
    ])("leaves no lease and no place in the queue behind, by %s", async (_how, wait) => {
      const leasers = Array.from({ length: 3 }, () => leasing.on(redis.connect()));
      // A caller that gives up before there is a connection gets that error.
      await Promise.all(leasers.map((leaser) => leaser.inspect()));
      const timeout = leasing.timeoutOf("").code;
      const { below } = drawing(20_261_120);
      let [inside, most, held, gaveUp] = [0, 0, 0, 0];
      const loop = async (leaser: Leaser): Promise<void> => {
        // However quick the machine is: until enough of both have happened.
        for (let round = 0; round < 10 || (round < 1_000 && Math.min(held, gaveUp) <= 20); round++) {
          const outcome = await wait(leaser, below(2) === 0 ? below(12) : 20_000).catch((error: unknown) => error);
          if (outcome instanceof Error) {
            if (outcome !== reason && (outcome as { code?: unknown }).code !== timeout) throw outcome;
            gaveUp++;
            continue;
          }
          most = Math.max(most, ++inside);
          await (redis.client as Client).ping();
          held++;
          inside--;
          expect(await (outcome as Held).release()).toBe("released");
        }
      };
      await Promise.all(leasers.flatMap((leaser) => Array.from({ length: 5 }, () => loop(leaser))));
      expect(most).toBe(1);
      expect(Math.min(held, gaveUp)).toBeGreaterThan(20);
      await isFree(leasing);
    });
  });

  describe("an acquire that was cancelled during an outage", () => {
    it.each([
      ["a first command", (leaser: Leaser): Promise<unknown> => leaser.inspect()],
      ["a later command", (leaser: Leaser): Promise<unknown> => leaser.tryAcquire()],
    ])("rejects at once and never runs when the server is back: %s", async (_what, warm) => {
      const client = redis.connect({ retryStrategy: () => 20 }) as Client;
      // The deadline is longer than a test, so only an immediate rejection passes.
      const deadlineMs = 600_000;
      await warm(leasing.on(client, { name: "warm-up", deadlineMs }));
      const leaser = leasing.on(client, { deadlineMs });
      const [node] = redis.server.nodes;
      await node!.kill();
      await eventually(() => expect(client.status).not.toBe("ready"));
      const { signal, abort } = aborting();
      const waiting = Promise.all([rejection(leaser.acquire({ signal })), rejection(leaser.tryAcquire({ signal }))]);
      setImmediate(abort);
      expect(await waiting).toEqual([reason, reason]);
      await node!.start();
      await eventually(() => expect(client.status).toBe("ready"));
      // Runs after every command that the client still had to send.
      await client.ping();
      await eventually(async () => expect(await redis.keys()).toEqual([]));
    });

    it("is refused by the server when it arrives too late", async () => {
      const warm = leasing.make({ name: "warm-up", deadlineMs: 1_000 });
      // From here on the client has a bound of the server's clock.
      await (await warm.acquire()).release();
      const leaser = leasing.make({ deadlineMs: 1_000 });
      const [node] = redis.server.nodes;
      node!.pause();
      const error = await rejection(leaser.tryAcquire());
      // Ends well after the wait of the first acquire.
      await rejection(warm.tryAcquire());
      node!.resume();
      expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
      await (redis.client as Client).ping();
      await isFree(leasing);
      expect(await granted()).toBe(0);
    });

    it("never runs when the caller's client gave up on it by commandTimeout", async () => {
      const client = redis.connect({ commandTimeout: 300 });
      await eventually(() => leasing.on(client, { name: "warm-up" }).tryAcquire());
      const leaser = leasing.on(client, { deadlineMs: 700 });
      const [node] = redis.server.nodes;
      node!.pause();
      const error = await rejection(leaser.tryAcquire());
      // Ends well after the deadline of the first.
      await rejection(leasing.on(client, { name: "warm-up", deadlineMs: 700 }).tryAcquire());
      node!.resume();
      expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: expect.any(String) as unknown });
      // Its reply comes after those to all commands that were sent.
      await eventually(() => (client as Client).ping());
      await isFree(leasing);
      expect(await granted()).toBe(0);
    });

    it("is one acquire, however often the caller's client gave up on it by commandTimeout", async () => {
      const client = redis.connect({ commandTimeout: 300 });
      await eventually(() => leasing.on(client, { name: "warm-up" }).tryAcquire());
      const leaser = leasing.on(client);
      await redis.server.call("CLIENT", "PAUSE", "800", "ALL");
      const held = await leaser.tryAcquire();
      expect((await leaser.inspect()).holders).toMatchObject([leasing.shown(held!)]);
      expect(await held?.release()).toBe("released");
      await isFree(leasing);
    });
  });
};

/** A signal, with the function that aborts it. */
const aborting = (): { readonly signal: AbortSignal; abort(): void } => {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(reason) };
};

/** Runs `then` a number of microtasks after the client has the reply to its next command. */
const afterNextReply = (client: Client, microtasks: number, then: () => void): void => {
  const call = client.call.bind(client);
  client.call = (...args) => {
    client.call = call;
    const reply = call(...args);
    void reply.then(async () => {
      for (let count = 0; count < microtasks; count++) await Promise.resolve();
      then();
    });
    return reply;
  };
};
