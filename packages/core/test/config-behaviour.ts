import type { RedisMode, TestRedis } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ConfigConflictError, type ConfigVersion, createConfig } from "../src/config/index.js";
import * as scripts from "../src/config/scripts.js";
import { fixtureOf, first, recorded, second } from "./config-harness.js";
import { callsOf, rejection, until } from "./harness.js";

/** For a single server and for a Cluster. */
export const configBehaviour = (redis: TestRedis<RedisMode>, mode: RedisMode): void => {
  const slots = onMovingSlots(redis, scripts);
  const fixture = fixtureOf(redis);

  describe("config: an entry that is not there", () => {
    it("rejects ready(), waits, or takes the default, by policy", async () => {
      const strict = fixture.make();
      expect(() => strict.current).toThrow(/"search" is not set/);
      expect(await rejection(strict.ready())).toMatchObject({ code: "KIT_CONFIG_MISSING", entry: "search" });
      expect(await rejection(strict.get())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
      expect([strict.state, strict.version]).toEqual(["loading", undefined]);

      const fallback = await fixture.ready({ default: first });
      expect([fallback.current, fallback.state, fallback.version]).toEqual([first, "fresh", undefined]);
      expect(await fallback.get()).toEqual(first);

      const patient = fixture.make({ onMissing: "wait" });
      // It has a separate connection. Before its first reply it cannot report that the entry is missing.
      await until(async () => (await rejection(patient.ready({ waitMs: 50 }))).code === "KIT_CONFIG_MISSING");
      const waiting = patient.ready();
      await strict.set(second);
      expect(await waiting).toEqual(second);
      await until(() => fallback.current.host === second.host);
    });

    it("keeps the last good value of an entry that is deleted, says so, and grows stale", async () => {
      const config = await fixture.ready({ default: second, pollMs: 100 });
      const version = await config.set(first);
      const reported = recorded(config);
      await redis.client.del(fixture.keyOf("entry"));
      await until(() => config.state === "degraded");
      expect(config.current).toEqual(first);
      const staleMs = config.staleMs;
      await until(() => config.staleMs > staleMs + 200);
      expect(reported.errors.map(({ code }) => code)).toEqual(["KIT_CONFIG_MISSING"]);
      expect(await rejection(config.get())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
      expect([await rejection(fixture.make().ready()), reported.changes]).toMatchObject([
        { code: "KIT_CONFIG_MISSING" },
        [],
      ]);

      // An entry that was missing may begin anew; that it was lost is known.
      expect((await config.set(second)).epoch).not.toBe(version.epoch);
      expect(config.current).toEqual(second);
      await until(() => config.state === "fresh");
      expect([config.staleMs, reported.errors.length]).toEqual([0, 1]);
    });
  });

  describe("config: writing", () => {
    it("of two writers with the same expected version one wins, the other sees what is there", async () => {
      const [a, b] = [await fixture.ready({ default: first }), await fixture.ready({ default: first })];
      const attempts = await Promise.allSettled([a.set(first, { expected: null }), b.set(second, { expected: null })]);
      const won = attempts.find((attempt) => attempt.status === "fulfilled")!.value;
      const lost = attempts.find((attempt) => attempt.status === "rejected")!.reason as ConfigConflictError;
      expect(lost).toMatchObject({ code: "KIT_CONFIG_CONFLICT", retryable: false, version: won });
      const next = await b.set(second, { expected: won });
      expect(next).toMatchObject({ epoch: won.epoch, revision: 2 });
      expect(await rejection(a.set(first, { expected: won }))).toMatchObject({ version: next });
      expect(await rejection(a.set(first, { expected: null }))).toMatchObject({ version: next });
    });

    it("follows its own writes at once, and those of others by push", async () => {
      const [a, b] = [await fixture.ready({ default: first }), await fixture.ready({ default: first })];
      const version = await a.set(second);
      expect([a.current, a.version]).toEqual([second, version]);
      await until(() => b.current.host === "beta");
      expect([b.version, b.state, b.staleMs]).toEqual([version, "fresh", 0]);
      expect(await b.get()).toEqual(second);
    });

    it("does once what is sent twice with one operation id, even when others wrote since", async () => {
      const config = await fixture.ready({ default: first });
      const written = await config.set(first, { op: "one" });
      expect(await config.set(first, { op: "one" })).toEqual(written);
      await config.set(second);
      expect(await config.set(first, { op: "one", expected: null })).toEqual(written);
      await until(() => config.version?.revision === 2);
      expect(config.current).toEqual(second);
    });

    it("keeps the last writes with their authors, and writes an earlier one again", async () => {
      const config = await fixture.ready({ default: first, maxHistory: 3 });
      for (let port = 1; port <= 5; port++) await config.set({ host: "h", port }, { author: `ada ${String(port)}` });
      const history = await config.history();
      expect(history.map(({ revision, author, value }) => [revision, author, value])).toEqual([
        [5, "ada 5", { host: "h", port: 5 }],
        [4, "ada 4", { host: "h", port: 4 }],
        [3, "ada 3", { host: "h", port: 3 }],
      ]);
      expect(Math.abs(history[0]!.at - Date.now())).toBeLessThan(60_000);
      expect(await config.history({ limit: 1 })).toEqual(history.slice(0, 1));
      expect(Object.isFrozen(history[0]!.value)).toBe(true);
      const version = await config.rollback(3, { expected: history[0]!, author: "lin" });
      expect([version.revision, config.current.port]).toEqual([6, 3]);
      expect((await config.history({ limit: 1 }))[0]).toMatchObject({ author: "lin", ...version });
      expect(await rejection(config.rollback(2))).toMatchObject({ code: "KIT_CONFIG_MISSING" });
      expect(await rejection(config.rollback(4, { expected: history[0]! }))).toMatchObject({
        code: "KIT_CONFIG_CONFLICT",
      });
    });

    it("ends where a model of compare-and-set ends, whatever several writers do", async () => {
      const writers = await Promise.all([1, 2, 3].map(() => fixture.ready({ default: first })));
      let run = 0;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.tuple(fc.nat(2), fc.nat(9), fc.constantFrom("any", "last", "stale", "none")), {
            minLength: 1,
            maxLength: 12,
          }),
          async (steps) => {
            const name = `model ${String(run++)}`;
            const own = writers.map(
              (writer) => writer && createConfig<number>(redis.client, name, { prefix: redis.prefix }),
            );
            let model: { value: number; version: ConfigVersion } | undefined;
            let stale: ConfigVersion | null = null;
            try {
              for (const [index, value, expects] of steps) {
                const before: ConfigVersion | null = model?.version ?? null;
                const expected = { any: undefined, last: before, stale, none: null }[expects];
                const isDue = expected === undefined || same(expected, before);
                const outcome: Outcome = await own[index]!.set(value, { expected }).catch(
                  (error: unknown) => error as Outcome,
                );
                // The writer with the stored version gets the next revision; the others get a conflict with the stored one.
                const { revision, code, version } = outcome;
                const wanted = isDue
                  ? [(before?.revision ?? 0) + 1, undefined, undefined]
                  : [undefined, "KIT_CONFIG_CONFLICT", before ?? undefined];
                expect([revision, code, version]).toEqual(wanted);
                if (!isDue) continue;
                stale = before;
                model = { value, version: outcome as ConfigVersion };
              }
              const final = model;
              if (!final) return;
              await Promise.all(own.map((config) => config.ready({ waitMs: 5_000 })));
              await until(() => own.every(({ version }) => same(version ?? null, final.version)));
              expect(own.map(({ current }) => current)).toEqual(own.map(() => final.value));
            } finally {
              await Promise.all(own.map((config) => config.close()));
            }
          },
        ),
        { numRuns: 30 },
      );
    });
  });

  describe("config: messages", () => {
    it("finds a change whose message was lost when it looks by itself", async () => {
      const config = await fixture.ready({ default: first, pollMs: 100 });
      await config.set(first);
      await fixture.writeUnseen(JSON.stringify(second));
      await until(() => config.current.host === "beta");
      expect(config.state).toBe("fresh");
    });

    it("is not misled by messages that are doubled, old, foreign or nonsense", async () => {
      const config = await fixture.ready({ default: first });
      const version = await config.set(second);
      const reported = recorded(config);
      for (const message of ["", "x", "1:1:1", `${version.epoch}:1:1`, "9999999999999999:9:9"]) {
        await fixture.announce(message);
        await fixture.announce(message);
      }
      expect(await config.get()).toEqual(second);
      await fixture.announce();
      const marker = await fixture.ready();
      await marker.set(first);
      await until(() => config.current.host === "alpha");
      expect([reported.changes, reported.errors]).toEqual([[[first, second]], []]);
    });

    it("finds what was written while its subscriber was cut", async () => {
      const config = await fixture.ready({ default: first });
      await config.set(first);
      const reported = recorded(config);
      for (const node of redis.server.nodes) await node.call("CLIENT", "KILL", "TYPE", "pubsub");
      await fixture.writeUnseen(JSON.stringify(second));
      await until(() => config.current.host === "beta" && config.state === "fresh");
      expect(reported.states).toEqual(["stale", "fresh"]);
    });

    it("sees a change that falls between its subscription and its first read", async () => {
      const writer = await fixture.ready({ default: first });
      for (let port = 1; port <= 20; port++) {
        const reader = fixture.make({}, redis.connect());
        await Promise.all([writer.set({ host: "h", port }), reader.ready({ waitMs: 5_000 })]);
        await until(() => reader.current.port === port);
        await reader.close();
      }
      expect(writer.version!.revision).toBe(20);
    });

    it("emits no change when only the order of keys and the spaces differ", async () => {
      const config = await fixture.ready({ default: first, pollMs: 100 });
      await config.set(first);
      const reported = recorded(config);
      const before = config.current;
      await fixture.writeUnseen('{ "port": 1,\n "host": "alpha" }');
      await until(() => config.version?.revision === 2);
      expect([reported.changes, config.current === before]).toEqual([[], true]);
    });
  });

  describe("config: data that went back", () => {
    it("takes a revision that went backwards after a second read, and reports that writes were lost", async () => {
      const config = await fixture.ready({ default: first });
      await config.set(first);
      const dump = await redis.client.dumpBuffer(fixture.keyOf("entry"));
      const lost = await config.set(second);
      // Its own message has been heard, and looked after, once a look of ours is the only one.
      await until(async () => {
        const before = await callsOf(redis, "hmget");
        await config.get();
        return (await callsOf(redis, "hmget")) === before + 1;
      });
      const reported = recorded(config);
      await redis.client.restore(fixture.keyOf("entry"), 0, dump, "REPLACE");
      const reads = await callsOf(redis, "hmget");
      await fixture.announce();
      await until(() => config.current.host === "alpha");
      expect((await callsOf(redis, "hmget")) - reads).toBeGreaterThanOrEqual(2);
      expect(reported.errors).toMatchObject([{ code: "KIT_CONFIG_LOST", known: lost, found: { revision: 1 } }]);
      expect([config.state, reported.states]).toEqual(["fresh", []]);
    });

    it("distinguishes a revision that was used again from the known one, also as an expected version", async () => {
      const config = await fixture.ready({ default: first });
      await config.set(first);
      const lost = await config.set(second);
      const reported = recorded(config);
      await fixture.writeUnseen(JSON.stringify({ host: "gamma", port: 3 }), 0);
      expect(await rejection(config.set(second, { expected: lost }))).toMatchObject({
        code: "KIT_CONFIG_CONFLICT",
        version: { revision: lost.revision },
      });
      await until(() => config.current.host === "gamma");
      expect(reported.errors.map(({ code }) => code)).toEqual(["KIT_CONFIG_LOST"]);
    });

    it("takes an entry that started again, and reports it", async () => {
      const config = await fixture.ready({ default: first });
      await config.set(first);
      const writer = await fixture.ready();
      await redis.client.del(fixture.keyOf("entry"));
      const reported = recorded(config);
      const version = await writer.set(second, { expected: null });
      await until(() => config.current.host === "beta");
      expect(config.version).toEqual(version);
      expect(reported.errors.every(({ code }) => code === "KIT_CONFIG_LOST" || code === "KIT_CONFIG_MISSING")).toBe(
        true,
      );
      expect(reported.errors.length).toBe(1);
    });
  });

  it("refuses an entry of a newer layout, in every operation", async () => {
    const config = await fixture.ready({ default: first });
    const version = await config.set(first);
    const before = await redis.client.hgetall(fixture.keyOf("entry"));
    await redis.client.hset(fixture.keyOf("entry"), "layout", "2");
    await fixture.announce();
    await until(() => config.state === "degraded");
    const operations = [config.get(), config.set(second), config.set(second, { expected: version }), config.history()];
    const codes = (await Promise.all([...operations, config.rollback(1)].map(rejection))).map(({ code }) => code);
    expect(codes).toEqual(Array(5).fill("KIT_LAYOUT"));
    expect(await rejection(fixture.make({ onMissing: "wait" }).ready())).toMatchObject({ code: "KIT_LAYOUT" });
    expect(config.current).toEqual(first);
    expect(await redis.client.hgetall(fixture.keyOf("entry"))).toEqual({ ...before, layout: "2" });
  });

  if (mode === "cluster") slots.itRanAll();
};

type Outcome = Partial<ConfigVersion> & { readonly code?: string; readonly version?: ConfigVersion };

const same = (a: ConfigVersion | null, b: ConfigVersion | null): boolean =>
  a === b || (a?.epoch === b?.epoch && a?.revision === b?.revision && a?.at === b?.at);
