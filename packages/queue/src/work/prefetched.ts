import type { WorkSettings } from "./options.js";
import { type Demand, type Fetcher, nothing } from "./fetcher.js";
import { type Pace, prefetchedMs } from "./pace.js";
import type { Runner } from "./runner.js";
import type { TakenJob } from "./taken.js";
import type { Turn } from "./turn.js";

/** Jobs that a worker has taken and that wait for a free handler, in the order in which they were taken. */
export class Prefetched {
  readonly #settings: WorkSettings;
  readonly #fetcher: Fetcher;
  readonly #runner: Runner;
  readonly #pace: Pace;
  readonly #turn: Turn | undefined;
  readonly #jobs: TakenJob[] = [];
  /** Jobs whose handlers want that no job starts for a while, before the server has recorded this. */
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

  /** A handler wants that no job starts for a while, and the server has not recorded this yet. */
  get isHolding(): boolean {
    return this.#holding.size > 0;
  }

  /**
   * How many jobs to take. Calls in progress can bring `pending` more. This call ends `ending` jobs. `most`: how many jobs may be here at a
   * time, because one of them is a suspect.
   */
  demand(pending: number, ending: number, most: number): Demand {
    if (this.isHolding) return nothing;
    const { concurrency, strict, ackEach } = this.#settings;
    const unconfirmed = ackEach ? this.#fetcher.unconfirmed - ending : 0;
    const atHand = this.count + pending;
    const idle = concurrency - this.#runner.running - unconfirmed;
    const free = Math.min(idle, this.#turn?.free() ?? idle) - atHand;
    if (most < Infinity) return most === 0 || free <= 0 || atHand > 0 ? nothing : { count: 1, sure: 1 };
    const ahead = strict ? 0 : this.#pace.ahead(concurrency);
    // A few jobs to take ahead are not worth a call.
    if (free <= 0 && free + ahead < ahead / 2) return nothing;
    return { count: Math.max(0, free + ahead), sure: Math.max(0, free) };
  }

  /** Starts the jobs for which handlers are free. Hands back the jobs that would wait too long, because other workers may be free. */
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
    // Handlers that finish immediately would otherwise start each other in ever deeper calls.
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

  /** The handler of a job wants that no job starts for a while: the waiting jobs go back. */
  async hold(job: TakenJob): Promise<void> {
    this.#holding.add(job);
    await this.#fetcher.handBack(this.clear());
  }

  /**
   * The server has recorded the end of the job. With `ack: "each"` the next job can start. After a hold the server decides whether jobs
   * start.
   */
  settled(job: TakenJob): void {
    this.#holding.delete(job);
    this.start();
  }

  /** Empties the list: none of these jobs starts. Returns all jobs that have not started, including a suspect that is about to start. */
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

  /** Jobs that have waited too long go back. */
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
