import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import type { LeaseSet, Lock } from "../src/index.js";
import { lockKeys } from "../src/keys.js";
import { fixtureOf } from "./harness.js";
import { type Action, Model } from "./several-names-model.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const names = ["a", "b", "c", "d"];

type Step =
  | { readonly do: "acquire" | "try"; readonly who: number; readonly names: readonly string[] }
  | { readonly do: "release" | "abort"; readonly who: number };

const who = fc.nat({ max: 4 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom("acquire" as const, "acquire" as const, "acquire" as const, "try" as const),
      who,
      names: fc.uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom("release" as const, "release" as const, "abort" as const), who }),
  },
);

/** One acquire of a caller, as this test sees it. */
interface Own {
  readonly abort: AbortController;
  readonly acquired: Promise<LeaseSet | null>;
  set: LeaseSet | undefined;
}

let round = 0;

/** Plays the steps on the server and on the model, until the server is in a state that the model may be in. */
const play = async (steps: readonly Step[], locks: readonly Lock[]): Promise<void> => {
  const run = String(round++);
  const real = (name: string): string => `${name}-${run}`;
  const model = new Model(names);
  const owns = new Map<number, Own>();
  const newest = new Map<string, bigint>();

  /** For each name its holder and its queue, and who has a set. */
  const stateOf = async (): Promise<string> => {
    const rows = await Promise.all(
      names.map(async (name) => {
        const { lease, queue, waiters } = lockKeys(redis.prefix)(real(name));
        const [owner, tokens, records] = await Promise.all([
          fixture.db.get(lease),
          fixture.db.zrange(queue, "0", "-1"),
          fixture.db.hgetall(waiters),
        ]);
        const labels = tokens.map((token) => Number(records[token]?.split(" ").at(-1)));
        return { name, holder: owner === null ? undefined : Number(owner.split("|")[1]), queue: labels };
      }),
    );
    const done = [...owns].filter(([, { set }]) => set).map(([one]) => one);
    return Model.show(rows, done);
  };
  const follow = async (action: Action): Promise<void> => {
    const allowed = model.after(action);
    await eventually(async () => {
      // All that this process has sent before is done by then.
      await Promise.all(locks.map((lock) => lock.inspect(real("x"))));
      const state = await stateOf();
      expect([...allowed.keys()]).toContain(state);
      model.go(allowed.get(state)!);
    });
  };

  for (const one of steps) {
    const own = owns.get(one.who);
    if (one.do === "acquire" || one.do === "try") {
      if (own) continue;
      const lock = locks[one.who % locks.length]!;
      const abort = new AbortController();
      const terms = { holder: String(one.who), leaseMs: 600_000, renew: false, signal: abort.signal };
      const wanted = one.names.map(real);
      const acquired = one.do === "try" ? lock.tryAcquireAll(wanted, terms) : lock.acquireAll(wanted, terms);
      const fresh: Own = { abort, acquired, set: undefined };
      owns.set(one.who, fresh);
      acquired.then(
        (set) => {
          for (const [name, token] of set?.fencingTokens ?? []) {
            if (BigInt(token) <= (newest.get(name) ?? 0n)) throw new Error(`the token of ${name} did not grow`);
            newest.set(name, BigInt(token));
          }
          if (set) fresh.set = set;
          else owns.delete(one.who);
        },
        () => owns.delete(one.who),
      );
      await follow({ do: one.do, who: one.who, names: one.names });
    } else if (own && Boolean(own.set) === (one.do === "release")) {
      if (own.set) {
        owns.delete(one.who);
        expect(await own.set.release()).toBe("released");
      } else {
        own.abort.abort(new Error("never mind"));
        await rejection(own.acquired);
      }
      await follow({ do: one.do, who: one.who });
    }
  }
  // As long as somebody is there, somebody holds all of its names: nobody waits in a circle.
  while (owns.size > 0) {
    const [first, own] = [...owns].find(([, { set }]) => set) ?? expect.unreachable("all of them wait");
    owns.delete(first);
    await own.set!.release();
    await follow({ do: "release", who: first });
  }
  expect(await stateOf()).toBe(new Model(names).state);
};

/** Locks that are listening already. */
const warmLocks = async (): Promise<Lock[]> => {
  const locks = [fixture.make(), fixture.on(redis.connect())];
  for (const lock of locks) {
    const lease = await lock.acquire("warm-up");
    const waiting = lock.acquire("warm-up");
    await fixture.untilWaiting("warm-up", 1);
    await lease.release();
    await (await waiting).release();
  }
  return locks;
};

it("a lock of several names does what the model may do, whatever is asked in whatever order", async () => {
  const locks = await warmLocks();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), (steps) => play(steps, locks)),
    { numRuns: 100 },
  );
});
