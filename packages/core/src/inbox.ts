import { destroySocket, duplicateNode, type NodeClient, type RedisLike } from "./client.js";
import { atDeadline, Deadline, onAbort } from "./deadline.js";
import { Lane } from "./lane.js";
import { newToken } from "./token.js";

/** A silent subscriber connection would never be noticed: nothing is in flight on it. So it is pinged, this long. */
const answerMs = 2_000;

const forbidden = /^(ReplyError: )?(NOPERM|ERR unknown command)/;

/**
 * One pushed channel for one client object, subscribed once and kept.
 *
 * Messages are `id TAB payload`; who expects something registers its id. A push is a hint: it can be lost with the
 * connection, and then `onResubscribed` tells everybody who waits to look at the state instead.
 */
export class Inbox {
  /** The channel that scripts publish to. */
  readonly channel: string;
  readonly #mayPublish: (channel: string) => Promise<boolean>;
  readonly #lane: Lane;
  readonly #expected = new Map<string, (payload: string) => void>();
  readonly #resubscribed = new Set<() => void>();
  readonly #opening = new Set<() => void>();
  #checking: Promise<void> | undefined;
  #state: "closed" | "opening" | "open" | "forbidden" = "closed";

  /** `mayPublish` says whether scripts of this user may publish to a channel; asked once, on the command connection. */
  constructor(client: RedisLike, prefix: string, mayPublish: (channel: string) => Promise<boolean>) {
    this.#mayPublish = mayPublish;
    this.channel = `${prefix}:inbox:${newToken()}`;
    const make = (): NodeClient =>
      duplicateNode(client, {
        connectionName: "kit:inbox",
        // Messages and pings look the same in both majors then.
        protocol: 2,
      });
    this.#lane = new Lane(make, {
      ready: (connection) => void this.#subscribe(connection),
      down: () => this.#down(),
    });
  }

  /** For people: undefined while nothing has needed it. */
  get state(): "open" | "forbidden" | "down" | undefined {
    return this.#state === "closed" ? undefined : this.#state === "opening" ? "down" : this.#state;
  }

  /** Whether a message published now would arrive. */
  get isOpen(): boolean {
    return this.#state === "open";
  }

  /** Whether the server does not let us subscribe or publish: then whoever waits has to ask again and again. */
  get isForbidden(): boolean {
    return this.#state === "forbidden";
  }

  /** Resolves once subscribed (or forbidden to), or with false at the deadline; goes on trying behind. */
  async open(deadline: Deadline, signal?: AbortSignal): Promise<boolean> {
    if (this.isOpen || this.isForbidden) return true;
    if (this.#state === "closed") this.#state = "opening";
    this.#lane.open();
    return await new Promise((resolve) => {
      const settle = (): void => {
        this.#opening.delete(settle);
        cancelDeadline();
        stopListening();
        resolve(this.isOpen || this.isForbidden);
      };
      this.#opening.add(settle);
      const cancelDeadline = atDeadline(deadline, settle);
      const stopListening = onAbort(signal, () => queueMicrotask(settle));
    });
  }

  /** Calls `listener` with each payload for `id`, until `forget(id)`. */
  expect(id: string, listener: (payload: string) => void): void {
    this.#expected.set(id, listener);
  }

  forget(id: string): void {
    this.#expected.delete(id);
  }

  /** Calls `listener` whenever messages may have been lost. Returns what takes it off. */
  onResubscribed(listener: () => void): () => void {
    this.#resubscribed.add(listener);
    return () => this.#resubscribed.delete(listener);
  }

  /** Makes sure that the connection is alive; a silent one is replaced. Asked by several at once, it looks once. */
  check(): Promise<void> {
    this.#checking ??= this.#ping().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  close(): void {
    this.#state = "closed";
    this.#lane.close();
    for (const settle of [...this.#opening]) settle();
  }

  async #subscribe(connection: NodeClient): Promise<void> {
    connection.on("message", (channel, message) => {
      if (channel === this.channel && typeof message === "string") this.#deliver(message);
    });
    const subscribed = connection.subscribe(this.channel);
    await answered(subscribed, () => destroySocket(connection));
    const refusal = await subscribed.then(() => undefined, String);
    if (refusal !== undefined && !forbidden.test(refusal)) {
      destroySocket(connection);
      return;
    }
    const isAllowed = refusal === undefined && (await this.#mayPublish(this.channel));
    // Closed, or replaced, while the answers were under way.
    if (this.#lane.client !== connection) return;
    this.#state = isAllowed ? "open" : "forbidden";
    this.#lane.proven();
    for (const settle of [...this.#opening]) settle();
    for (const listener of this.#resubscribed) listener();
  }

  async #ping(): Promise<void> {
    const connection = this.#lane.client;
    if (!connection || !this.isOpen) return;
    await answered(connection.call("PING"), () => {
      destroySocket(connection);
      this.#down();
    });
  }

  #down(): void {
    if (this.#state === "open") this.#state = "opening";
  }

  #deliver(message: string): void {
    const tab = message.indexOf("\t");
    this.#expected.get(message.slice(0, tab))?.(message.slice(tab + 1));
  }
}

/** Resolves when `reply` settles, either way; a connection that gives none is reported as silent, once. */
const answered = (reply: Promise<unknown>, onSilence: () => void): Promise<void> =>
  new Promise((resolve) => {
    const settle = (): void => {
      cancel();
      resolve();
    };
    const cancel = atDeadline(Deadline.in(answerMs), () => {
      onSilence();
      resolve();
    });
    reply.then(settle, settle);
  });
