// Thirty reads, three ways: each waits for the one before, all in one pipeline, or all at once on a client that gathers
// what is asked in the same turn of the event loop.
import { connect } from "@kit/core";
import type { Redis } from "ioredis";
import type { MarketKeys } from "./keys.js";
import type { Place } from "./place.js";

const reads = 30;
const rounds = 9;

export interface PipelineRow {
  readonly name: string;
  readonly what: string;
  readonly roundTrips: string;
  /** Milliseconds for all reads. */
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export const measurePipeline = async ({ url }: Place, keys: MarketKeys): Promise<PipelineRow[]> => {
  await using plain = await connect(url);
  await using gathering = await connect({ url, options: { enableAutoPipelining: true } });
  const items = Array.from({ length: reads }, (_, n) => keys.item(`i${n + 1}`));
  const ways = [
    {
      ...{ name: "One by one", what: "await each read before the next", roundTrips: String(reads) },
      run: async () => {
        for (const item of items) await plain.hget(item, "title");
      },
    },
    {
      ...{ name: "Pipeline", what: "collect the reads, send them together", roundTrips: "1" },
      run: async () => {
        const pipeline = (plain as unknown as Redis).pipeline();
        for (const item of items) pipeline.hget(item, "title");
        await pipeline.exec();
      },
    },
    {
      ...{ name: "Auto-pipelined", what: "ask at once; the client gathers them", roundTrips: "1" },
      run: async () => {
        await Promise.all(items.map((item) => gathering.hget(item, "title")));
      },
    },
  ];
  const taken = ways.map((): number[] => []);
  for (let round = 0; round <= rounds; round++)
    for (const [index, { run }] of ways.entries()) {
      const startedAt = performance.now();
      await run();
      // The first round warms up.
      if (round > 0) taken[index]?.push(performance.now() - startedAt);
    }
  return ways.map(({ name, what, roundTrips }, index) => {
    const sorted = (taken[index] ?? []).sort((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
    return { name, what, roundTrips, median, min: sorted[0] ?? 0, max: sorted.at(-1) ?? 0 };
  });
};
