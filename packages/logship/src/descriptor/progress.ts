import { secondsText } from "@kit/core/toolkit";

/** Formats a number of bytes for people. */
export const bytesText = (bytes: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1_024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1_024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]!}`;
};

const barWidth = 20;

/** One line of progress: a bar and the time left if the total is known, and the rate in bytes per second when it is known. */
export const progressText = (
  name: string,
  doneBytes: number,
  totalBytes: number | undefined,
  rate: number | undefined,
): string => {
  const speed = rate === undefined ? "" : ` ${bytesText(rate)}/s`;
  if (totalBytes === undefined || totalBytes === 0) return `${name} ${bytesText(doneBytes)}${speed}`;
  const share = Math.min(1, doneBytes / totalBytes);
  const bar = "#".repeat(Math.round(share * barWidth)).padEnd(barWidth, ".");
  const left =
    rate === undefined || rate === 0 ? "" : `, ${secondsText(((totalBytes - doneBytes) / rate) * 1_000)} left`;
  return `${name} [${bar}] ${String(Math.floor(share * 100))}%${speed}${left}`;
};
