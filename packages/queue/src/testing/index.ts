import { isDeepStrictEqual } from "node:util";
import type { KitError, RedisLike } from "@kit/core";
import {
  custom,
  Deadline,
  integer,
  integerOption,
  reading,
  resolve as settingsOf,
  withContext,
} from "@kit/core/toolkit";
import type { AnyJobs, Handlers, JobTypes, Received } from "../job/types.js";
import { checkedAddress } from "../store/address.js";
import type { QueueAddress } from "../job/keys.js";
import { JobRefusedError } from "../job/errors.js";
import { decodePayload, parseBlob } from "../job/payload.js";
import type { Queue } from "../queue.js";
import type { Timers, Turn } from "../work/turn.js";
import type { Worker } from "../work/worker.js";

export type { QueueAddress };

/** A job in a queue, in any state. */
export interface AddedJob {
  readonly id: string;
  readonly name: string;
  readonly data: unknown;
  readonly priority: number;
  readonly maxAttempts: number;
}

const deadlineMs = 5_000;

/** Reads all jobs of a queue (ready, delayed, active and dead) in no particular order. For small queues, in tests. */
export const addedJobs = async (redis: RedisLike, address: QueueAddress): Promise<AddedJob[]> => {
  const { jobs } = checkedAddress(address).keys;
  const call = { ...reading("Reading the jobs of a queue", Deadline.in(deadlineMs)), bytes: true };
  const raw = await withContext(redis, ({ executor }) => executor.run("HGETALL", [jobs], call));
  // ioredis turns the reply into an object.
  return Object.entries(raw as Readonly<Record<string, Buffer>>).map(([id, blob]) => {
    const stored = parseBlob(blob);
    const { name, priority, maxAttempts } = stored.header;
    return { id, name, data: decodePayload(blob, stored), priority, maxAttempts };
  });
};

/**
 * Resolves with the only job of a queue that has this name and data.
 *
 * @param data compared after a JSON round trip. Without it any data matches.
 * @throws {Error} there is no such job, or there are several.
 *
 * @example
 * await expectAdded(redis, { queue: "mail" }, "email", { to: "ann@example.org" });
 */
export const expectAdded = async (
  redis: RedisLike,
  address: QueueAddress,
  name: string,
  ...data: readonly [data?: unknown]
): Promise<AddedJob> => {
  const jobs = (await addedJobs(redis, address)).filter((job) => job.name === name);
  const found = data.length === 0 ? jobs : jobs.filter((job) => isDeepStrictEqual(plain(job.data), plain(data[0])));
  const [job] = found;
  if (job && found.length === 1) return job;
  const wanted = `${JSON.stringify(name)} job${data.length === 0 ? "" : " with this data"}`;
  throw new Error(
    `Expected one ${wanted} in queue ${JSON.stringify(address.queue)}, found ${String(found.length)} among ${String(jobs.length)} with this name`,
  );
};

const plain = (data: unknown): unknown => {
  if (data instanceof Uint8Array) return Buffer.from(data);
  const text = JSON.stringify(data) as string | undefined;
  return text === undefined ? undefined : (JSON.parse(text) as unknown);
};

/**
 * A clock that only `advance()` moves. {@link drain} measures the time limits of handlers with it. Delays and leases use the server's
 * clock.
 *
 * @example
 * const clock = new ManualClock();
 * const { failed } = await drain(queue, { slow: async ({ signal }) => {
 *   clock.advance(30_000);
 *   signal.throwIfAborted();
 * } }, { clock });
 */
export class ManualClock {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  /** How much time has passed, in milliseconds. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /**
   * Advances the clock by this many milliseconds. Time limits that end in this period end now, in order.
   *
   * @throws {TypeError | RangeError} `ms` is not an integer from 0.
   */
  advance(ms: number): void {
    const until = this.#nowMs + integerOption("ms", ms, 0);
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at);
      if (!next) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.at);
      next.run();
    }
    this.#nowMs = until;
  }

  /** @internal */
  readonly timers: Timers = (run, ms) => {
    const timer = { at: this.#nowMs + ms, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  };
}

/** The result of `drain()`. */
export interface Drained {
  /** Names of the jobs that are done, in order. */
  readonly completed: readonly string[];
  /** Attempts that failed, and jobs that the handlers cannot run. */
  readonly failed: readonly { readonly name: string; readonly error: unknown }[];
}

const drainRules = {
  timeoutMs: integer(1, 86_400_000, 10_000),
  clock: custom((_name, clock: ManualClock) => clock),
};

/**
 * Runs all ready jobs of a queue one after the other, including jobs that their handlers add. Resolves once none is left. Delayed jobs
 * stay, and so do jobs that wait for their next attempt or whose name is paused.
 *
 * @param options `clock`: measures the time limits of handlers instead of real time.
 * @throws {Error} it took longer than `timeoutMs` (10,000), in real time. Its `cause` is the last error of the worker, if any.
 *
 * @example
 * await drain(queue, { email: ({ data }) => void sent.push(data.to) });
 */
export const drain = async <Jobs extends JobTypes<Jobs> = AnyJobs, Handled = Received<Jobs>>(
  queue: Queue<Jobs, Handled>,
  handlers: NoInfer<Handlers<Handled>>,
  options: { readonly timeoutMs?: number | undefined; readonly clock?: ManualClock | undefined } = {},
): Promise<Drained> => {
  const { timeoutMs, clock } = settingsOf("options", options, drainRules);
  const completed: string[] = [];
  const failed: { name: string; error: unknown }[] = [];
  const isEmpty = await new Promise<Worker | undefined>((resolve, reject) => {
    const turn: Turn = {
      free: () => 1 - worker.running,
      began: () => undefined,
      changed: () => {
        if (worker.isEmpty && worker.running === 0) resolve(worker);
        else worker.look();
      },
      closed: () => undefined,
      timers: clock?.timers,
    };
    const worker: Worker = queue.workInTurn(handlers, { strict: true, ack: "each" }, () => turn);
    worker.on("completed", ({ job }) => completed.push(job.name));
    worker.on("failed", ({ job, error }) => failed.push({ name: job.name, error }));
    worker.on("snoozed", ({ job, error }) => {
      if (error instanceof JobRefusedError) failed.push({ name: job.name, error });
    });
    let cause: KitError | undefined;
    worker.on("error", (error) => (cause = error));
    setTimeout(() => {
      void worker.close({ timeoutMs: 0 });
      reject(new Error(`The queue was not empty after ${String(timeoutMs)} ms`, { cause }));
    }, timeoutMs).unref();
  });
  await isEmpty?.close();
  return { completed, failed };
};
