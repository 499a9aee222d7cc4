import type { WorkSettings } from "../options.js";
import type { Fetcher } from "./fetcher.js";
import { type Pace, prefetchedMs } from "./pace.js";
import type { Runner } from "./runner.js";
import type { TakenJob } from "./taken.js";
import type { Turn } from "./turn.js";

/** Jobs that a worker has taken, and that wait for a free handler; in the order in which they were taken. */
export class Prefetched {
  readonly #settings: WorkSettings;
  readonly #fetcher: Fetcher;
  readonly #runner: Runner;
  readonly #pace: Pace;
  readonly #turn: Turn | undefined;
  readonly #jobs: TakenJob[] = [];
  /** Their handlers want that no job begins for a while, and the server does not know yet. */
  readonly #holding = new Set<TakenJob>();
  #isStarting = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(settings: WorkSettings, fetcher: Fetcher, runner: Runner, pace: Pace, turn: Turn | undefined) {
    this.#settings = settings;
    this.#fetcher = fetcher;
    this.#runner = runner;
    this.#pace = pace;
    this.#turn = turn;
  }

  get count(): number {
    return this.#jobs.length;
  }

  /** A handler wants that no job begins for a while, and the server does not know yet. */
  get isHolding(): boolean {
    return this.#holding.size > 0;
  }

  /** Starts those for which handlers are free, and hands back those that would wait too long: other workers may be free. */
  add(jobs: readonly TakenJob[]): void {
    if (this.isHolding) return void this.#fetcher.handBack(jobs);
    for (const job of jobs) this.#jobs.push(job);
    this.start();
    const late = this.#pace.firstLate(this.#jobs, this.#settings.concurrency);
    if (late >= 0) void this.#fetcher.handBack(this.#jobs.splice(late));
    if (this.#jobs.length > 0) this.#watch();
  }

  /** Runs the jobs for which handlers are free. */
  start(): void {
    // Handlers that end at once would otherwise start each other, ever deeper.
    if (this.#isStarting) return;
    this.#isStarting = true;
    let next = 0;
    while (next < this.#jobs.length && this.#isFree) {
      const job = this.#jobs[next++];
      if (job?.state === "held") this.#runner.run(job);
    }
    this.#isStarting = false;
    if (next > 0) this.#jobs.splice(0, next);
  }

  /** The handler of a job wants that no job begins for a while: those that wait go back. */
  async hold(job: TakenJob): Promise<void> {
    this.#holding.add(job);
    await this.#fetcher.handBack(this.clear());
  }

  /** The server knows what became of that job: with `ack: "each"` the next one may begin, or from now on it decides whether jobs begin. */
  settled(job: TakenJob): void {
    this.#holding.delete(job);
    this.start();
  }

  /** Empties it: none of these jobs starts any more. Returns all that have not begun, a suspect that is about to included. */
  clear(): TakenJob[] {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#jobs.length = 0;
    return this.#fetcher.leases.jobs.filter(({ state }) => state === "held");
  }

  /** Whether a handler is free for the next job. */
  get #isFree(): boolean {
    const { concurrency, ackEach } = this.#settings;
    const isFull = this.#runner.running + (ackEach ? this.#fetcher.unconfirmed : 0) >= concurrency;
    return !isFull && this.#turn?.free() !== 0;
  }

  /** Jobs that have been waiting for long go back. */
  #watch(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const [oldest] = this.#jobs;
      if (!oldest) return;
      const now = performance.now();
      if (now - oldest.startedAt < prefetchedMs) return this.#watch();
      // The running handlers take longer than expected, so fewer jobs are taken ahead from now on.
      for (const { name, state, startedAt } of this.#fetcher.leases.jobs)
        if (state === "running") this.#pace.note(name, now - startedAt, 1);
      void this.#fetcher.handBack(this.#jobs.splice(0));
    }, prefetchedMs).unref();
  }
}
