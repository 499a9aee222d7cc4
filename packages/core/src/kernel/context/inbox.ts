import { destroySocket, duplicateNode, type NodeClient, type RedisLike } from "../connection/client.js";
import { detachedTimeout } from "../base/async-context.js";
import { type Deadline, onAbort } from "../base/deadline.js";
import { settled } from "../base/settle.js";
import { isForbidden } from "../base/errors.js";
import { answered, DedicatedConnection } from "../connection/dedicated.js";
import { leadsElsewhere } from "../connection/server-id.js";
import { watchNode } from "../execution/node-watch.js";
import { backoffMs } from "../base/retry.js";
import { newToken } from "../base/token.js";

/** Whether messages of a channel arrive now. If subscribing is `forbidden`, listeners have to poll. */
type ChannelState = "open" | "down" | "forbidden";

/** Callbacks of a channel's listener. */
export interface ChannelListener {
  /** A message arrived. It is a hint: other messages may have been lost. */
  readonly message: (text: string) => void;
  /** Called at each change, and whenever messages may have been lost. If you get another `open`, read the state again. */
  readonly state: (state: ChannelState) => void;
}

/** Waiters poll if the connection takes longer than this, in milliseconds. */
const openingMs = 5_000;

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

interface Channel {
  readonly listeners: Set<ChannelListener>;
  state: ChannelState;
}

/** ioredis has this method; core needs it only here. */
interface Subscriber extends NodeClient {
  unsubscribe(channel: string): Promise<unknown>;
}

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
  readonly #client: RedisLike;
  readonly #mayPublish: (channel: string) => Promise<boolean>;
  readonly #dedicated: DedicatedConnection;
  readonly #expected = new Map<string, (payload: string) => void>();
  readonly #resubscribed = new Set<() => void>();
  readonly #opening = new Set<() => void>();
  readonly #channels = new Map<string, Channel>();
  #checking: Promise<void> | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #refusals = 0;
  /** When the connection last received something (monotonic). */
  #heardAt = -Infinity;
  #state: "closed" | "opening" | "open" | "forbidden" = "closed";
  /** Whether the client cannot send now. */
  #isAway = false;
  /** The instant since which it is not open (monotonic). */
  #downAt = -Infinity;

  /** `mayPublish` returns whether this user's scripts may publish to a channel, and count its subscribers. */
  constructor(client: RedisLike, prefix: string, mayPublish: (channel: string) => Promise<boolean>) {
    this.#client = client;
    this.#mayPublish = mayPublish;
    this.channel = `${prefix}:inbox:${newToken()}`;
    const make = (): NodeClient =>
      duplicateNode(client, {
        connectionName: "kit:inbox",
        // With these settings messages and pings look the same in both majors.
        protocol: 2,
        replyMapping: "legacy",
      });
    this.#dedicated = new DedicatedConnection(make, {
      ready: (connection) => void this.#subscribe(connection),
      down: () => this.#down(),
    });
  }

  /** The state for people. Undefined until a package has needed the inbox. */
  get state(): "open" | "forbidden" | "down" | undefined {
    return this.#state === "closed" ? undefined : this.#state === "opening" ? "down" : this.#state;
  }

  /** Whether a message published now would arrive. */
  get isOpen(): boolean {
    return this.#state === "open";
  }

  /** Whether it is about to open, for the first time or again. */
  get isOpening(): boolean {
    if (this.#state === "closed") return true;
    return this.#state === "opening" && performance.now() - this.#downAt < openingMs;
  }

  /** Whether the ACL user may not subscribe or publish, or the client has no connections. Waiters then have to poll. */
  get isForbidden(): boolean {
    return this.#state === "forbidden";
  }

  /** Starts to subscribe, unless it already has. */
  start(): void {
    if (this.#client.isConnectionless) {
      this.#state = "forbidden";
      return;
    }
    if (this.#state === "closed") {
      this.#state = "opening";
      this.#downAt = performance.now();
    }
    this.#dedicated.open();
  }

  /** Resolves once the inbox is subscribed or forbidden, or with false at the deadline. It keeps trying in the background. */
  async open(deadline: Deadline, signal?: AbortSignal): Promise<boolean> {
    if (!this.isOpen && !this.isForbidden) this.start();
    if (this.isOpen || this.isForbidden) return true;
    return await settled<boolean>(
      { deadline },
      ({ resolve }) => resolve(false),
      ({ resolve }) => {
        const look = (): void => resolve(this.isOpen || this.isForbidden);
        this.#opening.add(look);
        const stopListening = onAbort(signal, look);
        return () => {
          this.#opening.delete(look);
          stopListening();
        };
      },
    );
  }

  /** Calls `listener` with each payload for `id`, until `forget(id)`. */
  expect(id: string, listener: (payload: string) => void): void {
    this.#expected.set(id, listener);
  }

  forget(id: string): void {
    this.#expected.delete(id);
  }

  /** Calls `listener` whenever messages may have been lost. Returns a function that removes it. */
  onResubscribed(listener: () => void): () => void {
    this.#resubscribed.add(listener);
    return () => this.#resubscribed.delete(listener);
  }

  /**
   * Listens to another channel on this connection, and on each connection that replaces it. Returns a function that stops this.
   *
   * Calls `listener.state` as soon as it is known whether messages arrive.
   */
  listen(name: string, listener: ChannelListener): () => void {
    this.start();
    let channel = this.#channels.get(name);
    if (!channel) {
      this.#channels.set(
        name,
        (channel = { listeners: new Set(), state: this.#client.isConnectionless ? "forbidden" : "down" }),
      );
      const connection = this.#dedicated.client;
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
      if (!listeners.delete(own) || listeners.size > 0 || this.#channels.get(name)?.listeners !== listeners) return;
      this.#channels.delete(name);
      (this.#dedicated.client as Subscriber | undefined)?.unsubscribe(name).catch(() => undefined);
    };
  }

  /** Call this when a wait starts. A silent connection is checked now, or when it has been silent long enough. */
  checkSoon(): void {
    const dueMs = this.#heardAt + aliveMs - performance.now();
    if (dueMs <= 0) void this.check();
    else
      this.#checkTimer ??= detachedTimeout(() => {
        this.#checkTimer = undefined;
        if (this.#expected.size > 0) this.checkSoon();
      }, dueMs).unref();
  }

  /** Makes sure that the connection is alive, and replaces a silent one. Concurrent calls share one check. */
  check(): Promise<void> {
    this.#checking ??= this.#ping().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /**
   * Call this when the client is connected, or has other nodes. Ends the connection's backoff, and replaces a connection to another
   * server.
   */
  follow(): void {
    if (this.#state === "closed" && this.#channels.size > 0) this.start();
    this.#dedicated.hurry();
    const connection = this.#dedicated.client;
    if (connection) void this.#prove(connection, true);
  }

  /**
   * Call this when the client has lost its connection. It could not return a grant that is pushed to it, so the inbox unsubscribes.
   * On a single server the script then sees that there is no subscriber, and goes on to the next waiter.
   */
  leave(): void {
    this.#isAway = true;
    const connection = this.#dedicated.client as Subscriber | undefined;
    if (!connection || this.#state !== "open" || this.#expected.size === 0) return;
    this.#state = "opening";
    this.#downAt = performance.now();
    connection.unsubscribe(this.channel).catch(() => undefined);
  }

  /** Call this when the client is connected again. */
  comeBack(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    const connection = this.#dedicated.client;
    if (connection && this.#state !== "closed") void this.#enter(connection, this.#prove(connection, true));
  }

  close(): void {
    this.suspend();
    this.#dedicated.close();
  }

  /** Call this when the client was ended. No message arrives until it is connected again and a wait or a listener starts. */
  suspend(): void {
    clearTimeout(this.#checkTimer);
    clearTimeout(this.#retryTimer);
    this.#checkTimer = this.#retryTimer = undefined;
    this.#down();
    this.#state = "closed";
    this.#dedicated.suspend();
    for (const settle of [...this.#opening]) settle();
  }

  async #subscribe(connection: NodeClient): Promise<void> {
    // Before it subscribes: after that it could not run INFO.
    const check = this.#prove(connection, false);
    connection.on("end", watchNode(this.#client, connection, false));
    connection.on("message", (channel, message) => {
      if (typeof message !== "string") return;
      this.#heardAt = performance.now();
      if (channel === this.channel) this.#deliver(message);
      else for (const { message: hear } of this.#channels.get(String(channel))?.listeners ?? []) hear(message);
    });
    for (const [name, channel] of this.#channels) void this.#join(connection, name, channel);
    await this.#enter(connection, check);
  }

  /** Resolves with whether the connection leads to the client's server. If not, replaces the connection. */
  async #prove(connection: NodeClient, isOlder: boolean): Promise<boolean> {
    const isElsewhere = await leadsElsewhere(connection, this.#client, isOlder);
    if (isElsewhere) this.#replace(connection);
    return !isElsewhere;
  }

  #replace(connection: NodeClient): void {
    destroySocket(connection);
    this.#down();
  }

  /** Subscribes to the client's own channel, unless the client is disconnected. */
  async #enter(connection: NodeClient, check: Promise<boolean>): Promise<void> {
    if (this.#isAway) return;
    const [answer, mayPublish, isProven] = await Promise.all([
      subscribe(connection, this.channel),
      this.#mayPublish(this.channel),
      check,
    ]);
    // It was closed, replaced, or left again, while the replies were under way.
    if (answer === "broken" || !isProven || this.#isAway || this.#dedicated.client !== connection) return;
    this.#state = answer === "open" && mayPublish ? "open" : "forbidden";
    if (this.isForbidden) this.#retryLater();
    this.#heardAt = performance.now();
    this.#dedicated.proven();
    for (const settle of [...this.#opening]) settle();
    for (const listener of this.#resubscribed) listener();
  }

  async #join(connection: NodeClient, name: string, channel: Channel): Promise<void> {
    const answer = await subscribe(connection, name);
    if (answer === "broken" || this.#dedicated.client !== connection || this.#channels.get(name) !== channel) return;
    if (answer === "forbidden") this.#retryLater();
    // A try in vain is no news. Another `open` is.
    if (answer === "forbidden" && channel.state === answer) return;
    channel.state = answer;
    for (const { state } of [...channel.listeners]) state(answer);
  }

  /** Retries what is forbidden, because no event announces a permission. A new connection retries by itself. */
  #retryLater(): void {
    this.#retryTimer ??= setTimeout(
      () => {
        this.#retryTimer = undefined;
        const connection = this.#dedicated.client;
        if (!connection) return;
        if (this.isForbidden) void this.#enter(connection, Promise.resolve(true));
        for (const [name, channel] of this.#channels)
          if (channel.state === "forbidden") void this.#join(connection, name, channel);
      },
      backoffMs(++this.#refusals + 1, firstRetryMs, longestRetryMs),
    ).unref();
  }

  async #ping(): Promise<void> {
    const connection = this.#dedicated.client;
    if (!connection) return;
    const reply = connection.call("PING").then(() => {
      this.#heardAt = performance.now();
    });
    await answered(reply, () => this.#replace(connection), answerMs);
  }

  #down(): void {
    if (this.#state === "open") {
      this.#state = "opening";
      this.#downAt = performance.now();
    }
    for (const channel of this.#channels.values()) {
      if (channel.state === "down") continue;
      channel.state = "down";
      for (const { state } of [...channel.listeners]) state("down");
    }
  }

  #deliver(message: string): void {
    const tab = message.indexOf("\t");
    this.#expected.get(message.slice(0, tab))?.(message.slice(tab + 1));
  }
}

/** Subscribes. If that fails, ends the connection, and the next connection tries again. */
const subscribe = async (connection: NodeClient, channel: string): Promise<"open" | "forbidden" | "broken"> => {
  const subscribed = connection.subscribe(channel);
  await answered(subscribed, () => destroySocket(connection));
  const refusal = await subscribed.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (refusal === undefined) return "open";
  if (isForbidden(refusal)) return "forbidden";
  destroySocket(connection);
  return "broken";
};
