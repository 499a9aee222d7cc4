// The ways to count and to measure, each behind the same small interface.
import { cleanCountersOnce, COUNTER_PRECISIONS, SAMPLES_KEPT, updateCounter, updateStats } from "@tooling/classic";
import type { Redis } from "ioredis";
import { connected } from "../../clients.js";
import { pinned } from "../../pins.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";

export interface StatsSetup {
  /** `seven`: the seven widths and the number of buckets of the classic code. `default`: those of the implementation. */
  readonly precisions: "seven" | "default";
}

type Do = (series: number, value: number) => unknown;

/** An implementation that is open in this process. */
export interface Tool {
  /** `count` and `observe` resolve when the server has the value. */
  readonly count?: Do;
  readonly observe?: Do;
  /** The local calls return at once. */
  readonly countLocally?: Do;
  readonly countUnlabelled?: Do;
  readonly observeLocally?: Do;
  /** Counts something that happened at an instant, epoch milliseconds. */
  readonly countAt?: (at: number) => Promise<unknown>;
  /** Flushes local counts to the server. */
  readonly settle?: () => Promise<unknown>;
  /** The total of a series. */
  readonly total?: (series: number) => Promise<number>;
  /** Removes the buckets that have expired at an instant. */
  readonly clean?: (at: number) => Promise<void>;
}

type Definition = AnyDefinition<Tool, StatsSetup>;

const seven = COUNTER_PRECISIONS.map((seconds) => ({ stepMs: 1_000 * seconds, keepSamples: SAMPLES_KEPT }));
const labelOf = (series: number): string => `series-${String(series)}`;

const kit: Definition = {
  id: "kit",
  settings:
    "effectively once; a counter with its total, a distribution with two windows and a sketch; flush every 250 ms",
  open: async (url, { precisions }, connect) => {
    const { createStats } = await import("@kit/stats");
    const stats = createStats(await connect(url));
    const options = precisions === "seven" ? { precisions: seven } : {};
    const counter = stats.counter("hits_total", { labelNames: ["n"], ...options });
    const plain = stats.counter("plain_total", options);
    const latency = stats.distribution("request_ms");
    return {
      count: (series) => counter.add({ n: labelOf(series) }),
      countAt: (at) => plain.add(1, { at }),
      observe: (_, value) => latency.record(value),
      countLocally: (series) => counter.inc({ n: labelOf(series) }),
      countUnlabelled: () => plain.inc(),
      observeLocally: (_, value) => latency.observe(value),
      settle: () => stats.flush(),
      total: (series) => counter.total({ n: labelOf(series) }),
    };
  },
};

const classic: Definition = {
  id: "classic",
  settings: "one transaction of 14 commands for seven widths; WATCH and two temporary keys for a value",
  open: async (url) => {
    const redis = await connected(url);
    // The state of WATCH belongs to the connection.
    const own = new Map<number, Promise<Redis>>();
    const ownOf = (series: number): Promise<Redis> => {
      const found = own.get(series) ?? connected(url);
      own.set(series, found);
      return found;
    };
    return {
      count: (series) => updateCounter(redis, labelOf(series)),
      countAt: (at) => updateCounter(redis, "plain", { now: at / 1_000 }),
      observe: async (series, value) => {
        if (!(await updateStats(await ownOf(series), "bench", "request", value))) throw new Error("it was dropped");
      },
    };
  },
};

const classicCleaned: Definition = {
  id: "classic, cleaned",
  settings: "the same, and its clean-up process at the end",
  open: async (url) => {
    const redis = await connected(url);
    return {
      countAt: (at) => updateCounter(redis, "plain", { now: at / 1_000 }),
      clean: (at) => cleanCountersOnce(redis, { now: () => at }),
    };
  },
};

const raw: Definition = {
  id: "raw HINCRBY",
  settings:
    "a hit: a pipeline of one HINCRBY per width, no total; a value: count, sum and bin in three hashes, no extremes; no expiry, no ledger",
  open: async (url, { precisions }) => {
    const redis = await connected(url);
    const widths = precisions === "seven" ? COUNTER_PRECISIONS : [1];
    return {
      count: (series) => {
        const pipeline = redis.pipeline();
        const seconds = Date.now() / 1_000;
        for (const width of widths) {
          const slice = Math.floor(seconds / width) * width;
          pipeline.hincrby(`${String(width)}:${labelOf(series)}`, String(slice), 1);
        }
        return pipeline.exec();
      },
      observe: (_, value) => {
        const pipeline = redis.pipeline();
        const now = Date.now();
        for (const hash of ["all", Math.floor(now / 60_000), Math.floor(now / 3_600_000)]) {
          const key = `request_ms:${String(hash)}`;
          pipeline.hincrby(key, "count", 1).hincrbyfloat(key, "sum", value);
          pipeline.hincrby(key, String(Math.ceil(Math.log2(value) * 32)), 1);
        }
        return pipeline.exec();
      },
    };
  },
};

const floor: Definition = {
  id: "one HINCRBY",
  peer: "floor",
  settings: "one round trip: a total, or a number of values; nothing by time, no expiry, no ledger",
  open: async (url) => {
    const redis = await connected(url);
    const hit: Do = (series) => redis.hincrby("totals", labelOf(series), 1);
    return { count: hit, observe: hit };
  },
};

const local = async (): Promise<typeof import("prom-client")> => await import("prom-client");

const promClient: Definition = {
  id: "prom-client",
  peer: pinned("prom-client"),
  settings: "in this process alone: a Counter, a Histogram with its default buckets",
  open: async () => {
    const { Counter, Histogram } = await local();
    const counter = new Counter({ name: "hits_total", help: "hits", labelNames: ["n"], registers: [] });
    const plain = new Counter({ name: "plain_total", help: "hits", registers: [] });
    const latency = new Histogram({ name: "request_ms", help: "time", registers: [] });
    return {
      countLocally: (series) => counter.inc({ n: labelOf(series) }),
      countUnlabelled: () => plain.inc(),
      observeLocally: (_, value) => latency.observe(value),
    };
  },
};

const promSummary: Definition = {
  id: "prom-client Summary",
  settings: "in this process alone: a Summary with its default quantiles, of all time",
  open: async () => {
    const { Summary } = await local();
    const latency = new Summary({ name: "request_ms", help: "time", registers: [] });
    return { observeLocally: (_, value) => latency.observe(value) };
  },
};

export const implementations = catalogOf<Tool, StatsSetup>([
  kit,
  classic,
  classicCleaned,
  raw,
  floor,
  promClient,
  promSummary,
]);
