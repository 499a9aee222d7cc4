import { KitError } from "@kit/core";
import { onAbort, pause } from "@kit/core/toolkit";
import type { ListenTerms } from "./options.js";
import type { Gap, Message, News } from "./reader.js";

/** A message that a listener hands out. */
export interface Delivery<Body = unknown> extends Message<Body> {
  /** Messages of this chat right before this one that the member will not get. */
  readonly gap: Gap | undefined;
  /** The chat is not what it was for this listener; see `ChatNews`. */
  readonly reset: "fork" | "epoch" | undefined;
  /** The message is dealt with. Those before it in its chat may not be; the position waits for them. */
  done(): void;
}

/** What a listener needs of its chat object. */
export interface ListenerHost<Body> {
  next(): Promise<News<Body>>;
  /** Resolves when there may be news. */
  wait(): Promise<boolean>;
  ack(message: Message): Promise<void>;
  onError(error: KitError): void;
}

/** Deliveries of one chat that are not done, in order, and whether each is. */
class Watermark {
  readonly #open: { readonly message: Message; isDone: boolean }[] = [];

  add(message: Message): () => Message | undefined {
    const entry = { message, isDone: false };
    this.#open.push(entry);
    return () => {
      if (entry.isDone) return undefined;
      entry.isDone = true;
      return this.#advance();
    };
  }

  /** The last message before which all is done. */
  #advance(): Message | undefined {
    let last: Message | undefined;
    while (this.#open[0]?.isDone) last = this.#open.shift()?.message;
    return last;
  }

  get isEmpty(): boolean {
    return this.#open.length === 0;
  }
}

const longestPauseMs = 1_000;

/**
 * Messages of all chats of a member as they come, in order within each chat. Made by `listen()`.
 *
 * Nothing is acknowledged by being iterated. A message is done when its `done()` says so, in any order; the member's
 * position moves up to the first message that is not done, so that a crash loses nothing: what was not
 * acknowledged comes again to the next listener. Outages are waited out, except at the first fetch.
 */
export class Listener<Body = unknown> implements AsyncIterable<Delivery<Body>> {
  readonly #host: ListenerHost<Body>;
  readonly #terms: ListenTerms;
  readonly #watermarks = new Map<string, Watermark>();
  readonly #acks = new Set<Promise<void>>();
  #inFlight = 0;
  #onRoom: (() => void) | undefined;
  #isTaken = false;
  #isOver = false;

  /** Made by this package only. */
  constructor(host: ListenerHost<Body>, terms: ListenTerms) {
    this.#host = host;
    this.#terms = terms;
  }

  /**
   * Handles messages until the signal aborts, `concurrency` at a time; each is done when the handler resolves.
   *
   * @throws what a handler throws: no other begins then, and those that run are waited for. The message is not acknowledged.
   * @throws all that iterating throws.
   */
  async each(
    handler: (message: Delivery<Body>) => Promise<void> | void,
    { concurrency = 1 }: { readonly concurrency?: number } = {},
  ): Promise<void> {
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    const handle = async (message: Delivery<Body>): Promise<void> => {
      try {
        await handler(message);
        message.done();
      } catch (error) {
        failures.push(error);
      }
    };
    try {
      for await (const message of this) {
        const task = handle(message).finally(() => running.delete(task));
        running.add(task);
        if (running.size >= concurrency) await Promise.race(running);
        if (failures.length > 0) break;
      }
    } finally {
      await Promise.all(running);
      await Promise.all(this.#acks);
    }
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Ends with `signal.reason` when the signal aborts; leaving the loop ends it, too. Acknowledgements that are under way are
   * waited for.
   *
   * @throws {KitError} the first fetch failed, or the server refuses for good.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Delivery<Body>, void, undefined> {
    if (this.#isTaken) throw new Error("A listener can be iterated once");
    this.#isTaken = true;
    const { signal } = this.#terms;
    let attempt = 0;
    let isFirst = true;
    try {
      for (;;) {
        signal?.throwIfAborted();
        try {
          const { chats, more } = await this.#host.next();
          isFirst = false;
          attempt = 0;
          for (const { messages, gap, reset } of chats)
            for (const [index, message] of messages.entries()) {
              yield this.#deliver(message, index === 0 ? gap : undefined, index === 0 ? reset : undefined);
              signal?.throwIfAborted();
            }
          if (chats.length === 0 && !more) await this.#host.wait();
        } catch (error) {
          if (isFirst || signal?.aborted || !(error instanceof KitError) || !error.retryable) throw error;
          this.#host.onError(error);
          await pause(Math.min(longestPauseMs, 50 * 2 ** Math.min(attempt++, 5)), signal);
        }
        while (this.#inFlight >= this.#terms.maxInFlight) await this.#room(signal);
      }
    } finally {
      await this.#settled();
    }
  }

  #deliver(message: Message<Body>, gap: Gap | undefined, reset: Delivery["reset"]): Delivery<Body> {
    let watermark = this.#watermarks.get(message.chat);
    if (!watermark || reset) this.#watermarks.set(message.chat, (watermark = new Watermark()));
    const own = watermark;
    const settle = own.add(message);
    let isOpen = true;
    this.#inFlight++;
    return {
      ...message,
      gap,
      reset,
      done: () => {
        if (!isOpen) return;
        isOpen = false;
        this.#inFlight--;
        this.#onRoom?.();
        const last = settle();
        if (last) this.#acknowledge(last);
        if (own.isEmpty && this.#watermarks.get(message.chat) === own) this.#watermarks.delete(message.chat);
      },
    };
  }

  /** Acknowledges behind the scenes. What fails is reported, and tried again while the listener lives. */
  #acknowledge(message: Message): void {
    const acking = this.#untilAcked(message).finally(() => this.#acks.delete(acking));
    this.#acks.add(acking);
  }

  async #untilAcked(message: Message): Promise<void> {
    for (;;)
      try {
        await this.#host.ack(message);
        return;
      } catch (error) {
        this.#host.onError(error as KitError);
        if (this.#isOver || !(error instanceof KitError) || !error.retryable) return;
        await pause(longestPauseMs);
      }
  }

  async #settled(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#acks);
  }

  async #room(signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const stopListening = onAbort(signal, () => queueMicrotask(() => reject(signal?.reason as Error)));
      this.#onRoom = () => {
        stopListening();
        resolve();
      };
    });
  }
}
