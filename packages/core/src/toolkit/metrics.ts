/** A number that an object exports, as plain data for any exporter. */
export interface MetricSample {
  /** Letters, digits and `_`, ending with the unit. */
  readonly name: string;
  /**
   * `counter`: only grows, and starts again at 0 with the process. `gauge`: any number. `histogram`: one line of a distribution,
   * described by its `suffix`.
   */
  readonly type: "counter" | "gauge" | "histogram";
  /** The help text. The same for all samples of one name. */
  readonly help: string;
  readonly value: number;
  /**
   * For a histogram: the number of values up to the label `le` (one of them is `+Inf`), their sum, or their count. Together they
   * are one series. Otherwise undefined.
   */
  readonly suffix?: "_bucket" | "_sum" | "_count" | undefined;
  /** @default {} */
  readonly labels?: Readonly<Record<string, string | number>> | undefined;
}

/** An object that exports its numbers. */
export interface MetricSource {
  metrics(): readonly MetricSample[] | Promise<readonly MetricSample[]>;
}
