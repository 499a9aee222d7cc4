import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Limit } from "../src/index.js";
import { checkedLimits } from "../src/options.js";
import { type Row, rowOfLevel, take } from "../src/scripts/index.js";
import { age, fixtureOf, hourMs, key, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

/** A linear congruential generator, as in "Numerical Recipes". */
const seeded = (seed: number) => (): number => (seed = (seed * 1_664_525 + 1_013_904_223) % 2 ** 32) / 2 ** 32;

interface Seen {
  /** In hours. */
  readonly at: number;
  readonly tokens: number;
  readonly allowed: boolean;
}

/** Calls at random times, over many windows of an hour. */
const play = async (limit: Limit, seed: number, calls: number): Promise<readonly Seen[]> => {
  const random = seeded(seed);
  const limiter = fixture.make({ limit });
  const seen: Seen[] = [];
  let at = 0;
  for (let call = 0; call < calls; call++) {
    // Bursts, pauses within a slice, and pauses of several slices.
    const hours = random() < 0.6 ? 0 : random() * (random() < 0.7 ? 0.1 : 0.6);
    at += hours;
    if (hours > 0) await age(fixture.db, fixture.keys.rate(key), hours * hourMs);
    const tokens = 1 + Math.floor(random() * 3);
    const { allowed } = await limiter.consume(key, { tokens });
    seen.push({ at, tokens, allowed });
  }
  return seen;
};

describe("the short way of take.lua", () => {
  const { text: settings, list } = checkedLimits("limits", { limit: { count: 10, perMs: hourMs, burst: 4 } });
  const rate = (own: string): string => fixture.keys.rate(own);

  type Wanted = readonly [own: string, amount: number];

  /** Decides calls in one command; with a row of another operation, by the functions of rates.lua. */
  const decideAll = async (wanted: readonly Wanted[], isLong: boolean): Promise<readonly Row[]> => {
    const other = { rate: rate("another"), op: "x", amount: 0, waitMs: 0 };
    const rows = wanted.map(([own, amount]) => ({ rate: rate(own), op: "c", amount, waitMs: 0 }));
    const calls = isLong ? [...rows, other] : rows;
    const { limits, all } = fixture.keys;
    const keys = { limits, all, rates: calls.map((call) => call.rate) };
    const answer = await take.run(fixture.db, keys, { settings, calls }, { deadlineMs: 10_000, isRepeatable: false });
    expect("rows" in answer).toBe(isLong);
    if ("rows" in answer) return answer.rows.slice(0, rows.length);
    return answer.map((level, at) => rowOfLevel(level, list[0]!, wanted[at]![1]));
  };
  const decide = async (own: string, amount: number, isLong: boolean): Promise<Row> =>
    (await decideAll([[own, amount]], isLong || amount > 4))[0]!;

  it.each([true, false])(
    "decides the calls of one command in order, several of a key as well (%s: by rates.lua)",
    async (isLong) => {
      const calls: Wanted[] = [
        ["a", 1],
        ["b", 3],
        ["a", 2],
        ["a", 2],
        ["b", 1],
        ["c", 1],
      ];
      const rows = await decideAll(calls, isLong);
      expect(rows.map(({ state, left, limit }) => [state, left, limit])).toEqual([
        ["free", 3, 0],
        ["free", 1, 0],
        ["free", 1, 0],
        ["full", 1, 1],
        ["free", 0, 0],
        ["free", 3, 0],
      ]);
      const inUse = await Promise.all(["a", "b", "c"].map((own) => fixture.db.get(rate(own))));
      expect(inUse.map((state) => Math.round(Number(state?.split(",").at(-1)) / 1e6))).toEqual([3, 4, 1]);
    },
  );

  it.each([4, 5])("decides and stores as the functions of rates.lua do, with random calls of seed %i", async (seed) => {
    const random = seeded(seed);
    // Real time passes between the two.
    const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1_000;
    for (let call = 0; call < 200; call++) {
      const ms = random() < 0.4 ? random() * 0.5 * hourMs : 0;
      for (const own of ["short", "long"]) await age(fixture.db, rate(own), ms);
      const tokens = 1 + Math.floor(random() * 5);
      const [short, long] = [await decide("short", tokens, false), await decide("long", tokens, true)];
      expect({ ...short, resetMs: 0, delayMs: 0 }).toEqual({ ...long, resetMs: 0, delayMs: 0 });
      expect([near(short.resetMs, long.resetMs), near(short.delayMs, long.delayMs)]).toEqual([true, true]);
      const states = await fixture.db.mget(rate("short"), rate("long"));
      const [one, other] = states.map((state) => /^1 \d+ (.*,)(\d+)$/.exec(state ?? ""));
      expect(one?.[1]).toBe(other?.[1]);
      expect(near(Number(one?.[2] ?? 0), Number(other?.[2] ?? 0))).toBe(true);
      const lives = await Promise.all(["short", "long"].map((own) => fixture.db.pttl(rate(own))));
      expect(near(lives[0]!, lives[1]!)).toBe(true);
    }
  });
});

/** The tokens that were used after `from`, up to `to`. */
const usedIn = (seen: readonly Seen[], from: number, to: number): number =>
  seen.filter(({ at, allowed }) => allowed && at > from && at <= to).reduce((sum, { tokens }) => sum + tokens, 0);

const mostIn = (seen: readonly Seen[]): number => Math.max(...seen.map(({ at }) => usedIn(seen, at - 1, at)));

// Real time passes as well, and counts in hours: far less than this.
const slack = 0.01;

describe.each([1, 2, 3])("in any window, with random calls of seed %i,", (seed) => {
  it("a sliding window allows its count and no more, and refuses a tenth too long at most", async () => {
    const seen = await play({ count: 10, perMs: hourMs, algorithm: "sliding-window" }, seed, 400);
    expect(mostIn(seen)).toBeLessThanOrEqual(10);
    expect(mostIn(seen)).toBeGreaterThanOrEqual(9);
    for (const [index, { at, tokens, allowed }] of seen.entries())
      expect(allowed || usedIn(seen.slice(0, index), at - 1.1 - slack, at) + tokens > 10).toBe(true);
  });

  it("a gcra allows its burst and its rate, and refuses nothing else", async () => {
    const seen = await play({ count: 10, perMs: hourMs, burst: 4 }, seed, 400);
    expect(mostIn(seen)).toBeLessThanOrEqual(14);
    let level = 0;
    for (const [index, { at, tokens, allowed }] of seen.entries()) {
      const passed = at - (seen[index - 1]?.at ?? 0);
      level = Math.max(0, level - passed * 10);
      expect(allowed ? level + tokens <= 4 + slack * 10 : level + tokens > 4 - slack * 10).toBe(true);
      if (allowed) level += tokens;
    }
  });

  it("a fixed window allows its count from its first call on, and twice that in any window", async () => {
    const seen = await play({ count: 10, perMs: hourMs, algorithm: "fixed-window" }, seed, 400);
    expect(mostIn(seen)).toBeLessThanOrEqual(20);
    let [start, used] = [-Infinity, 0];
    for (const { at, tokens, allowed } of seen) {
      if (at >= start + 1) used = 0;
      expect(allowed).toBe(used + tokens <= 10);
      if (!allowed) continue;
      if (used === 0) start = at;
      used += tokens;
    }
  });
});
