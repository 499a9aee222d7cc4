/** ISO text. Null if there is no such time. */
export const dated = (ms: number | null): string | null =>
  ms === null || !(Math.abs(ms) <= 8.64e15) ? null : new Date(ms).toISOString();
