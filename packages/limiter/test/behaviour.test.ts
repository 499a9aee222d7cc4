import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, rejection, unchanged } from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Limiter, LimiterOptions, Limits } from "../src/index.js";
import { user } from "./acl.js";
import { allowedOf, type Fixture, fixtureOf, hourMs, key, permanentKeys } from "./harness.js";

const gcra = (count: number, perMs: number, burst = count): Limits => ({ rate: { count, perMs, burst } });
const sliding = (count: number, perMs: number): Limits => ({ rate: { count, perMs, algorithm: "sliding-window" } });
const fixed = (count: number, perMs: number): Limits => ({ rate: { count, perMs, algorithm: "fixed-window" } });

inModes(
  { single: user.loginForText, cluster: user.login, nodeRedis: onNodeRedis(user.login, fromNodeRedis) },
  (mode, login) => {
    describe(`a limiter on a ${mode === "cluster" ? "Cluster" : "single server"}, as its ACL user`, () => {
      const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
      if (login) guardUsers(redis);
      let lazyFixture: Fixture | undefined;
      const fixture = (): Fixture => (lazyFixture ??= fixtureOf(redis, login));
      const make = (limits?: Limits, options?: Partial<LimiterOptions>): Limiter => fixture().make(limits, options);
      const other = (limits?: Limits, options?: Partial<LimiterOptions>): Limiter =>
        fixture().on(fixture().connect(), limits, options);

      const stateKeys = () => ({ rate: fixture().keys.rate(key), all: fixture().keys.all });

      describe.each([
        ["gcra", gcra],
        ["sliding-window", sliding],
        ["fixed-window", fixed],
      ])("consume by %s", (_, limits) => {
        it("allows as many calls as the limit, for all processes together, and each key apart", async () => {
          const objects = [make(limits(20, hourMs)), other(limits(20, hourMs)), other(limits(20, hourMs))];
          const allowed = await Promise.all(objects.map((limiter) => allowedOf(limiter, 15)));
          expect(allowed.reduce((sum, one) => sum + one, 0)).toBe(20);
          expect(await allowedOf(objects[0]!, 15, "another")).toBe(15);
        });

        it("allows a refused call after retryAfterMs, and not before", async () => {
          const limiter = make(limits(2, 2_000));
          expect(await allowedOf(limiter, 3)).toBe(2);
          const at = performance.now();
          const refused = await limiter.consume(key);
          expect(refused).toMatchObject({ allowed: false, remaining: 0, refusedBy: "rate", decidedBy: "server" });
          const tries: boolean[] = [];
          await eventually(async () => {
            const { allowed } = await limiter.consume(key);
            tries.push(allowed);
            expect(allowed).toBe(true);
          });
          expect(performance.now() - at).toBeGreaterThan(refused.retryAfterMs - 2);
          expect(refused.retryAfterMs).toBeLessThanOrEqual(2_200);
          expect(tries.slice(0, -1)).not.toContain(true);
        });

        it("takes several tokens or none, and says how many are left", async () => {
          const limiter = make(limits(10, hourMs));
          expect(await limiter.consume(key, { tokens: 7 })).toMatchObject({
            allowed: true,
            remaining: 3,
            retryAfterMs: 0,
          });
          expect(await limiter.consume(key, { tokens: 4 })).toMatchObject({ allowed: false, remaining: 3 });
          expect(await limiter.consume(key, { tokens: 3 })).toMatchObject({ allowed: true, remaining: 0 });
          expect(await rejection(limiter.consume(key, { tokens: 11 }))).toMatchObject({
            code: "KIT_LIMITER_TOKENS",
            tokens: 11,
          });
        });

        it("changes nothing by check", async () => {
          const limiter = make(limits(2, hourMs));
          expect(await limiter.check(key)).toMatchObject({ allowed: true, remaining: 2, resetMs: 0 });
          expect(await redis.keys()).toEqual([]);
          expect(await allowedOf(limiter, 2)).toBe(2);
          expect(await limiter.check(key)).toMatchObject({ allowed: false, remaining: 0, refusedBy: "rate" });
          expect((await limiter.check(key)).retryAfterMs).toBeGreaterThan(hourMs / 4);
          await unchanged(fixture().db, stateKeys(), () => limiter.check(key));
        });

        it("keeps a key no longer than something of it is in use", async () => {
          const limiter = make(limits(10, 1_000));
          const { resetMs } = await limiter.consume(key);
          expect(resetMs).toBeGreaterThan(50);
          const ttl = await fixture().db.pttl(fixture().keys.rate(key));
          expect(ttl).toBeLessThanOrEqual(resetMs + 2);
          await eventually(async () => expect(await redis.keys()).toEqual([]));
        });

        it("penalizes beyond the limit, and rewards", async () => {
          const limiter = make(limits(4, hourMs));
          expect(await limiter.penalize(key, 6)).toMatchObject({ allowed: false, remaining: 0 });
          expect(await limiter.reward(key, 2)).toMatchObject({ allowed: false, remaining: 0 });
          expect(await limiter.reward(key)).toMatchObject({ allowed: true, remaining: 1 });
          expect(await limiter.reward(key, 100)).toMatchObject({ allowed: true, remaining: 4 });
        });
      });

      it("keeps its limits even if they are longer than any calendar", async () => {
        const limiter = make({ yearly: { count: 1, perMs: 31_536_000_000 } });
        const used = await limiter.penalize(key, 1_000_000_000);
        expect(used).toMatchObject({ allowed: false, remaining: 0, resetMs: 1e13, retryAfterMs: 1e13 });
        expect(await limiter.consume(key)).toMatchObject({ allowed: false, retryAfterMs: 1e13 });
        expect(await fixture().db.pttl(fixture().keys.rate(key))).toBeGreaterThan(1e12);
        await limiter.reset(key);
      });

      it("spreads gcra evenly after the burst", async () => {
        const limiter = make(gcra(10, 10_000, 2));
        expect(await allowedOf(limiter, 5)).toBe(2);
        const { retryAfterMs, resetMs } = await limiter.consume(key);
        expect(retryAfterMs).toBeLessThanOrEqual(1_000);
        expect(resetMs).toBeLessThanOrEqual(2_000);
        await eventually(async () => expect((await limiter.consume(key)).allowed).toBe(true));
        expect((await limiter.consume(key)).allowed).toBe(false);
      });

      it("applies several limits in one step, and names the one that refused", async () => {
        const limiter = make({ second: { count: 2, perMs: hourMs }, day: { count: 3, perMs: 24 * hourMs } });
        expect(await allowedOf(limiter, 3)).toBe(2);
        expect(await limiter.consume(key)).toMatchObject({ allowed: false, refusedBy: "second" });
        // A refused call took nothing of the other limit.
        expect(await limiter.reward(key, 1)).toMatchObject({ remaining: 1 });
        const windows = make({
          a: { count: 3, perMs: hourMs, algorithm: "fixed-window" },
          b: { count: 2, perMs: 24 * hourMs, algorithm: "sliding-window" },
        });
        expect(await allowedOf(windows, 5, "windows")).toBe(2);
        expect(await windows.consume("windows")).toMatchObject({ allowed: false, refusedBy: "b" });
      });

      it("shares a limit among all keys, in addition to the limit of each", async () => {
        const limiter = make({
          own: { count: 3, perMs: hourMs },
          total: { count: 5, perMs: hourMs, shared: true },
        });
        expect(await allowedOf(limiter, 10, "a")).toBe(3);
        expect(await limiter.consume("a")).toMatchObject({ refusedBy: "own" });
        expect(await allowedOf(limiter, 10, "b")).toBe(2);
        expect(await limiter.consume("b")).toMatchObject({ refusedBy: "total" });
        await limiter.reset("a");
        expect(await limiter.check("a")).toMatchObject({ allowed: false, refusedBy: "total" });
      });

      it("blocks a key, and ends the block", async () => {
        const limiter = make();
        await limiter.block(key, 60_000);
        const refused = await limiter.consume(key);
        expect(refused).toMatchObject({ allowed: false, remaining: 0, refusedBy: "block" });
        expect(refused.retryAfterMs).toBeGreaterThan(50_000);
        expect(refused.retryAfterMs).toBeLessThanOrEqual(60_000);
        await limiter.block(key, 0);
        expect(await limiter.consume(key)).toMatchObject({ allowed: true });
        await limiter.block(key, 60_000);
        await limiter.reset(key);
        expect(await limiter.consume(key)).toMatchObject({ allowed: true, remaining: 4 });
        expect(await other().block(key, 50)).toBeUndefined();
        await eventually(async () => expect(await limiter.consume(key)).toMatchObject({ allowed: true }));
      });

      it("forgets a key by reset", async () => {
        const limiter = make();
        expect(await allowedOf(limiter, 6)).toBe(5);
        await limiter.reset(key);
        expect(await redis.keys()).toEqual([]);
        expect(await allowedOf(limiter, 6)).toBe(5);
        await Promise.all([limiter.reset(key), limiter.consume(key)]);
        expect(await limiter.check(key)).toMatchObject({ remaining: 4 });
      });

      it("answers each call of one command, even if the key of another call is damaged", async () => {
        const limiter = make();
        const { rate } = fixture().keys;
        await fixture().db.rpush(rate("list"), "x");
        await fixture().db.set(rate("newer"), "2 something", "PX", 60_000);
        await fixture().db.pexpire(rate("list"), 60_000);
        const calls = ["a", "list", "b", "newer", "a"].map((one) => limiter.consume(one));
        const settled = await Promise.allSettled(calls);
        expect(
          settled.map((one) => (one.status === "fulfilled" ? one.value.remaining : (one.reason as Error))),
        ).toEqual([
          4,
          expect.objectContaining({ code: "KIT_KEY_TYPE" }),
          4,
          expect.objectContaining({ code: "KIT_LAYOUT" }),
          3,
        ]);
      });

      describe("wait", () => {
        /** Resolves when the server has answered all earlier calls of the object. */
        const arrival = (limiter: Limiter): Promise<unknown> => limiter.consume("another");

        it("starts calls in order of arrival at the rate, in all processes", async () => {
          // A stall of a process between a reply and the next one shifts a start. It is far shorter than a second.
          const [one, two] = [make(gcra(1, 1_000)), other(gcra(1, 1_000))];
          const order: number[] = [];
          const from = performance.now();
          const waits: Promise<void>[] = [];
          for (let at = 0; at < 3; at++) {
            const limiter = at % 2 === 0 ? one : two;
            waits.push(limiter.wait(key).then(() => void order.push(at)));
            // The server has it before the next.
            await arrival(limiter);
          }
          await Promise.all(waits);
          expect(order).toEqual([0, 1, 2]);
          expect(performance.now() - from).toBeGreaterThanOrEqual(2_000);
        });

        it("goes ahead of calls that would consume later", async () => {
          const limiter = make(gcra(1, hourMs));
          await limiter.wait(key);
          const controller = new AbortController();
          const waiting = rejection(limiter.wait(key, { signal: controller.signal }));
          const refused = await limiter.consume(key);
          expect(refused.allowed).toBe(false);
          expect(refused.retryAfterMs).toBeGreaterThan(1.9 * hourMs);
          controller.abort();
          await waiting;
        });

        it("rejects immediately if the wait would be too long, and uses nothing", async () => {
          const limiter = make();
          expect(await allowedOf(limiter, 5)).toBe(5);
          const error = await rejection(limiter.wait(key, { waitMs: 1_000 }));
          expect(error).toMatchObject({ code: "KIT_LIMITER_TIMEOUT", retryable: true, refusedBy: "hourly" });
          await unchanged(fixture().db, stateKeys(), () => rejection(limiter.wait(key, { waitMs: 1_000 })));
          await limiter.reset(key);
          await limiter.wait(key, { waitMs: 0 });
        });

        it("releases the place of a cancelled wait if it is the last one", async () => {
          const limiter = make(gcra(1, hourMs));
          await limiter.wait(key);
          const controllers = [new AbortController(), new AbortController()] as const;
          const waits = [];
          for (const { signal } of controllers) {
            waits.push(rejection(limiter.wait(key, { signal })));
            await arrival(limiter);
          }
          const delayOf = async (): Promise<number> => Math.round((await limiter.check(key)).retryAfterMs / hourMs);
          expect(await delayOf()).toBe(3);
          // The first has another wait behind it.
          controllers[0].abort(new Error("never mind"));
          expect(await waits[0]).toMatchObject({ message: "never mind" });
          await arrival(limiter);
          expect(await delayOf()).toBe(3);
          controllers[1].abort();
          await eventually(async () => expect(await delayOf()).toBe(2));
        });

        it("releases the place when the object is closed", async () => {
          const [limiter, left] = [make(gcra(1, hourMs)), other(gcra(1, hourMs))];
          await limiter.wait(key);
          const waiting = rejection(limiter.wait(key));
          await arrival(limiter);
          await limiter.close();
          expect(await waiting).toMatchObject({ code: "KIT_CLOSED" });
          expect((await left.check(key)).retryAfterMs).toBeLessThanOrEqual(hourMs);
        });

        it("needs gcra only if it has to wait", async () => {
          const limiter = make(fixed(1, hourMs));
          await limiter.wait(key);
          expect(await rejection(limiter.wait(key))).toMatchObject({ code: "KIT_LIMITER_WAIT" });
        });

        it("waits for a shared limit, and not for it together with others", async () => {
          const total = { count: 20, perMs: 1_000, burst: 1, shared: true };
          const shared = make({ total });
          const from = performance.now();
          await Promise.all(["a", "b", "c"].map((one) => shared.wait(one)));
          expect(performance.now() - from).toBeGreaterThanOrEqual(100);
          const both = make({ total, own: { count: 5, perMs: hourMs } });
          const error = await rejection(Promise.all(["a", "b"].map((one) => both.wait(one))));
          expect(error).toMatchObject({ code: "KIT_LIMITER_WAIT" });
        });

        it("releases the place of a shared limit", async () => {
          const limiter = make({ total: { count: 1, perMs: hourMs, shared: true } });
          await limiter.wait("a");
          const controller = new AbortController();
          const waiting = rejection(limiter.wait("b", { signal: controller.signal }));
          await arrival(limiter);
          expect((await limiter.check("c")).retryAfterMs).toBeGreaterThan(1.5 * hourMs);
          controller.abort();
          await waiting;
          await eventually(async () => expect((await limiter.check("c")).retryAfterMs).toBeLessThan(1.5 * hourMs));
        });

        it("starts within every limit: none is overdrawn at the instant to which another delays", async () => {
          const late = { count: 20, perMs: 1_000, burst: 1 };
          // Two seconds of the late limit are in use, and nothing of the other.
          const setUp = make({ few: { count: 1_000_000, perMs: 1_000 }, late });
          await setUp.penalize(key, 40);
          await setUp.reward(key);
          const limiter = make({ few: { count: 1, perMs: 3_000, burst: 2 }, late });
          const starts: number[] = [];
          await Promise.all(
            [1, 2, 3].map(() => limiter.wait(key, { waitMs: 60_000 }).then(() => starts.push(performance.now()))),
          );
          expect(starts[2]! - starts[0]!).toBeGreaterThan(1_500);
        });
      });

      describe("setLimits", () => {
        it("replaces the limits in all processes, and keeps the used tokens", async () => {
          const [one, two] = [make(), other()];
          expect(await allowedOf(one, 3)).toBe(3);
          await one.setLimits({ fewer: { count: 4, perMs: hourMs } });
          expect(await allowedOf(two, 5)).toBe(1);
          expect(await two.consume(key)).toMatchObject({ refusedBy: "fewer" });
          await two.setLimits({ more: { count: 10, perMs: hourMs } });
          expect(await allowedOf(one, 20)).toBe(6);
          await one.setLimits(null);
          expect(await two.check("new")).toMatchObject({ remaining: 5 });
          expect(await two.check(key)).toMatchObject({ allowed: false, refusedBy: "hourly" });
        });

        it("does not undo a later change by a late repeat", async () => {
          const limiter = make();
          await limiter.setLimits({ a: { count: 2, perMs: hourMs } });
          await limiter.setLimits({ b: { count: 3, perMs: hourMs } });
          expect(await limiter.check(key)).toMatchObject({ remaining: 3 });
        });

        it("starts a limit whose algorithm changes with all tokens", async () => {
          const limiter = make();
          expect(await allowedOf(limiter, 5)).toBe(5);
          await limiter.setLimits(sliding(5, hourMs));
          expect(await allowedOf(limiter, 6)).toBe(5);
        });
      });

      it("is used by objects with different limits, each by its own", async () => {
        const [few, many] = [make(gcra(2, hourMs)), other(gcra(4, hourMs))];
        expect(await allowedOf(few, 3)).toBe(2);
        expect(await allowedOf(many, 3)).toBe(2);
        expect(await few.consume(key)).toMatchObject({ allowed: false });
      });
    });
  },
);
