// Row by row the same page view three ways: the textbook's plain commands, the textbook's pipeline, and our script.
import { connect, type Connection, keyspace } from "@kit/core";
import { updateToken, updateTokenPipeline } from "@tooling/classic";
import { randomBytes } from "node:crypto";
import type { Redis } from "ioredis";
import { marketKeys } from "./keys.js";
import type { Place } from "./place.js";
import { Sessions } from "./sessions.js";

const rounds = 5;
const viewsPerRound = 150;
const lifeMs = 10 * 60_000;

export interface BenchRow {
  readonly name: string;
  readonly roundTrips: number;
  /** Microseconds per view, over the rounds. */
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

const median = (sorted: readonly number[]): number => sorted[Math.floor(sorted.length / 2)] ?? 0;

/** Views pages one after the other on one connection each, interleaved by rounds, so that a slow moment hits all. */
export const benchSessions = async (redis: Connection, { url, prefix: head }: Place): Promise<BenchRow[]> => {
  const market = `bench-${randomBytes(6).toString("hex")}`;
  const prefix = keyspace("shop", head).key(market, "classic:");
  const keys = marketKeys(market, head);
  const sessions = new Sessions(redis, keys);
  // The textbook knows only a single server's client. All keys lie in one slot, so a Cluster's does as well.
  const plain = (await connect(url)) as unknown as Redis;
  try {
    const session = await sessions.open("u1", lifeMs);
    const ways = [
      {
        name: "Plain commands",
        roundTrips: 5,
        view: (item: string) => updateToken(plain, "token", "u1", item, prefix),
      },
      {
        name: "One pipeline",
        roundTrips: 1,
        view: (item: string) => updateTokenPipeline(plain, "token", "u1", item, prefix),
      },
      { name: "One script of ours", roundTrips: 1, view: (item: string) => sessions.visit(session.id, item) },
    ];
    const taken = ways.map((): number[] => []);
    for (let round = 0; round <= rounds; round++) {
      for (const [index, { view }] of ways.entries()) {
        const startedAt = performance.now();
        for (let n = 0; n < viewsPerRound; n++) await view(`i${n % 40}`);
        // The first round warms up.
        if (round > 0) taken[index]?.push(((performance.now() - startedAt) * 1_000) / viewsPerRound);
      }
    }
    return ways.map(({ name, roundTrips }, index) => {
      const sorted = (taken[index] ?? []).sort((a, b) => a - b);
      return { name, roundTrips, median: median(sorted), min: sorted[0] ?? 0, max: sorted.at(-1) ?? 0 };
    });
  } finally {
    // The textbook gives its keys no time to live.
    const leftovers = ["login:", "recent:", "viewed:token", "viewed:"].map((name) => `${prefix}${name}`);
    await plain.unlink(...leftovers, keys.views);
    await plain.quit();
  }
};
