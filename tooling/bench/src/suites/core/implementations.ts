// Implementations of what core does: connecting to a dead port, loading, and reading configuration.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect } from "@kit/core";
import { traced } from "@kit/core/toolkit";
import { type Config, createConfig } from "@kit/core/config";
import { createLock } from "@kit/lock";
import { ClassicConfigs, setConfig } from "@tooling/classic";
import { now } from "@tooling/lab";
import { Redis } from "ioredis";
import { catalogOf } from "../../implementation.js";

const ioredisVersion = (): string => {
  const file = createRequire(import.meta.url).resolve("ioredis/package.json");
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
};

interface Settings {
  readonly limit: number;
}

/** One process's reader of the value configured under one name. */
export interface Reader {
  /** The current value, without a promise where the implementation can. */
  read(): Settings | Promise<Settings>;
  write(settings: Settings): Promise<void>;
  /** Resolves with the instant at which this reader has `limit`. */
  seen(limit: number): Promise<number>;
}

export interface CoreImplementation {
  /** Connects to a port without a Redis. Resolves with the milliseconds until it gave up. */
  readonly absence?: (url: string) => Promise<number>;
  /** The module to load for each name. */
  readonly module?: (name: string) => string;
  readonly reader?: (url: string) => Promise<Reader>;
}

const name = "search";
const tried = async (attempt: Promise<unknown>): Promise<number> => {
  const startedAt = now();
  const failed = await attempt.then(
    () => false,
    () => true,
  );
  if (!failed) throw new Error("somebody answered");
  return now() - startedAt;
};

const kitReader = async (url: string): Promise<Reader> => {
  const [mine, theirs] = [await connect(url), await connect(url)];
  const config: Config<Settings> = createConfig<Settings>(mine, name, { default: { limit: 0 } });
  const writer = createConfig<Settings>(theirs, name, { default: { limit: 0 } });
  await config.ready();
  return {
    read: () => config.current,
    write: async (settings) => void (await writer.set(settings)),
    seen: (limit) =>
      new Promise((resolve) => {
        const look = (next: Settings): void => {
          if (next.limit !== limit) return;
          config.off("change", look);
          resolve(now());
        };
        config.on("change", look);
        look(config.current);
      }),
  };
};

const classicReader = async (url: string): Promise<Reader> => {
  const redis = new Redis(url);
  await once(redis, "ready");
  const configs = new ClassicConfigs(redis);
  const write = ({ limit }: Settings): Promise<void> => setConfig(redis, "app", name, { limit });
  const read = async (): Promise<Settings> => (await configs.get("app", name)) as unknown as Settings;
  await write({ limit: 0 });
  return {
    read,
    write,
    seen: async (limit) => {
      while ((await read()).limit !== limit) await new Promise((resolve) => setTimeout(resolve, 1));
      return now();
    },
  };
};

export const implementations = catalogOf<CoreImplementation>([
  {
    id: "kit",
    settings: "defaults",
    open: () => ({
      absence: (url) => tried(connect(url)),
      module: (name) => name,
      reader: kitReader,
    }),
  },
  {
    id: "ioredis",
    peer: `ioredis@${ioredisVersion()}`,
    settings: "one try: retryStrategy gives up, connectTimeout 1900 ms",
    open: () => ({
      absence: async (url) => {
        const redis = new Redis(url, { retryStrategy: () => null, connectTimeout: 1_900, lazyConnect: true });
        redis.on("error", () => undefined);
        try {
          return await tried(redis.connect());
        } finally {
          redis.disconnect();
        }
      },
      module: () => "ioredis",
    }),
  },
  {
    id: "classic",
    settings: "read again on use after a second",
    open: () => ({ reader: classicReader }),
  },
  {
    id: "variable",
    peer: "floor",
    settings: "a property of an object in memory",
    open: () => ({
      reader: () => {
        let current: Settings = Object.freeze({ limit: 0 });
        return Promise.resolve({
          read: () => current,
          write: (settings) => {
            current = Object.freeze({ ...settings });
            return Promise.resolve();
          },
          seen: () => Promise.resolve(now()),
        });
      },
    }),
  },
]);

/**
 * The cost of the tracing channels without a listener, in percent of an uncontended acquire and release. The cost is the
 * time of two empty operations through a channel, less the time of two without a channel.
 */
export const unheardTracing = async (url: string, ms: number): Promise<number> => {
  await using redis = await connect(url);
  const lock = createLock(redis);
  const perCall = async (operation: () => Promise<unknown>): Promise<number> => {
    let calls = 0;
    const startedAt = now();
    while (now() - startedAt < ms) for (let i = 0; i < 200; i++, calls++) await operation();
    return (now() - startedAt) / calls;
  };
  const nothing = (): Promise<void> => Promise.resolve();
  const context = (): object => ({});
  const pair = async (): Promise<void> => {
    const lease = await lock.acquire(name);
    await lease.release();
  };
  await perCall(pair);
  const plain = await perCall(nothing);
  const through = await perCall(() => traced("bench.nothing", context, nothing));
  const whole = await perCall(pair);
  await lock.close();
  // Two traced operations: acquire and release.
  return Math.max(0, (100 * 2 * (through - plain)) / whole);
};
