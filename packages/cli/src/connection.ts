import { connect, type Connection } from "@kit/core";
import type { Command } from "commander";
import { write } from "./output.js";
import { harmless } from "./print.js";
import { withRights } from "./refusal.js";
import { defaultNote, givenUrl } from "./target.js";
import { ofWrongServer, partOfCluster } from "./wrong-server.js";

/** The options of every command that connects to a Redis. */
export interface Target {
  readonly url?: string;
  readonly prefix: string;
  readonly json?: true;
}

export const targetOptions = (command: Command): Command =>
  command
    .option("--url <url>", "address of Redis (default: $REDIS_URL, then redis://127.0.0.1:6379)")
    .option("--prefix <prefix>", "prefix of the keys", "kit")
    .option("--json", "print JSON");

const note = (text: string | undefined): Promise<void> =>
  text === undefined ? Promise.resolve() : write(process.stderr, `kit: ${harmless(text)}\n`);

/**
 * Calls `run` with a connection, and closes the connection afterward.
 *
 * @throws {KitError} as `connect()` throws.
 */
export const withConnection = async (
  target: Target,
  connectionName: string,
  run: (redis: Connection, url: string) => Promise<void>,
  { mayChange = false }: { readonly mayChange?: boolean } = {},
): Promise<void> => {
  const url = givenUrl(target.url);
  await note(defaultNote(target.url, mayChange));
  const redis = await connect({ url, connectionName });
  try {
    await note(await partOfCluster(redis, url));
    await run(redis, url);
  } catch (error) {
    throw withRights(await ofWrongServer(error, redis, url));
  } finally {
    await redis.close();
  }
};
