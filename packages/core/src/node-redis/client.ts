import type { RedisArgument } from "../index.js";
import type { NodeClient } from "../kernel/index.js";
import { Listening } from "./listening.js";
import { decoded, mappings, replyError } from "./replies.js";
import type { NodeRedisClient } from "./types.js";
import { Unwritten } from "./unwritten.js";

/** The error for a command that was never sent. */
export const notSent = (why: string): Error => {
  const error = new Error(why);
  error.name = "NotSentError";
  return error;
};

/** node-redis' messages for a command that it did not accept, or that `Unwritten` took back. */
const refusedByClient = /^The (client is (closed|offline)|command was aborted|queue is full)$/;

/** The server's message on a subscribed connection, with RESP2. */
const isSubscribed = /^ERR Can't execute '.*': only \(P\|S\)SUBSCRIBE/;

/** How long a connection waits for replies in flight before kit leaves it, in milliseconds. */
const leaveMs = 1_000;

const garbledError = (): Error => new Error("node-redis lost some of the replies");

/** Whether it is an error reply to the PING of `pingInterval`. All other replies are then correct. */
const isOfPing = (error: unknown, { options }: NodeRedisClient): boolean =>
  (options?.pingInterval ?? 0) > 0 && error instanceof Error && /^[A-Z]+ /.test(error.message);

type Stream = NonNullable<NodeClient["stream"]>;

/**
 * A node-redis client for one server, as core uses it.
 *
 * node-redis keeps commands that it cannot send for its next connection. This class passes a command to node-redis only while the
 * client is ready. It takes back commands that are not written yet when the connection is lost, so no command runs on a later
 * connection.
 */
export abstract class SingleClient extends Listening implements NodeClient {
  abstract readonly options: NodeClient["options"] & { db: number };
  protected abstract readonly client: NodeRedisClient | undefined;
  readonly #unwritten = new Unwritten();
  #stream: Stream | undefined;
  #streamEpoch = -1;
  protected isUp = false;
  protected hasEnded = false;
  #isLeaving = false;
  #inFlight = 0;
  /** How many replies and messages have arrived: node-redis does not show its socket. */
  #received = 0;
  /** When the last one arrived, and when the first command that is still without a reply was sent (monotonic). */
  #heardAt = -Infinity;
  #askedAt = -Infinity;
  #lastError: unknown;
  /** The connection on which node-redis has lost a part of the replies. Later replies would go to the wrong commands. */
  #garbled: { readonly client: NodeRedisClient; readonly epoch: number } | undefined;
  /** The client that takes unwritten commands back at its next error. */
  #watched: NodeRedisClient | undefined;
  /** Pending calls of `unsubscribe`, by channel. */
  readonly #unsubscribing = new Map<string, Promise<unknown>>();

  abstract connect(): Promise<void>;
  abstract disconnect(): void;
  abstract duplicate(...overrides: never[]): NodeClient;
  /** Ends a silent connection. */
  protected abstract destroy(): void;

  get status(): string {
    const { client } = this;
    if (!client?.isOpen) return this.hasEnded || (client && client.socketEpoch > 0) ? "end" : "wait";
    return client.isReady && !this.#isLeaving && !this.#isGarbled(client, client.socketEpoch) ? "ready" : "connecting";
  }

  /** How long nothing has arrived while a reply is pending, in milliseconds. */
  get silentMs(): number {
    return this.#inFlight === 0 ? 0 : performance.now() - Math.max(this.#heardAt, this.#askedAt);
  }

  /** Null while the client is not ready. */
  get condition(): { select: number } | null {
    return this.status === "ready" ? { select: this.options.db } : null;
  }

  /** A new object for each connection, because core uses it as the key for facts about a server. */
  get stream(): Stream | undefined {
    const { client } = this;
    if (!client?.isOpen) return undefined;
    if (!this.#stream || this.#streamEpoch !== client.socketEpoch) {
      this.#streamEpoch = client.socketEpoch;
      const received = (): number => this.#received;
      this.#stream = {
        destroy: () => this.destroy(),
        unref: () => client.unref(),
        get bytesRead() {
          return received();
        },
      };
    }
    return this.#stream;
  }

  call(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send(command, args, mappings.texts);
  }

  /** Like `call`, but texts in the reply are bytes. */
  callForBytes(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send(command, args, mappings.bytes);
  }

  async subscribe(channel: string): Promise<unknown> {
    // Until the reply, node-redis considers the channel subscribed, and would not subscribe again.
    await this.#unsubscribing.get(channel)?.catch(() => undefined);
    const { client } = this;
    if (!client || this.status !== "ready") throw notSent("The client is not ready");
    try {
      return await client.subscribe(channel, this.#onMessage);
    } catch (error) {
      throw this.#failure(error, client);
    }
  }

  async unsubscribe(channel: string): Promise<unknown> {
    const left = this.client?.unsubscribe(channel);
    if (!left) return undefined;
    this.#unsubscribing.set(channel, left);
    try {
      return await left;
    } finally {
      if (this.#unsubscribing.get(channel) === left) this.#unsubscribing.delete(channel);
    }
  }

  async #send(command: string, args: readonly RedisArgument[], typeMapping: object): Promise<unknown> {
    const { client } = this;
    if (!client || this.status !== "ready") throw notSent("The client is not ready");
    const texts = [command, ...args.map((arg) => (Buffer.isBuffer(arg) ? arg : String(arg)))] as string[];
    const options = { typeMapping, abortSignal: this.#unwritten, timeout: undefined, asap: false } as never;
    const epoch = client.socketEpoch;
    if (this.#inFlight++ === 0) this.#askedAt = performance.now();
    this.#watch(client);
    let reply: unknown;
    try {
      reply = await client.sendCommand(texts, options);
    } catch (error) {
      throw this.#isGarbled(client, epoch) ? garbledError() : this.#failure(error, client);
    } finally {
      if (--this.#inFlight === 0) {
        this.#watch(undefined);
        if (this.#isLeaving) this.disconnect();
      }
    }
    if (this.#isGarbled(client, epoch)) throw garbledError();
    this.#heard();
    if (command === "select") this.moved(Number(args[0]));
    return decoded(reply, typeMapping === mappings.texts);
  }

  /**
   * Converts a command's error to the form that core expects. A rejection while the connection is intact is the server's reply.
   * When the connection is lost, node-redis rejects with the connection's error.
   */
  #failure(error: unknown, client: NodeRedisClient): unknown {
    if (!(error instanceof Error) || error instanceof TypeError) return error;
    if (refusedByClient.test(error.message)) return notSent(error.message);
    if (client !== this.client || !client.isReady || error === this.#lastError) return error;
    // node-redis uses this word for commands that it gives up. Their replies still arrive.
    if (error.message === "") {
      this.#garble(client);
      return error;
    }
    this.#heard();
    if (isSubscribed.test(error.message)) return notSent("The client is in subscriber mode");
    const reply = replyError(error);
    if (!this.#isLeaving && this.options.reconnectOnError?.(reply)) {
      this.#isLeaving = true;
      // The other replies under way may never come.
      setTimeout(() => client === this.client && this.#isLeaving && this.destroy(), leaveMs).unref();
    }
    return reply;
  }

  /** A single function, because node-redis calls every function that it received for a channel. */
  readonly #onMessage = (message: string, channel: string): void => {
    this.#heard();
    this.emit("message", channel, message);
  };

  #heard(): void {
    this.#received++;
    this.#heardAt = performance.now();
  }

  /** kit's listeners on a node-redis client. */
  protected readonly handlers = {
    error: (error: unknown): void => {
      this.#lastError = error;
      if (this.client?.isReady && !isOfPing(error, this.client)) this.#garble(this.client);
      this.report(error);
      this.update();
    },
    connect: (): void => {
      this.hasEnded = false;
      this.emit("connecting");
      this.emit("connect");
    },
    ready: (): void => {
      this.isUp = true;
      this.#isLeaving = false;
      this.emit("ready");
    },
    reconnecting: (): void => this.update(),
    end: (): void => this.update(),
  };

  readonly #takeBack = (): void => this.#unwritten.takeBack();

  /** Runs even if this object has no listener: a call may outlive the last object that listens. */
  #watch(client: NodeRedisClient | undefined): void {
    if (client === this.#watched) return;
    this.#watched?.off("error", this.#takeBack);
    client?.on("error", this.#takeBack);
    this.#watched = client;
  }

  #isGarbled(client: NodeRedisClient, epoch: number): boolean {
    return this.#garbled?.client === client && this.#garbled.epoch === epoch;
  }

  /**
   * Handles an error on an intact connection. node-redis has dropped data that it could not decode, or that a listener threw at.
   * After that, it gives replies to the wrong commands, both the owner's and kit's. So kit ends the connection, even the owner's.
   */
  #garble(client: NodeRedisClient): void {
    this.#garbled = { client, epoch: client.socketEpoch };
    this.dropped();
    this.destroy();
    if (client.isReady) client.sendCommand(["QUIT"]).catch(() => undefined);
  }

  /** Reports that the connection is lost, or that the client has ended. */
  protected update(): void {
    const isOpen = this.client?.isOpen === true;
    if (!isOpen || !this.client?.isReady) this.dropped();
    if (!isOpen) this.ended();
  }

  protected dropped(): void {
    this.#unwritten.takeBack();
    this.#stream = undefined;
    if (this.isUp) this.emit("close");
    this.isUp = false;
  }

  /** The client moved to another database. As with ioredis, kit's other connections for this client follow. */
  protected moved(db: number): void {
    this.emit("select", db);
  }

  protected ended(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.#isLeaving = false;
    this.emit("end");
  }

  /** Call this for a client that may already be connected. */
  protected begin(): void {
    this.isUp = this.client?.isReady === true;
    this.hasEnded = this.status === "end";
  }
}
