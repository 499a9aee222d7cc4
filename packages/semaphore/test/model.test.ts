import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { semaphoreKeys } from "../src/keys.js";
import * as scripts from "../src/scripts/index.js";
import { Model } from "./model.js";

const redis = useRedis(vitest);
const never = 10 ** 9;

type Step =
  | {
      readonly do: "acquire";
      readonly who: number;
      readonly weight: number;
      readonly priority: number;
      readonly isTry: boolean;
      readonly maxWaiters: number;
    }
  | { readonly do: "release" | "renew" | "outlive" | "die"; readonly who: number }
  | { readonly do: "heartbeat"; readonly whom: readonly number[] }
  | { readonly do: "lapse" }
  | { readonly do: "resize"; readonly permits: number | undefined; readonly perTenant: number | null | undefined };

const who = fc.nat({ max: 5 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("acquire" as const),
      who,
      weight: fc.integer({ min: 1, max: 3 }),
      priority: fc.integer({ min: -1, max: 1 }),
      isTry: fc.nat({ max: 3 }).map((n) => n === 0),
      maxWaiters: fc.constantFrom(2, 1_000),
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constantFrom("release" as const, "release" as const, "renew" as const, "outlive" as const, "die" as const),
      who,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("heartbeat" as const),
      whom: fc.uniqueArray(who, { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "lapse" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("resize" as const),
      permits: fc.option(fc.nat({ max: 5 }), { nil: undefined, freq: 3 }),
      perTenant: fc.constantFrom(0, 1, 2, 3, null, undefined),
    }),
  },
);

let round = 0;

/** An instant of the server that is over. */
const past = "1";
const isPast = (record: string): boolean => record.startsWith(`${past} `);

/** Plays the steps on the server and on the model, and compares what both say and hold after each. */
const play = async (steps: readonly Step[], permits: number, perTenant: number | undefined): Promise<void> => {
  const db = redis.client;
  const keys = semaphoreKeys(redis.prefix, `model-${String(round++)}`);
  const inbox = `${redis.prefix}:heard`;
  const own = { permits, perTenant: perTenant ?? "" };
  const model = new Model(permits, perTenant ?? never);
  const isGroup = perTenant !== undefined;
  // The first of each three is of a process that nothing reaches. A request does not change while it waits.
  const isUnreachable = (n: number): boolean => n % 3 === 0;
  // One comes from an object that knows of no tenants.
  const tenantOf = (n: number): string => (isGroup && n < 5 ? `t${String(n % 2)}` : "");
  const permitRecords = new Map<
    number,
    { readonly permitRecord: string; readonly weight: number; readonly priority: number }
  >();
  const permitRecordOf = (
    n: number,
    weight = 1,
    priority = 0,
  ): { readonly permitRecord: string; readonly weight: number; readonly priority: number } => {
    const known = permitRecords.get(n);
    const isOpen =
      known &&
      (model.held.has(known.permitRecord) ||
        model.waiters.some(({ permitRecord }) => permitRecord === known.permitRecord));
    if (isOpen) return known;
    const fresh = {
      permitRecord: `c${String(n)}.${String(permitRecords.size)}.${String(Math.random())}|${String(weight)}|${tenantOf(n)}|h`,
      weight,
      priority,
    };
    permitRecords.set(n, fresh);
    return fresh;
  };
  for (const one of steps) {
    switch (one.do) {
      case "acquire": {
        const { permitRecord, weight, priority } = permitRecordOf(one.who, one.weight, one.priority);
        // Each try has a permit record of its own.
        const isTry = one.isTry && !model.waiters.some((waiter) => waiter.permitRecord === permitRecord);
        const channel = isUnreachable(one.who) ? `${redis.prefix}:unreachable` : inbox;
        // Those that are too heavy are dropped, and so counted no longer, when their turn comes; the dead also when it is all
        // counted anew.
        const mayDrop = model.held.size === 0 || model.waiters.some((waiter) => model.isTooHeavy(waiter));
        const maxWaiters = mayDrop ? 1_000 : one.maxWaiters;
        const { "#": _, ...records } = await db.hgetall(keys.waiters);
        const areDeadGone = !isTry && Object.keys(records).length >= maxWaiters && Object.values(records).some(isPast);
        const times = { leaseMs: 60_000, grantMs: 60_000, aliveMs: 60_000, notAfter: 0 };
        const terms = { ...times, ...own, shared: 0, priority, maxWaiters, inbox: isTry ? "" : channel };
        const { state } = await scripts.acquire.run(db, keys, { permitRecord, terms });
        const asked = {
          permitRecord,
          weight,
          priority,
          tenant: tenantOf(one.who),
          isUnreachable: isUnreachable(one.who),
        };
        expect(state).toBe(model.acquire(asked, { isTry, maxWaiters, areDeadGone }));
        if (areDeadGone && state !== "too-heavy")
          expect(Object.values(await db.hgetall(keys.waiters)).some(isPast)).toBe(false);
        break;
      }
      case "release": {
        const { permitRecord } = permitRecordOf(one.who);
        expect(await scripts.release.run(db, keys, { permitRecord, shared: 0 })).toBe(model.release(permitRecord));
        break;
      }
      case "renew": {
        const asked = [...model.held.keys(), permitRecordOf(one.who).permitRecord];
        const names = { permits: asked.map(() => keys.permits) };
        const { states } = await scripts.renew.run(db, names, {
          terms: asked.map((permitRecord) => ({ termMs: 60_000, permitRecord })),
        });
        expect(states).toEqual(asked.map((permitRecord) => model.renew(permitRecord)));
        break;
      }
      case "outlive": {
        const held = model.held.get(permitRecordOf(one.who).permitRecord);
        if (!held) break;
        await db.zadd(keys.permits, "XX", past, permitRecordOf(one.who).permitRecord);
        held.isOver = true;
        break;
      }
      case "die": {
        const { permitRecord } = permitRecordOf(one.who);
        const waiter = model.waiters.find((other) => other.permitRecord === permitRecord && !other.isSuspended);
        if (!waiter) break;
        const record = (await db.hget(keys.waiters, permitRecord))!;
        await db.hset(keys.waiters, permitRecord, record.replace(/^\d+/, past));
        model.die(permitRecord);
        break;
      }
      case "heartbeat": {
        // A heartbeat carries the inbox of all its waiters.
        const areUnreachable = isUnreachable(one.whom[0] ?? 0);
        const asked = one.whom
          .filter((n) => isUnreachable(n) === areUnreachable)
          .map((n) => permitRecordOf(n).permitRecord);
        const reply = await scripts.heartbeat.run(db, keys, {
          shared: 0,
          aliveMs: 60_000,
          limit: permits,
          perTenant: own.perTenant,
          inbox: areUnreachable ? `${redis.prefix}:unreachable` : inbox,
          permitRecords: asked,
        });
        const states = reply.states.map((state) => (typeof state === "object" ? "granted" : state));
        for (const [index, expected] of model.heartbeat(asked).entries())
          // The dead count until their turn comes.
          if (model.waiters.some((waiter) => waiter.permitRecord === asked[index] && model.isTooHeavy(waiter)))
            continue;
          else if (typeof expected === "number") expect(states[index]).toBeGreaterThanOrEqual(expected);
          else expect(states[index]).toBe(expected);
        break;
      }
      case "lapse":
        // Nobody came by for longer than the longest permit: the key itself is gone.
        await db.del(keys.permits);
        model.lapse();
        break;
      case "resize": {
        const perTenant = isGroup ? one.perTenant : undefined;
        const changed = { limit: one.permits ?? "", perTenant: perTenant === null ? "-" : (perTenant ?? "") };
        const limits = { first: permits, firstPerTenant: own.perTenant };
        const askedAt = Date.now();
        await scripts.resize.run(db, keys, { shared: 0, ...changed, ...limits, from: "", notAfter: 0, askedAt });
        model.resize(one.permits ?? model.permits, perTenant === null ? never : (perTenant ?? model.perTenant));
        break;
      }
    }
    await compare(model, keys, isGroup);
  }
};

const compare = async (model: Model, keys: ReturnType<typeof semaphoreKeys>, isGroup: boolean): Promise<void> => {
  const db = redis.client;
  const [permits, queueRows, records, counted, ready] = await Promise.all([
    db.zrangebyscore(keys.permits, "(0", "+inf", "WITHSCORES"),
    db.zrange(keys.queue, "0", "-1"),
    db.hgetall(keys.waiters),
    db.zrangebyscore(keys.permits, "-inf", "(0", "WITHSCORES"),
    db.zrange(keys.ready, "0", "-1"),
  ]);
  const rows = permits.flatMap((permitRecord, index) =>
    index % 2 === 0 ? [{ permitRecord, ending: permits[index + 1] }] : [],
  );
  // An expired record stays until somebody needs the room.
  const living = rows.filter(({ ending }) => ending !== past).map(({ permitRecord }) => permitRecord);
  expect(living.toSorted()).toEqual(
    [...model.held].flatMap(([permitRecord, { isOver }]) => (isOver ? [] : [permitRecord])).toSorted(),
  );
  // The dead and those that have become too heavy are dropped when their turn comes.
  const tooHeavy = model.waiters.filter((waiter) => model.isTooHeavy(waiter)).map(({ permitRecord }) => permitRecord);
  for (const permitRecord of tooHeavy) if (!(permitRecord in records)) model.die(permitRecord);
  const isDead = (permitRecord: string): boolean => isPast(records[permitRecord] ?? "");
  const queue = queueRows.filter((row) => !isDead(row.replace(/^\S* \d+ /, "")));
  const waiters = Object.keys(records).filter((permitRecord) => permitRecord !== "#" && !isDead(permitRecord));
  expect(waiters.toSorted()).toEqual(model.waiters.map(({ permitRecord }) => permitRecord).toSorted());
  const inQueue = queue.filter((row) => !row.startsWith("|")).map((row) => row.replace(/^\S* \d+ /, ""));
  const tenants = isGroup ? ["", "t0", "t1"] : [""];
  expect(inQueue).toEqual(tenants.flatMap((tenant) => model.queue(tenant).map(({ permitRecord }) => permitRecord)));
  const suspended = queue.filter((row) => row.startsWith("|")).map((row) => row.replace(/^\|\d+ /, ""));
  expect(suspended.toSorted()).toEqual(
    model.waiters
      .filter(({ isSuspended }) => isSuspended)
      .map(({ permitRecord }) => permitRecord)
      .toSorted(),
  );
  const weights = rows.map(({ permitRecord }) => {
    const [, weight, tenant] = permitRecord.split("|");
    return { weight: Number(weight), tenant };
  });
  const expected = new Map<string, number>();
  const add = (name: string, weight: number): unknown => expected.set(name, (expected.get(name) ?? 0) - weight);
  for (const { weight, tenant = "" } of weights) {
    if (weight > 1) add("#", weight - 1);
    if (tenant !== "") add(`#${tenant}`, weight);
  }
  const counts = counted.flatMap((count, index) =>
    index % 2 === 0 ? [[count, Number(counted[index + 1])] as const] : [],
  );
  expect(new Map(counts)).toEqual(expected);
  expect(ready.length).toBeLessThanOrEqual(tenants.length);
  for (const tenant of tenants) {
    const ofIt = (one: { readonly tenant: string }): boolean => tenant === "" || one.tenant === tenant;
    const held = [...model.held.values()].filter((one) => !one.isOver && ofIt(one));
    const seen = await scripts.inspect.run(db, keys, { first: 100, tenant });
    expect([seen.used, seen.holders.length]).toEqual([held.reduce((sum, { weight }) => sum + weight, 0), held.length]);
    const count = model.waiters.filter(ofIt).length;
    const dead = Object.keys(records).filter(
      (permitRecord) => isDead(permitRecord) && ofIt({ tenant: permitRecord.split("|")[2]! }),
    );
    expect(seen.waiting).toBe(count + dead.length);
  }
};

const listen = async (): Promise<void> => {
  const subscriber = redis.connect();
  await subscriber.subscribe(`${redis.prefix}:heard`);
};

it("does what the model does, whatever is asked in whatever order", async () => {
  await listen();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), fc.nat({ max: 5 }), (steps, permits) =>
      play(steps, permits, undefined),
    ),
    { numRuns: 250 },
  );
});

it("does what the model does for tenants", async () => {
  await listen();
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 40 }),
      fc.nat({ max: 5 }),
      fc.integer({ min: 1, max: 3 }),
      (steps, permits, perTenant) => play(steps, permits, perTenant),
    ),
    { numRuns: 250 },
  );
});

const asks = (who: number): Step & { readonly do: "acquire" } => ({
  do: "acquire",
  who,
  weight: 1,
  priority: 0,
  isTry: false,
  maxWaiters: 1_000,
});

it("passes a dead waiter over without moving its tenant before another", async () => {
  await listen();
  await play([asks(1), asks(2), asks(5), asks(4), { do: "die", who: 2 }, { do: "release", who: 1 }], 1, 3);
});

it("lets in who was held up by its tenant before newcomers when all permits have lapsed unseen", async () => {
  await listen();
  await play([asks(2), asks(4), { do: "lapse" }, asks(1)], 3, 1);
});

it("drops a waiter that is too heavy for the limit after a pause, and lets in the next waiter", async () => {
  await listen();
  const heavy: Step = { ...asks(1), weight: 2, priority: -1 };
  await play([asks(4), heavy, asks(2), { do: "resize", permits: 1, perTenant: undefined }], 0, 1);
});

it("lets in the waiter after one that new limits make too heavy, even when all permits have expired unseen", async () => {
  await listen();
  const heavy: Step = { ...asks(2), weight: 2 };
  await play(
    [{ ...asks(1), weight: 2 }, heavy, asks(4), { do: "lapse" }, { do: "resize", permits: 1, perTenant: undefined }],
    2,
    undefined,
  );
});

it("lets in who may come in when all permits have lapsed unseen, even if the request is of one who may not", async () => {
  await listen();
  const pause: Step = { do: "resize", permits: undefined, perTenant: 0 };
  await play([{ ...asks(2), weight: 2 }, asks(5), pause, { do: "lapse" }, asks(4)], 2, 2);
});

it.each<[string, Step]>([
  ["gives back what it does not hold", { do: "release", who: 0 }],
  ["tries in vain", { ...asks(1), isTry: true }],
])("lets in who may come in when all permits have lapsed unseen, and one %s", async (_, visit) => {
  await listen();
  const pause: Step = { do: "resize", permits: undefined, perTenant: 0 };
  await play([{ ...asks(4), weight: 2 }, pause, asks(5), { do: "lapse" }, visit], 2, 2);
});

it("lets in who may come in when all permits have lapsed unseen, and one asks for too much", async () => {
  await listen();
  await play([{ ...asks(4), weight: 2 }, asks(2), { do: "lapse" }, { ...asks(5), weight: 3 }], 2, 2);
});
