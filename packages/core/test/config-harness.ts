import type { RedisMode, TestRedis } from "@kit/testing";
import type { KitError, RedisLike } from "../src/index.js";
import {
  type Config,
  type ConfigOptions,
  type ConfigState,
  createConfig,
  type StandardSchema,
} from "../src/config/index.js";
import { until } from "./harness.js";

/** The entry that the tests configure. */
export interface Search {
  readonly host: string;
  readonly port: number;
}

/** A Standard Schema by hand, as strict as people make them; its words quote the value, as those of validators do. */
const searchSchema: StandardSchema<Search> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => {
      const { host, port, ...rest } = value as Record<string, unknown>;
      const issues = Object.keys(rest).map((key) => ({ message: `"${key}" is not known`, path: [key] }));
      if (typeof host !== "string" || host === "")
        issues.push({ message: `Expected a host but received "${String(host)}"`, path: ["host"] });
      if (!Number.isInteger(port))
        issues.push({ message: `Expected a port but received ${String(port)}`, path: ["port"] });
      return issues.length > 0 ? { issues } : { value: value as Search };
    },
  },
};

export const first: Search = { host: "alpha", port: 1 };
export const second: Search = { host: "beta", port: 2 };

/** Configurations under the test's own prefix, closed after it. */
export interface Fixture {
  readonly keyOf: (part: "entry" | "history" | "changed", of?: string) => string;
  readonly make: (options?: ConfigOptions<Search>, client?: RedisLike) => Config<Search>;
  /** One that has read what stands there, and hears of changes. */
  readonly ready: (options?: ConfigOptions<Search>, client?: RedisLike) => Promise<Config<Search>>;
  /** A write by hand, unseen: the next version (or so many further), without a message. */
  readonly writeUnseen: (text: string, step?: number) => Promise<void>;
  readonly announce: (message?: string) => Promise<number>;
}

export const fixtureOf = (redis: TestRedis<RedisMode>): Fixture => {
  const name = "search";
  const keyOf: Fixture["keyOf"] = (part, of = name) => `${redis.prefix}:config:{${of}}:${part}`;
  const make: Fixture["make"] = (options = {}, client = redis.client) => {
    const config = createConfig(client, name, { prefix: redis.prefix, ...options, schema: searchSchema });
    redis.defer(() => config.close());
    return config;
  };
  const ready: Fixture["ready"] = async (options, client) => {
    const config = make(options, client);
    await config.ready({ waitMs: 10_000 });
    // On a busy machine the first look may be over before the subscription is.
    await until(() => config.state === "fresh", 10_000);
    return config;
  };
  const writeUnseen: Fixture["writeUnseen"] = async (text, step = 1) => {
    const db = redis.client;
    const [revision, at] = await db.hmget(keyOf("entry"), "revision", "at");
    const fields = { revision: Number(revision) + step, at: String(BigInt(at!) + 1_000n), value: text };
    await db.hset(keyOf("entry"), fields);
  };
  const announce: Fixture["announce"] = (message = "1:1:1") => redis.client.publish(keyOf("changed"), message);
  return { keyOf, make, ready, writeUnseen, announce };
};

/** All events of a configuration. */
export interface Reported<Value> {
  readonly changes: [Value, Value | undefined][];
  readonly states: ConfigState[];
  readonly errors: KitError[];
}

export const recorded = <Value>(config: Config<Value, never>): Reported<Value> => {
  const changes: [Value, Value | undefined][] = [];
  const states: ConfigState[] = [];
  const errors: KitError[] = [];
  config.on("change", (...change) => changes.push(change));
  config.on("state", (state) => states.push(state));
  config.on("error", (error) => errors.push(error));
  return { changes, states, errors };
};
