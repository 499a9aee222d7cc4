import { now, seededBelow } from "@tooling/lab";
import type { Operation } from "../../operation.js";
import type { OpenJobs } from "../../suite.js";
import { implementations } from "./implementations.js";
import { addressText, cityName, cityOf, networksOf } from "./data.js";

export interface RowsTask {
  readonly rows: number;
}

export interface ImportResult {
  readonly rowsPerSecond: number;
  readonly elapsedMs: number;
  readonly cpuMs: number;
  /** The highest memory of the process, less what it held before. */
  readonly peakBytes: number;
}

/** Few enough that their places, and in one case their pages, are cached. */
const lookUps = 2_000;
const memoryEveryMs = 20;

export const jobs: OpenJobs = async (opening) => {
  const locator = await implementations.open(opening);
  let ready: { readonly rows: number; readonly run: () => Promise<number> } | undefined;
  let wanted: readonly { readonly address: string; readonly city: string }[] = [];
  return {
    /** Writes the files that the import reads; not measured. */
    prepare: async ({ rows }: RowsTask) => {
      if (locator.importOf) ready = { rows, run: await locator.importOf(rows) };
    },

    import: async (): Promise<ImportResult> => {
      if (!ready) throw new Error("it cannot import");
      let peakBytes = 0;
      const before = process.memoryUsage.rss();
      const look = (): void => void (peakBytes = Math.max(peakBytes, process.memoryUsage.rss() - before));
      const timer = setInterval(look, memoryEveryMs);
      const cpu = process.cpuUsage();
      const startedAt = now();
      const count = await ready.run();
      const elapsedMs = now() - startedAt;
      clearInterval(timer);
      look();
      if (count !== ready.rows) throw new Error(`${String(count)} of ${String(ready.rows)} rows were imported`);
      const { user, system } = process.cpuUsage(cpu);
      return { rowsPerSecond: (1_000 * count) / elapsedMs, elapsedMs, cpuMs: (user + system) / 1_000, peakBytes };
    },

    load: async ({ rows }: RowsTask) => {
      await locator.load(rows);
      const random = seededBelow(3);
      const networks = [...networksOf(rows)];
      wanted = Array.from({ length: lookUps }, () => {
        const { first, bits, place } = networks[random(rows)]!;
        return { address: addressText(first + random(2 ** (32 - bits))), city: cityName(cityOf(place)) };
      });
    },

    /** A call is a hundred look-ups, so that the clock is read once for them. */
    operation: (): Operation => ({
      callers: 1,
      size: 100,
      call: async (_caller, number) => {
        for (let at = number * 100; at < (number + 1) * 100; at++) {
          const { address, city } = wanted[at % lookUps]!;
          if ((await locator.find(address)) !== city) throw new Error(`the look-up of ${address} did not find ${city}`);
        }
      },
    }),
  };
};
