import { asKitError, backoffMs, Deadline, type ExclusiveConnection, reading, serverError } from "@kit/core/toolkit";
import type { QueueCommands, StepRequest } from "../store/commands.js";
import { isUnknown } from "../store/wall.js";
import type { StepReply } from "../store/scripts/index.js";

/** The maximum wait, in milliseconds. After that the worker looks for work, in case a wake-up was lost. */
const longestWaitMs = 15_000;
/** Each wait is shortened by a random part of this, so that waits don't end at the same time. */
const spreadMs = 2_000;
/** A connection that is silent for this much longer than its wait counts as dead. */
const graceMs = 2_000;

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

/**
 * Waits for work on a dedicated connection. It writes a BZPOPMIN on the markers, followed by a step that the server runs as soon as the pop
 * returns. So waking up and taking jobs cost one round trip.
 */
export class Waiter {
  readonly #commands: QueueCommands;
  readonly #onLost: (takeId: string) => void;
  #closing = new AbortController();
  #connection: ExclusiveConnection | undefined;
  #failures = 0;

  /** `onLost`: the reply of a step was lost, and its take has to be undone. */
  constructor(commands: QueueCommands, onLost: (takeId: string) => void) {
    this.#commands = commands;
    this.#onLost = onLost;
  }

  /** Resolves once woken, or at the end of the wait. Undefined if the connection broke, or the waiter was closed. */
  async wait(request: StepRequest): Promise<Woken | undefined> {
    const { signal } = this.#closing;
    let woken: Woken | undefined;
    try {
      const connection = await this.#checkOut(signal);
      woken = await this.#waitOn(connection, request);
      // The step may succeed though the pop is refused. Without a pause this would be a busy loop.
      if (woken.refusal && woken.reply.entries.length === 0) throw serverError(woken.refusal, "BZPOPMIN");
      this.#failures = 0;
      this.#commands.outage.worked("waiting");
      return woken;
    } catch (error) {
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
    this.#commands.outage.connected("waiting");
    return connection;
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
    if (stepped.status === "rejected") {
      if (isUnknown(stepped.reason)) this.#onLost(request.takeId);
      throw stepped.reason;
    }
    const marker = popped.status === "fulfilled" ? (popped.value as readonly unknown[] | null)?.[1] : undefined;
    return { marker: marker as Marker | undefined, reply: stepped.value, sentAt, refusal };
  }

  #return(): void {
    this.#connection?.returnToPool(false);
    this.#connection = undefined;
  }
}
