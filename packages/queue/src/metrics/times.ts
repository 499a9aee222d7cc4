import type { MetricSample } from "@kit/core/toolkit";

/** Upper bounds in seconds. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];

/** OpenMetrics writes the bound 1 as 1.0. */
const boundText = (bound: number): string => (Number.isInteger(bound) ? bound.toFixed(1) : String(bound));

/** A distribution of times of one series. */
export class Times {
  /** How many times are in each bucket and in no earlier one. The last bucket is beyond all bounds. */
  readonly #counts = bounds.map(() => 0).concat(0);
  #sum = 0;

  observe(seconds: number): void {
    const index = bounds.findIndex((bound) => seconds <= bound);
    const bucket = index < 0 ? bounds.length : index;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += seconds;
  }

  samples(name: string, help: string, labels: Readonly<Record<string, string>>): MetricSample[] {
    let total = 0;
    const sample = (suffix: NonNullable<MetricSample["suffix"]>, value: number, le?: string): MetricSample => ({
      ...{ name, type: "histogram", help, suffix, value },
      labels: le === undefined ? labels : { ...labels, le },
    });
    const buckets = this.#counts.map((count, index) => {
      const bound = bounds[index];
      return sample("_bucket", (total += count), bound === undefined ? "+Inf" : boundText(bound));
    });
    return [...buckets, sample("_sum", this.#sum), sample("_count", total)];
  }
}
