import { KitUnavailableError, KitUnknownOutcomeError } from "@kit/core";
import { Batcher } from "@kit/core/batching";
import { addressOf, type Deadline } from "@kit/core/toolkit";
import { isUnknown, type QueueCommands } from "./commands.js";
import { QueueFullError } from "./errors.js";
import { IdSource } from "./ids.js";
import type { QueueSettings } from "./options.js";
import { blobOf, type Payload } from "./payload.js";
import { maxAdded } from "./scripts/index.js";

/** One job on its way to the server. */
export interface NewJob {
  readonly head: string;
  readonly payload: Payload;
  /** What follows its id in the plan. */
  readonly words: string;
  /** The caller's id, or that of the call whose outcome was not known. */
  readonly id: string | undefined;
  /** What it is called if its outcome is not known: by the first call that carried it. */
  op: string | undefined;
  /** The outcome of a former call is not known: that this one failed does not say that it was not added. */
  readonly isRepeat: boolean;
  /** Its caller was told that it was not added. */
  isGivenUp?: boolean;
}

/** The most that one call carries. */
const maxBytes = 1_024 * 1_024;
/** How much the header, the plan and the protocol add to a payload, about. */
const overheadBytes = 100;

const sizeOf = ({ payload }: NewJob): number => payload.length + overheadBytes;

/** Jobs in order, as many together as one call carries. */
export function* inCalls(jobs: readonly NewJob[]): Generator<readonly NewJob[]> {
  let start = 0;
  let bytes = 0;
  for (const [index, job] of jobs.entries()) {
    const size = sizeOf(job);
    if (index > start && (index - start === maxAdded || bytes + size > maxBytes)) {
      yield jobs.slice(start, index);
      start = index;
      bytes = 0;
    }
    bytes += size;
  }
  if (start < jobs.length) yield jobs.slice(start);
}

/** What `op` says: a call, and the id that the job had in it. */
export const parseOp = (op: string): { readonly word: string; readonly id: string } => {
  const [, call = "", id = ""] = /^([0-9A-Za-z]{9}:\d+):(.+)$/s.exec(op) ?? [];
  if (call === "") throw new TypeError("Expected `op` to come from a KitUnknownOutcomeError of `add()`");
  return { word: `\to${call}`, id };
};

/**
 * Adds jobs: those that come while a call is under way go together in the next one. One call at a time, which is what makes
 * repeats of it recognisable.
 */
export class Producer {
  readonly #commands: QueueCommands;
  readonly #ids = new IdSource();
  readonly #batcher: Batcher<NewJob, string>;
  /** Server time minus our wall clock, as far as known. */
  #offsetMs = 0;
  #mustRetire = false;
  #stampedAt = -1;
  #stamp = "";

  constructor(name: string, commands: QueueCommands, { deadlineMs, maxPending }: QueueSettings) {
    this.#commands = commands;
    this.#batcher = new Batcher<NewJob, string>({
      send: (jobs, deadline) => this.#send(jobs, deadline),
      deadlineMs,
      late: (job, wasSent) => this.#late(job, wasSent),
      full: () => new QueueFullError(name, maxPending),
      owner: `Queue ${JSON.stringify(name)}`,
      maxItems: maxAdded,
      maxBytes,
      sizeOf,
      maxPending,
      delayMs: 0,
    });
  }

  /** Resolves with the job's id once the server has it. */
  add(job: NewJob, signal?: AbortSignal): Promise<string> {
    return this.#batcher.add(job, signal);
  }

  close(deadline: Deadline): Promise<void> {
    return this.#batcher.close(deadline);
  }

  async #send(jobs: readonly NewJob[], deadline: Deadline): Promise<readonly (string | Error)[]> {
    await this.#commands.open(Math.max(1, deadline.remainingMs));
    // Meanwhile some were given up, and their callers told that they were not added.
    const wanted = jobs.filter(({ isGivenUp }) => isGivenUp !== true);
    if (wanted.length === jobs.length) return await this.#add(jobs, deadline);
    const results = wanted.length === 0 ? [] : await this.#add(wanted, deadline);
    return jobs.map((job) => results[wanted.indexOf(job)] ?? "");
  }

  async #add(jobs: readonly NewJob[], deadline: Deadline): Promise<readonly (string | Error)[]> {
    if (this.#mustRetire) this.#retire();
    const made = this.#ids.take(jobs.length);
    const ids = jobs.map(({ id }, index) => id ?? made[index] ?? "");
    const { producer } = this.#ids;
    const sequence = this.#ids.nextSequence(this.#now());
    for (const [index, job] of jobs.entries()) job.op ??= `${producer}:${String(sequence)}:${ids[index] ?? ""}`;
    const stamp = this.#currentStamp();
    const plan = jobs.map(({ words }, index) => `${ids[index] ?? ""}${words}`).join("\n");
    const blobs = jobs.map(({ head, payload }) => blobOf(stamp, head, payload));
    try {
      const isNew = this.#ids.isNew ? "1" : "0";
      const now = await this.#commands.add({ producer, sequence, isNew, plan, blobs }, deadline);
      this.#offsetMs = now - wallMs();
    } catch (error) {
      this.#mustRetire ||= isUnknown(error);
      return jobs.map(({ op = "", isRepeat }) =>
        isUnknown(error) || isRepeat ? unknownOutcome(op, error) : (error as Error),
      );
    }
    return ids;
  }

  #retire(): void {
    this.#mustRetire = false;
    this.#ids.retire();
  }

  #late(job: NewJob, wasSent: boolean): Error {
    if (!job.isRepeat && (!wasSent || job.op === undefined)) {
      job.isGivenUp = true;
      const address = addressOf(this.#commands.context.client);
      return new KitUnavailableError(`No answer from Redis at ${address} in time: the job was not added`, address);
    }
    this.#mustRetire = true;
    return unknownOutcome(job.op ?? "");
  }

  /** What the server's clock shows, as far as we know: its time of adding, and the order of producers. */
  #now(): number {
    return Math.round(wallMs() + this.#offsetMs);
  }

  #currentStamp(): string {
    const now = this.#now();
    if (now !== this.#stampedAt) {
      this.#stampedAt = now;
      this.#stamp = now.toString(36);
    }
    return this.#stamp;
  }
}

const unknownOutcome = (op: string, cause?: unknown): KitUnknownOutcomeError =>
  new KitUnknownOutcomeError("It is not known whether a job was added, or has its copies", op, cause);

/** Only a label for people and for sorting; no duration or order depends on it. */
const wallMs = (): number => performance.timeOrigin + performance.now();
