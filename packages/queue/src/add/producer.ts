import { KitError, type KitUnavailableError, KitUnknownOutcomeError } from "@kit/core";
import { Batcher } from "@kit/core/batching";
import { type Deadline, noAnswer } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import { isUnknown, wallMs } from "../store/wall.js";
import { QueueFullError } from "../job/errors.js";
import { IdSource, isMade, ownId } from "../job/ids.js";
import type { AddedOnce } from "../job/added.js";
import type { QueueSettings } from "../store/options.js";
import { blobOf, type Payload } from "../job/payload.js";
import { planned } from "../job/words.js";
import { maxAdded } from "../store/scripts/added.js";

/** The commands that a producer uses. */
export type ProducerCommands = Pick<
  QueueCommands,
  "add" | "context" | "isChecked" | "learnOffset" | "offsetMs" | "open"
>;

/** One job on its way to the server. */
export interface NewJob {
  readonly head: string;
  readonly payload: Payload;
  /** The words after its id in `plan` of `add.lua`. */
  readonly words: string;
  /** The caller's id, or the id of an earlier call whose outcome is unknown. If undefined, an id is generated when the job is sent. */
  id: string | undefined;
  /** The `op` of an earlier add whose outcome is unknown. */
  readonly op: string | undefined;
  /** The call that carries it: the producer and the call's number. */
  call: string | undefined;
  /** The job of an `addOnce`, or with a key: the server reports whether it was added. */
  readonly isOnce: boolean;
  /** The outcome of an earlier call is unknown. If this call fails, the job may still have been added. */
  readonly isRepeat: boolean;
  /** Repeated calls add only one job, because of `op` or a key that stays taken. */
  readonly isRepeatable: boolean;
  /** The add was rejected, because the job was not sent. */
  isGivenUp: boolean;
}

/** The maximum size of one call, in bytes. */
const maxBytes = 1_024 * 1_024;
/** About how many bytes the header, the plan and the protocol add to a payload. */
const overheadBytes = 100;

/** The outcome of an add: the id, or whether the job was added. */
export type Added = string | AddedOnce;
export const idOf = (added: Added): string => (typeof added === "string" ? added : added.id);

/** A job, or a group of jobs that are stored together or not at all. */
type Item = NewJob | readonly NewJob[];
const isGroup = (item: Item): item is readonly NewJob[] => Array.isArray(item);
const jobsOf = (item: Item): readonly NewJob[] => (isGroup(item) ? item : [item]);
const isRepeatable = (job: NewJob): boolean => job.isRepeatable;
const bytesOf = ({ payload }: NewJob): number => payload.length + overheadBytes;
/** The share of a job in the bytes of a call: at least a thousandth of the maximum, because a call adds up to 1,000 jobs of a group. */
const shareOf = (job: NewJob): number => Math.max(bytesOf(job), Math.floor(maxBytes / maxAdded));
const sizeOf = (item: Item): number =>
  isGroup(item) ? item.reduce((sum, job) => sum + shareOf(job), 0) : bytesOf(item);

/** The parts of an `op`: a call, as the word of `add.lua`, and the id of the job in it. */
export const parseOp = (op: string): { readonly word: string; readonly id: string } => {
  const [, call = "", id = ""] = /^([0-9A-Za-z]{9}:\d+):(.+)$/s.exec(op) ?? [];
  if (call === "") throw new TypeError("Expected `op` to come from a KitUnknownOutcomeError of `add()`");
  if (!isMade(id)) ownId("op", id);
  return { word: planned("settles", call), id };
};

/**
 * Adds jobs. Jobs that arrive while a call is in progress share the next call. Only one call runs at a time, so its sequence number
 * identifies a repeat.
 */
export class Producer {
  readonly #commands: ProducerCommands;
  readonly #ids = new IdSource();
  readonly #batcher: Batcher<Item, Added | readonly Added[]>;
  readonly #maxPending: number;
  readonly #full: () => QueueFullError;
  /** How many jobs of groups are waiting or in progress. */
  #grouped = 0;
  #mustRetire = false;

  constructor(name: string, commands: ProducerCommands, { deadlineMs, maxPending }: QueueSettings) {
    this.#commands = commands;
    this.#maxPending = maxPending;
    this.#full = () => new QueueFullError(name, maxPending);
    this.#batcher = new Batcher<Item, Added | readonly Added[]>({
      send: (items, deadline) => this.#send(items, deadline),
      deadlineMs,
      late: (item, wasSent, stall) => this.#late(item, wasSent, stall && ` (no reply${stall})`),
      full: this.#full,
      owner: `Queue ${JSON.stringify(name)}`,
      maxItems: maxAdded,
      maxBytes,
      sizeOf,
      maxPending,
      delayMs: 0,
    });
  }

  /** Resolves once the server has the job: with its id, or with the server's answer if it is wanted. */
  add(job: NewJob, signal?: AbortSignal): Promise<Added> {
    return this.#batcher.add(job, signal) as Promise<Added>;
  }

  /** Adds jobs in groups, one group after the other, so that each group has the whole deadline. Resolves with the ids in order. */
  async addAll(jobs: readonly NewJob[]): Promise<string[]> {
    const groups: NewJob[][] = [];
    let size = Infinity;
    for (const job of jobs) {
      size += shareOf(job);
      const last = groups.at(-1);
      if (last && size <= maxBytes && last.length < this.#maxPending) last.push(job);
      else {
        groups.push([job]);
        size = shareOf(job);
      }
    }
    const ids: string[] = [];
    for (const group of groups)
      try {
        ids.push(...(await this.addGroup(group)).map(idOf));
      } catch (error) {
        // The same call would add the jobs of the earlier groups again.
        if (ids.length === 0 || jobs.every(isRepeatable) || !(KitError.is(error) && error.retryable)) throw error;
        const some = `${String(ids.length)} of ${String(jobs.length)} jobs were added, then the call failed`;
        throw new KitUnknownOutcomeError(`${some}: ${error.message}`, undefined, error);
      }
    return ids;
  }

  /** Adds jobs in one call. */
  async addGroup(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    if (this.#batcher.pending + this.#grouped + jobs.length > this.#maxPending) throw this.#full();
    this.#grouped += jobs.length;
    try {
      return (await this.#batcher.add(jobs)) as readonly Added[];
    } finally {
      this.#grouped -= jobs.length;
    }
  }

  close(deadline: Deadline): Promise<void> {
    return this.#batcher.close(deadline);
  }

  async #send(items: readonly Item[], deadline: Deadline): Promise<readonly (Added | readonly Added[] | Error)[]> {
    const refusal = this.#commands.isChecked ? undefined : await this.#refusal(deadline);
    if (refusal) return items.map((item) => this.#unsent(item, refusal));
    // Some adds have rejected in the meantime. Their jobs are not sent.
    const wanted: NewJob[] = [];
    for (const item of items) for (const job of jobsOf(item)) if (!job.isGivenUp) wanted.push(job);
    const results = wanted.length === 0 ? [] : await this.#add(wanted, deadline);
    let next = 0;
    const resultOf = ({ call }: NewJob): Added | Error => (call === undefined ? "" : results[next++]!);
    return items.map((item) => {
      if (!isGroup(item)) return resultOf(item);
      const own = item.map(resultOf);
      const failure = own.find((one) => one instanceof Error);
      return isUnknown(failure) ? unknownOutcome(item, failure!.cause) : (failure ?? (own as Added[]));
    });
  }

  #refusal(deadline: Deadline): Promise<Error | undefined> {
    return this.#commands.open(Math.max(1, deadline.remainingMs)).then(
      () => undefined,
      (error: unknown) => error as Error,
    );
  }

  async #add(jobs: readonly NewJob[], deadline: Deadline): Promise<readonly (Added | Error)[]> {
    if (this.#mustRetire) this.#ids.retire();
    this.#mustRetire = false;
    const made = this.#ids.take(jobs.length);
    const { producer } = this.#ids;
    const sentAt = wallMs();
    // The server's time, estimated from its replies. Used for `addedAt` and for the order of producers.
    const now = Math.round(sentAt + this.#commands.offsetMs);
    const sequence = this.#ids.nextSequence(now);
    const call = `${producer}:${String(sequence)}`;
    const stamp = now.toString(36);
    const [ids, blobs, once]: [string[], Payload[], NewJob[]] = [[], [], []];
    let plan = "";
    for (const job of jobs) {
      job.call = call;
      job.id ??= made[ids.length]!;
      plan += `${plan && "\n"}${job.id}${job.words}`;
      ids.push(job.id);
      blobs.push(blobOf(stamp, job.head, job.payload));
      if (job.isOnce) once.push(job);
    }
    const answeredTo = once.length === 0 ? [] : [producer, ...once.flatMap(({ op }) => op?.slice(0, 9) ?? [])];
    try {
      const isNew = this.#ids.isNew ? "1" : "0";
      const { now: theirs, answers } = await this.#commands.add(
        { producer, sequence, isNew, plan, blobs },
        answeredTo,
        deadline,
      );
      this.#commands.learnOffset(theirs, sentAt);
      if (once.length === 0) return ids;
      let next = 0;
      return jobs.map(({ isOnce, id = "" }) => {
        if (!isOnce) return id;
        // The server keeps answers for ten minutes. So this call's `op` would not find it later either.
        return answers[next++] ?? unknownOutcome([]);
      });
    } catch (error) {
      this.#mustRetire ||= isUnknown(error);
      return jobs.map((job) => (isUnknown(error) || job.isRepeat ? unknownOutcome(job, error) : (error as Error)));
    }
  }

  #late(item: Item, wasSent: boolean, reason: string): Error {
    const jobs = jobsOf(item);
    const first = jobs[0]!;
    if (!first.isRepeat && (!wasSent || first.call === undefined)) {
      for (const job of jobs) job.isGivenUp = true;
      return this.#notAdded(reason);
    }
    this.#mustRetire = true;
    return unknownOutcome(item, undefined, reason);
  }

  /** The queue could not be opened. A repeat keeps its `op`, because an earlier call may have added the job. */
  #unsent(item: Item, refusal: Error): Error {
    if (jobsOf(item)[0]!.isRepeat) return unknownOutcome(item, refusal);
    return isUnknown(refusal) ? this.#notAdded("", refusal) : refusal;
  }

  #notAdded(reason: string, cause?: Error): KitUnavailableError {
    return noAnswer(this.#commands.context.client, "the job was not added", reason, cause);
  }
}

/**
 * The jobs of a group have no `op`, because it would settle only one of them. A job whose answer is no longer stored has none either:
 * `item` is empty.
 */
const unknownOutcome = (item: Item, cause?: unknown, reason = ""): KitUnknownOutcomeError =>
  new KitUnknownOutcomeError(
    // The replicas have not confirmed it, or the reply is lost.
    cause instanceof KitUnknownOutcomeError
      ? cause.message
      : `The reply was lost${reason}: the job may or may not have been added`,
    isGroup(item) ? undefined : (item.op ?? `${item.call ?? ""}:${item.id ?? ""}`),
    cause,
    jobsOf(item).length > 0 && jobsOf(item).every(isRepeatable),
  );
