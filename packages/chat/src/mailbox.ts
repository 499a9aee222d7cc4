import { Deadline, newToken, resolve, traced } from "@kit/core/toolkit";
import { type Gap, type Message, messageOf } from "./read/message.js";
import { refusal, type TakenMessage } from "./scripts/index.js";
import type { Accepted } from "./send/sender.js";
import type { Watcher } from "./wait/watcher.js";
import { assertDone } from "./commands.js";
import { ChatUnknownError } from "./errors.js";
import { type ResolvedTakeOptions, type SendOptions, type TakeOptions, takeRules } from "./options.js";
import type { ChatStore } from "./store.js";

/** A message of a mailbox, leased to one worker. */
export interface LeasedMessage<Body = unknown> extends Message<Body> {
  /**
   * How many times the message was delivered, including this time. If it is 2 or more, an earlier worker did not finish the message.
   */
  readonly deliveries: number;
  /** Messages right before this message that no worker will receive. */
  readonly gap: Gap | undefined;
  /**
   * Acknowledges the message, so that it is not delivered again. Resolves with false if the lease ended and another worker has the
   * message, or has acknowledged it. Works after the end of the lease as long as no other worker has the message.
   */
  ack(): Promise<boolean>;
  /**
   * Extends the lease to this many milliseconds from now, by default the `leaseMs` of `take`. Resolves with false in the same cases
   * as `ack`.
   */
  extend(leaseMs?: number): Promise<boolean>;
  /** Returns the message, so that the next worker can receive it immediately. Resolves with false in the same cases as `ack`. */
  release(): Promise<boolean>;
}

/** The state of a mailbox, for senders. */
export interface MailboxStats {
  /** Messages that are not acknowledged, including leased ones. */
  readonly length: number;
  /** Messages that are leased to a worker. */
  readonly leased: number;
  /** When the oldest unacknowledged message was sent, in epoch milliseconds; undefined if there is none. */
  readonly oldestAt: number | undefined;
  /** The age of the oldest unacknowledged message, by the server's clock. */
  readonly oldestAgeMs: number | undefined;
  /** When a worker last took, extended, released or acknowledged a message; undefined if never. */
  readonly lastSeenAt: number | undefined;
  readonly lastSeenAgeMs: number | undefined;
}

/** The part of its chat object that a mailbox uses. */
export interface MailboxHost<Body> {
  readonly store: ChatStore;
  readonly watcher: Watcher;
  /** Makes the mailbox, unless there is one. */
  create(): Promise<unknown>;
  send(options: SendOptions<Body>): Promise<Accepted>;
}

/** A waiting worker reads the mailbox this often, so that `lastSeenAt` stays true. */
const longestWaitMs = 30_000;

/**
 * The messages for one recipient, delivered to any number of workers under leases. Create it with `chat.mailbox()`.
 *
 * A mailbox is a chat whose only member has the same name, and to which anyone may send. The chat object's `history`, `inspect` and
 * `delete` work on the mailbox.
 */
export class Mailbox<Body = unknown> {
  readonly name: string;
  readonly #host: MailboxHost<Body>;

  /** For this package only: use `chat.mailbox()`. */
  constructor(name: string, host: MailboxHost<Body>) {
    this.name = name;
    this.#host = host;
  }

  /**
   * Sends a message to the recipient, like `chat.send()`.
   *
   * @throws {ChatTooLargeError | ChatFullError} nothing was sent.
   * @throws every other error of `chat.send()`.
   *
   * @example
   * await chat.mailbox("invoices").send({ from: "shop", body: order, clientId: order.id });
   */
  send(options: SendOptions<Body>): Promise<Accepted> {
    return this.#made(() => this.#host.send(options));
  }

  /**
   * Leases messages to one worker: first messages whose lease has ended, then new messages in order. Resolves with an empty list if
   * there was none within `waitMs`. No other worker receives the leased messages until `leaseMs` have passed on the server. Then
   * they are delivered again, with a higher `deliveries`, until a worker acknowledges them. Up to 1,000 messages of a mailbox are
   * leased at a time.
   *
   * @throws {KitUnavailableError} no server answered in time; no message was leased.
   * @throws {KitUnknownOutcomeError} the reply was lost. Leased messages are delivered again when their leases end.
   * @throws {TypeError | RangeError} an option is invalid.
   * @throws `signal.reason` if `signal` aborts while there is no message. Messages that were already leased are always returned.
   *
   * @example
   * for (const message of await mailbox.take({ limit: 10, waitMs: 60_000 })) {
   *   await handle(message.body);
   *   await message.ack();
   * }
   */
  async take(options: TakeOptions = {}): Promise<LeasedMessage<Body>[]> {
    const { waitMs, signal, ...resolved } = resolve("options", options, takeRules);
    const deadline = Deadline.in(waitMs);
    return await traced("chat.take", this.#facts, async () => {
      for (let positions: readonly string[] | undefined; ;) {
        await this.#host.store.enter(signal);
        const { messages, nextMs } = await this.#made(() => this.#take(resolved));
        const leftMs = Math.min(deadline.remainingMs, nextMs ?? longestWaitMs, longestWaitMs);
        if (messages.length > 0 || deadline.remainingMs <= 0)
          return messages.map((message) => this.#leased(message, resolved));
        // Entries after `positions` end the wait; a further read finds earlier messages.
        const { watcher } = this.#host;
        if (positions) await watcher.waitFor(this.name, positions, Deadline.in(Math.max(1, leftMs)), signal);
        positions = await watcher.positionsFor(this.name, signal);
      }
    });
  }

  /**
   * Reads how many messages wait, for how long, and when a worker last used the mailbox. Returns zero and undefined for a mailbox
   * that was never used.
   *
   * @throws {KitUnavailableError} no server answered in time.
   */
  stats(): Promise<MailboxStats> {
    return traced("chat.mailboxStats", this.#facts, async () => {
      const commands = await this.#host.store.enter();
      const seen = await commands.mailbox(this.name);
      if (seen.code !== refusal.unknown) assertDone(seen.code, this.name, this.name);
      const { length, leased, oldestAt, seenAt, now } = seen;
      const age = (at: number): number | undefined => (at === 0 ? undefined : Math.max(0, now - at));
      return {
        length,
        leased,
        oldestAt: oldestAt || undefined,
        oldestAgeMs: age(oldestAt),
        lastSeenAt: seenAt || undefined,
        lastSeenAgeMs: age(seenAt),
      };
    });
  }

  /** Makes the mailbox if there is none, and repeats the call. */
  async #made<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ChatUnknownError)) throw error;
      await this.#host.create();
      return await call();
    }
  }

  async #take(options: Omit<ResolvedTakeOptions, "waitMs" | "signal">): Promise<{
    readonly nextMs: number | undefined;
    readonly messages: readonly Taken[];
  }> {
    const commands = await this.#host.store.open();
    const token = newToken().replaceAll("-", "").slice(0, 20);
    const { code, nextMs, messages } = await commands.take({ chat: this.name, token, ...options });
    assertDone(code, this.name, this.name);
    return { nextMs, messages: messages.map((message) => ({ ...message, token })) };
  }

  #leased(stored: Taken, { leaseMs }: { readonly leaseMs: number }): LeasedMessage<Body> {
    const { deliveries, gap, token } = stored;
    const message = messageOf<Body>(this.name, stored);
    const { seq } = message;
    const facts = (): object => ({ chat: this.name, seq });
    const settle = (name: string, ms: number): Promise<boolean> =>
      this.#host.store.life.call(`chat.${name}`, facts, () => this.#settle(seq, token, ms));
    return {
      ...message,
      deliveries,
      gap,
      ack: () => settle("ackLeased", -1),
      extend: async (ms = leaseMs) => await settle("extend", takeRules.leaseMs.check("leaseMs", ms)),
      release: () => settle("release", 0),
    };
  }

  async #settle(sequence: number, token: string, leaseMs: number): Promise<boolean> {
    const commands = await this.#host.store.enter();
    const code = await commands.settle(this.name, sequence, token, leaseMs);
    assertDone(code, this.name, this.name);
    return code !== refusal.lease;
  }

  /** The facts of its traces. */
  readonly #facts = (): object => ({ chat: this.name });
}

/** A message and its lease. */
type Taken = TakenMessage & { readonly token: string };
