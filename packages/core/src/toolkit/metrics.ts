/** A number that an object offers to be shown: plain, so that any exporter can take it. */
export interface MetricSample {
  /** Letters, digits and `_`, with the unit at its end. */
  readonly name: string;
  /** `counter`: only grows, and begins again at 0 with the process. `gauge`: any number. */
  readonly type: "counter" | "gauge";
  /** The help text; the same for all samples of one name. */
  readonly help: string;
  readonly value: number;
  /** @default {} */
  readonly labels?: Readonly<Record<string, string | number>> | undefined;
}

/** An object that offers its numbers. */
export interface MetricSource {
  metrics(): readonly MetricSample[] | Promise<readonly MetricSample[]>;
}
