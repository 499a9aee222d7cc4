import type { NodeClient, RedisLike } from "../connection/client.js";
import { Listeners } from "../base/listeners.js";
import { newToken } from "../base/token.js";
import { type ChannelListener, Channels } from "./channels.js";

/** Waiters poll if the connection takes longer than this, in milliseconds. */
const openingMs = 5_000;

/**
 * The channel of one client object, subscribed once and kept. The same connection carries the channels that packages share with
 * other clients (`listen`).
 *
 * Messages on the client's own channel are `id TAB payload`; a listener registers its id. A push is a hint: it can be lost with the
 * connection. `onResubscribed` then makes every waiter read the state instead.
 */
export class Inbox {
  /** The channel that scripts publish to. */
  readonly channel: string;
  readonly #isConnectionless: boolean;
  readonly #mayPublish: (channel: string) => Promise<boolean>;
  readonly #channels: Channels;
  readonly #expected = new Map<string, (payload: string) => void>();
  readonly #resubscribed = new Listeners();
  #state: "open" | "forbidden" | "down" | undefined;
  /** Whether the client cannot send now. */
  #isAway = false;
  /** The instant since which it is not open (monotonic). */
  #downAt = -Infinity;

  /** `mayPublish` returns whether this user's scripts may publish to a channel, and count its subscribers. */
  constructor(client: RedisLike, prefix: string, mayPublish: (channel: string) => Promise<boolean>) {
    this.#isConnectionless = client.isConnectionless === true;
    this.#mayPublish = mayPublish;
    this.channel = `${prefix}:inbox:${newToken()}`;
    this.#channels = new Channels(client, {
      channel: this.channel,
      ready: (connection, isProven) => {
        if (isProven || this.isForbidden) void this.#enter(connection, isProven ?? true);
      },
      message: (text) => {
        const tab = text.indexOf("\t");
        this.#expected.get(text.slice(0, tab))?.(text.slice(tab + 1));
      },
      down: () => {
        if (this.isOpen) this.#lose();
      },
    });
  }

  /** The state for people. Undefined until a package has needed the inbox. */
  get state(): "open" | "forbidden" | "down" | undefined {
    return this.#state;
  }

  /** Whether a message published now would arrive. */
  get isOpen(): boolean {
    return this.#state === "open";
  }

  /** Whether it is about to open, for the first time or again. */
  get isOpening(): boolean {
    return !this.#state || (this.#state === "down" && performance.now() - this.#downAt < openingMs);
  }

  /** Whether the ACL user may not subscribe or publish, or the client has no connections. Waiters then have to poll. */
  get isForbidden(): boolean {
    return this.#state === "forbidden";
  }

  /** Starts to subscribe, unless it already has. */
  start(): void {
    if (this.#isConnectionless) {
      this.#state = "forbidden";
      return;
    }
    if (!this.#state) this.#lose();
    this.#channels.open();
  }

  /** Calls `listener` with each payload for `id`, until `forget(id)`. */
  expect(id: string, listener: (payload: string) => void): void {
    this.#expected.set(id, listener);
  }

  forget(id: string): void {
    this.#expected.delete(id);
  }

  /** Calls `listener` whenever messages may have been lost. Returns a function that removes it. */
  readonly onResubscribed = this.#resubscribed.add;

  /**
   * Listens to another channel on this connection, and on each connection that replaces it. Returns a function that stops this.
   *
   * Calls `listener.state` as soon as it is known whether messages arrive.
   */
  listen(name: string, listener: ChannelListener): () => void {
    this.start();
    return this.#channels.listen(name, listener);
  }

  /** Call this when a wait starts. A silent connection is checked now, or when it has been silent long enough. */
  checkSoon(): void {
    this.#channels.checkSoon(this.#expected);
  }

  /** Makes sure that the connection is alive, and replaces a silent one. Concurrent calls share one check. */
  check(): Promise<void> {
    return this.#channels.check();
  }

  /**
   * Call this when the client is connected, or has other nodes. Ends the connection's backoff, and replaces a connection to another
   * server.
   */
  follow(): void {
    if (!this.#state && this.#channels.size > 0) this.start();
    this.#channels.follow();
  }

  /**
   * Call this when the client has lost its connection. It could not return a grant that is pushed to it, so the inbox unsubscribes.
   * On a single server the script then sees that there is no subscriber, and goes on to the next waiter.
   */
  leave(): void {
    this.#isAway = true;
    if (!this.isOpen || this.#expected.size === 0) return;
    this.#lose();
    this.#channels.unsubscribe(this.channel);
  }

  /** Call this when the client is connected again. */
  comeBack(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    const { client } = this.#channels;
    if (client && this.#state) void this.#enter(client, this.#channels.prove(client, true));
  }

  close(): void {
    this.suspend();
    this.#channels.close();
  }

  /** Call this when the client was ended. No message arrives until it is connected again and a wait or a listener starts. */
  suspend(): void {
    this.#channels.suspend();
    this.#state = undefined;
  }

  /** Subscribes to the client's own channel, unless the client is disconnected. */
  async #enter(connection: NodeClient, isProven: boolean | Promise<boolean>): Promise<void> {
    if (this.#isAway) return;
    const [answer, mayPublish, leadsHere] = await Promise.all([
      this.#channels.subscribe(connection, this.channel),
      this.#mayPublish(this.channel),
      isProven,
    ]);
    // It was closed, replaced, or left again, while the replies were under way.
    if (answer === "broken" || !leadsHere || this.#isAway || this.#channels.client !== connection) return;
    this.#state = answer === "open" && mayPublish ? "open" : "forbidden";
    if (this.isForbidden) this.#channels.retryLater();
    this.#channels.proven();
    this.#resubscribed.call();
  }

  #lose(): void {
    this.#state = "down";
    this.#downAt = performance.now();
  }
}
