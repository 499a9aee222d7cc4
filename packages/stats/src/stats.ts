import type { KitError, RedisLike } from "@kit/core";
import {
  type CloseOptions,
  Deadline,
  inTime,
  type MetricSample,
  noAnswer,
  ObjectLife,
  OutageReporter,
  resolve,
  TypedEmitter,
  watchEviction,
  withCaller,
} from "@kit/core/toolkit";
import { applyDeltas } from "./counter/apply.js";
import { Counter } from "./counter/counter.js";
import {
  type ApplyOptions,
  applyRules,
  type CounterDelta,
  counterSettings,
  type CounterOptions,
} from "./counter/options.js";
import { Distribution } from "./distribution/distribution.js";
import { distributionSettings, type DistributionOptions } from "./distribution/options.js";
import { Messages } from "./messages/messages.js";
import { messagesSettings, type MessagesOptions } from "./messages/options.js";
import { addSamples, exposedNames, type Exposition, rendered } from "./metric/exposition.js";
import { metricName } from "./metric/labels.js";
import { exposeRules, type ExposeOptions } from "./metric/options.js";
import { type StatsOptions, type StatsSettings, statsRules } from "./send/options.js";
import type { DropReason } from "./send/outbox.js";
import { type Shared, sharedOf } from "./send/shared.js";

/** Events of a statistics object. */
export interface StatsEvents {
  /**
   * kit did not count, or may not have counted, an amount, or a number of observations or messages of a series. A drop that a
   * listener causes emits no event; `report()` includes it.
   */
  readonly dropped: readonly [event: { readonly series: string; readonly reason: DropReason; readonly count: number }];
  /** A metric has reached `maxSeries`: further label sets are counted together. Emitted once for each metric. */
  readonly overflow: readonly [event: { readonly metric: string; readonly maxSeries: number }];
  /**
   * The server can evict keys when its memory is full: its policy is `allkeys-…` or `volatile-…`, and every key has an
   * expiry. Some keys record which batches were counted. Emitted once for each policy. If the event has a listener, an object
   * that writes reads the policy in the background, and again after a lost connection. Nothing is emitted if INFO is
   * forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background flush or a tail has failed, and kit retries it. Emitted once when an outage or refusal starts, and once with
   * the code `KIT_RECOVERED` when it is over. Also emitted when the server refuses an amount, which is then dropped.
   */
  readonly error: readonly [error: KitError];
}

/** Figures of a statistics object: what it holds and what it has dropped. */
export interface StatsReport {
  /** Used places of the buffer, out of `maxPending`. */
  readonly pending: number;
  /** Series of all metrics that this process tracks separately. */
  readonly series: number;
  readonly dropped: Readonly<Record<DropReason, number>>;
}

const noFacts = (): object => ({});
/** How much longer a flush waits than its calls, whose errors say more. */
const graceMs = 50;

/** Counters, distributions and message logs on one Redis, shared by all processes. Create it with {@link createStats}. */
export class Stats extends TypedEmitter<StatsEvents> implements AsyncDisposable {
  readonly #settings: StatsSettings;
  readonly #life: ObjectLife;
  readonly #shared: Shared;
  readonly #counters = new Map<string, Counter<string>>();
  readonly #distributions = new Map<string, Distribution<string>>();
  readonly #messages = new Map<string, Messages>();
  /** Names that an exposition shows, and the metric that has them. */
  readonly #exposed = new Map<string, string>();
  /** The settings with which a metric or log was made. */
  readonly #definitions = new WeakMap<object, object>();
  readonly #dropped: Record<DropReason, number> = {
    full: 0,
    unknown: 0,
    future: 0,
    overflow: 0,
    refused: 0,
    closed: 0,
  };
  #isReporting = false;

  /** For this package only: use {@link createStats}. */
  constructor(redis: RedisLike, options: StatsOptions) {
    super();
    this.#settings = resolve("options", options, statsRules);
    this.#life = new ObjectLife(redis, this.#settings, "The statistics object");
    const emitError = (error: KitError): void => this.emit("error", error);
    this.#shared = sharedOf(this.#life, this.#settings, {
      dropped: (series, reason, count) => {
        this.#dropped[reason] += count;
        // A listener that itself counts drops would cause endless drops when there is no room.
        if (this.#isReporting) return;
        this.#isReporting = true;
        this.emit("dropped", { series, reason, count });
        this.#isReporting = false;
      },
      overflow: (metric, maxSeries) => this.emit("overflow", { metric, maxSeries }),
      used: watchEviction(
        this.#life.context,
        () => this.hasListeners("evictable"),
        (policy) => this.emit("evictable", { policy }),
      ),
      error: emitError,
      outage: new OutageReporter(emitError),
    });
  }

  /**
   * Returns a counter: a total that only grows. Calling it again with the same name returns the same counter. Then
   * `labelNames` must match the first call, and other options must match or be left out.
   *
   * @throws {TypeError | RangeError} the name or an option is invalid, an option differs from the first call, or a
   *   distribution has this name.
   *
   * @example
   * const views = stats.counter("item_views_total", { labelNames: ["category"] });
   * views.inc({ category: "hats" });
   */
  counter<Names extends string = never>(name: string, options: CounterOptions<Names> = {}): Counter<Names> {
    const settings = counterSettings(options, this.#settings);
    const make = (): Counter<string> => new Counter(name, settings, this.#shared);
    const made = this.#metric(this.#counters, this.#distributions, "counter", name, make);
    return this.#defined(made, name, options, settings) as unknown as Counter<Names>;
  }

  /**
   * Returns a distribution: values with count, mean, deviation, extremes and quantiles. Calling it again with the same name
   * returns the same distribution. Then `labelNames` must match the first call, and other options must match or be left out.
   *
   * @throws {TypeError | RangeError} the name or an option is invalid, an option differs from the first call, or a counter
   *   has this name.
   *
   * @example
   * const latency = stats.distribution("request_ms", { labelNames: ["route", "outcome"] });
   * await latency.timed({ route: "/cart" }, () => handle(request));
   */
  distribution<Names extends string = never>(
    name: string,
    options: DistributionOptions<Names> = {},
  ): Distribution<Names> {
    const settings = distributionSettings(options, this.#settings);
    const make = (): Distribution<string> => new Distribution(name, settings, this.#shared);
    const made = this.#metric(this.#distributions, this.#counters, "histogram", name, make);
    return this.#defined(made, name, options, settings) as unknown as Distribution<Names>;
  }

  /**
   * Returns a message log: the last entries of each level, and the most frequent messages. Calling it again with the same
   * name returns the same log. Then each option must match the first call or be left out.
   *
   * @throws {TypeError | RangeError} an option is invalid, or differs from the first call.
   * @throws {KitError} `KIT_NAME`: the name cannot be a key.
   */
  messages(name: string, options: MessagesOptions = {}): Messages {
    const settings = messagesSettings(options, this.#settings);
    this.#life.assertOpen();
    let made = this.#messages.get(name);
    if (!made) this.#messages.set(name, (made = new Messages(name, settings, this.#shared)));
    return this.#defined(made, name, options, settings);
  }

  /**
   * Adds to several series of counters, once for each sequence number of a writer. A repeated call adds only the missing
   * amounts, even from another process after a crash. Nothing is buffered.
   *
   * Each series changes atomically, and remembers its writers' last `seq` for seven days. Across series the call is not
   * atomic: repeat the call to complete it. `maxSeries` does not apply. A delta more than one minute ahead of the server is
   * dropped and counted as `future`.
   *
   * @throws {TypeError | RangeError} a delta or an option is invalid; nothing was added.
   * @throws {CounterOverflowError} a total would exceed 2^53 − 1; the other amounts were added.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} amounts may be missing: call again with the same deltas and `seq`.
   *
   * @example
   * await stats.apply([{ name: "visits_total", labels: { country: "DE" }, amount: 17 }], { writer: "access.log", seq: 4096 });
   */
  async apply(deltas: readonly CounterDelta[], options: ApplyOptions): Promise<void> {
    const { writer, seq } = resolve("options", options, applyRules);
    await this.#life.call(
      "stats.apply",
      () => ({ writer, seq }),
      () => applyDeltas(deltas, { writer, seq }, this.#counters, this.#shared),
    );
  }

  /**
   * Sends all buffered data now, and resolves when the server has it. Settles within `deadlineMs`.
   *
   * @throws {KitError} the server did not confirm all of it in time; the rest stays in the buffer.
   */
  async flush(): Promise<void> {
    const { sender, index, commands } = this.#shared;
    const deadline = Deadline.in(commands.deadlineMs + graceMs);
    try {
      const work = sender.flush().then(() => index.flush());
      await inTime(work, { deadline }, () => noAnswer(this.#life.context.client, "a part of the buffer was not sent"));
    } catch (error) {
      throw withCaller(error);
    }
  }

  /**
   * Returns all counters and distributions of this object as text for Prometheus. Distributions become histograms; names of
   * counters end with `_total`.
   *
   * Shared totals are read from the server, with a call for each metric and one for every 64 series (on a Cluster, one for
   * each series). Only metrics that you created on this object are shown. A series appears when its first amounts are
   * flushed. A metric shows up to 20,000 series, the most recently counted ones.
   *
   * @throws {TypeError | RangeError} an option, or a sample of `include`, is invalid.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * const { contentType, text } = await stats.expose({ include: [stats] });
   * response.setHeader("content-type", contentType).end(text);
   */
  expose(options: ExposeOptions = {}): Promise<Exposition> {
    return this.#life.call("stats.expose", noFacts, async () => {
      const { format, scope, include } = resolve("options", options, exposeRules);
      const found = await Promise.all(this.#metrics.map((metric) => metric.family(scope, format)));
      const families = new Map(found.map((family) => [family.name, family]));
      for (const source of include) addSamples(families, await source.metrics());
      return rendered(families.values(), format);
    });
  }

  /**
   * Removes series whose data has expired from the lists of this object's metrics, and resolves with their number. This is
   * optional, because data and lists expire by themselves. After a burst of short-lived series it makes expositions shorter
   * sooner.
   *
   * It reads the lists like `expose()`. It is safe at any time and from many processes: a series that was counted in the
   * meantime stays.
   *
   * @throws {KitUnavailableError} no server answered in time.
   */
  clean(): Promise<number> {
    return this.#life.call("stats.clean", noFacts, async () => {
      const removed = await Promise.all(this.#metrics.map((metric) => metric.clean()));
      return removed.reduce((sum, count) => sum + count, 0);
    });
  }

  /** Returns the figures of {@link report}, for an exposition. */
  metrics(): MetricSample[] {
    const { pending, series, dropped } = this.report();
    const gauge = (name: string, help: string, value: number): MetricSample => ({ name, type: "gauge", help, value });
    return [
      gauge("kit_stats_pending", "Places of the buffer that are taken", pending),
      gauge("kit_stats_series", "Series that the process keeps apart", series),
      ...Object.entries(dropped).map(([reason, value]): MetricSample => ({
        name: "kit_stats_dropped_total",
        type: "counter",
        help: "What is not, or may not be, counted",
        value,
        labels: { reason },
      })),
    ];
  }

  /** Returns how many places and series this object holds now, and everything it has dropped since it was created. */
  report(): StatsReport {
    const series = this.#metrics.reduce((sum, { map }) => sum + map.size, 0);
    return { pending: this.#shared.buffer.taken, series, dropped: { ...this.#dropped } };
  }

  /**
   * Sends buffered data for up to `timeoutMs`, and closes this object. Amounts that were not sent by then, and later ones,
   * are dropped and reported by `dropped`. Calls that wait for a reply reject. Your client stays open. Idempotent: the
   * options of the first call apply.
   *
   * @throws {TypeError | RangeError} an option is invalid; the object stays open.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { sender, index } = this.#shared;
    await this.#life.close(options, async (deadline) => {
      this.#life.cancel();
      await sender.close(deadline);
      await index.close(deadline);
    });
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #metrics(): (Counter<string> | Distribution<string>)[] {
    return [...this.#counters.values(), ...this.#distributions.values()];
  }

  #metric<Metric>(
    own: Map<string, Metric>,
    others: ReadonlyMap<string, unknown>,
    type: "counter" | "histogram",
    name: string,
    make: () => Metric,
  ): Metric {
    this.#life.assertOpen();
    if (others.has(metricName(name)))
      throw new RangeError(`Metric ${name} already exists with a different type. Choose another name`);
    let metric = own.get(name);
    if (metric !== undefined) return metric;
    const exposed = exposedNames(name, type);
    const taken = exposed.find((one) => this.#exposed.has(one));
    if (taken !== undefined)
      throw new RangeError(
        `Metric ${name} would expose ${taken}, which metric ${String(this.#exposed.get(taken))} exposes already. Choose another name`,
      );
    own.set(name, (metric = make()));
    for (const one of exposed) this.#exposed.set(one, name);
    return metric;
  }

  /** @throws {RangeError} it was made with other options. */
  #defined<Made extends object>(made: Made, name: string, options: object, settings: object): Made {
    const first = this.#definitions.get(made);
    if (!first) this.#definitions.set(made, settings);
    else
      for (const [option, given] of Object.entries({ ...options, labelNames: [] })) {
        const [before, now] = [first, settings].map((each) => JSON.stringify(Reflect.get(each, option)));
        if (given !== undefined && now !== before)
          throw new RangeError(
            `Expected \`${option}\` of ${name} to be ${before} as in its first definition, got ${now}`,
          );
      }
    return made;
  }
}

/**
 * Creates a statistics object. All objects on one Redis with one prefix share their totals, in any process.
 *
 * Pass `redis` as a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it
 * or subscribes on it. A live tail opens its own connection. Call `close()` before the process ends, so that buffered data is
 * sent.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 *
 * @example
 * const stats = createStats(redis);
 * stats.counter("orders_total").inc();
 * await stats.close();
 */
export const createStats = (redis: RedisLike, options: StatsOptions = {}): Stats => new Stats(redis, options);
