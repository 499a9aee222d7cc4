import type { KitError } from "../index.js";
import { asKitError, backoffMs } from "../toolkit/index.js";
import type { ConfigCommands } from "./commands.js";
import { isAboutValue } from "./errors.js";
import type { StoredEntry } from "./scripts.js";

/** How long to wait for the subscription before the first read, in milliseconds. */
const graceMs = 500;
/**
 * The pauses between failed tries, in milliseconds. They are short in an outage, because a Cluster does not announce recovered
 * slots.
 */
const retryBaseMs = 100;
const outageCapMs = 1_000;
const refusalCapMs = 5_000;

/** Receives the results of an EntryReader. */
interface ReadListener {
  /**
   * The entry as the server had it at `sentAt` (monotonic) or later. Undefined if there is none. A rejection counts as a failed
   * read.
   */
  take(entry: StoredEntry | undefined, sentAt: number): Promise<void>;
  /** A read failed. */
  failed(error: KitError): void;
  /** The connection or the subscription is lost. Changes may be missed from now on. */
  lost(why: string): void;
}

/**
 * Reads an entry after each push, each reconnection and each poll, until its object is closed. Only one read runs at a time; a
 * request during a read causes another read after it. A failed read is retried with backoff, unless the entry itself is the
 * problem.
 */
export class EntryReader {
  readonly #commands: ConfigCommands;
  readonly #listener: ReadListener;
  #isListening = false;
  #isReading = false;
  #isWanted = false;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #retryCapMs = outageCapMs;

  constructor(commands: ConfigCommands, listener: ReadListener) {
    this.#commands = commands;
    this.#listener = listener;
    const { executor, inbox } = commands.context;
    commands.life.onClosed(
      inbox.listen(commands.channel, {
        message: () => this.want(),
        state: (state) => {
          this.#isListening = state !== "down";
          if (this.#isListening) this.want();
          else listener.lost("the subscription was lost");
        },
      }),
      executor.onReady(() => {
        // The client may have reached another server, while the subscription still leads to the old one.
        void inbox.check();
        this.want();
      }),
      executor.onDrop(() => {
        listener.lost("the connection was lost");
        this.want();
      }),
    );
    this.#readIn(Math.min(graceMs, commands.settings.deadlineMs / 2));
  }

  /** Whether the subscription is active. Also true if subscribing is forbidden, because only polling is possible then. */
  get isListening(): boolean {
    return this.#isListening;
  }

  /** Whether another read was requested since the last one was sent. */
  get isWanted(): boolean {
    return this.#isWanted;
  }

  /** Requests a read. */
  want(): void {
    if (this.#commands.life.isClosed) return;
    this.#isWanted = true;
    if (!this.#isReading) void this.#read();
  }

  /** Ends the polling. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    this.stop();
    const { life, name } = this.#commands;
    const { deadlineMs, pollMs, longestPollMs } = this.#commands.settings;
    while (this.#isWanted && !life.isClosed) {
      this.#isWanted = false;
      const sentAt = performance.now();
      try {
        const entry = await this.#commands.read({ deadlineMs, signal: life.signal });
        if (!life.isClosed) await this.#listener.take(entry, sentAt);
        this.#failures = 0;
      } catch (cause) {
        if (!life.isClosed) this.#failed(asKitError(cause, `Reading configuration ${JSON.stringify(name)}`));
      }
    }
    this.#isReading = false;
    if (life.isClosed) return;
    const retryMs = retryBaseMs / 2 + backoffMs(this.#failures + 1, retryBaseMs, this.#retryCapMs);
    const nextMs = this.#failures > 0 ? Math.min(retryMs, pollMs) : pollMs * (0.5 + Math.random());
    this.#readIn(Math.min(nextMs, longestPollMs));
  }

  #failed(error: KitError): void {
    if (!isAboutEntry(error)) this.#failures++;
    this.#retryCapMs = error.retryable ? outageCapMs : refusalCapMs;
    this.#listener.failed(error);
  }

  #readIn(ms: number): void {
    this.stop();
    this.#timer = setTimeout(() => {
      // Only an unanswered PING shows that a subscription is dead.
      if (this.#isListening) void this.#commands.context.inbox.check();
      this.want();
    }, ms);
    // A process with nothing else to do may exit.
    this.#timer.unref();
  }
}

/** Errors about the stored entry, which retrying does not fix. */
export const isAboutEntry = (error: KitError): boolean =>
  isAboutValue(error) || error.code === "KIT_LAYOUT" || error.code === "KIT_KEY_TYPE";
