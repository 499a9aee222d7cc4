import type { MetricSample } from "@kit/core/toolkit";
import type { TakenJob } from "../work/taken.js";
import type { Worker } from "../work/worker.js";
import { Times } from "./times.js";

/** How a run ended. */
type Outcome = "completed" | "failed" | "snoozed";
const outcomes: readonly Outcome[] = ["completed", "failed", "snoozed"];

/** The maximum number of distinct job names. Job names can come from user input. */
const mostNames = 100;
const others = "other";

/** The times and outcomes of the jobs of one name. */
class Measured {
  readonly wait = new Times();
  readonly run = new Times();
  readonly ended: Record<Outcome, number> = { completed: 0, failed: 0, snoozed: 0 };
}

/** Measures the workers of this process, from now until it is closed. */
export class Runs {
  readonly #byName = new Map<string, Measured>();
  readonly #stops: (() => void)[] = [];

  constructor(workers: readonly Worker[]) {
    for (const worker of workers)
      for (const outcome of outcomes) {
        const note = ({ job }: { readonly job: object }): void => this.#note(job as TakenJob, outcome);
        worker.on(outcome, note);
        this.#stops.push(() => worker.off(outcome, note));
      }
  }

  samples(queue: string): MetricSample[] {
    return [...this.#byName].flatMap(([job, { wait, run, ended }]) => [
      ...wait.samples("kit_queue_wait_seconds", "From the add of a job until a worker here took it first", {
        queue,
        job,
      }),
      ...run.samples("kit_queue_run_seconds", "How long handlers here ran", { queue, job }),
      ...outcomes.map((outcome): MetricSample => ({
        ...{ name: "kit_queue_runs_total", type: "counter", help: "Runs of handlers here, by their end" },
        ...{ value: ended[outcome], labels: { queue, job, outcome } },
      })),
    ]);
  }

  close(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }

  #note(job: TakenJob, outcome: Outcome): void {
    const measured = this.#of(job.name);
    measured.ended[outcome]++;
    if (job.attempt === 1 && job.crashes === 0 && job.snoozes === 0)
      measured.wait.observe(Math.max(0, job.takenAt - job.addedAt) / 1_000);
    // A handler that timed out may still run; a job without a handler did not run.
    const ranMs = job.hasHandler ? performance.now() - job.startedAt : job.ranMs;
    if (ranMs !== undefined) measured.run.observe(ranMs / 1_000);
  }

  #of(name: string): Measured {
    const known = this.#byName.get(name);
    if (known) return known;
    if (this.#byName.size >= mostNames && name !== others) return this.#of(others);
    const measured = new Measured();
    this.#byName.set(name, measured);
    return measured;
  }
}
