import { prefetchedMs, type Pace } from "./pace.js";
import type { TakenJob } from "./taken.js";

/** The part of the worker that its prefetched jobs use. */
export interface PrefetchedHost {
  readonly concurrency: () => number;
  /** Whether a handler is free for the next job. */
  readonly isFree: () => boolean;
  readonly run: (job: TakenJob) => void;
  /** All jobs that the worker has taken and not ended. */
  readonly leased: () => readonly TakenJob[];
  /** These wait for a handler too long: other workers may be free. */
  readonly handBack: (jobs: readonly TakenJob[]) => void;
}

/** Jobs that a worker has taken, and that wait for a free handler; in the order in which they were taken. */
export class Prefetched {
  readonly #pace: Pace;
  readonly #host: PrefetchedHost;
  readonly #jobs: TakenJob[] = [];
  #isStarting = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(pace: Pace, host: PrefetchedHost) {
    this.#pace = pace;
    this.#host = host;
  }

  get count(): number {
    return this.#jobs.length;
  }

  /** Starts those for which handlers are free, and hands back those that would wait too long. */
  add(jobs: readonly TakenJob[]): void {
    for (const job of jobs) this.#jobs.push(job);
    this.start();
    const late = this.#pace.firstLate(this.#jobs, this.#host.concurrency());
    if (late >= 0) this.#host.handBack(this.#jobs.splice(late));
    if (this.#jobs.length > 0) this.#watch();
  }

  /** Runs the jobs for which handlers are free. */
  start(): void {
    // Handlers that end at once would otherwise start each other, ever deeper.
    if (this.#isStarting) return;
    this.#isStarting = true;
    let next = 0;
    while (next < this.#jobs.length && this.#host.isFree()) {
      const job = this.#jobs[next++];
      if (job?.state === "held") this.#host.run(job);
    }
    this.#isStarting = false;
    if (next > 0) this.#jobs.splice(0, next);
  }

  /** Empties it: no job starts any more. Those whose lease is still held are returned. */
  clear(): TakenJob[] {
    clearTimeout(this.#timer);
    return this.#jobs.splice(0).filter(({ state }) => state === "held");
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
      for (const { name, state, startedAt } of this.#host.leased())
        if (state === "running") this.#pace.note(name, now - startedAt, 1);
      this.#host.handBack(this.#jobs.splice(0));
    }, prefetchedMs).unref();
  }
}
