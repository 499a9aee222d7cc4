import { KitError } from "@kit/core";
import { asKitError, integerOption, newToken, onAbort, type OutageReporter, pause, settled } from "@kit/core/toolkit";
import type { Gap, Message } from "./read/message.js";
import type { ChatNews, News } from "./read/reader.js";
import type { ResolvedListenOptions } from "./options.js";

/** A message that a listener delivers. */
export interface DeliveredMessage<Body = unknown> extends Message<Body> {
  /** Messages of this chat right before this message that the member will not receive. */
  readonly gap: Gap | undefined;
  /** Set if the chat's history has changed for this listener; see `ChatNews`. */
  readonly reset: "fork" | "epoch" | undefined;
  /** Marks the message as handled. The position does not move past earlier messages of the chat that are not done. */
  done(): void;
}

/** The calls of a chat object that a listener makes, for one member. */
export interface ListenerHost<Body> {
  next(signal: AbortSignal | undefined): Promise<News<Body>>;
  /** Resolves when there may be news. */
  wait(signal: AbortSignal | undefined): Promise<boolean>;
  ack(message: Message): Promise<void>;
  readonly outage: OutageReporter;
}

/** The delivered messages of one chat from the first that is not done, in order. */
class Watermark {
  readonly #open: { readonly message: Message; isDone: boolean }[] = [];

  /** Returns what marks the message as done, once; it returns the last message up to which all are done, if that has moved. */
  add(message: Message): () => Message | undefined {
    const entry = { message, isDone: false };
    this.#open.push(entry);
    return () => {
      entry.isDone = true;
      return this.#advance();
    };
  }

  #advance(): Message | undefined {
    let last: Message | undefined;
    while (this.#open[0]?.isDone) last = this.#open.shift()?.message;
    return last;
  }

  get isEmpty(): boolean {
    return this.#open.length === 0;
  }
}

/** The gap or the reset of a chat right before a message. */
type Notice = Pick<ChatNews, "gap" | "reset">;

const nothing: Notice = { gap: undefined, reset: undefined };

/** A failure that passes by itself is retried soon. A missing right or a setting of the server waits for a person. */
const longestPauseMs = 1_000;
const longestRefusalMs = 5_000;
const pauseAfter = ({ retryable }: KitError, attempt: number): number =>
  Math.min(retryable ? longestPauseMs : longestRefusalMs, 50 * 2 ** Math.min(attempt, 7));

/** Whether a retry may succeed: not after the client or the chat object was closed, and not if it is no failure of Redis. */
const mayPass = (error: unknown): error is KitError =>
  error instanceof KitError && error.code !== "KIT_CLOSED" && (error.code !== "KIT_UNAVAILABLE" || error.retryable);

/**
 * Messages of all chats of a member as they arrive, in order within each chat. Create it with `listen()`.
 *
 * Iterating acknowledges nothing. Call `done()` on each message, in any order. The member's position moves up to the first message
 * that is not done, so a crash loses nothing: the next listener receives all unacknowledged messages again.
 *
 * The listener continues through outages and refusals, except at the first fetch. For all its listeners and waits, the chat object
 * emits one `error` when an outage or a refusal starts, and one with the code `KIT_RECOVERED` when it is over. A lost connection
 * that the next attempt restores is not reported. A server that stops answering is noticed within 12 s.
 */
export class Listener<Body = unknown> implements AsyncIterable<DeliveredMessage<Body>> {
  readonly #host: ListenerHost<Body>;
  readonly #outage: OutageReporter;
  /** Distinguishes the loops of several listeners in outages. */
  readonly #id = newToken();
  readonly #resolved: ResolvedListenOptions;
  readonly #watermarks = new Map<string, Watermark>();
  readonly #acks = new Set<Promise<void>>();
  /** Gaps and resets that no message carried yet: the next one of the chat does. */
  readonly #notices = new Map<string, Notice>();
  #inFlight = 0;
  #onRoom: (() => void) | undefined;
  #isTaken = false;
  #isOver = false;

  /** For this package only: use `chat.listen()`. */
  constructor(host: ListenerHost<Body>, resolved: ResolvedListenOptions) {
    this.#host = host;
    this.#outage = host.outage;
    this.#resolved = resolved;
  }

  /**
   * Handles messages until the signal aborts, up to `concurrency` at a time. A message is done when its handler resolves.
   *
   * @throws the error of a handler, once the running handlers have settled. No other handler starts. The message is not acknowledged.
   * @throws {TypeError | RangeError} `concurrency` is not an integer of at least 1.
   * @throws every error of iterating.
   */
  async each(
    handler: (message: DeliveredMessage<Body>) => Promise<void> | void,
    { concurrency = 1 }: { readonly concurrency?: number } = {},
  ): Promise<void> {
    integerOption("concurrency", concurrency, 1);
    const { signal } = this.#resolved;
    const running = new Set<Promise<void>>();
    // Ends the iteration even if no other message arrives.
    const ending = new AbortController();
    const stopListening = onAbort(signal, () => ending.abort(signal?.reason));
    const handle = async (message: DeliveredMessage<Body>): Promise<void> => {
      try {
        await handler(message);
        message.done();
      } catch (error) {
        ending.abort(error);
      }
    };
    try {
      for await (const message of this.#deliveries(ending.signal)) {
        const task = handle(message).finally(() => running.delete(task));
        running.add(task);
        if (running.size >= concurrency) await Promise.race(running);
      }
    } finally {
      stopListening();
      await Promise.all(running);
      await Promise.all(this.#acks);
    }
  }

  /**
   * Leave the loop to end the iteration. It throws `signal.reason` when the signal aborts. In both cases it first waits for
   * acknowledgements in flight.
   *
   * @throws {KitError} the first fetch failed; or the client or the chat object was closed.
   */
  [Symbol.asyncIterator](): AsyncGenerator<DeliveredMessage<Body>, void, undefined> {
    return this.#deliveries(this.#resolved.signal);
  }

  async *#deliveries(signal: AbortSignal | undefined): AsyncGenerator<DeliveredMessage<Body>, void, undefined> {
    if (this.#isTaken) throw new Error("You can iterate a listener only once");
    this.#isTaken = true;
    const loop = `fetching ${this.#id}`;
    let attempt = 0;
    let isFirst = true;
    try {
      for (;;) {
        signal?.throwIfAborted();
        try {
          const { chats, more } = await this.#host.next(signal);
          isFirst = false;
          attempt = 0;
          this.#outage.worked(loop);
          for (const { chat, messages, ...notice } of chats) {
            this.#note(chat, notice);
            for (const message of messages) {
              signal?.throwIfAborted();
              yield this.#deliver(message);
            }
          }
          if (chats.length === 0 && !more) await this.#host.wait(signal);
        } catch (error) {
          if (isFirst || signal?.aborted || !mayPass(error)) throw error;
          this.#outage.failed(loop, error);
          await pause(pauseAfter(error, attempt++), signal);
        }
        while (this.#inFlight >= this.#resolved.maxInFlight) await this.#room(signal);
      }
    } finally {
      this.#outage.ended(loop);
      await this.#settled();
    }
  }

  /** Merges two gaps: the second one follows the first one, or starts in it. */
  #note(chat: string, { gap, reset }: Notice): void {
    if (!gap && !reset) return;
    const before = reset ? undefined : this.#notices.get(chat);
    const from = before?.gap?.from;
    this.#notices.set(chat, {
      gap: gap && from !== undefined ? { ...gap, from: Math.min(gap.from, from) } : (gap ?? before?.gap),
      reset: reset ?? before?.reset,
    });
  }

  #deliver(message: Message<Body>): DeliveredMessage<Body> {
    const { gap, reset } = this.#notices.get(message.chat) ?? nothing;
    this.#notices.delete(message.chat);
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

  /** Acknowledges in the background. A failure is reported, and retried until the listener ends; a refusal by the chat is final. */
  #acknowledge(message: Message): void {
    const acking = this.#untilAcked(message).finally(() => this.#acks.delete(acking));
    this.#acks.add(acking);
  }

  async #untilAcked(message: Message): Promise<void> {
    const loop = `acknowledging ${this.#id} ${message.chat}`;
    for (let attempt = 0; ; attempt++)
      try {
        await this.#host.ack(message);
        return this.#outage.worked(loop);
      } catch (reason) {
        const error = asKitError(reason, "Acknowledging a message");
        const isFinal = !mayPass(error) || (error.code.startsWith("KIT_CHAT_") && !error.retryable);
        if (isFinal) this.#outage.report(error);
        else this.#outage.failed(loop, error);
        if (isFinal || this.#isOver) return this.#outage.ended(loop);
        await pause(pauseAfter(error, attempt));
      }
  }

  async #settled(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#acks);
  }

  async #room(signal: AbortSignal | undefined): Promise<void> {
    await settled<void>(
      { signal },
      () => undefined,
      ({ resolve }) => {
        this.#onRoom = resolve;
      },
    );
  }
}
