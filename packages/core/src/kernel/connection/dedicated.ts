import {
  type Address,
  destroySocket,
  duplicateNode,
  handshakeMs,
  type NodeClient,
  type RedisLike,
  unrefSocket,
} from "./client.js";
import { addListeners } from "./listeners.js";
import { detached } from "../base/async-context.js";
import { Deadline } from "../base/deadline.js";
import { inTime } from "../base/settle.js";
import { KitClosedError } from "../base/errors.js";
import { backoffMs } from "../base/retry.js";

/** The wait before a kit client reconnects: short at first, randomized, up to 1 s. */
export const reconnectMs = (attempt: number): number => Math.max(20, backoffMs(attempt + 1, 50, 1_000));

/**
 * Destroys a socket that connects but does not become ready. The server or the network went silent during the handshake, and
 * ioredis has no limit for that. Returns a function that stops this.
 */
export const watchHandshake = (connection: NodeClient): (() => void) => {
  let timer: NodeJS.Timeout | undefined;
  const onConnect = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => destroySocket(connection), handshakeMs);
    timer.unref();
  };
  const onSettled = (): void => clearTimeout(timer);
  const stop = addListeners(connection, { connect: onConnect, ready: onSettled, close: onSettled });
  return () => {
    onSettled();
    stop();
  };
};

/**
 * An idle subscriber has no command in flight, so a dead connection would go unnoticed. kit pings it, and it has this many
 * milliseconds to reply.
 */
const answerMs = 2_000;

/**
 * How often a connection is checked. If it received nothing since the last check, it is pinged: an idle one every 10 s.
 */
const lookEveryMs = 5_000;

/** Ends a connection that stays silent while idle: a firewall or NAT has dropped it, or its server has failed. */
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

/** Resolves when `reply` settles, either way. If `ms` pass first, calls `onSilence` and resolves. */
export const answered = async (
  reply: Promise<unknown>,
  onSilence: () => void,
  ms: number = answerMs,
): Promise<void> => {
  if (!(await inTime(Promise.allSettled([reply]), { deadline: Deadline.in(ms) }))) onSilence();
};

/** Events of a dedicated connection. */
export interface DedicatedConnectionEvents {
  /** The connection is ready, perhaps again. The state that the server kept for an earlier connection is lost. */
  readonly ready: (client: NodeClient) => void;
  /** The connection is lost and is being replaced. */
  readonly down: () => void;
}

/**
 * A connection that only listens, separate from the caller's client. It is pinged while idle.
 *
 * It is opened on demand and kept open. If it ends without `close()` or `suspend()`, kit opens another with backoff. On a Cluster
 * that may lead to another node, unless you pass its address. It never keeps a process alive.
 */
export class DedicatedConnection {
  readonly #make: () => NodeClient;
  readonly #events: DedicatedConnectionEvents;
  #client: NodeClient | undefined;
  #timer: NodeJS.Timeout | undefined;
  #attempt = 0;
  #closed = false;

  /** `overrides` are settings of `duplicateNode`. Without an `address`, `client` chooses the node each time. */
  constructor(
    client: RedisLike,
    overrides: Record<string, unknown>,
    events: DedicatedConnectionEvents,
    address?: Address,
  ) {
    // With these settings messages and pings look the same in both majors.
    const settings = { protocol: 2, replyMapping: "legacy", ...overrides };
    this.#make = () => duplicateNode(client, settings, address);
    this.#events = events;
  }

  /** The live connection, or undefined if there is none. */
  get client(): NodeClient | undefined {
    return this.#client?.status === "ready" ? this.#client : undefined;
  }

  /** Starts connecting, unless it is already connecting or connected. */
  open(): void {
    if (this.#closed) throw new KitClosedError("The connection");
    if (!this.#client && !this.#timer) detached(() => this.#connect());
  }

  /** Call this when the connection does its work. It resets the backoff. */
  proven(): void {
    this.#attempt = 0;
  }

  /** Ends the backoff and connects now, because the server may be back. */
  hurry(): void {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    detached(() => this.#connect());
  }

  /** Ends the connection for good. */
  close(): void {
    this.#closed = true;
    this.suspend();
  }

  /** Ends the connection until the next `open()`. */
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
