import type { InspectCall } from "@kit/core/toolkit";
import { createStats, type Stats } from "../index.js";

/** Calls back with a statistics object for reading. */
export const withStats = async <T>({ redis, prefix }: InspectCall, use: (stats: Stats) => Promise<T>): Promise<T> => {
  const stats = createStats(redis, { prefix });
  try {
    return await use(stats);
  } finally {
    await stats.close();
  }
};
