import { Redis } from "ioredis";
import { type ClassicConfig, type ClassicConfigs, isSame } from "./configuration.js";

/** "Redis in Action", chapter 5: the connections of one process, by component. Replaced connections stay in the list. */
export interface ClassicConnections {
  readonly current: Map<string, Redis>;
  readonly all: Redis[];
}

/**
 * "Redis in Action", chapter 5: passes the connection of a component to `fn`, and makes a new one when this call finds
 * the configuration `config:redis:<component>` changed.
 *
 * Known faults:
 *
 * - without a configuration it connects to localhost
 * - if other code in the process reads the configuration first, the change is missed and the connection never replaced
 * - the old connection is never closed, so that its server can be stopped only by cutting it, with its calls in flight
 * - the order of the keys counts as a change
 */
export function redisConnection<Args extends readonly unknown[], Result>(
  configs: ClassicConfigs,
  connections: ClassicConnections,
  component: string,
  fn: (redis: Redis, ...args: Args) => Promise<Result>,
  waitSeconds = 1,
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    const old = configs.known("redis", component);
    const config: ClassicConfig = await configs.get("redis", component, waitSeconds);
    if (!isSame(config, old) || !connections.current.has(component)) {
      const redis = new Redis({ lazyConnect: true, ...config });
      connections.current.set(component, redis);
      connections.all.push(redis);
    }
    return await fn(connections.current.get(component)!, ...args);
  };
}
