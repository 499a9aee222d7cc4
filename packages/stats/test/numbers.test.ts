import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { floorTo, isPartial, keyStarts, planRange, precisionsOption } from "../src/time/buckets.js";
import { ServerTime } from "../src/time/clock.js";
import { daysOf } from "../src/time/days.js";
import { cutTo, masked } from "../src/messages/fingerprint.js";
import { seriesId } from "../src/metric/labels.js";
import { addMoments, addValue, type Moments, noMoments } from "../src/distribution/moments.js";
import { binOf, dividedBins, Sketch } from "../src/distribution/sketch.js";
import { Summary } from "../src/distribution/summary.js";
import { randomOf } from "./harness.js";

const momentsOf = (values: readonly number[]): Moments => {
  const moments = noMoments();
  for (const value of values) addValue(moments, value);
  return moments;
};

describe("moments", () => {
  it("of a thousand parts are those of the whole, in any order and grouping", () => {
    const next = randomOf(1);
    const values = Array.from({ length: 20_000 }, () => 1e6 + 1e3 * Math.log(next() + 1e-9));
    const parts = Array.from({ length: 1_000 }, (_, part) =>
      momentsOf(values.filter((_, index) => index % 1_000 === part)),
    );
    const whole = momentsOf(values);
    const mean = values.reduce((sum, value) => sum + value / values.length, 0);
    const m2 = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    expect(whole.mean / mean).toBeCloseTo(1, 12);
    expect(whole.m2 / m2).toBeCloseTo(1, 9);
    const orders = [parts, parts.toReversed(), parts.toSorted(() => next() - 0.5)];
    for (const order of orders) {
      const merged = noMoments();
      for (const part of order) addMoments(merged, part);
      const paired = order.map((part) => ({ ...part }));
      for (let left = paired.splice(0, 2); left[1]; left = paired.splice(0, 2)) {
        addMoments(left[0]!, left[1]);
        paired.push(left[0]!);
        if (paired.length === 1) break;
      }
      for (const result of [merged, paired[0]!]) {
        expect([result.count, result.min, result.max]).toEqual([whole.count, whole.min, whole.max]);
        expect(result.mean / whole.mean).toBeCloseTo(1, 12);
        expect(result.m2 / whole.m2).toBeCloseTo(1, 12);
        expect((result.sum + result.compensation) / (whole.sum + whole.compensation)).toBeCloseTo(1, 14);
      }
    }
  });

  it("keep the deviation of near values, where a sum of squares cancels out", () => {
    const { stddev, mean } = new Summary(momentsOf([1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]));
    expect([stddev, mean]).toEqual([Math.sqrt(22.5), 1e9 + 10]);
  });

  it("keep nine digits of the deviation of values near 1e9 with a spread of 10, whole or in parts", () => {
    const next = randomOf(3);
    for (const size of [1_000, 60_000]) {
      const spreads = Array.from({ length: size }, () => 10 * next());
      const values = spreads.map((spread) => 1e9 + spread);
      // The part of each value that a double of that size keeps. It subtracts exactly.
      const exact = momentsOf(values.map((value) => value - 1e9));
      const parts = noMoments();
      for (let first = 0; first < size; first += 7) addMoments(parts, momentsOf(values.slice(first, first + 7)));
      for (const moments of [momentsOf(values), parts]) {
        expect(Math.abs(Math.sqrt(moments.m2 / exact.m2) - 1)).toBeLessThan(1e-12);
        expect(Math.abs(new Summary(moments).stddev / new Summary(exact).stddev - 1)).toBeLessThan(1e-12);
      }
    }
  });

  it("keep the sum of values of very different size", () => {
    const moments = momentsOf([1, 1e100, 1, -1e100]);
    expect(new Summary(moments).sum).toBe(2);
    const parts = noMoments();
    for (const value of [1, 1e100, 1, -1e100]) addMoments(parts, momentsOf([value]));
    expect(new Summary(parts).sum).toBe(2);
  });

  it("of nothing are explicit: no count, no sum, and no number for the rest", () => {
    const empty = new Summary(noMoments(), new Sketch());
    expect({ ...(empty as object), q: empty.quantile(0.5) }).toEqual({
      count: 0,
      sum: 0,
      mean: Number.NaN,
      stddev: Number.NaN,
      min: Number.NaN,
      max: Number.NaN,
      accurateAbove: 0,
      q: Number.NaN,
    });
    expect(new Summary(momentsOf([7])).stddev).toBe(0);
    expect(() => empty.quantile(1.1)).toThrow(RangeError);
    for (const q of ["0.5", 1n, Symbol("q"), Object.create(null), null])
      expect(() => empty.quantile(q as never), typeof q).toThrow("Expected `q`");
    expect(() => new Summary(momentsOf([7])).quantile(0.5)).toThrow(TypeError);
  });

  it("of huge values are infinite, and never NaN", () => {
    for (const values of [
      [1e308, 1e308, -1e308],
      [1e308, -1e308, 1e308, -1e308],
      [-1.7e308, 1.7e308],
    ]) {
      const { sum, mean, stddev } = new Summary(momentsOf(values));
      expect([Number.isNaN(sum), Number.isFinite(mean), stddev]).toEqual([false, true, Infinity]);
    }
  });
});

describe("the sketch", () => {
  const distributions: Readonly<Record<string, (next: () => number) => number>> = {
    uniform: (next) => 1 + 999 * next(),
    "log-normal": (next) => Math.exp(2 * Math.sqrt(-2 * Math.log(next() + 1e-12)) * Math.cos(2 * Math.PI * next())),
    bimodal: (next) => (next() < 0.9 ? 5 + next() : 5_000 + 1_000 * next()),
    constant: () => 42,
    negative: (next) => -(10 ** (6 * next())),
  };

  it.each(Object.keys(distributions))("gives quantiles within its error: %s", (name) => {
    const next = randomOf(7);
    const values = Array.from({ length: 50_000 }, () => distributions[name]!(next)).toSorted((a, b) => a - b);
    const moments = momentsOf(values);
    const [whole, one, two] = [new Sketch(), new Sketch(), new Sketch()];
    values.forEach((value, index) => {
      whole.add(value);
      (index % 3 === 0 ? one : two).add(value);
    });
    one.absorb(two);
    for (const q of [0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1]) {
      const exact = values[Math.max(0, Math.ceil(q * values.length - 1e-9) - 1)]!;
      const found = new Summary(moments, whole).quantile(q);
      expect(Math.abs(found / exact - 1)).toBeLessThan(0.0109);
      expect(new Summary(moments, one).quantile(q)).toBe(found);
    }
    expect(one.fields(1_024)).toEqual(whole.fields(1_024));
  });

  it("answers with the value at the rank of a quantile, rounded up", () => {
    const summaryOf = (values: readonly number[]): Summary => {
      const sketch = new Sketch();
      for (const value of values) sketch.add(value);
      return new Summary(momentsOf(values), sketch);
    };
    const slow = summaryOf([...Array.from({ length: 59 }, () => 10), 30_000]);
    expect([0.5, 0.983, 0.984, 0.99, 0.999].map((q) => Math.round(slow.quantile(q)))).toEqual([
      10, 10, 30_000, 30_000, 30_000,
    ]);
    const two = summaryOf([1, 1_000]);
    expect([0, 0.5, 0.51, 1].map((q) => two.quantile(q))).toEqual([1, 1, 1_000, 1_000]);
    // In doubles, 0.07 * 100 is above 7.
    const hundred = summaryOf(Array.from({ length: 100 }, (_, index) => 2 ** index));
    for (let rank = 1; rank <= 100; rank++)
      expect(Math.abs(hundred.quantile(rank / 100) / 2 ** (rank - 1) - 1)).toBeLessThan(0.0109);
  });

  it("keeps its error for every quantile of any mixture over nine decades", () => {
    const part = fc.record({
      // Decades above the lowest.
      from: fc.double({ min: 0, max: 8.9, noNaN: true }),
      width: fc.double({ min: 0, max: 9, noNaN: true }),
      count: fc.integer({ min: 1, max: 3_000 }),
    });
    const property = fc.property(
      fc.integer({ min: -300, max: 290 }),
      fc.array(part, { minLength: 1, maxLength: 4 }),
      fc.integer(),
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 5 }),
      (lowest, parts, seed, some) => {
        const next = randomOf(seed);
        const values = parts
          .flatMap(({ from, width, count }) =>
            Array.from({ length: count }, () => 10 ** (lowest + Math.min(9, from + width * next()))),
          )
          .toSorted((a, b) => a - b);
        // Two processes: what each sends merges in the stored hash.
        const stored = new Sketch();
        for (const half of [0, 1]) {
          const own = new Sketch();
          values.forEach((value, index) => index % 2 === half && own.add(value));
          const fields = own.fields(1_024);
          expect(fields.length).toBeLessThanOrEqual(960);
          for (const [field, count] of fields) stored.addField(field, count);
        }
        const moments = momentsOf(values);
        stored.endFields(moments.min);
        const summary = new Summary(moments, stored);
        expect(summary.accurateAbove).toBe(0);
        for (const q of [0.001, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, ...some]) {
          const exact = values[Math.max(0, Math.ceil(q * values.length * (1 - Number.EPSILON)) - 1)]!;
          expect(Math.abs(summary.quantile(q) / exact - 1)).toBeLessThan(0.0109);
        }
      },
    );
    fc.assert(property, { numRuns: 40 });
  });

  it("says which quantiles it has lost when the lowest bins have collapsed, and keeps the others", () => {
    const values = Array.from({ length: 400 }, (_, index) => 2 ** (index / 10));
    const sketch = new Sketch();
    for (const value of values) sketch.add(value);
    const stored = new Sketch();
    const fields = sketch.fields(300);
    expect(fields).toHaveLength(300);
    for (const [field, count] of fields) stored.addField(field, count);
    stored.endFields(values[0]!);
    const summary = new Summary(momentsOf(values), stored);
    expect(summary.accurateAbove).toBe(101 / 400);
    for (let rank = 102; rank <= 400; rank++)
      expect(Math.abs(summary.quantile(rank / 400) / values[rank - 1]! - 1)).toBeLessThan(0.0109);
    expect(stored.upTo([2, 2 ** 10.1, 2 ** 20])).toEqual([undefined, 101, 201]);
  });

  it("counts exactly what is up to a bound that is no edge of a bin", () => {
    const next = randomOf(11);
    const bounds = [-100, -1, -0.5, 0, 0.005, 0.1, 0.1003, 0.25, 1, 2.5, 10];
    const values = [...bounds, ...Array.from({ length: 5_000 }, () => 12 * next() ** 3 - 1.5)];
    const whole = new Sketch(dividedBins(bounds));
    for (const value of values) whole.add(value);
    const stored = new Sketch();
    const fields = [...whole.fields(1_024), ...whole.boundFields()];
    for (const [field, count] of fields) stored.addField(field, count);
    const exact = bounds.map((bound) => values.filter((value) => value <= bound).length);
    for (const sketch of [whole, stored]) expect(sketch.upTo(bounds)).toEqual(exact);
    // Powers of two divide no bin, and cost nothing.
    expect([...dividedBins([0, 0.125, 1, 65_536]).keys()]).toEqual([]);
  });

  it("puts a value on an edge into the bin below, over the whole range of doubles", () => {
    for (let exponent = -1_074; exponent <= 1_023; exponent++) expect(binOf(2 ** exponent)).toBe(32 * exponent - 1);
    // Below, the next doubles lie in other bins.
    for (let exponent = -1_021; exponent <= 1_023; exponent++) {
      expect(binOf(2 ** exponent * (1 + Number.EPSILON))).toBe(32 * exponent);
      expect(binOf(2 ** exponent * (1 - Number.EPSILON / 2))).toBe(32 * exponent - 1);
    }
    expect(binOf(Number.MAX_VALUE)).toBe(32 * 1_024 - 1);
  });

  it("is stored by fields, and the same when it is read again", () => {
    const sketch = new Sketch();
    for (const value of [0, -1, -2, 0.001, 7, 7, 1e300]) sketch.add(value);
    const fields = sketch.fields(1_024);
    const again = new Sketch();
    for (const [field, count] of fields) again.addField(field, count);
    for (const other of ["count", "mean", "m2", "min", "max", "sum", "compensation", "rest", "layout", "__proto__"])
      again.addField(other, 9);
    expect(again.fields(1_024)).toEqual(fields);
    expect(fields.map(([, count]) => count)).toEqual([1, 1, 1, 1, 2, 1]);
  });
});

describe("ranges", () => {
  const steps = precisionsOption(
    "precisions",
    [
      { stepMs: 60_000, keepSamples: 60 },
      { stepMs: 1_000, keepMs: 600_000 },
      { stepMs: 900_000, keepMs: 86_400_000 },
    ],
    60,
  );
  const now = 1_700_000_123_456;

  it("read the coarsest step that divides the wanted one and still has the beginning", () => {
    expect(steps.map(({ stepMs }) => stepMs)).toEqual([1_000, 60_000, 900_000]);
    const source = (range: Parameters<typeof planRange>[1]): number => planRange(steps, range, now).source.stepMs;
    expect(source({ lastMs: 60_000 })).toBe(1_000);
    expect(source({ lastMs: 1_800_000 })).toBe(60_000);
    expect(source({ lastMs: 7_200_000 })).toBe(900_000);
    expect(source({ lastMs: 60_000, stepMs: 60_000 })).toBe(60_000);
    expect(source({ lastMs: 60_000, stepMs: 5_000 })).toBe(1_000);
    expect(source({ lastMs: 3_600_000, stepMs: 300_000 })).toBe(60_000);
    expect(source({ lastMs: 3_600_000, stepMs: 1_800_000 })).toBe(900_000);
    // Nothing reaches that far back: what reaches furthest.
    expect(source({ lastMs: 864_000_000 })).toBe(900_000);
    expect(source({ lastMs: 7_200_000, stepMs: 60_000 })).toBe(60_000);
  });

  it("start and end at whole buckets, and say where something may be missing", () => {
    const plan = planRange(steps, { fromAt: now - 10_500, toAt: now }, now);
    expect([plan.fromAt, plan.toAt]).toEqual([floorTo(now - 10_500, 1_000), floorTo(now, 1_000) + 1_000]);
    const of = (startAt: number): boolean => isPartial(plan, startAt, startAt + 1_000, now);
    expect([floorTo(now, 1_000), floorTo(now, 1_000) - 1_000, now - 700_000].map(of)).toEqual([true, false, true]);
    expect(keyStarts(plan, 60_000, now)).toEqual([floorTo(now, 60_000)]);
  });

  it("that make no sense are refused", () => {
    for (const range of [
      {},
      { lastMs: 1, fromAt: 1 },
      { lastMs: 1, toAt: 1 },
      { lastMs: 0 },
      { fromAt: 5, toAt: 4 },
      { lastMs: 1_000, stepMs: 1_500 },
      { fromAt: -1 },
      { fromAt: 0, stepMs: 1_000 },
    ])
      expect(() => planRange(steps, range, now), JSON.stringify(range)).toThrow(/Expected/);
  });
});

describe("the days of a time zone", () => {
  const hourMs = 3_600_000;
  const at = Date.parse;
  const found = (timeZone: string, count: number, iso: string) =>
    daysOf(timeZone, count, at(iso)).map(({ date, startAt, endAt }) => [
      date,
      new Date(startAt).toISOString().slice(0, 16),
      (endAt - startAt) / hourMs,
    ]);

  it("have 23 hours when clocks go forward, and 25 when they go back", () => {
    expect(found("Europe/Berlin", 3, "2026-03-30T10:00Z")).toEqual([
      ["2026-03-28", "2026-03-27T23:00", 24],
      ["2026-03-29", "2026-03-28T23:00", 23],
      ["2026-03-30", "2026-03-29T22:00", 24],
    ]);
    expect(found("Europe/Berlin", 2, "2026-10-25T23:59Z")).toEqual([
      ["2026-10-25", "2026-10-24T22:00", 25],
      ["2026-10-26", "2026-10-25T23:00", 24],
    ]);
    // Half an hour, in the south.
    expect(found("Australia/Lord_Howe", 1, "2026-04-05T00:00Z")).toEqual([["2026-04-05", "2026-04-04T13:00", 24.5]]);
  });

  it("start when clocks pass over midnight, or show it for the first time", () => {
    expect(found("America/Sao_Paulo", 2, "2018-11-05T12:00Z")).toEqual([
      ["2018-11-04", "2018-11-04T03:00", 23],
      ["2018-11-05", "2018-11-05T02:00", 24],
    ]);
    expect(found("America/Havana", 2, "2026-11-02T12:00Z")).toEqual([
      ["2026-11-01", "2026-11-01T04:00", 25],
      ["2026-11-02", "2026-11-02T05:00", 24],
    ]);
    // Samoa had no 30 December 2011.
    expect(found("Pacific/Apia", 4, "2011-12-31T12:00Z").map(([date]) => date)).toEqual([
      "2011-12-29",
      "2011-12-31",
      "2012-01-01",
    ]);
  });

  it("are right at offsets of quarters of an hour, in leap years and at the turn of the year", () => {
    expect(found("Asia/Kathmandu", 2, "2026-01-01T00:00Z")).toEqual([
      ["2025-12-31", "2025-12-30T18:15", 24],
      ["2026-01-01", "2025-12-31T18:15", 24],
    ]);
    expect(found("UTC", 3, "2028-03-01T00:00Z").map(([date]) => date)).toEqual([
      "2028-02-28",
      "2028-02-29",
      "2028-03-01",
    ]);
  });

  it("follow on each other without a gap, and start at quarters of an hour in every zone", () => {
    for (const timeZone of Intl.supportedValuesOf("timeZone"))
      for (const [day] of [daysOf(timeZone, 1, at("2026-01-15T12:00Z")), daysOf(timeZone, 1, at("2026-07-15T12:00Z"))])
        expect(day!.startAt % 900_000, timeZone).toBe(0);
    for (const timeZone of ["Europe/London", "America/New_York", "Asia/Gaza", "Africa/Casablanca", "Pacific/Chatham"]) {
      const days = daysOf(timeZone, 366, at("2026-12-31T12:00Z"));
      expect(days.length, timeZone).toBe(366);
      days.forEach(({ endAt }, index) => expect(days[index + 1]?.startAt ?? endAt, timeZone).toBe(endAt));
    }
  });

  it("of a zone that does not exist are refused", () => {
    expect(() => daysOf("Mars/Olympus", 1, 0)).toThrow(/timeZone/);
  });
});

describe("the server's clock", () => {
  it("is taken from the quickest reply, and from any that contradicts", () => {
    const clock = new ServerTime();
    expect([clock.isKnown, clock.now()]).toEqual([false, Number.NaN]);
    const local = performance.now();
    const offsetOf = (): number => Math.round(clock.now() - performance.now());
    clock.observe(local, 1_000_000 + local);
    const first = offsetOf();
    expect(Math.abs(first - 1_000_000)).toBeLessThan(1_000);
    // A slow reply that agrees changes nothing.
    clock.observe(local - 5_000, 1_000_000 + local - 2_000);
    expect(offsetOf()).toBe(first);
    // The server's clock went back by five seconds: another master.
    clock.observe(performance.now(), 995_000 + performance.now());
    expect(Math.abs(offsetOf() - 995_000)).toBeLessThan(1_000);
  });
});

describe("fingerprints", () => {
  it.each([
    ["Card 4242 refused", "Card <number> refused"],
    ["user 550e8400-e29b-41d4-a716-446655440000 left", "user <uuid> left"],
    ["key=0xDEADbeef took 12.5ms", "key=<hex> took <number>ms"],
    ['GET "/a/b?c" from 10.0.0.1:8080', "GET <text> from <address>"],
    ["at 2026-11-22T07:29:00.123Z by ann.lee@example.com", "at <time> by <email>"],
    ["commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit <hex>"],
    ["worker-17 died, v2 lives: -3.5e10", "worker-<number> died, v<number> lives: <number>"],
    [
      "Missing `foo` option of “bar baz”, „qux“, ‘it’s’ or «quux»",
      "Missing <text> option of <text>, <text>, <text> or <text>",
    ],
    ["don’t stop “here", "don’t stop “here"],
    ["Session aZ3kP9qLmX7vT2 of 01ARZ3NDEKTSV4RRFFQ69G5FAV expired", "Session <id> of <id> expired"],
    ["prop __reactFiber$b6c78e70asw denied, chunk deadbeefcafe", "prop __reactFiber$<id> denied, chunk <hex>"],
    [
      "Base64Decoder, getElementById and utf8mb4_general_ci",
      "Base<number>Decoder, getElementById and utf<number>mb<number>_general_ci",
    ],
    ["don't stop, can't stop", "don't stop, can't stop"],
    ["nothing to mask", "nothing to mask"],
  ])("mask what differs: %s", (text, expected) => {
    expect(masked(text)).toBe(expected);
  });

  it("are found quickly in long texts that look like much", () => {
    for (const piece of [
      "'",
      '"\\',
      "`",
      "“",
      "„x",
      "‘",
      "‘x’y",
      "«",
      "aB3dE6gH9j",
      "a1",
      "a@",
      "1.",
      "a-",
      "+a",
      "deadbeef ",
      "0x",
      "-",
      "é😀",
    ]) {
      const startedAt = performance.now();
      masked(piece.repeat(262_144 / piece.length));
      // Quadratic would be minutes.
      expect(performance.now() - startedAt).toBeLessThan(10_000);
    }
  });

  it("are of a text that is cut between code points", () => {
    expect(cutTo("a😀b", 4)).toBe("a");
    expect(cutTo("a😀b", 5)).toBe("a😀");
    expect(cutTo("é".repeat(10), 5)).toBe("éé");
    expect(Buffer.byteLength(cutTo("😀".repeat(300_000), 8_192))).toBe(8_192);
    expect(cutTo("short", 8_192)).toBe("short");
  });
});

describe("the id of a series", () => {
  it("is the same for labels in any order, and differs for different ones", () => {
    expect(seriesId("n", ["b", "a"], ["2", "1"])).toBe("n;a=1;b=2");
    expect(seriesId("n", ["a", "b"], ["1;b=2", ""])).not.toBe(seriesId("n", ["a", "b"], ["1", "2;b="]));
    expect(seriesId("n", ["a"], ["%3B"])).not.toBe(seriesId("n", ["a"], [";"]));
    expect(() => seriesId("n", ["a", "b", "c"], ["é".repeat(200), "é".repeat(60), "é"])).toThrow(/512 bytes/);
  });
});
