/** A number that an object offers to be shown: plain, so that any exporter can take it. */
export interface MetricSample {
  /** Letters, digits and `_`, with the unit at its end. */
  readonly name: string;
  /**
   * `counter`: only grows, and begins again at 0 with the process. `gauge`: any number. `histogram`: one line of a distribution, as its
   * `suffix` says.
   */
  readonly type: "counter" | "gauge" | "histogram";
  /** The help text; the same for all samples of one name. */
  readonly help: string;
  readonly value: number;
  /**
   * Of a histogram: how many values are at most the label `le` (one of them `+Inf`), their sum, and their number. Together they are one
   * series. Otherwise undefined.
   */
  readonly suffix?: "_bucket" | "_sum" | "_count" | undefined;
  /** @default {} */
  readonly labels?: Readonly<Record<string, string | number>> | undefined;
}

/** An object that offers its numbers. */
export interface MetricSource {
  metrics(): readonly MetricSample[] | Promise<readonly MetricSample[]>;
}
