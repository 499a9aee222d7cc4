import type { RedisArgument } from "../index.js";
import type { NodeClient } from "../toolkit/index.js";
import { Listening } from "./listening.js";
import { decoded, mappings, replyError } from "./replies.js";
import type { NodeRedisClient } from "./types.js";
import { Unwritten } from "./unwritten.js";

/** The error of a command that never left. */
export const notSent = (why: string): Error => {
  const error = new Error(why);
  error.name = "NotSentError";
  return error;
};

/** node-redis' words for a command that it did not take, or that `Unwritten` took back. */
const refusedByClient = /^The (client is (closed|offline)|command was aborted|queue is full)$/;

/** The server's words on a connection that is subscribed, with RESP2. */
const isSubscribed = /^ERR Can't execute '.*': only \(P\|S\)SUBSCRIBE/;

/** How long a connection that is to be left waits for the replies under way. */
const leaveMs = 1_000;

const garbledError = (): Error => new Error("node-redis has lost a part of the replies");

/** An error reply to the PING of `pingInterval`: all other replies are right. */
const isOfPing = (error: unknown, { options }: NodeRedisClient): boolean =>
  (options?.pingInterval ?? 0) > 0 && error instanceof Error && /^[A-Z]+ /.test(error.message);

type Stream = NonNullable<NodeClient["stream"]>;

/**
 * A client of node-redis for one server, as core uses it.
 *
 * node-redis keeps commands that it cannot send for its next connection. Here a command is handed to it only while it is ready, and one
 * that is not written when the connection is lost is taken back: no command runs on a later connection.
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
  /** Replies and messages so far: node-redis does not show its socket. */
  #received = 0;
  /** When the last one came, and when the first of the commands without a reply was sent (monotonic). */
  #heardAt = -Infinity;
  #askedAt = -Infinity;
  #lastError: unknown;
  /** The connection on which node-redis has lost a part of the replies: later ones would go to the wrong commands. */
  #garbled: { readonly client: NodeRedisClient; readonly epoch: number } | undefined;
  /** The client that takes unwritten commands back at its next error. */
  #watched: NodeRedisClient | undefined;
  /** Calls of `unsubscribe` under way, by channel. */
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

  /** For how long nothing has come while a reply is awaited, in milliseconds. */
  get silentMs(): number {
    return this.#inFlight === 0 ? 0 : performance.now() - Math.max(this.#heardAt, this.#askedAt);
  }

  /** There is no live condition to ask for while it is not ready. */
  get condition(): { select: number } | null {
    return this.status === "ready" ? { select: this.options.db } : null;
  }

  /** Another object for each connection, since core keeps facts about a server by it. */
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

  /** `call`, with the texts of the reply as bytes. */
  callForBytes(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send(command, args, mappings.bytes);
  }

  async subscribe(channel: string): Promise<unknown> {
    // Until the reply node-redis takes the channel for subscribed, and would not subscribe again.
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
   * The error of a command as core knows it. What rejects while the connection stands is the server's reply: node-redis rejects with the
   * error of the connection when that is lost.
   */
  #failure(error: unknown, client: NodeRedisClient): unknown {
    if (!(error instanceof Error) || error instanceof TypeError) return error;
    if (refusedByClient.test(error.message)) return notSent(error.message);
    if (client !== this.client || !client.isReady || error === this.#lastError) return error;
    // node-redis' own word for commands that it gives up, whose replies still come.
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

  /** One function: node-redis calls each that it was given for a channel. */
  readonly #onMessage = (message: string, channel: string): void => {
    this.#heard();
    this.emit("message", channel, message);
  };

  #heard(): void {
    this.#received++;
    this.#heardAt = performance.now();
  }

  /** Our listeners on a client of node-redis. */
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

  /** Also while nobody listens to us: a call may outlive the last object that does. */
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
   * An error of a connection that stands: node-redis has dropped what it could not decode, or what a listener threw at, and from now on
   * gives replies to the wrong commands, the owner's as well as ours. So the connection ends, also the owner's.
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

  /** It works in another database. As with ioredis, what works beside it follows. */
  protected moved(db: number): void {
    this.emit("select", db);
  }

  protected ended(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.#isLeaving = false;
    this.emit("end");
  }

  /** Of a client that is connected already. */
  protected begin(): void {
    this.isUp = this.client?.isReady === true;
    this.hasEnded = this.status === "end";
  }
}
