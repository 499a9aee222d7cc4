import { destroySocket, handshakeMs, type NodeClient, unrefSocket } from "./client.js";
import { Deadline } from "../base/deadline.js";
import { inTime } from "../base/settle.js";
import { KitClosedError } from "../base/errors.js";
import { backoffMs } from "../base/retry.js";

/** Reconnection of what we own: quick at first, spread out, never slower than 2 s. */
export const reconnectMs = (attempt: number): number => Math.max(20, backoffMs(attempt + 1, 50, 2_000));

/**
 * Destroys a socket that was connected but never became ready: the server, or the way to it, went silent in the
 * handshake, and no limit of ioredis covers that. Returns what takes the watch off.
 */
export const watchHandshake = (connection: NodeClient): (() => void) => {
  let timer: NodeJS.Timeout | undefined;
  const onConnect = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => destroySocket(connection), handshakeMs);
    timer.unref();
  };
  const onSettled = (): void => clearTimeout(timer);
  connection.on("connect", onConnect);
  connection.on("ready", onSettled);
  connection.on("close", onSettled);
  return () => {
    clearTimeout(timer);
    connection.off("connect", onConnect);
    connection.off("ready", onSettled);
    connection.off("close", onSettled);
  };
};

/** Nothing is in flight on an idle subscriber, so that its silence goes unnoticed: it is pinged, and has this long to answer. */
const answerMs = 2_000;

/** How often it is looked at; a connection that received nothing since the last look is pinged. So an idle one is every 10 s. */
const lookEveryMs = 5_000;

/** Ends a connection that is silent while idle: a firewall or a NAT has forgotten it, or its server is gone. */
const keepAlive = (connection: NodeClient): void => {
  let heard: number | undefined;
  const timer = setInterval(() => {
    const received = connection.stream?.bytesRead;
    if (received === heard) void answered(connection.call("PING"), () => destroySocket(connection));
    heard = received;
  }, lookEveryMs);
  timer.unref();
  connection.on("close", () => clearInterval(timer));
};

/** Resolves when `reply` settles, either way; after `ms` without an end `onSilence` is called. */
export const answered = async (
  reply: Promise<unknown>,
  onSilence: () => void,
  ms: number = answerMs,
): Promise<void> => {
  if (!(await inTime(Promise.allSettled([reply]), { deadline: Deadline.in(ms) }))) onSilence();
};

/** Events of a dedicated connection. */
export interface DedicatedConnectionEvents {
  /** Connected, or connected again: whatever state the server kept for the old connection is gone. */
  readonly ready: (client: NodeClient) => void;
  /** The connection is lost; it is being replaced. */
  readonly down: () => void;
}

/**
 * A connection of our own beside the caller's client that listens. While it is idle it is pinged.
 *
 * Opened on demand and kept. When it ends, for whatever reason but our own `close()` or `suspend()`, another is made with
 * back-off: on a Cluster perhaps to another node, since `make` chooses again. It never keeps a process alive.
 */
export class DedicatedConnection {
  readonly #make: () => NodeClient;
  readonly #events: DedicatedConnectionEvents;
  #client: NodeClient | undefined;
  #timer: NodeJS.Timeout | undefined;
  #attempt = 0;
  #closed = false;

  constructor(make: () => NodeClient, events: DedicatedConnectionEvents) {
    this.#make = make;
    this.#events = events;
  }

  /** The live connection; undefined while there is none. */
  get client(): NodeClient | undefined {
    return this.#client?.status === "ready" ? this.#client : undefined;
  }

  /** Starts connecting, if it has not. */
  open(): void {
    if (this.#closed) throw new KitClosedError("The connection");
    if (!this.#client && !this.#timer) this.#connect();
  }

  /** The connection is good for what it is meant for: the next failure counts as the first. */
  proven(): void {
    this.#attempt = 0;
  }

  /** Does not wait any longer to connect: what it waited for may be there now. */
  hurry(): void {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#connect();
  }

  /** Ends it for good. */
  close(): void {
    this.#closed = true;
    this.suspend();
  }

  /** Ends it until the next `open()`. */
  suspend(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const client = this.#client;
    this.#client = undefined;
    client?.disconnect();
    // A half-open link would not let it end by itself.
    if (client) destroySocket(client);
  }

  #connect(): void {
    this.#timer = undefined;
    let client: NodeClient;
    try {
      client = this.#make();
    } catch {
      this.#again();
      return;
    }
    this.#client = client;
    // ioredis prints errors that nobody listens to.
    client.on("error", () => undefined);
    unrefSocket(client);
    const stopWatching = watchHandshake(client);
    client.on("ready", () => {
      if (client !== this.#client) return;
      keepAlive(client);
      this.#events.ready(client);
    });
    client.on("end", () => {
      stopWatching();
      if (client !== this.#client) return;
      this.#client = undefined;
      this.#again();
    });
    client.connect().catch(() => undefined);
  }

  #again(): void {
    if (this.#closed) return;
    this.#events.down();
    this.#timer = setTimeout(() => this.#connect(), reconnectMs(++this.#attempt));
    this.#timer.unref();
  }
}
