import { KitUnavailableError } from "../index.js";
import { SingleClient } from "./client.js";
import { listenTo } from "./listening.js";
import { notForThreads, type Overrides, serverOf } from "./options.js";
import { OwnClient, type Owner } from "./own.js";
import type { NodeRedisClient, NodeRedisSentinel } from "./types.js";

/** A member that node-redis' types leave out. Both majors have it. It runs a function with the client for the master. */
interface Internals {
  _execute(isReadonly: boolean, run: (client: NodeRedisClient) => Promise<NodeRedisClient>): Promise<NodeRedisClient>;
}

/**
 * A node-redis Sentinel client as core uses it: its client for the master, and after a failover its new client.
 *
 * Commands go directly to that client. The Sentinel client's `sendCommand` would resend a command whose reply was lost.
 */
export class SentinelClient extends SingleClient implements Owner {
  readonly options: SingleClient["options"] = { ...notForThreads, db: 0 };
  protected client: NodeRedisClient | undefined;
  readonly #sentinel: NodeRedisSentinel & Internals;
  #stopListening: (() => void) | undefined;
  #following: Promise<void> | undefined;
  #hasBeenReady = false;

  constructor(sentinel: NodeRedisSentinel) {
    super();
    this.#sentinel = sentinel as NodeRedisSentinel & Internals;
  }

  override get status(): string {
    if (!this.#sentinel.isOpen) return this.#hasBeenReady ? "end" : "wait";
    return this.client?.isOpen ? super.status : "connecting";
  }

  get template(): NodeRedisClient {
    if (!this.client)
      throw new KitUnavailableError("No master of the Sentinels is known: the connection was not opened", "the master");
    return this.client;
  }

  async prepare(): Promise<void> {
    if (this.client) return;
    if (this.status === "wait") await this.connect();
    else await this.#follow();
  }

  async connect(): Promise<void> {
    this.emit("connecting");
    await this.#sentinel.connect();
    await this.#follow();
  }

  disconnect(): void {
    this.#sentinel.destroy().catch(() => undefined);
  }

  override duplicate(overrides: Overrides = {}): OwnClient {
    return new OwnClient(this, overrides);
  }

  /** Does nothing: kit never ends the caller's connection. */
  protected destroy(): void {}

  /** Called when the client for the master is lost. The Sentinel client then makes another. */
  protected override update(): void {
    if (!this.client?.isReady) this.dropped();
    // While it ends, the Sentinel client still counts as open.
    setImmediate(() => {
      if (this.#sentinel.isOpen) void this.#follow();
      else this.ended();
    });
  }

  protected listen(): () => void {
    const stop = listenTo(this.#sentinel, {
      error: (error: unknown) => this.report(error),
      "topology-change": ({ type }: { type: string }) => {
        if (type === "MASTER_CHANGE") void this.#follow();
      },
      end: () => this.update(),
    });
    if (this.#sentinel.isOpen) void this.#follow();
    return () => {
      stop();
      this.#stopListening?.();
      this.#stopListening = undefined;
      this.client = undefined;
    };
  }

  #follow(): Promise<void> {
    this.#following ??= this.#sentinel
      ._execute(false, (client) => Promise.resolve(client))
      .then(
        (client) => this.#take(client),
        (error: unknown) => {
          this.report(error);
          if (!this.#sentinel.isOpen && this.#hasBeenReady) this.ended();
        },
      )
      .finally(() => (this.#following = undefined));
    return this.#following;
  }

  #take(client: NodeRedisClient): void {
    if (!this.isListening || (client === this.client && client.isReady && this.isUp)) return;
    this.dropped();
    this.#stopListening?.();
    this.client = client;
    this.#stopListening = listenTo(client, this.handlers);
    Object.assign(this.options, serverOf(client), { db: client.options?.database ?? 0 });
    this.#hasBeenReady = true;
    this.hasEnded = false;
    if (client.isReady) this.handlers.ready();
    else void this.#follow();
  }
}
