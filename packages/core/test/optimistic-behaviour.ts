import type { RedisMode, TestRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { hasEnded, type RedisLike } from "../src/kernel/connection/client.js";
import { KitConflictError } from "../src/kernel/base/errors.js";
import { optimistic, type OptimisticResult } from "../src/transaction/optimistic.js";
import { attach, type ClientContext } from "../src/kernel/context/context.js";
import { connectionsNamed, own, rejection, until } from "./harness.js";

/** Adds one the way that loses updates unless nobody comes between. */
export const increment = (
  client: RedisLike | ClientContext,
  key: string,
  waitMs = 30_000,
): Promise<OptimisticResult<number>> =>
  optimistic(
    client,
    [key],
    async (tx) => {
      const next = Number(await tx.call("GET", key)) + 1;
      tx.queue("SET", key, next, "PX", 60_000);
      return next;
    },
    { waitMs },
  );

/** For a single server and for a Cluster. */
export const optimisticBehaviour = (redis: TestRedis<RedisMode>): void => {
  describe("optimistic", () => {
    it("loses no update of fifty callers on one key", async () => {
      const client = await own(redis);
      const results = await Promise.all(Array.from({ length: 50 }, () => increment(client, redis.prefix)));
      expect(results.map(({ value }) => value).sort((a, b) => a - b)).toEqual(results.map((_, index) => index + 1));
      expect(await redis.client.get(redis.prefix)).toBe("50");
    });

    it("refuses an option that does not exist before the first try", async () => {
      let tries = 0;
      const misspelt = { waitMS: 10 } as object;
      const attempt = (): Promise<number> => Promise.resolve(++tries);
      await expect(optimistic(redis.client, [redis.prefix], attempt, misspelt)).rejects.toThrow(
        /"waitMS".*waitMs, signal/,
      );
      expect(tries).toBe(0);
    });

    it("gives what the attempt returned, and how many it took", async () => {
      expect(await increment(redis.client, redis.prefix)).toEqual({ value: 1, attempts: 1 });
      let runs = 0;
      const result = await optimistic(redis.client, [redis.prefix], async (tx) => {
        const seen = await tx.call("GET", redis.prefix);
        if (++runs <= 2) await redis.client.set(redis.prefix, `theirs-${String(runs)}`, "PX", 60_000);
        tx.queue("APPEND", redis.prefix, "-ours");
        return seen;
      });
      expect(result).toEqual({ value: "theirs-2", attempts: 3 });
      expect(await redis.client.get(redis.prefix)).toBe("theirs-2-ours");
    });

    it("writes nothing and leaves nothing watched when nothing is queued", async () => {
      const client = await own(redis);
      const { value } = await optimistic(client, [redis.prefix], (tx) => tx.call("EXISTS", redis.prefix));
      expect(value).toBe(0);
      await redis.client.set(redis.prefix, "x", "PX", 60_000);
      // The same connection again: a watch left over would fail it.
      expect((await increment(client, `{${redis.prefix}}:n`)).attempts).toBe(1);
      expect(await connectionsNamed(redis, "kit:exclusive")).toHaveLength(1);
    });

    it("writes nothing when the attempt throws, and passes its error on", async () => {
      const client = await own(redis);
      const mine = new Error("mine");
      const failing = optimistic(client, [redis.prefix], (tx) => {
        tx.queue("SET", redis.prefix, "x", "PX", 60_000);
        return Promise.reject(mine);
      });
      await expect(failing).rejects.toBe(mine);
      expect(await redis.client.exists(redis.prefix)).toBe(0);
      // Its keys are no longer watched: the next transaction of this client is not disturbed by them.
      await redis.client.set(redis.prefix, "0", "PX", 60_000);
      expect((await increment(client, `{${redis.prefix}}:n`)).attempts).toBe(1);
      expect((await increment(client, redis.prefix)).value).toBe(1);
    });

    it("passes an attempt's own errors on unchanged, whatever they are called", async () => {
      const reply = Object.assign(new Error("MOVED 1 127.0.0.1:1"), { name: "ReplyError" });
      for (const error of [reply, new KitConflictError("theirs", 1)]) {
        let runs = 0;
        const failing = optimistic(redis.client, [redis.prefix], () => {
          runs++;
          return Promise.reject(error);
        });
        await expect(failing).rejects.toBe(error);
        expect(runs).toBe(1);
      }
    });

    it("rejects typed after waitMs when every try had a conflict, with pauses between them", async () => {
      const client = await own(redis);
      let runs = 0;
      const failing = optimistic(
        client,
        [redis.prefix],
        async (tx) => {
          await redis.client.set(redis.prefix, String(++runs), "PX", 60_000);
          tx.queue("SET", redis.prefix, "ours", "PX", 60_000);
        },
        { waitMs: 500 },
      );
      const error = await rejection(failing);
      expect(error).toBeInstanceOf(KitConflictError);
      expect(error).toMatchObject({ code: "KIT_CONFLICT", attempts: runs, retryable: true });
      expect(runs).toBeGreaterThan(1);
      expect(runs).toBeLessThan(50);
      expect(await redis.client.get(redis.prefix)).toBe(String(runs));
    });

    it("applies nothing when the server refuses a queued command, and names the reason", async () => {
      const client = await own(redis);
      for (const [command, ...args] of [["SET"], ["NOSUCH", "canary"]] as const) {
        const failing = optimistic(client, [redis.prefix], (tx) => {
          tx.queue("SET", redis.prefix, "x", "PX", 60_000);
          tx.queue(command, redis.prefix, ...args);
          return Promise.resolve();
        });
        const error = await rejection(failing);
        expect(error).toMatchObject({ name: "KitError", code: "KIT_SERVER" });
        expect(error.message).toMatch(/wrong number of arguments|unknown command/);
        expect(error.message).not.toContain("canary");
        expect(await redis.client.exists(redis.prefix)).toBe(0);
      }
      expect((await increment(client, redis.prefix)).value).toBe(1);
    });

    it("reports it when a write failed while the others were made", async () => {
      const list = `{${redis.prefix}}:list`;
      await redis.client.lpush(list, "x");
      await redis.client.pexpire(list, 60_000);
      const failing = optimistic(redis.client, [list], (tx) => {
        tx.queue("SET", `{${redis.prefix}}:other`, "x", "PX", 60_000);
        tx.queue("INCR", list);
        return Promise.resolve();
      });
      const error = await rejection(failing);
      expect(error.message).toContain("the other writes were made");
      expect(await redis.client.exists(`{${redis.prefix}}:other`)).toBe(1);
    });

    it("types the errors of reads", async () => {
      const list = `{${redis.prefix}}:list`;
      await redis.client.lpush(list, "x");
      await redis.client.pexpire(list, 60_000);
      expect(await rejection(optimistic(redis.client, [list], (tx) => tx.call("GET", list)))).toMatchObject({
        name: "KitError",
        code: "KIT_SERVER",
      });
    });

    it("refuses commands that would end the watch behind its back, and use after its end", async () => {
      for (const command of ["MULTI", "exec", "UNWATCH", "DISCARD", "RESET", "SELECT", "SUBSCRIBE"]) {
        expect(await rejection(optimistic(redis.client, [redis.prefix], (tx) => tx.call(command)))).toBeInstanceOf(
          RangeError,
        );
        const queueing = optimistic(redis.client, [redis.prefix], (tx) => Promise.resolve(tx.queue(command)));
        expect(await rejection(queueing)).toBeInstanceOf(RangeError);
      }
      const waiting = [
        "BLPOP k 0",
        "brpoplpush a b 0",
        "BZMPOP 0 1 k MIN",
        "WAIT 1 0",
        "XREAD COUNT 1 BLOCK 0 STREAMS k $",
      ];
      for (const [command, ...args] of waiting.map((text) => text.split(" ")))
        await expect(
          optimistic(redis.client, [redis.prefix], (tx) => tx.call(command!, ...args)),
          command,
        ).rejects.toThrow("in a transaction. Pass it to queue()");
      const { value: read } = await optimistic(redis.client, [redis.prefix], (tx) =>
        tx.call("XREAD", "STREAMS", redis.prefix, "0"),
      );
      expect(read).toBeNull();
      const { value: tx } = await optimistic(redis.client, [redis.prefix], (transaction) =>
        Promise.resolve({ transaction }),
      );
      expect(await rejection(tx.transaction.call("GET", redis.prefix))).toMatchObject({ code: "KIT_CLOSED" });
      expect(() => tx.transaction.queue("GET", redis.prefix)).toThrow("closed");
    });

    it("means the same keys as the caller's client where that has a prefix", async () => {
      const client = redis.connect({ keyPrefix: `${redis.prefix}:` }, { keyPrefix: `${redis.prefix}:` });
      expect((await increment(client, "{n}")).value).toBe(1);
      expect(await redis.keys()).toEqual([`${redis.prefix}:{n}`]);
      expect(await client.get("{n}")).toBe("1");
    });

    it("lends at most eight connections, first come first served", async () => {
      const context = attach(redis.client, { prefix: redis.prefix });
      const entered: number[] = [];
      const gates: (() => void)[] = [];
      const calls = Array.from({ length: 20 }, (_, index) =>
        optimistic(context, [redis.prefix], async () => {
          entered.push(index);
          await new Promise<void>((resolve) => gates.push(resolve));
        }),
      );
      await until(() => entered.length === 8);
      expect(await connectionsNamed(redis, "kit:exclusive")).toHaveLength(8);
      for (let open = 0; open < 20; open++) {
        await until(() => gates.length > open);
        gates[open]!();
        await calls[entered[open]!];
        // One place at a time: of two that come free together the later borrower's reply may be read first.
        await until(() => entered.length === Math.min(open + 9, 20));
      }
      await Promise.all(calls);
      expect(entered.slice(8)).toEqual(Array.from({ length: 12 }, (_, index) => index + 8));
      expect((await connectionsNamed(redis, "kit:exclusive")).length).toBeLessThanOrEqual(8);
      context.detach();
      await until(async () => (await connectionsNamed(redis, "kit:exclusive")).length === 0);
    });

    it("stops waiting for a connection at its deadline, on abort, and on close", async () => {
      const context = attach(redis.client, { prefix: redis.prefix });
      const gates: (() => void)[] = [];
      const busy = Array.from({ length: 8 }, () =>
        optimistic(context, [redis.prefix], () => new Promise<void>((resolve) => gates.push(resolve))),
      );
      await until(() => gates.length === 8);
      const late = await rejection(increment(context, redis.prefix, 50));
      expect(late).toMatchObject({ code: "KIT_UNAVAILABLE" });
      const controller = new AbortController();
      const aborted = optimistic(context, [redis.prefix], () => Promise.resolve(), { signal: controller.signal });
      setImmediate(() => controller.abort(new Error("enough")));
      await expect(aborted).rejects.toThrow("enough");
      const closed = rejection(increment(context, redis.prefix));
      await Promise.resolve();
      setImmediate(() => context.detach());
      expect(await closed).toMatchObject({ code: "KIT_CLOSED" });
      for (const open of gates) open();
      await Promise.allSettled(busy);
    });

    it("leaves no connection on a client to which nobody is attached", async () => {
      await increment(redis.client, redis.prefix);
      await until(async () => (await connectionsNamed(redis, "kit:exclusive")).length === 0);
      expect(await redis.client.get(redis.prefix)).toBe("1");
    });

    it("is refused on a client that has ended, without connecting", async () => {
      const client = redis.connect();
      await client.ping();
      client.disconnect();
      await until(() => hasEnded(client));
      expect(await rejection(increment(client, redis.prefix, 10_000))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    });

    it.each([
      ["no keys", [[], {}], RangeError],
      ["a negative waitMs", [["k"], { waitMs: -1 }], RangeError],
      ["a signal that is none", [["k"], { signal: 1 }], TypeError],
    ] as const)("refuses %s", async (_, [keys, options], kind) => {
      const call = optimistic(redis.client, keys, () => Promise.resolve(), options as object);
      expect(await rejection(call)).toBeInstanceOf(kind);
    });

    it("rejects with the signal's reason between two tries", async () => {
      const controller = new AbortController();
      const failing = optimistic(
        redis.client,
        [redis.prefix],
        async (tx) => {
          await redis.client.set(redis.prefix, Math.random(), "PX", 60_000);
          controller.abort(new Error("enough"));
          tx.queue("SET", redis.prefix, "ours");
        },
        { signal: controller.signal },
      );
      await expect(failing).rejects.toThrow("enough");
      expect(await redis.client.get(redis.prefix)).not.toBe("ours");
    });
  });
};
