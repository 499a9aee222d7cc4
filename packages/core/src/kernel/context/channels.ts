import { destroySocket, type NodeClient, type RedisLike } from "../connection/client.js";
import { detachedTimeout } from "../base/async-context.js";
import { isForbidden } from "../base/errors.js";
import { answered, DedicatedConnection } from "../connection/dedicated.js";
import { leadsElsewhere } from "../connection/server-id.js";
import { watchNode } from "../execution/node-watch.js";
import { backoffMs } from "../base/retry.js";

/** Whether messages of a channel arrive now. If subscribing is `forbidden`, listeners have to poll. */
type ChannelState = "open" | "down" | "forbidden";

/** Callbacks of a channel's listener. */
export interface ChannelListener {
  /** A message arrived. It is a hint: other messages may have been lost. */
  readonly message: (text: string) => void;
  /** Called at each change, and whenever messages may have been lost. If you get another `open`, read the state again. */
  readonly state: (state: ChannelState) => void;
}

/** A connection that received something within this time, in milliseconds, counts as alive. */
const aliveMs = 1_000;
/** How long a checked connection has to reply while a waiter depends on it, in milliseconds. */
const answerMs = 1_000;

/**
 * The limits of the pauses between two tries to subscribe if that is forbidden, in milliseconds. The first pause is up to a second;
 * later ones are half a minute on average.
 */
const firstRetryMs = 1_000;
const longestRetryMs = 60_000;

/** ioredis has this method; core needs it only here. */
interface Subscriber extends NodeClient {
  unsubscribe(channel: string): Promise<unknown>;
}

interface Channel {
  readonly listeners: Set<ChannelListener>;
  state: ChannelState;
}

/** What the client's own channel receives. */
interface OwnChannel {
  readonly channel: string;
  /**
   * The connection is ready and subscribed to nothing. `isProven`: whether it leads to the client's server. Undefined if it is only
   * time to subscribe again where that was forbidden.
   */
  readonly ready: (connection: NodeClient, isProven?: Promise<boolean>) => void;
  readonly message: (text: string) => void;
  /** The connection is lost or replaced. No message arrives until it is ready. */
  readonly down: () => void;
}

/**
 * The one connection of a client object that receives messages, and the channels that packages share with other clients. It is
 * replaced when it is silent or leads to another server.
 */
export class Channels extends DedicatedConnection {
  readonly #callersClient: RedisLike;
  readonly #own: OwnChannel;
  readonly #shared = new Map<string, Channel>();
  #checking: Promise<void> | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #refusals = 0;
  /** When the connection last received something (monotonic). */
  #heardAt = -Infinity;

  constructor(client: RedisLike, own: OwnChannel) {
    super(
      client,
      { connectionName: "kit:inbox" },
      { ready: (connection) => this.#ready(connection), down: () => this.#down() },
    );
    this.#callersClient = client;
    this.#own = own;
  }

  get size(): number {
    return this.#shared.size;
  }

  /** Listens to a channel on each connection. Returns a function that stops this. */
  listen(name: string, listener: ChannelListener): () => void {
    let channel = this.#shared.get(name);
    if (!channel) {
      this.#shared.set(
        name,
        (channel = { listeners: new Set(), state: this.#callersClient.isConnectionless ? "forbidden" : "down" }),
      );
      const connection = this.client;
      if (connection) void this.#join(connection, name, channel);
    }
    const { listeners } = channel;
    const own: ChannelListener = { ...listener };
    listeners.add(own);
    if (channel.state !== "down") {
      const { state } = channel;
      queueMicrotask(() => listeners.has(own) && listener.state(state));
    }
    return () => {
      if (!listeners.delete(own) || listeners.size > 0 || this.#shared.get(name)?.listeners !== listeners) return;
      this.#shared.delete(name);
      this.unsubscribe(name);
    };
  }

  /** Subscribes. If that fails, ends the connection, and the next connection tries again. */
  async subscribe(connection: NodeClient, channel: string): Promise<"open" | "forbidden" | "broken"> {
    const subscribed = connection.subscribe(channel);
    await answered(subscribed, () => destroySocket(connection));
    try {
      await subscribed;
    } catch (error) {
      if (isForbidden(error)) return "forbidden";
      destroySocket(connection);
      return "broken";
    }
    this.#heardAt = performance.now();
    return "open";
  }

  unsubscribe(channel: string): void {
    (this.client as Subscriber | undefined)?.unsubscribe(channel).catch(() => undefined);
  }

  /** Resolves with whether the connection leads to the client's server. If not, replaces the connection. */
  async prove(connection: NodeClient, isOlder: boolean): Promise<boolean> {
    const isElsewhere = await leadsElsewhere(connection, this.#callersClient, isOlder);
    if (isElsewhere) this.#replace(connection);
    return !isElsewhere;
  }

  /** Ends the connection's backoff, and replaces a connection to another server. */
  follow(): void {
    this.hurry();
    if (this.client) void this.prove(this.client, true);
  }

  /** Checks a silent connection now, or when it has been silent long enough and `waiting` is not empty. */
  checkSoon(waiting: { readonly size: number }): void {
    const dueMs = this.#heardAt + aliveMs - performance.now();
    if (dueMs <= 0) void this.check();
    else
      this.#checkTimer ??= detachedTimeout(() => {
        this.#checkTimer = undefined;
        if (waiting.size > 0) this.checkSoon(waiting);
      }, dueMs).unref();
  }

  /** Makes sure that the connection is alive, and replaces a silent one. Concurrent calls share one check. */
  check(): Promise<void> {
    this.#checking ??= this.#ping().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /** Retries what is forbidden, because no event announces a permission. A new connection retries by itself. */
  retryLater(): void {
    this.#retryTimer ??= setTimeout(
      () => {
        this.#retryTimer = undefined;
        if (this.client) this.#joinAll(this.client);
      },
      backoffMs(++this.#refusals + 1, firstRetryMs, longestRetryMs),
    ).unref();
  }

  /** Ends the connection until the next `open()`. */
  override suspend(): void {
    clearTimeout(this.#checkTimer);
    clearTimeout(this.#retryTimer);
    this.#checkTimer = this.#retryTimer = undefined;
    this.#down();
    super.suspend();
  }

  #ready(connection: NodeClient): void {
    // Before it subscribes: after that it could not run INFO.
    const isProven = this.prove(connection, false);
    connection.on("end", watchNode(this.#callersClient, connection));
    connection.on("message", (channel, message) => {
      if (typeof message !== "string") return;
      this.#heardAt = performance.now();
      if (channel === this.#own.channel) this.#own.message(message);
      else for (const { message: hear } of this.#shared.get(String(channel))?.listeners ?? []) hear(message);
    });
    this.#joinAll(connection, isProven);
  }

  #replace(connection: NodeClient): void {
    destroySocket(connection);
    this.#down();
  }

  async #ping(): Promise<void> {
    const connection = this.client;
    if (!connection) return;
    const reply = connection.call("PING").then(() => {
      this.#heardAt = performance.now();
    });
    await answered(reply, () => this.#replace(connection), answerMs);
  }

  /** Subscribes to all channels. Without `isProven`, only to those that are forbidden until now. */
  #joinAll(connection: NodeClient, isProven?: Promise<boolean>): void {
    for (const [name, channel] of this.#shared)
      if (isProven || channel.state === "forbidden") void this.#join(connection, name, channel);
    this.#own.ready(connection, isProven);
  }

  async #join(connection: NodeClient, name: string, channel: Channel): Promise<void> {
    const answer = await this.subscribe(connection, name);
    if (answer === "broken" || this.client !== connection || this.#shared.get(name) !== channel) return;
    if (answer === "forbidden") this.retryLater();
    // A failed retry is not reported; another `open` is.
    if (answer === "forbidden" && channel.state === answer) return;
    change(channel, answer);
  }

  #down(): void {
    this.#own.down();
    for (const channel of this.#shared.values()) if (channel.state !== "down") change(channel, "down");
  }
}

const change = (channel: Channel, state: ChannelState): void => {
  channel.state = state;
  for (const listener of [...channel.listeners]) listener.state(state);
};
