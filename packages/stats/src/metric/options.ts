import { choice, custom, integer, type MetricSource, type Resolved, type RulesOf } from "@kit/core/toolkit";
import { deliveries, type StatsSettings } from "../send/options.js";
import type { Delivery } from "../send/outbox.js";
import type { ExpositionFormat } from "./exposition.js";
import { labelNames } from "./labels.js";

const byCodePoints = (one: string, other: string): number => (one < other ? -1 : 1);

/** The options that counters and distributions share. */
export interface MetricOptions<Names extends string> {
  /**
   * A description, for the exposition.
   *
   * @default ""
   */
  readonly help?: string | undefined;
  /**
   * The names of the labels. Each call must pass a value for every label.
   *
   * @default []
   */
  readonly labelNames?: readonly Names[] | undefined;
  /**
   * How many series this process tracks separately. Further series are counted together, in a series whose labels are all
   * `__overflow__`. A series that was idle for ten minutes releases its place.
   *
   * @default 2000
   */
  readonly maxSeries?: number | undefined;
  /**
   * What happens to an amount whose reply is lost.
   *
   * @default the statistics object's `delivery`
   */
  readonly delivery?: Delivery | undefined;
}

export const metricRules = {
  help: custom((name, help: string) => {
    if (typeof help !== "string") throw new TypeError(`Expected \`${name}\` to be a string, got ${typeof help}`);
    return help;
  }, ""),
  // Sorted, since a second definition may have them in another order.
  labelNames: custom((_name, names: readonly string[]) => labelNames(names).toSorted(byCodePoints), []),
  maxSeries: integer(1, 1_000_000, 2_000),
  delivery: choice(deliveries),
} satisfies RulesOf<MetricOptions<string>>;

export type MetricSettings = Resolved<typeof metricRules> & Pick<StatsSettings, "delivery">;

/** The processes whose numbers an exposition shows. */
export type ExpositionScope = "shared" | "local";

/** Scope and format of an exposition. */
export interface ExposeOptions {
  /**
   * The text format: Prometheus or OpenMetrics.
   *
   * @default "prometheus"
   */
  readonly format?: ExpositionFormat | undefined;
  /**
   * `shared` shows the totals of all processes, from the server. Each process shows the same, so scrape only one. `local` shows the
   * amounts that the server has confirmed for this object since it was created. Scrape each process, and add them up.
   *
   * @default "shared"
   */
  readonly scope?: ExpositionScope | undefined;
  /**
   * Further objects whose `metrics()` are shown. Their numbers are always from this process only.
   *
   * @default []
   */
  readonly include?: readonly MetricSource[] | undefined;
}

export const exposeRules = {
  format: choice(["prometheus", "openmetrics"], "prometheus"),
  scope: choice(["shared", "local"], "shared"),
  include: custom((name, include: readonly MetricSource[]) => {
    if (!Array.isArray(include) || include.some((one: Partial<MetricSource>) => typeof one.metrics !== "function"))
      throw new TypeError(`Expected \`${name}\` to be an array of objects with \`metrics()\``);
    return include;
  }, []),
} satisfies RulesOf<ExposeOptions>;
