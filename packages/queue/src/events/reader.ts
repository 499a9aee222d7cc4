import { KitClosedError, type KitError, type RedisLike } from "@kit/core";
import {
  asKitError,
  assertConnections,
  backoffMs,
  clientRules,
  type ClientOptions,
  custom,
  integer,
  ObjectLife,
  onAbort,
  OutageReporter,
  pause,
  resolve,
  type RulesOf,
  signal,
  TypedEmitter,
} from "@kit/core/toolkit";
import { queueKeys } from "../job/keys.js";
import { eventsOf, isBefore, type Place, placed, placeOf, type QueueEvent } from "./event.js";
import { EventStream } from "./stream.js";

/** Options of `createQueueEvents()`. */
export interface QueueEventsOptions extends ClientOptions {
  /**
   * The `position` of the last event that you have handled. Reading starts with the next event.
   *
   * @default none: reading starts with new events
   */
  readonly after?: string | undefined;
  /**
   * How long events are recorded after the last reader has left, in milliseconds: 1,000 to 86,400,000 (a day). A reader that starts within
   * this time misses no event. With several readers, the longest `recordMs` applies.
   *
   * @default 60000
   */
  readonly recordMs?: number | undefined;
  /** Stops the reader: the loop throws `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

const eventsRules = {
  ...clientRules,
  after: custom((name, after: string) => placeOf(name, after)),
  recordMs: integer(1_000, 86_400_000, 60_000),
  signal,
} satisfies RulesOf<QueueEventsOptions>;

/** Events of the reader object. */
export interface QueueEventReaderEvents {
  /**
   * The server cannot be reached, or rejects a command. The reader tries again until it is closed. An outage emits one error at its start,
   * and one with the code `KIT_RECOVERED` at its end.
   */
  readonly error: readonly [error: KitError];
}

/** The position before all entries. */
const start = "0-0";

/**
 * Reads the events of one queue, from all its producers and workers. Create it with {@link createQueueEvents}. Read it in one `for await`.
 *
 * The queue records events only while there is a reader, and for `recordMs` after that. After a longer time without readers, a new reader
 * receives only events that happen after it has started. Events arrive in the order of the server's changes, each once. A `gap` event
 * reports lost events: the reader was about 10,000 calls behind, there was no reader, or the server lost data.
 */
export class QueueEventReader
  extends TypedEmitter<QueueEventReaderEvents>
  implements AsyncIterable<QueueEvent>, AsyncDisposable
{
  readonly #life: ObjectLife;
  readonly #stream: EventStream;
  readonly #outage: OutageReporter;
  readonly #signal: AbortSignal | undefined;
  /** The last entry that was read. Undefined if reading has not started. */
  #entry: string | undefined;
  /** The last entry that was read should still exist. */
  #isAnchored = true;
  /** The next events are the ones after this place in its entry. */
  #rest: Place | undefined;
  /** The last event was a gap. */
  #hasToldGap = false;
  #isRead = false;

  /** Only this package calls it. */
  constructor(redis: RedisLike, queue: string, options: QueueEventsOptions) {
    super();
    const { after, recordMs, signal: ended, ...shared } = resolve("options", options, eventsRules);
    const keys = queueKeys(shared.prefix, queue);
    assertConnections(redis);
    this.#life = new ObjectLife(redis, shared, `The events of queue ${JSON.stringify(queue)}`);
    const { context, signal: closing } = this.#life;
    this.#stream = new EventStream(context, keys, recordMs, shared.deadlineMs, closing);
    this.#outage = new OutageReporter((error) => this.emit("error", error));
    this.#signal = ended;
    this.#entry = after?.entry;
    this.#rest = after;
    this.#life.onClosed(onAbort(ended, () => void this.close()));
  }

  /**
   * Resolves once events are recorded. The reader misses no later event. The loop does the same when it starts.
   *
   * @throws {KitUnavailableError} no server answered within `deadlineMs`, and every other error of a command.
   * @throws {KitClosedError} the reader is closed.
   */
  async ready(): Promise<void> {
    this.#life.assertOpen();
    const last = await this.#life.track(this.#stream.renew());
    this.#entry ??= last;
  }

  /**
   * If the owner of the client ends the client, the loop throws {@link KitClosedError}.
   *
   * @throws {TypeError} another loop reads it. {@link KitClosedError}: it is closed.
   */
  [Symbol.asyncIterator](): AsyncIterator<QueueEvent, undefined> {
    this.#life.assertOpen();
    if (this.#isRead)
      throw new TypeError("Another loop already reads these events. Open separate events for each loop");
    this.#isRead = true;
    return this.#read();
  }

  /** Ends the loop and the connection immediately. Events are recorded for another `recordMs`. Idempotent. */
  async close(): Promise<void> {
    this.#life.cancel();
    this.#stream.drop();
    await this.#life.close({}, () => Promise.resolve());
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #isEnded(): boolean {
    return this.#life.signal.aborted;
  }

  async *#read(): AsyncGenerator<QueueEvent, undefined> {
    try {
      for (let failures = 0; !this.#isEnded;) {
        const page = await this.#page().catch((reason: unknown) => this.#failed(reason, ++failures));
        if (page.length > 0) failures = 0;
        for (const event of page) {
          yield event;
          if (this.#isEnded) break;
          // A consumer may take longer for a page than events are recorded. A failure shows when the next page is read.
          await this.#stream.renew().catch(() => undefined);
        }
      }
      this.#signal?.throwIfAborted();
      return undefined;
    } finally {
      await this.close();
    }
  }

  async #failed(reason: unknown, failures: number): Promise<readonly QueueEvent[]> {
    this.#stream.drop();
    if (this.#isEnded) return [];
    // kit does not reconnect a client that its owner ended.
    if (this.#life.context.executor.isEnded) throw new KitClosedError("The client of the queue");
    this.#outage.failed("reading", asKitError(reason, "Reading events"));
    await pause(backoffMs(failures + 1, 50, 2_000), this.#life.signal).catch(() => undefined);
    return [];
  }

  /** The next events. Empty if the wait timed out. */
  async #page(): Promise<readonly QueueEvent[]> {
    await this.#stream.connect();
    const last = await this.#stream.renew();
    const after = (this.#entry ??= last ?? start);
    const events: QueueEvent[] = [];
    const tellGap = (): void => void events.push(placed({ type: "gap" }, { entry: after, line: 0, nth: 0 }));
    if (last !== undefined && isBefore(last, after)) {
      // This is another stream, and all of it is new.
      tellGap();
      this.#rest = undefined;
      this.#isAnchored = false;
      this.#entry = start;
    } else if (this.#rest) {
      const place = this.#rest;
      const found = await this.#stream.entry(place.entry);
      this.#rest = undefined;
      this.#isAnchored = found !== undefined;
      if (found) events.push(...eventsOf(found, place));
      else tellGap();
    } else {
      const { entries, isComplete } = await this.#stream.page(after);
      if (this.#isAnchored && !isComplete) tellGap();
      this.#isAnchored = entries.length > 0 || (this.#isAnchored && isComplete);
      this.#entry = entries.at(-1)?.id ?? after;
      events.push(...entries.flatMap((entry) => eventsOf(entry)));
    }
    this.#outage.worked("reading");
    // Two signs of the same gap announce it once.
    return events.filter(({ type }) => {
      const isAgain = type === "gap" && this.#hasToldGap;
      this.#hasToldGap = type === "gap";
      return !isAgain;
    });
  }
}

/**
 * Reads the events of a queue, in any process, while others add and work. `after` replays the events that an earlier reader has not seen.
 *
 * It opens one connection, which waits for events. While there is a reader, each call of a producer or worker that changes something costs
 * the server a little more. Without readers the queue records nothing, and this costs nothing. Events have ids and names, never data or
 * results.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key. `KIT_UNSUPPORTED`: the client has no connections.
 *
 * @example
 * for await (const event of createQueueEvents(redis, "mail", { after: saved })) {
 *   if (event.type === "dead") await alert(event.id);
 *   await save(event.position);
 * }
 */
export const createQueueEvents = (
  redis: RedisLike,
  queue: string,
  options: QueueEventsOptions = {},
): QueueEventReader => new QueueEventReader(redis, queue, options);
