import { destroySocket, handshakeMs, type NodeClient, unrefSocket } from "./client.js";
import { detached } from "../base/async-context.js";
import { Deadline } from "../base/deadline.js";
import { inTime } from "../base/settle.js";
import { KitClosedError } from "../base/errors.js";
import { backoffMs } from "../base/retry.js";

/** Reconnection of owned clients: quick at first, spread out, never slower than 2 s. */
export const reconnectMs = (attempt: number): number => Math.max(20, backoffMs(attempt + 1, 50, 2_000));

/**
 * Destroys a socket that was connected but never became ready: the server, or the network, went silent in the handshake, and no
 * limit of ioredis covers that. Returns a function that ends the watch.
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

/**
 * An idle subscriber has no command in flight, so a dead connection would go unnoticed. It is pinged, and has this long to
 * reply.
 */
const answerMs = 2_000;

/** How often it is checked; a connection that received nothing since the last check is pinged: an idle one every 10 s. */
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

/** Resolves when `reply` settles, either way. After `ms` without that, `onSilence` is called. */
export const answered = async (
  reply: Promise<unknown>,
  onSilence: () => void,
  ms: number = answerMs,
): Promise<void> => {
  if (!(await inTime(Promise.allSettled([reply]), { deadline: Deadline.in(ms) }))) onSilence();
};

/** Events of a dedicated connection. */
export interface DedicatedConnectionEvents {
  /** Connected, perhaps again: the state that the server kept for the old connection is gone. */
  readonly ready: (client: NodeClient) => void;
  /** The connection is lost; it is being replaced. */
  readonly down: () => void;
}

/**
 * A connection that only listens, beside the caller's client. While it is idle it is pinged.
 *
 * It is opened on demand and kept. When it ends, except by `close()` or `suspend()`, another is made with back-off: on a
 * Cluster perhaps to another node, since `make` chooses again. It never keeps a process alive.
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
    if (!this.#client && !this.#timer) detached(() => this.#connect());
  }

  /** The connection serves its purpose: the next failure counts as the first. */
  proven(): void {
    this.#attempt = 0;
  }

  /** Ends the back-off and connects now: the server may be back. */
  hurry(): void {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    detached(() => this.#connect());
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
    // A half-open link would never end by itself.
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
    // ioredis prints errors that have no listener.
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
