import { type ClientContext, Deadline, type ExclusiveConnection, reading } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";
import type { Entry } from "./event.js";
import { listen } from "./scripts/index.js";

/** The maximum wait for events, in milliseconds. */
const longestWaitMs = 10_000;
/** A connection that is silent for this much longer than its wait counts as dead. */
const graceMs = 2_000;
/** The maximum number of entries in a page. An entry has up to about 4 KiB. */
const pageSize = 100;

/** A page of the stream. */
export interface Page {
  readonly entries: readonly Entry[];
  /** The entry from which the page was read still exists, so no entry in between was trimmed. */
  readonly isComplete: boolean;
}

type RawEntry = readonly [id: string, fields: readonly string[]];
const entryOf = ([id, fields]: RawEntry): Entry => ({ id, text: fields[1] ?? "" });

/** The entries in a reply of XREAD: `[[key, entries]]` in RESP2, `[key, entries]` in RESP3. */
const entriesOf = (reply: unknown): readonly RawEntry[] => {
  const [first, second] = (reply ?? []) as readonly unknown[];
  const entries = Array.isArray(first) ? (first[1] as unknown) : second;
  return (entries ?? []) as readonly RawEntry[];
};

/** The recorded events of a queue, read on a dedicated connection. */
export class EventStream {
  readonly #context: ClientContext;
  readonly #keys: QueueKeys;
  readonly #recordMs: number;
  readonly #deadlineMs: number;
  readonly #signal: AbortSignal;
  #connection: ExclusiveConnection | undefined;
  #renewAt = -Infinity;

  constructor(context: ClientContext, keys: QueueKeys, recordMs: number, deadlineMs: number, signal: AbortSignal) {
    this.#context = context;
    this.#keys = keys;
    this.#recordMs = recordMs;
    this.#deadlineMs = deadlineMs;
    this.#signal = signal;
  }

  /**
   * Extends the recording of events to `recordMs` from now, if a third of `recordMs` is over, or if another server may have the queue.
   * Resolves with the id of the last entry, or with undefined if this was not due.
   */
  async renew(): Promise<string | undefined> {
    const now = performance.now();
    if (now < this.#renewAt) return undefined;
    const options = { deadlineMs: this.#deadlineMs, signal: this.#signal };
    const last = await listen.run(this.#context, this.#keys, { recordMs: this.#recordMs }, options);
    this.#renewAt = now + this.#recordMs / 3;
    return last;
  }

  /** Connects if there is no connection. `renew()` is then due. */
  async connect(): Promise<void> {
    if (this.#connection?.isBroken) this.drop();
    if (this.#connection) return;
    const pool = this.#context.pool("queue-events", 1_000);
    const connection = await pool.checkOut(this.#keys.events, Deadline.in(this.#deadlineMs), this.#signal);
    this.#connection = connection;
    await connection.executor.ready(reading("Reading events", Deadline.in(this.#deadlineMs), this.#signal));
    this.#renewAt = -Infinity;
  }

  /** Reads the entries that follow the entry `after`. If there are none, waits until `renew()` is due. */
  async page(after: string): Promise<Page> {
    const waitMs = Math.ceil(Math.min(longestWaitMs, Math.max(1, this.#renewAt - performance.now())));
    const { events } = this.#keys;
    const wait = ["COUNT", String(pageSize), "BLOCK", String(waitMs), "STREAMS", events, after];
    // Both are sent in one turn of the event loop, so the second runs directly after the first.
    const [found, former] = await Promise.all([
      this.#call("XREAD", wait, waitMs + graceMs),
      this.#call("XRANGE", [events, after, after], waitMs + graceMs),
    ]);
    return { entries: entriesOf(found).map(entryOf), isComplete: (former as readonly unknown[]).length > 0 };
  }

  /** Reads one entry. Undefined if it no longer exists. */
  async entry(id: string): Promise<Entry | undefined> {
    const [found] = (await this.#call("XRANGE", [this.#keys.events, id, id], graceMs)) as readonly RawEntry[];
    return found && entryOf(found);
  }

  /** Ends the connection, and any wait on it. */
  drop(): void {
    this.#connection?.returnToPool(false);
    this.#connection = undefined;
  }

  async #call(command: string, args: readonly string[], deadlineMs: number): Promise<unknown> {
    const connection = this.#connection;
    if (!connection) throw new Error("Not connected");
    try {
      return await connection.call(command, args, deadlineMs);
    } catch (error) {
      connection.misrouted((error as Error).message);
      throw error;
    }
  }
}
