import { decodedName, type MetricSample } from "@kit/core/toolkit";
import type { LogConnection } from "./connection.js";
import { resultKeys } from "./process/commands.js";
import * as scripts from "./scripts/index.js";

/** Unlinks chunks that no consumer needs, and all others that are listed in `free`. After a crash they stay listed there. */
export const freeChunks = async (connection: LogConnection, listed: readonly string[]): Promise<void> => {
  for (let parts = listed; parts.length > 0;) {
    const keys = { ...connection.keys, unneeded: parts.map((part) => connection.keys.chunk(part)) };
    parts = await connection.run(scripts.free, { events: connection.keys.events, parts }, { keys });
  }
};

/** Distinguishes this channel from a later one with the same name. Null if there is no channel. */
export const epochOf = async (connection: LogConnection): Promise<string | null> =>
  (await connection.read("HGET", [connection.keys.channel, "epoch"])) as string | null;

/** Removes a consumer from a channel if it was silent for `silentMs` (0: in any case). Resolves with whether it was removed. */
export const dropConsumer = async (connection: LogConnection, consumer: string, silentMs: number): Promise<boolean> => {
  const epoch = (await epochOf(connection)) ?? "";
  for (let after = 0; after >= 0;) {
    const dropped = await connection.run(scripts.drop, { consumer, silentMs, after, epoch });
    if (!dropped) return false;
    await freeChunks(connection, dropped.parts);
    ({ after } = dropped);
  }
  return true;
};

/** Removes all consumers that were silent for `silentMs`. Resolves with their names. */
export const dropSilent = async (connection: LogConnection, silentMs: number): Promise<string[]> => {
  const dropped: string[] = [];
  for (const consumer of (await connection.hash(connection.keys.consumers)).keys())
    if (await dropConsumer(connection, consumer, silentMs)) dropped.push(decodedName(consumer));
  return dropped;
};

/** Deletes a channel and its results. A crash during the deletion leaves the channel closed; another call finishes it. */
export const deleteChannel = async (connection: LogConnection): Promise<void> => {
  const { events, channel } = connection.keys;
  const epoch = (await epochOf(connection)) ?? "";
  const discard = (isLast: 0 | 1, targets: readonly string[]): Promise<string[]> =>
    connection.run(scripts.discard, { epoch, isLast, events }, { keys: { ...connection.keys, targets } });
  for (let parts = await discard(0, []); parts.length > 0; parts = await discard(0, []))
    await freeChunks(connection, parts);
  // From here on no commit can add a result.
  await discard(1, resultKeys(await connection.hash(channel)));
};

/** The channel at one instant, or null if it does not exist yet. */
export const statusOf = async (connection: LogConnection): Promise<scripts.ChannelStatus | null> => {
  connection.life.assertOpen();
  return await connection.run(scripts.status, { most: 100 });
};

/** The channel as plain numbers, for an exporter. Counts only the first 100 files in the channel. */
export const metricsOf = async (connection: LogConnection): Promise<MetricSample[]> => {
  const status = await statusOf(connection);
  if (!status) return [];
  const { limitBytes, usedBytes, reservedBytes, fileCount, files, consumers } = status;
  const gauges = (values: Readonly<Record<string, number>>, labels: object): MetricSample[] =>
    Object.entries(values).map(([name, value]) => ({
      name: `logship_${name}`,
      type: "gauge",
      help: `Of a log channel: ${name.replaceAll("_", " ")}.`,
      value,
      labels: { channel: connection.name, ...labels },
    }));
  const whole = {
    limit_bytes: limitBytes,
    used_bytes: usedBytes,
    reserved_bytes: reservedBytes,
    files: fileCount,
    broken_off_files: files.filter(({ fault }) => fault).length,
  };
  const ofConsumer = (name: string): MetricSample[] => {
    const lags = files.map(({ textBytes, positions }) => textBytes - (positions[name] ?? textBytes));
    const lag_bytes = lags.reduce((sum, lag) => sum + lag, 0);
    const quarantined_files = files.filter(({ quarantined }) => name in quarantined).length;
    return gauges({ lag_bytes, quarantined_files }, { consumer: name });
  };
  return [...gauges(whole, {}), ...consumers.flatMap(({ name }) => ofConsumer(name))];
};
