import type { Finding } from "@kit/core/toolkit";
import { type Check, ok, warning } from "./check.js";

const samples = 200;
/** Each call of a script takes one round trip: in the same data centre well below a millisecond. */
const slowMedianMs = 5;
/** Beyond this a lease of a few seconds loses a noticeable part. */
const slowTailMs = 100;

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;

export const roundTrip: Check = {
  id: "round-trip",
  async look({ nodes: [node] }): Promise<readonly Finding[]> {
    const times: number[] = [];
    const startedAt = performance.now();
    // With a distant server 200 would take long; 20 are enough.
    while (times.length < samples && (times.length < 20 || performance.now() - startedAt < 1_000)) {
      const sentAt = performance.now();
      await node.call("PING");
      times.push(performance.now() - sentAt);
    }
    times.sort((a, b) => a - b);
    const p50 = percentile(times, 0.5);
    const p99 = percentile(times, 0.99);
    const figures = `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms over ${String(times.length)} PINGs`;
    if (p50 > slowMedianMs)
      return [
        warning(
          `${figures}: the server is too far from this machine`,
          "Run the application in the server's region, close to the server.",
        ),
      ];
    if (p99 > slowTailMs)
      return [
        warning(
          `${figures}: some replies are slow`,
          "Check for slow commands (slow-log), swapping, and a busy machine or network.",
        ),
      ];
    return [ok(figures)];
  },
};
