import type { MetricSample } from "@kit/core/toolkit";
import type { ChannelStatus } from "./scripts/index.js";

/** A channel as plain numbers, for an exporter. Of the files the first 100 that are in the channel count. */
export const channelMetrics = (channel: string, status: ChannelStatus | null): MetricSample[] => {
  if (!status) return [];
  const { limitBytes, usedBytes, reservedBytes, fileCount, files, consumers } = status;
  const gauge = (name: string, help: string, value: number, consumer?: string): MetricSample => {
    const labels = { channel, ...(consumer !== undefined && { consumer }) };
    return { name: `logship_${name}`, type: "gauge", help, value, labels };
  };
  return [
    gauge("limit_bytes", "Most memory for chunks.", limitBytes),
    gauge("used_bytes", "Memory of committed chunks.", usedBytes),
    gauge("reserved_bytes", "Memory reserved for chunks.", reservedBytes),
    gauge("files", "Files in the channel.", fileCount),
    gauge("broken_off_files", "Files that ended before their end.", files.filter(({ fault }) => fault).length),
    ...consumers.flatMap(({ name }) => {
      const behind = files.reduce(
        (sum, { textBytes, positions }) => sum + textBytes - (positions[name] ?? textBytes),
        0,
      );
      const aside = files.filter(({ setAside }) => name in setAside).length;
      return [
        gauge("lag_bytes", "Text bytes not committed.", behind, name),
        gauge("set_aside_files", "Files set aside.", aside, name),
      ];
    }),
  ];
};
