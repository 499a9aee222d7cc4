import type { Redis } from "ioredis";

/** A configuration in the classic code: any JSON object. */
type ClassicConfig = Record<string, unknown>;

/** The key of a configuration: `config:<type>:<component>`. */
const configKey = (type: string, component: string, prefix = ""): string => `${prefix}config:${type}:${component}`;

/**
 * "Redis in Action", chapter 5: `SET config:<type>:<component>` to the JSON of a configuration.
 *
 * Known faults: any value is accepted; the last writer wins unnoticed; nothing notifies readers.
 */
export async function setConfig(
  redis: Redis,
  type: string,
  component: string,
  config: ClassicConfig,
  prefix = "",
): Promise<void> {
  await redis.set(configKey(type, component, prefix), JSON.stringify(config));
}

/**
 * "Redis in Action", chapter 5: the configurations that one process has cached, and when it last read them. The classic
 * code has this once per process, in globals.
 *
 * Known faults:
 *
 * - each process reads again every `waitSeconds`, even without a change, and sees a change only then
 * - a missing configuration reads as `{}`
 * - no type check
 * - all callers share one object that each may change
 */
export class ClassicConfigs {
  readonly redis: Redis;
  readonly prefix: string;
  readonly #configs = new Map<string, ClassicConfig>();
  readonly #checkedAt = new Map<string, number>();

  constructor(redis: Redis, prefix = "") {
    this.redis = redis;
    this.prefix = prefix;
  }

  async get(type: string, component: string, waitSeconds = 1): Promise<ClassicConfig> {
    const key = configKey(type, component, this.prefix);
    const now = Date.now();
    if ((this.#checkedAt.get(key) ?? 0) < now - waitSeconds * 1_000) {
      this.#checkedAt.set(key, now);
      const config = JSON.parse((await this.redis.get(key)) ?? "{}") as ClassicConfig;
      if (!isSame(config, this.#configs.get(key))) this.#configs.set(key, config);
    }
    return this.#configs.get(key) ?? {};
  }
}

/** Whether two configurations are equal, by their text. */
const isSame = (a: ClassicConfig | undefined, b: ClassicConfig | undefined): boolean =>
  JSON.stringify(a) === JSON.stringify(b);
