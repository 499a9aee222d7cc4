import type { QueueCommands } from "../store/commands.js";
import { begin } from "../store/scripts/index.js";
import type { TakenJob } from "./taken.js";

/**
 * Runs the suspects of one worker one at a time. A suspect is a job that one more crash would make a dead letter. Next to another suspect
 * it could be charged for a crash that the other caused.
 */
export class Isolation {
  readonly #commands: QueueCommands;
  readonly #onLost: (job: TakenJob) => void;
  readonly #maxCrashes: number;
  /** The last suspect that was admitted. */
  #suspect: TakenJob | undefined;
  /** While this suspect was active another one came, and was handed back. Nothing more is taken until this suspect has ended. */
  #excludedBy: TakenJob | undefined;
  #isIsolated = false;

  /** `onLost`: the server no longer has the lease of a suspect. */
  constructor(commands: QueueCommands, maxCrashes: number, onLost: (job: TakenJob) => void) {
    this.#commands = commands;
    this.#maxCrashes = maxCrashes;
    this.#onLost = onLost;
  }

  /**
   * How many jobs the worker can take. 1 after a take with a suspect, until a job with crashes left comes. 0 while a suspect is about to
   * start, or runs after another suspect was handed back.
   */
  get most(): number {
    const suspect = this.#suspect;
    if (!this.#isIsolated) return Infinity;
    return isActive(suspect) && (suspect.state === "held" || suspect === this.#excludedBy) ? 0 : 1;
  }

  /**
   * Whether a taken job can run. `free`: it can run. `suspect`: only after `begin()`. `excluded`: it goes back. `isAlone`: the take had no
   * other job.
   */
  admit(job: TakenJob, isAlone: boolean): "free" | "suspect" | "excluded" {
    if (job.crashes === 0 || job.crashes < this.#maxCrashes - 1) {
      if (isAlone) this.#isIsolated = false;
      return "free";
    }
    this.#isIsolated = true;
    if (isActive(this.#suspect)) {
      this.#excludedBy = this.#suspect;
      return "excluded";
    }
    this.#suspect = job;
    return "suspect";
  }

  /**
   * Records that a suspect starts, because the server charges the last crash only to such a job. Retries until the record is stored, then
   * resolves with true. False if the lease was lost, or the worker closes.
   */
  async begin(job: TakenJob): Promise<boolean> {
    const { life, outage } = this.#commands;
    for (let attempt = 2; job.state === "held" && !life.isClosed; attempt++)
      try {
        const isHeld = await this.#commands.run(begin, { member: job.member });
        outage.worked("beginning");
        if (isHeld) return true;
        this.#onLost(job);
      } catch (error) {
        await this.#commands.failed("beginning", "Beginning a job", error, attempt);
      }
    outage.ended("beginning");
    return false;
  }
}

/** Whether the suspect is about to start, or its handler runs. */
const isActive = (suspect: TakenJob | undefined): suspect is TakenJob =>
  suspect?.state === "held" || suspect?.hasHandler === true;
