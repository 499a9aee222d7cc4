import { Counter } from "./counter/counter.js";
import { Distribution } from "./distribution/distribution.js";
import { Messages } from "./messages/messages.js";
import { exposedNames } from "./metric/exposition.js";
import { metricName } from "./metric/labels.js";
import {
  counterSettings,
  type CounterOptions,
  distributionSettings,
  type DistributionOptions,
  messagesSettings,
  type MessagesOptions,
  type StatsSettings,
} from "./options.js";
import type { Shared } from "./shared.js";

/** The metrics and logs of one statistics object, by name: each is made once, with one set of options. */
export class Registry {
  readonly counters: Map<string, Counter<string>> = new Map();
  readonly distributions: Map<string, Distribution<string>> = new Map();
  readonly #messages = new Map<string, Messages>();
  /** Names that an exposition shows, and the metric that has them. */
  readonly #exposed = new Map<string, string>();
  /** The settings with which a metric or log was made. */
  readonly #definitions = new WeakMap<object, object>();
  readonly #shared: Shared;
  readonly #settings: StatsSettings;

  constructor(shared: Shared, settings: StatsSettings) {
    this.#shared = shared;
    this.#settings = settings;
  }

  /** @throws {TypeError | RangeError} an option or the name is invalid, or differs from the first definition. */
  counter(name: string, options: CounterOptions<string>): Counter<string> {
    const settings = counterSettings(options, this.#settings);
    const make = (): Counter<string> => new Counter(name, settings, this.#shared);
    const made = this.#metric(this.counters, this.distributions, "counter", name, make);
    return this.#defined(made, name, options, settings);
  }

  /** Throws as {@link counter} does. */
  distribution(name: string, options: DistributionOptions<string>): Distribution<string> {
    const settings = distributionSettings(options, this.#settings);
    const make = (): Distribution<string> => new Distribution(name, settings, this.#shared);
    const made = this.#metric(this.distributions, this.counters, "histogram", name, make);
    return this.#defined(made, name, options, settings);
  }

  /** Throws as {@link counter} does. */
  messages(name: string, options: MessagesOptions): Messages {
    const settings = messagesSettings(options, this.#settings);
    this.#shared.life.assertOpen();
    let made = this.#messages.get(name);
    if (!made) this.#messages.set(name, (made = new Messages(name, settings, this.#shared)));
    return this.#defined(made, name, options, settings);
  }

  #metric<Metric>(
    own: Map<string, Metric>,
    others: ReadonlyMap<string, unknown>,
    type: "counter" | "histogram",
    name: string,
    make: () => Metric,
  ): Metric {
    this.#shared.life.assertOpen();
    if (others.has(metricName(name)))
      throw new RangeError(`Expected \`name\` to be of one kind of metric, got ${name} for two`);
    let metric = own.get(name);
    if (metric !== undefined) return metric;
    const exposed = exposedNames(name, type);
    const taken = exposed.find((one) => this.#exposed.has(one));
    if (taken !== undefined)
      throw new RangeError(
        `Expected \`name\` to differ in an exposition, got ${name}, which has ${taken} as ${String(this.#exposed.get(taken))} has`,
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
          throw new RangeError(`Expected \`${option}\` of ${name} to be ${before} as before, got ${now}`);
      }
    return made;
  }
}
