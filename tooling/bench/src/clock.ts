/**
 * Milliseconds on the machine's monotonic clock, which all processes share: instants of one process may be compared
 * with those of another.
 */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;
