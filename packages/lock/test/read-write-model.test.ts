import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { readWriteKeys } from "../src/keys.js";
import * as scripts from "../src/read-write/scripts/index.js";
import { type Mode, Model } from "./read-write-model.js";

const redis = useRedis(vitest);

type Step =
  | { readonly do: "acquire"; readonly who: number; readonly isTry: boolean }
  | { readonly do: "release" | "downgrade" | "upgrade" | "end" | "hush" | "die" | "renew"; readonly who: number }
  | { readonly do: "heartbeat"; readonly whom: readonly number[] };

const who = fc.nat({ max: 6 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("acquire" as const),
      who,
      isTry: fc.nat({ max: 3 }).map((n) => n === 0),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "release" as const,
        "release" as const,
        "downgrade" as const,
        "upgrade" as const,
        "end" as const,
        "hush" as const,
        "die" as const,
        "renew" as const,
      ),
      who,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("heartbeat" as const),
      whom: fc.uniqueArray(who, { minLength: 1, maxLength: 4 }),
    }),
  },
);

let round = 0;
/** An instant of the server that is over. */
const past = "1";

/** Plays the steps on the server and on the model, and compares what both say and hold after each. */
const play = async (steps: readonly Step[]): Promise<void> => {
  const db = redis.client;
  const keys = readWriteKeys(redis.prefix)(`model-${String(round++)}`);
  const model = new Model();
  // The last two are of a process that nothing reaches.
  const isUnreachable = (n: number): boolean => n >= 5;
  const inboxOf = (n: number): string => `${redis.prefix}:${isUnreachable(n) ? "unreachable" : "heard"}`;
  const modeOf = (n: number): Mode => (n % 2 === 0 ? "read" : "write");
  const tokens = new Map<number, string>();
  let count = 0;
  let lastFence = 0n;
  /** A caller has one token until that neither holds nor waits. */
  const tokenOf = (n: number): string => {
    const known = tokens.get(n);
    if (known && (model.held.has(known) || model.waiters.some((waiter) => waiter.who === known))) return known;
    const token = `c${String(n)}.${String(count++)}`;
    tokens.set(n, token);
    return token;
  };
  const recordOf = (n: number, token: string): string => `${modeOf(n).slice(0, 1)}|${token}|h`;
  const storedRecordOf = async (token: string): Promise<string> => {
    const records = ["r", "w"].map((mode) => `${mode}|${token}|h`);
    const scores = await Promise.all(records.map((record) => db.zscore(keys.leases, record)));
    return records[scores.findIndex((score) => score !== null && score !== past)] ?? records[0]!;
  };
  const grew = (fencingToken: string): void => {
    expect(BigInt(fencingToken)).toBeGreaterThan(lastFence);
    lastFence = BigInt(fencingToken);
  };
  for (const one of steps) {
    if (one.do === "heartbeat") {
      // A heartbeat carries the inbox of all its waiters.
      const first = one.whom[0]!;
      const whom = one.whom.filter((n) => isUnreachable(n) === isUnreachable(first));
      const asked = whom.map(tokenOf);
      const reply = await scripts.heartbeat.run(db, keys, {
        shared: 0,
        aliveMs: 600_000,
        inbox: inboxOf(first),
        records: whom.map((n, at) => recordOf(n, asked[at]!)),
      });
      const states = reply.states.map((state) => (typeof state === "object" ? "granted" : state));
      expect(states).toEqual(model.heartbeat(asked, isUnreachable(first)));
      await compare(model, keys);
      continue;
    }
    const token = tokenOf(one.who);
    const record = recordOf(one.who, token);
    switch (one.do) {
      case "acquire": {
        const isTry = one.isTry && !model.waiters.some((waiter) => waiter.who === token);
        const held = model.held.get(token);
        const times = { leaseMs: 600_000, grantMs: 600_000, aliveMs: 600_000, notAfter: 0 };
        const terms = { ...times, shared: 0, maxWaiters: 1_000, inbox: isTry ? "" : inboxOf(one.who) };
        const reply = await scripts.acquire.run(db, keys, { record, terms });
        expect(reply.state).toBe(model.acquire(token, modeOf(one.who), isUnreachable(one.who), isTry));
        if (reply.state === "granted" && !held) {
          if (modeOf(one.who) === "write") grew(reply.fencingToken);
          else expect(reply.fencingToken).toBe("");
        }
        break;
      }
      case "release":
        expect(await scripts.release.run(db, keys, { record, terms: { shared: 0, keepMs: "" } })).toBe(
          model.release(token),
        );
        break;
      case "downgrade":
        expect(await scripts.downgrade.run(db, keys, { record, terms: { shared: 0, newest: "" } })).toBe(
          model.downgrade(token),
        );
        break;
      case "upgrade": {
        const wasReader = model.held.get(token)?.mode === "read";
        const reply = await scripts.upgrade.run(db, keys, { record });
        expect(typeof reply === "object" ? "upgraded" : reply).toBe(model.upgrade(token));
        if (typeof reply === "object" && wasReader) grew(reply.fencingToken);
        break;
      }
      case "renew": {
        const { states } = await scripts.renew.run(
          db,
          { leases: [keys.leases] },
          { terms: [{ termMs: 600_000, record }] },
        );
        expect(states).toEqual([model.isHeldBy(token) ? "extended" : "gone"]);
        break;
      }
      case "end": {
        const held = model.held.get(token);
        if (!held) break;
        await db.zadd(keys.leases, "XX", past, await storedRecordOf(token));
        held.isOver = true;
        break;
      }
      case "hush": {
        const waiter = model.waiters.find((other) => other.who === token);
        if (!waiter) break;
        const stored = (await db.hget(keys.waiters, record))!.split(" ").slice(0, 4);
        await db.hset(keys.waiters, record, [...stored, past].join(" "));
        waiter.isSilent = true;
        break;
      }
      case "die": {
        const waiter = model.waiters.find((other) => other.who === token);
        if (!waiter) break;
        await db.hset(keys.waiters, record, (await db.hget(keys.waiters, record))!.replace(/^\d+/, past));
        waiter.isDead = true;
        break;
      }
    }
    await compare(model, keys);
  }
};

const compare = async (model: Model, keys: ReturnType<ReturnType<typeof readWriteKeys>>): Promise<void> => {
  const db = redis.client;
  const [rows, queue, fields, stored] = await Promise.all([
    db.zrange(keys.leases, "0", "-1", "WITHSCORES"),
    db.zrange(keys.queue, "0", "-1"),
    db.hkeys(keys.waiters),
    Promise.all(Object.values(keys).map((key: string) => db.pttl(key))),
  ]);
  const living = rows.flatMap((record, at) => (at % 2 === 0 && rows[at + 1] !== past ? [record] : []));
  expect(living.toSorted()).toEqual(
    model.living.map((token) => `${model.held.get(token)!.mode.slice(0, 1)}|${token}|h`).toSorted(),
  );
  const writers = living.filter((record) => record.startsWith("w"));
  expect(writers.length === 0 || living.length === 1).toBe(true);
  expect(queue.map((record) => record.split("|")[1])).toEqual(model.waiters.map((waiter) => waiter.who));
  expect(fields.filter((field) => field !== "#").toSorted()).toEqual(queue.toSorted());
  // Every key expires.
  expect(stored).not.toContain(-1);
  // Leases that are over are removed when somebody comes by.
  const left = new Set(rows.filter((_, at) => at % 2 === 0).map((record) => record.split("|")[1]));
  for (const [token, { isOver }] of model.held) if (isOver && !left.has(token)) model.held.delete(token);
};

const listen = async (): Promise<void> => {
  const subscriber = redis.connect();
  await subscriber.subscribe(`${redis.prefix}:heard`);
};

it("does what the model does, whatever is asked in whatever order", async () => {
  await listen();
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), play), { numRuns: 300 });
});
