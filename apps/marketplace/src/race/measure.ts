// The cost of round trips, measured on request: thirty reads three ways, and a page view three ways.
import { randomBytes } from "node:crypto";
import { connect, type Connection, keyspace } from "@kit/core";
import { updateToken, updateTokenPipeline } from "@tooling/classic";
import type { Redis } from "ioredis";
import { marketKeys, type MarketKeys } from "../common/keys.js";
import type { Place } from "../common/place.js";
import { Sessions } from "../market/sessions.js";

const reads = 30;
const readRounds = 9;
const views = 40;
const viewRounds = 5;
const lifeMs = 10 * 60_000;

export interface Measured {
  readonly name: string;
  readonly what: string;
  readonly roundTrips: number;
  /** In milliseconds, over all rounds. */
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export interface Measurements {
  readonly reads: readonly Measured[];
  readonly views: readonly Measured[];
}

interface Way extends Pick<Measured, "name" | "what" | "roundTrips"> {
  readonly run: () => Promise<unknown>;
}

/** The ways take turns, so that a slow moment hits all of them. */
const inTurns = async (ways: readonly Way[], rounds: number, perRun = 1): Promise<Measured[]> => {
  const taken = ways.map((): number[] => []);
  for (let round = 0; round <= rounds; round++)
    for (const [index, { run }] of ways.entries()) {
      const startedAt = performance.now();
      await run();
      // The first round warms up.
      if (round > 0) taken[index]?.push((performance.now() - startedAt) / perRun);
    }
  return ways.map(({ name, what, roundTrips }, index) => {
    const sorted = (taken[index] ?? []).sort((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
    return { name, what, roundTrips, median, min: sorted[0] ?? 0, max: sorted.at(-1) ?? 0 };
  });
};

const measureReads = async ({ url }: Place, keys: MarketKeys): Promise<Measured[]> => {
  await using plain = await connect(url);
  await using gathering = await connect({ url, options: { enableAutoPipelining: true } });
  const items = Array.from({ length: reads }, (_, n) => keys.item(`i${n + 1}`));
  const ways: Way[] = [
    {
      ...{ name: "One by one", what: "await each read before the next", roundTrips: reads },
      run: async () => {
        for (const item of items) await plain.hget(item, "title");
      },
    },
    {
      ...{ name: "Pipeline", what: "collect the reads, then send them together", roundTrips: 1 },
      run: async () => {
        const pipeline = (plain as unknown as Redis).pipeline();
        for (const item of items) pipeline.hget(item, "title");
        await pipeline.exec();
      },
    },
    {
      ...{ name: "Auto-pipelined", what: "send all in parallel; the client pipelines them", roundTrips: 1 },
      run: () => Promise.all(items.map((item) => gathering.hget(item, "title"))),
    },
  ];
  return await inTurns(ways, readRounds);
};

const measureViews = async (redis: Connection, { url, prefix: head }: Place): Promise<Measured[]> => {
  const market = `bench-${randomBytes(6).toString("hex")}`;
  const prefix = keyspace("shop", head).key(market, "classic:");
  const keys = marketKeys(market, head);
  const sessions = new Sessions(redis, keys);
  // The textbook's code expects the client of a single server. Its keys share one slot, so a Cluster's client works.
  const plain = (await connect(url)) as unknown as Redis;
  try {
    const { id } = await sessions.open("u1", lifeMs);
    const each = (view: (item: string) => Promise<unknown>) => async (): Promise<void> => {
      for (let n = 0; n < views; n++) await view(`i${n % 40}`);
    };
    const ways: Way[] = [
      {
        ...{ name: "Plain commands", what: "textbook version", roundTrips: 5 },
        run: each((item) => updateToken(plain, "token", "u1", item, prefix)),
      },
      {
        ...{ name: "One pipeline", what: "textbook version", roundTrips: 1 },
        run: each((item) => updateTokenPipeline(plain, "token", "u1", item, prefix)),
      },
      {
        ...{ name: "One script", what: "this shop's version", roundTrips: 1 },
        run: each((item) => sessions.visit(id, item)),
      },
    ];
    return await inTurns(ways, viewRounds, views);
  } finally {
    // The textbook gives its keys no time to live.
    const leftovers = ["login:", "recent:", "viewed:token", "viewed:"].map((name) => `${prefix}${name}`);
    await plain.unlink(...leftovers, keys.views);
    await plain.quit();
  }
};

export const measure = async (redis: Connection, place: Place, keys: MarketKeys): Promise<Measurements> => ({
  reads: await measureReads(place, keys),
  views: await measureViews(redis, place),
});
