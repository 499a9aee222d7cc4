import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { Frequencies } from "../src/messages/frequencies.js";
import { drops, fixtureOf, randomOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("frequent messages", () => {
  it.each(Array.from({ length: 24 }, (_, index) => index + 1))(
    "are counted within their bounds, and no heavy one is missing (seed %i)",
    async (seed) => {
      const random = randomOf(seed);
      const among = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1));
      const pick = <Value>(...values: Value[]): Value => values[among(0, values.length - 1)] as Value;
      const isTight = seed % 4 === 0;
      const isMixed = seed % 4 === 1;
      const window = { stepMs: pick(100, 3_600_000), keepSamples: 1_000 };
      const largest = among(2, 40);
      const writers = Array.from({ length: among(1, 3) }, () => {
        const stats = fixture.make({ maxPending: isTight ? among(10, 60) : 100_000 });
        const maxDistinct = isMixed ? among(1, largest) : largest;
        const log = stats.messages("log", { window, maxDistinct, mask: false, keepEntries: pick(1, 100) });
        return { stats, log, dropped: drops(stats) };
      });
      const distinct = among(2, 8 * largest);
      const skew = pick(1, 2, 4);
      const flushEvery = pick(5, 50, 500, 100_000);
      const real = new Map<string, number>();
      for (let number = 0; number < 1_500; number++) {
        const text = `m${String(Math.floor(distinct * random() ** skew))}`;
        real.set(text, (real.get(text) ?? 0) + 1);
        const { log, stats } = pick(...writers);
        log.log("warn", text);
        if (number % flushEvery === 0) await stats.flush();
      }
      for (const { stats } of writers) await stats.flush();

      const reader = fixture.make().messages("log", { window, maxDistinct: largest, mask: false });
      const found = await reader.frequent({ lastMs: 60_000, limit: 1_000 });
      const dropped = writers.reduce((sum, writer) => sum + (writer.dropped.full ?? 0), 0);
      expect(isTight ? 0 : dropped).toBe(0);
      for (const { sample, count, error } of found) {
        const times = real.get(sample) ?? 0;
        expect(error, sample).toBeGreaterThanOrEqual(0);
        expect(count, sample).toBeGreaterThanOrEqual(times - dropped);
        expect(count - error, sample).toBeLessThanOrEqual(times);
      }
      const isSure = !isTight && !isMixed && window.stepMs > 100;
      const heavy = [...real].filter(([, times]) => isSure && times > 1_500 / largest).map(([text]) => text);
      expect(found.map(({ sample }) => sample)).toEqual(expect.arrayContaining(heavy));
    },
  );

  it("are found behind a flood of others that one flush does not send", async () => {
    const stats = fixture.make();
    const dropped = drops(stats);
    const log = stats.messages("flood", { maxDistinct: 100, mask: false });
    for (let flush = 0; flush < 3; flush++) {
      for (let number = 0; number < 1_000; number++) log.log("error", `only once ${String(flush)} ${String(number)}`);
      for (let times = 0; times < 500; times++) log.log("error", "No answer");
      await stats.flush();
    }
    const [first] = await log.frequent({ lastMs: 1_000 });
    expect(first?.sample).toBe("No answer");
    expect(first?.count).toBeGreaterThanOrEqual(1_500);
    expect((first?.count ?? 0) - (first?.error ?? 0)).toBeLessThanOrEqual(1_500);
    expect([first?.error ?? 0, dropped]).toEqual([expect.toSatisfy((error: number) => error <= 45), {}]);
  });

  it("keep their bounds, and their number, when parts are moved and come back in any order", () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = randomOf(seed);
      const real = new Map<string, number>();
      const parts = [new Frequencies(), new Frequencies(), new Frequencies()] as const;
      let moved = 0;
      for (let number = 0; number < 400; number++) {
        const part = parts[Math.floor(3 * random())]!;
        const text = `m${String(Math.floor(30 * random() ** 2))}`;
        real.set(text, (real.get(text) ?? 0) + 1);
        if (part.counts.has(text) || part.counts.size < 5)
          part.add(text, { score: 1, sure: 1, firstLocalAt: number, lastLocalAt: number, sample: text });
        else part.miss();
        if (random() < 0.9) continue;
        // A batch takes a part; its reply is lost, and it comes back, perhaps to another one.
        const batch = new Frequencies();
        part.moveTo(batch, Math.floor(6 * random()));
        parts[Math.floor(3 * random())]!.merge(batch);
      }
      const all = new Frequencies();
      for (const part of parts) moved += part.moveTo(all, Infinity);
      expect(moved, `seed ${String(seed)}`).toBe(400);
      for (const [text, times] of real) {
        const { score, sure } = all.counts.get(text) ?? { score: 0, sure: 0 };
        expect(sure <= times && times <= score + all.missed, `seed ${String(seed)}, ${text}`).toBe(true);
      }
    }
  });
});
