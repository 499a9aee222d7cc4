import { KitClosedError, KitError, KitUnknownOutcomeError } from "@kit/core";
import { asKitError, backoffMs, Deadline, pause, settled } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import {
  CallTimeoutError,
  JobCancelledError,
  JobExpiredError,
  JobFailedError,
  JobOutcomeLostError,
  JobResultError,
} from "../job/errors.js";
import { randomText } from "../job/ids.js";
import { maxWanted } from "../store/scripts/index.js";
import { failureOf, kindOf, refusalOf, resultOf } from "../job/outcomes.js";

/**
 * How often open calls are looked up without a push. A Cluster's bus can lose a push, and a job that became a dead letter because of
 * crashes sends none.
 */
const lookEveryMs = 5_000;
/** The same, while no push can arrive. */
const lookBlindMs = 500;
/** The maximum number of jobs whose outcomes are looked up after their callers gave up. */
const maxLate = 10_000;

/** How one call is made. */
interface CallRequest {
  readonly job: string;
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
  /** Adds the job. An `op` settles the outcome of an earlier add. */
  readonly add: (replyTo: string, op: string | undefined) => Promise<string>;
}

/** A job whose outcome a caller waits for. */
interface OpenCall {
  readonly job: string;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The calls of one queue object. The server keeps each outcome until this object has received it, and publishes the job's id to the inbox
 * of `@kit/core`. That push is only a hint: whenever one may have been lost, all open calls are looked up.
 */
export class Calls {
  readonly #commands: QueueCommands;
  readonly #onError: (error: KitError) => void;
  readonly #caller = randomText(12);
  /** Calls by job id. */
  readonly #open = new Map<string, OpenCall>();
  /**
   * Jobs whose callers gave up. Their outcomes are looked up because a push may have been lost. Otherwise such an outcome would stay on the
   * server, and each later outcome would extend its life by ten minutes.
   */
  readonly #late = new Set<string>();
  /** How many jobs are being added. An id that is pushed at the same time may belong to one of them. */
  #adding = 0;
  readonly #early = new Set<string>();
  readonly #wanted = new Set<string>();
  /** Outcomes that have arrived, or that no call waits for. The server can delete them. */
  readonly #received = new Set<string>();
  /** Increases when pushes may have been lost. */
  #gaps = 0;
  #looking: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopListening: (() => void) | undefined;

  constructor(commands: QueueCommands, onError: (error: KitError) => void) {
    this.#commands = commands;
    this.#onError = onError;
  }

  /** Adds a job, and resolves with its handler's result. */
  async run(request: CallRequest): Promise<unknown> {
    const deadline = Deadline.in(request.waitMs);
    const { inbox, executor } = this.#commands.context;
    if (executor.isEnded) throw new KitClosedError("The client");
    this.#listen();
    const isBlind = !inbox.isOpen;
    const gaps = this.#gaps;
    this.#adding++;
    try {
      const id = await this.#add(request, deadline);
      const outcome = this.#outcomeOf(id, request, deadline);
      if (this.#early.delete(id) || isBlind || gaps !== this.#gaps) this.#lookUp([id]);
      return outcome;
    } finally {
      if (--this.#adding === 0) {
        for (const id of this.#early) this.#received.add(id);
        this.#early.clear();
        this.#lookUp([]);
      }
    }
  }

  /** Rejects open calls. Resolves once the server has deleted the outcomes that arrived, or cannot be reached. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stopListening?.();
    this.#wanted.clear();
    this.#rejectAll(this.#commands.life.closedError());
    await this.#looking;
  }

  #rejectAll(error: KitClosedError): void {
    for (const { reject } of [...this.#open.values()]) reject(error);
  }

  /** Adds the job again until the outcome is known. */
  async #add({ add, signal }: CallRequest, deadline: Deadline): Promise<string> {
    const { inbox, executor } = this.#commands.context;
    const { channel } = inbox;
    const replyTo = `${channel.slice(channel.lastIndexOf(":") + 1)}.${this.#caller}`;
    for (let op: string | undefined, attempt = 1; ; attempt++)
      try {
        return await add(replyTo, op);
      } catch (error) {
        const isOver = this.#commands.life.isClosed || executor.isEnded || deadline.remainingMs <= 1;
        const isUnknown = error instanceof KitUnknownOutcomeError;
        // The queue may be full although an earlier try may have added the job.
        if (!isUnknown && (op === undefined || !(KitError.is(error) && error.retryable))) throw error;
        if (isUnknown) ({ op } = error);
        if (isOver)
          throw new KitUnknownOutcomeError(
            "The reply was lost: the job of the call may or may not have been added",
            op,
            error,
          );
        await pause(Math.min(deadline.remainingMs, backoffMs(attempt, 20, 1_000)), signal);
      }
  }

  #outcomeOf(id: string, { job, waitMs, signal }: CallRequest, deadline: Deadline): Promise<unknown> {
    return settled<unknown>(
      { deadline, signal },
      ({ reject }) => reject(new CallTimeoutError(job, id, waitMs)),
      ({ resolve, reject }) => {
        this.#open.set(id, { job, resolve, reject });
        if (this.#commands.life.isClosed) reject(this.#commands.life.closedError());
        else if (this.#commands.context.executor.isEnded) reject(new KitClosedError("The client"));
        this.#arm();
        // The call is still open: its caller gave up.
        return () => void (this.#open.delete(id) && this.#late.size < maxLate && this.#late.add(id));
      },
    );
  }

  #listen(): void {
    const { inbox, executor } = this.#commands.context;
    inbox.start();
    if (this.#stopListening) return;
    // After its owner ended it, a client receives nothing.
    const stopDrops = executor.onDrop(() => {
      if (executor.isEnded) this.#rejectAll(new KitClosedError("The client"));
    });
    inbox.expect(this.#caller, (ids) => this.#onPushed(ids.split("\n")));
    const stop = inbox.onResubscribed(() => {
      this.#gaps++;
      this.#lookUp(this.#open.keys());
    });
    this.#stopListening = () => {
      stop();
      stopDrops();
      inbox.forget(this.#caller);
    };
  }

  #onPushed(ids: readonly string[]): void {
    const unknown = this.#adding === 0 ? this.#received : this.#early;
    for (const id of ids) {
      (this.#open.has(id) ? this.#wanted : unknown).add(id);
      this.#late.delete(id);
    }
    this.#lookUp([]);
  }

  #lookUp(ids: Iterable<string>): void {
    for (const id of ids) this.#wanted.add(id);
    if (this.#wanted.size + this.#received.size > 0) this.#looking ??= this.#look();
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#open.size + this.#late.size === 0 || this.#commands.life.isClosed) return;
    const { inbox } = this.#commands.context;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        if (inbox.isOpen) void inbox.check();
        this.#lookUp([...this.#open.keys(), ...this.#late]);
        this.#arm();
      },
      inbox.isOpen || this.#open.size === 0 ? lookEveryMs : lookBlindMs,
    ).unref();
  }

  async #look(): Promise<void> {
    while (this.#wanted.size + this.#received.size > 0) {
      const wanted = taken(this.#wanted);
      const received = taken(this.#received);
      try {
        const outcomes = await this.#commands.outcomes(this.#caller, received, wanted);
        for (const [index, id] of wanted.entries()) this.#onOutcome(id, outcomes[index] ?? Buffer.from("waiting"));
      } catch (error) {
        // The timer repeats this, and so does a reconnected inbox. Outcomes that stay on the server expire.
        for (const id of received) this.#received.add(id);
        if (!this.#commands.life.isClosed) this.#onError(asKitError(error, "Reading outcomes"));
        break;
      }
    }
    this.#looking = undefined;
  }

  #onOutcome(id: string, outcome: Buffer): void {
    const kind = kindOf(outcome);
    if (kind === "waiting") return;
    if (kind === "later") return void ((this.#open.has(id) || this.#late.has(id)) && this.#wanted.add(id));
    if (kind !== "gone") this.#received.add(id);
    this.#late.delete(id);
    const call = this.#open.get(id);
    if (!call) return;
    this.#open.delete(id);
    if (kind === "gone") call.reject(new JobOutcomeLostError(call.job, id));
    else if (kind === "cancelled") call.reject(new JobCancelledError(call.job, id));
    else if (kind === "expired") call.reject(new JobExpiredError(call.job, id));
    else if (kind === "dead") call.reject(new JobFailedError(call.job, id, failureOf(outcome)));
    else if (kind === "refused") call.reject(new JobResultError(call.job, id, refusalOf(outcome)));
    else call.resolve(resultOf(outcome));
  }
}

const taken = (ids: Set<string>): string[] => {
  const some = [...ids].slice(0, maxWanted);
  for (const id of some) ids.delete(id);
  return some;
};
