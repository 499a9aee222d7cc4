import { createStats, type Stats } from "@kit/stats";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import { inGroups, manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";

const statsOn = async (scene: Scene): Promise<Stats> => scene.own(createStats(await scene.client()));

const series = 64;
const hour = { lastMs: 3_600_000, stepMs: 60_000 };

export const operations: readonly CostedOperation[] = [
  {
    package: "stats",
    name: "flush of one counter",
    about: "of any number of `inc()`; up to four a second by default",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const stats = await statsOn(scene);
      const counter = stats.counter("hits_total");
      return {
        run: oneByOne(() => {
          counter.inc();
          return stats.flush();
        }),
      };
    },
  },
  {
    package: "stats",
    name: "flush of 64 counters",
    about: "of one process",
    count: 64,
    callers: manyCallers,
    open: async (scene) => {
      const stats = await statsOn(scene);
      const counter = stats.counter("hits_total", { labelNames: ["route"] });
      return {
        run: oneByOne(() => {
          for (let one = 0; one < series; one++) counter.inc({ route: `/route/${String(one)}` });
          return stats.flush();
        }),
      };
    },
  },
  {
    package: "stats",
    name: "flush of one distribution",
    about: "of 100 values",
    count: 160,
    callers: manyCallers,
    open: async (scene) => {
      const stats = await statsOn(scene);
      const latency = stats.distribution("request_ms");
      return {
        run: oneByOne(() => {
          for (let value = 1; value <= 100; value++) latency.observe(value);
          return stats.flush();
        }),
      };
    },
  },
  {
    package: "stats",
    name: "add, awaited",
    about: "",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const counter = (await statsOn(scene)).counter("hits_total");
      return { run: oneByOne(() => counter.add()) };
    },
  },
  {
    package: "stats",
    name: "read of an hour by minutes",
    about: "of one series",
    count: 320,
    callers: manyCallers,
    open: async (scene) => {
      const counter = (await statsOn(scene)).counter("hits_total");
      await counter.add();
      return { run: oneByOne(() => counter.read(hour)) };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "stats",
    name: "a series of a counter",
    about: "counted once; grows with its buckets",
    count: 5_000,
    store: async (scene, count) => {
      const counter = (await statsOn(scene)).counter("hits_total", { labelNames: ["route"] });
      await inGroups(500, (index) => counter.add({ route: `/route/${String(index)}` }))(count);
    },
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "stats",
    name: "counters that count nothing",
    about: "",
    open: async (scene) => {
      await (await statsOn(scene)).counter("hits_total").add();
    },
  },
  {
    package: "stats",
    name: "a counter that counts all the time",
    about: "`flushMs` of 250",
    open: async (scene) => {
      const counter = (await statsOn(scene)).counter("busy_total");
      const timer = setInterval(() => counter.inc(), 20);
      scene.atEnd(() => Promise.resolve(clearInterval(timer)));
    },
  },
];
