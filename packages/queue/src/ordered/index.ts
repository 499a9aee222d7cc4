import { KitClosedError } from "@kit/core";
import { type CloseOptions, closeTimeoutMs, integer, resolve, type RulesOf } from "@kit/core/toolkit";
import type { AnyJobs, Handlers, JobTypes, Received } from "../job/types.js";
import { type WorkOptions, workRules } from "../work/options.js";
import type { Queue } from "../queue.js";
import type { Turn } from "../work/turn.js";
import type { Worker } from "../work/worker.js";

/** Options of a worker of several queues. */
export interface OrderedOptions {
  /**
   * How many handlers can run at a time, for all queues together.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
  /**
   * The bound on starvation: after this many jobs of earlier queues have started while a later queue had work, the later queue gets the
   * next free handler.
   *
   * @default 100
   */
  readonly maxPassedOver?: number | undefined;
}

const orderedRules = {
  concurrency: workRules.concurrency,
  maxPassedOver: integer(1, undefined, 100),
} satisfies RulesOf<OrderedOptions>;

/** A queue that is served. */
interface Served {
  readonly worker: Worker;
  /** How many jobs of earlier queues have started since this queue had a turn or was empty. */
  passedOver: number;
}

/**
 * Works on several queues in strict order. A job of a later queue starts only while no earlier queue has one, or after the later queue was
 * passed over `maxPassedOver` times. Create it with {@link createOrderedWorker}.
 *
 * This is the order in which this worker _starts_ jobs. A job in an earlier queue counts once the worker has received it. The queues can be
 * on different nodes of a Cluster.
 */
export class OrderedWorker implements AsyncDisposable {
  readonly #served: Served[] = [];
  readonly #concurrency: number;
  readonly #maxPassedOver: number;
  #isClosed = false;

  /** Only this package calls it. */
  constructor(options: OrderedOptions) {
    const { concurrency, maxPassedOver } = resolve("options", options, orderedRules);
    this.#concurrency = concurrency;
    this.#maxPassedOver = maxPassedOver;
  }

  /** How many handlers are running. */
  get running(): number {
    return this.#served.reduce((sum, { worker }) => sum + worker.running, 0);
  }

  /**
   * Adds a queue after the queues that are already served, at any time. The returned worker emits the events of this queue. Close that
   * worker to stop serving this queue. It takes no jobs ahead.
   *
   * @throws {KitClosedError} after `close()`.
   * @throws the errors of `queue.work()`.
   */
  serve<Jobs extends JobTypes<Jobs> = AnyJobs, Handled = Received<Jobs>>(
    queue: Queue<Jobs, Handled>,
    handlers: NoInfer<Handlers<Handled>>,
    options: Omit<WorkOptions, "concurrency" | "strict"> = {},
  ): Worker {
    if (this.#isClosed) throw new KitClosedError("The ordered worker");
    const turn: Turn = {
      free: () => this.#free(worker),
      began: () => this.#onBegan(worker),
      changed: () => this.#onChanged(),
      closed: () => {
        const index = this.#served.findIndex((one) => one.worker === worker);
        if (index >= 0) this.#served.splice(index, 1);
        this.#onChanged();
      },
    };
    const own: WorkOptions = { ...options, concurrency: this.#concurrency, strict: true };
    const worker: Worker = queue.workInTurn(handlers, own, turn);
    this.#served.push({ worker, passedOver: 0 });
    return worker;
  }

  /** Closes its workers, as `worker.close()` does. The queues stay open. Idempotent. */
  async close(options: CloseOptions = {}): Promise<void> {
    const timeoutMs = closeTimeoutMs(options);
    this.#isClosed = true;
    await Promise.all(this.#served.map(({ worker }) => worker.close({ timeoutMs })));
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** How many jobs this worker's queue can start now. */
  #free(worker: Worker): number {
    const rank = this.#served.findIndex((one) => one.worker === worker);
    const free = this.#concurrency - this.running;
    if (rank < 0 || free <= 0) return 0;
    const own = this.#served[rank];
    if (own && this.#isDue(own)) return 1;
    const isFirst = this.#served.slice(0, rank).every((earlier) => earlier.worker.isQuiet);
    if (!isFirst) return 0;
    // Each later queue that was passed over `maxPassedOver` times gets one handler.
    const reserved = this.#served.slice(rank + 1).filter((later) => this.#isDue(later)).length;
    return Math.max(0, free - reserved);
  }

  #isDue({ worker, passedOver }: Served): boolean {
    return passedOver >= this.#maxPassedOver && !worker.isQuiet;
  }

  #onBegan(worker: Worker): void {
    const rank = this.#served.findIndex((one) => one.worker === worker);
    for (const [index, served] of this.#served.entries())
      if (index === rank || served.worker.isQuiet) served.passedOver = 0;
      else if (index > rank) served.passedOver++;
  }

  /** A handler is free, or a queue is empty: each queue looks for a job to start, in order. */
  #onChanged(): void {
    for (const { worker } of [...this.#served]) worker.look();
  }
}

/**
 * Creates a worker that serves several queues in strict order, with a bound on starvation.
 *
 * @throws {TypeError | RangeError} an option is invalid.
 *
 * @example
 * const worker = createOrderedWorker({ concurrency: 10, maxPassedOver: 50 });
 * worker.serve(payments, { charge: ({ data }) => charge(data) });
 * worker.serve(reports, { render: ({ data }) => render(data) });
 */
export const createOrderedWorker = (options: OrderedOptions = {}): OrderedWorker => new OrderedWorker(options);
