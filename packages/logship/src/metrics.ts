import type { MetricSample } from "@kit/core/toolkit";
import type { Hub } from "./hub.js";
import type { ChannelStatus } from "./scripts/index.js";
import * as scripts from "./scripts/index.js";

/** The channel at one instant; null: there is none yet. */
export const statusOf = async (hub: Hub): Promise<ChannelStatus | null> => {
  hub.assertOpen();
  const { context, keys, deadlineMs } = hub;
  return await scripts.status.run(context, keys, { most: 100 }, { deadlineMs });
};

/** A channel as plain numbers, for an exporter. Of the files the first 100 that are in the channel count. */
export const channelMetrics = (channel: string, status: ChannelStatus | null): MetricSample[] => {
  if (!status) return [];
  const { limitBytes, usedBytes, reservedBytes, fileCount, files, consumers } = status;
  const gauges = (values: Readonly<Record<string, number>>, labels: object): MetricSample[] =>
    Object.entries(values).map(([name, value]) => ({
      name: `logship_${name}`,
      type: "gauge",
      help: `Of a log channel: ${name.replaceAll("_", " ")}.`,
      value,
      labels: { channel, ...labels },
    }));
  const whole = {
    limit_bytes: limitBytes,
    used_bytes: usedBytes,
    reserved_bytes: reservedBytes,
    files: fileCount,
    broken_off_files: files.filter(({ fault }) => fault).length,
  };
  const ofConsumer = (name: string): MetricSample[] => {
    const lag_bytes = files.reduce(
      (sum, { textBytes, positions }) => sum + textBytes - (positions[name] ?? textBytes),
      0,
    );
    const set_aside_files = files.filter(({ setAside }) => name in setAside).length;
    return gauges({ lag_bytes, set_aside_files }, { consumer: name });
  };
  return [...gauges(whole, {}), ...consumers.flatMap(({ name }) => ofConsumer(name))];
};
