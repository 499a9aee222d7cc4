import { connect, type Connection } from "@kit/core";
import type { Command } from "commander";
import { givenUrl } from "./target.js";

/** The options of every command that connects to a Redis. */
export interface Target {
  readonly url?: string;
  readonly prefix: string;
  readonly json?: true;
}

export const targetOptions = (command: Command): Command =>
  command
    .option("--url <url>", "which Redis (default: $REDIS_URL, else redis://127.0.0.1:6379)")
    .option("--prefix <prefix>", "what the packages' keys begin with", "kit")
    .option("--json", "one JSON object on stdout");

/**
 * Runs `use` with a connection, and closes that.
 *
 * @throws {KitError} what `connect()` throws.
 */
export const withConnection = async (
  target: Target,
  connectionName: string,
  run: (redis: Connection, url: string) => Promise<void>,
): Promise<void> => {
  const url = givenUrl(target.url);
  const redis = await connect({ url, connectionName });
  try {
    await run(redis, url);
  } finally {
    await redis.close();
  }
};
