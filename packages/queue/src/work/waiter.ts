import { asKitError, backoffMs, Deadline, type ExclusiveConnection, reading, serverError } from "@kit/core/toolkit";
import type { QueueCommands, StepRequest } from "../store/commands.js";
import { isUnknown } from "../store/wall.js";
import type { StepReply } from "../store/scripts/index.js";

/** The maximum wait, in milliseconds. After that the worker looks for work, in case a wake-up was lost. */
export const longestWaitMs = 15_000;
/** Each wait is shortened by a random part of this, so that waits don't end at the same time. */
export const spreadMs = 2_000;
/** A connection that is silent for this much longer than its wait counts as dead. */
export const graceMs = 2_000;

/** A marker that wakes a worker. */
export type Marker = "job" | "timer" | "backup";

export interface Woken {
  /** Undefined if the wait timed out. */
  readonly marker: Marker | undefined;
  readonly reply: StepReply;
  readonly sentAt: number;
  /** The server's error if it refused the pop. The step ran anyway. */
  readonly refusal: Error | undefined;
}

/** Waits for the markers of several queues on one connection. */
export interface Wakeups {
  /**
   * Resolves with the marker that woke the queue, or with undefined at the end of the longest wait. `key` has the queue's markers.
   * Calls `connected` when the connection is ready. Returns undefined if the queue has to wait on its own connection.
   *
   * @throws an error of the connection; `signal.reason`.
   */
  next(key: string, connected: () => void, signal: AbortSignal): Promise<Marker | undefined> | undefined;
}

/**
 * Waits for work on a dedicated connection. It writes a BZPOPMIN on the markers, followed by a step that the server runs as soon as the pop
 * returns. So waking up and taking jobs cost one round trip. If several queues share the connection, the step follows after the pop has
 * returned.
 */
export class Waiter {
  readonly #commands: QueueCommands;
  readonly #onLost: (takeId: string) => void;
  readonly #wakeups: Wakeups | undefined;
  #closing = new AbortController();
  #connection: ExclusiveConnection | undefined;
  #failures = 0;

  /** `onLost`: the reply of a step was lost, and its take has to be undone. */
  constructor(commands: QueueCommands, onLost: (takeId: string) => void, wakeups?: Wakeups) {
    this.#commands = commands;
    this.#onLost = onLost;
    this.#wakeups = wakeups;
  }

  /** Resolves once woken, or at the end of the wait. Undefined if the connection broke, or the waiter was closed. */
  async wait(request: StepRequest): Promise<Woken | undefined> {
    const { signal } = this.#closing;
    let woken: Woken | undefined;
    try {
      const waking = this.#wakeups?.next(this.#commands.keys.wake, this.#onConnected, signal);
      woken = waking
        ? await this.#stepAfter(waking, request)
        : await this.#waitOn(await this.#checkOut(signal), request);
      // The step may succeed although the pop is rejected. Without a pause, this would be a busy loop.
      if (woken.refusal && woken.reply.entries.length === 0) throw serverError(woken.refusal, "BZPOPMIN");
      this.#failures = 0;
      this.#commands.outage.worked("waiting");
      return woken;
    } catch (error) {
      if (isUnknown(error)) this.#onLost(request.takeId);
      this.#return();
      if (signal.aborted) return woken;
      this.#commands.outage.failed("waiting", asKitError(error, "Waiting for work"));
      await this.#commands.rest(backoffMs(++this.#failures + 1, 50, 1_000), signal);
      return woken;
    }
  }

  /** Ends the wait, and its connection. A step that is still in progress takes no jobs, because its take is undone. */
  close(): void {
    this.#closing.abort();
    this.#return();
  }

  /** Lets it wait again. */
  open(): void {
    if (this.#closing.signal.aborted) this.#closing = new AbortController();
  }

  async #checkOut(signal: AbortSignal): Promise<ExclusiveConnection> {
    if (this.#connection?.isBroken) this.#return();
    if (this.#connection) return this.#connection;
    const { context, keys } = this.#commands;
    const pool = context.pool("queue-wait", 1_000);
    const connection = await pool.checkOut(keys.wake, Deadline.in(graceMs), signal);
    // The waiter was closed, or connecting took the whole deadline.
    if (signal.aborted) {
      connection.returnToPool(false);
      signal.throwIfAborted();
    }
    this.#connection = connection;
    await connection.executor.ready(reading("Waiting for work", Deadline.in(graceMs), signal));
    this.#onConnected();
    return connection;
  }

  readonly #onConnected = (): void => this.#commands.outage.connected("waiting");

  async #stepAfter(waking: Promise<Marker | undefined>, request: StepRequest): Promise<Woken> {
    const marker = await waking;
    const sentAt = performance.now();
    return { marker, reply: await this.#commands.step(request), sentAt, refusal: undefined };
  }

  async #waitOn(connection: ExclusiveConnection, request: StepRequest): Promise<Woken> {
    const waitMs = longestWaitMs - Math.random() * spreadMs;
    const deadlineMs = waitMs + graceMs;
    const sentAt = performance.now();
    const popping = connection.call("BZPOPMIN", [this.#commands.keys.wake, (waitMs / 1_000).toFixed(3)], deadlineMs);
    // Both are sent in one turn of the event loop, so no other command comes between them.
    const stepping = this.#commands.step(request, {}, { deadlineMs, executor: connection.executor });
    const [popped, stepped] = await Promise.allSettled([popping, stepping]);
    const refusal = popped.status === "rejected" ? (popped.reason as Error) : undefined;
    if (refusal) connection.misrouted(refusal.message);
    if (stepped.status === "rejected") throw stepped.reason;
    const marker = popped.status === "fulfilled" ? (popped.value as readonly unknown[] | null)?.[1] : undefined;
    return { marker: marker as Marker | undefined, reply: stepped.value, sentAt, refusal };
  }

  #return(): void {
    this.#connection?.returnToPool(false);
    this.#connection = undefined;
  }
}
