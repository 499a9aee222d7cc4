import { KitClosedError, type RedisLike } from "@kit/core";
import {
  type CloseOptions,
  closeTimeoutMs,
  custom,
  integer,
  integerOption,
  resolve,
  type RulesOf,
} from "@kit/core/toolkit";
import type { AnyJobs, Handlers, JobTypes, Received } from "../job/types.js";
import { type WorkOptions, workRules } from "../work/options.js";
import type { Queue } from "../queue.js";
import type { Turn } from "../work/turn.js";
import type { Worker } from "../work/worker.js";
import { Connections } from "./connections.js";
import type { Order, Served } from "./order.js";
import { StrictOrder } from "./strict.js";
import { WeightedOrder } from "./weighted.js";

/** Options of a worker of several queues. */
export interface OrderedOptions {
  /**
   * How many handlers can run at a time, for all queues together.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
  /**
   * The bound on starvation. If this many jobs of earlier queues have started while a later queue had jobs, the later queue gets the next
   * free handler. Only without `weights`.
   *
   * @default 100
   */
  readonly maxPassedOver?: number | undefined;
  /**
   * The share of each queue, by the queue's name: an integer of 1 to 1,000. With `{ critical: 6, default: 3, low: 1 }`, six of ten jobs
   * that start are from `critical`, while all three queues have jobs. Queues without jobs leave their shares to the others.
   *
   * @default none: strict order
   */
  readonly weights?: Readonly<Record<string, number>> | undefined;
}

/** The weights by name, without the prototype of an object. */
const weightsOf = (option: string, weights: Readonly<Record<string, number>>): ReadonlyMap<string, number> => {
  if (typeof weights !== "object" || weights === null || Object.keys(weights).length === 0)
    throw new TypeError(`Expected \`${option}\` to be an object with a weight for each queue, such as { mail: 3 }`);
  return new Map(
    Object.entries(weights).map(([name, weight]) => [name, integerOption(`${option}.${name}`, weight, 1, 1_000)]),
  );
};

const orderedRules = {
  concurrency: workRules.concurrency,
  maxPassedOver: integer(1, undefined, 100),
  weights: custom(weightsOf),
} satisfies RulesOf<OrderedOptions>;

/**
 * Works on several queues with shared handlers. Create it with {@link createOrderedWorker}.
 *
 * - In strict order, a job of a later queue starts only while no earlier queue has one, or after the later queue was passed over
 *   `maxPassedOver` times
 * - With `weights`, each queue that has jobs gets its share of the free handlers. No handler stays idle while a queue has jobs
 *
 * This is the order in which this worker _starts_ jobs. A job in an earlier queue is considered after the worker has received it.
 *
 * Queues with the same client share one connection for commands, and one to wait. On a Cluster, queues can be on different nodes: they share
 * one connection for commands per node, and each queue opens one to wait.
 */
export class OrderedWorker implements AsyncDisposable {
  readonly #served: Served[] = [];
  readonly #connections = new Connections();
  readonly #concurrency: number;
  readonly #weights: ReadonlyMap<string, number> | undefined;
  readonly #order: Order;
  #isClosed = false;

  /** Only this package calls it. */
  constructor(options: OrderedOptions) {
    const { concurrency, maxPassedOver, weights } = resolve("options", options, orderedRules);
    if (weights && options.maxPassedOver !== undefined)
      throw new TypeError("Expected either `weights` or `maxPassedOver`");
    this.#concurrency = concurrency;
    this.#weights = weights;
    this.#order = weights ? new WeightedOrder() : new StrictOrder(maxPassedOver);
  }

  /** How many handlers are running. */
  get running(): number {
    return this.#served.reduce((sum, { worker }) => sum + worker.running, 0);
  }

  /**
   * Adds a queue after the queues that are already served, at any time. The returned worker emits the events of this queue. Close that
   * worker to stop serving this queue. The worker takes no jobs ahead.
   *
   * @throws {KitClosedError} after `close()`.
   * @throws {TypeError} `weights` has no weight for the queue's name.
   * @throws the other errors of `queue.work()`.
   */
  serve<Jobs extends JobTypes<Jobs> = AnyJobs, Handled = Received<Jobs>>(
    queue: Queue<Jobs, Handled>,
    handlers: NoInfer<Handlers<Handled>>,
    options: Omit<WorkOptions, "concurrency" | "strict"> = {},
  ): Worker {
    if (this.#isClosed) throw new KitClosedError("The ordered worker");
    const weight = this.#weights ? this.#weights.get(queue.name) : 1;
    if (weight === undefined) throw new TypeError(`Expected \`weights\` to have ${JSON.stringify(queue.name)}`);
    let release = (): void => undefined;
    const turnOn = (redis: RedisLike): Turn => {
      const shared = this.#connections.share(redis);
      release = shared.release;
      return {
        ...{ client: shared.client, wakeups: shared.wakeups },
        free: () => this.#free(worker),
        began: () => this.#onBegan(worker),
        changed: () => this.#onChanged(),
        closed: () => this.#onClosed(worker, release),
      };
    };
    const own: WorkOptions = { ...options, concurrency: this.#concurrency, strict: true };
    let worker: Worker;
    try {
      worker = queue.workInTurn(handlers, own, turnOn);
    } catch (error) {
      release();
      throw error;
    }
    this.#served.push({ worker, weight, passedOver: 0, credit: 0, granted: 0 });
    return worker;
  }

  /** Closes its workers, as `worker.close()` does. The queues stay open. Idempotent. */
  async close(options: CloseOptions = {}): Promise<void> {
    const timeoutMs = closeTimeoutMs(options);
    this.#isClosed = true;
    await Promise.all(this.#served.map(({ worker }) => worker.close({ timeoutMs })));
    await this.#connections.closed();
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** How many jobs this worker's queue can start now. */
  #free(worker: Worker): number {
    const rank = this.#rankOf(worker);
    const free = this.#concurrency - this.running;
    return rank < 0 || free <= 0 ? 0 : this.#order.free(this.#served, rank, free);
  }

  #onBegan(worker: Worker): void {
    this.#order.began(this.#served, this.#rankOf(worker));
  }

  #onClosed(worker: Worker, release: () => void): void {
    const index = this.#rankOf(worker);
    if (index >= 0) this.#served.splice(index, 1);
    release();
    this.#onChanged();
  }

  #rankOf(worker: Worker): number {
    return this.#served.findIndex((one) => one.worker === worker);
  }

  /** A handler is free, or a queue is empty: each queue looks for a job to start, in order. */
  #onChanged(): void {
    for (const { worker } of [...this.#served]) worker.look();
  }
}

/**
 * Creates a worker that serves several queues: in strict order with a bound on starvation, or by `weights`.
 *
 * @throws {TypeError | RangeError} an option is invalid, or both `weights` and `maxPassedOver` are given.
 *
 * @example
 * const worker = createOrderedWorker({ concurrency: 10, maxPassedOver: 50 });
 * worker.serve(payments, { charge: ({ data }) => charge(data) });
 * worker.serve(reports, { render: ({ data }) => render(data) });
 */
export const createOrderedWorker = (options: OrderedOptions = {}): OrderedWorker => new OrderedWorker(options);
