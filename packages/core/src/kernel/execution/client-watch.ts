import {
  connectionsOf,
  hasEnded,
  isClusterClient,
  isReady,
  noticeReopened,
  type RedisLike,
} from "../connection/client.js";
import { detached } from "../base/async-context.js";
import { originOf } from "../base/errors.js";
import { Listeners } from "../base/listeners.js";
import { type Limit, settled } from "../base/settle.js";
import { addListeners } from "../connection/listeners.js";
import { isOwned, listenToEnd } from "../connection/supervision.js";
import { guardNode } from "../connection/topology.js";

/** Watches a client: whether it accepts commands, what it lost, and why. */
export class ClientWatch {
  readonly client: RedisLike;
  /**
   * How many times a connection, or a reply with it, was lost. A Cluster client reports only lost replies. Commands that were in
   * flight then may have been sent twice, by kit or by the client.
   */
  connectionEpoch = 0;
  /** A command was late, and since it was sent nothing has arrived on the connection. */
  protected isSilent = false;
  protected lastError: unknown;
  /** For each command in flight that is never sent again: a function that ends it when its connection is lost. */
  protected readonly sentOnce = new Set<() => void>();
  readonly #waiting = new Listeners();
  readonly #readyListeners = new Listeners();
  readonly #dropListeners = new Listeners();
  #hasEnded = false;
  #undo: (() => void) | undefined;
  #users = 0;

  constructor(client: RedisLike) {
    this.client = client;
  }

  /**
   * Calls `listener` each time the client became ready again, each time it got a reply after a silence, and each time a Cluster
   * client lost a node. A Cluster client stays ready then, and its next command finds the node again, or its replacement. Returns a
   * function that removes the listener.
   */
  onReady(listener: () => void): () => void {
    return this.#readyListeners.add(listener);
  }

  /** Calls `listener` each time the connection was lost, including when the client ended. Returns a function that removes it. */
  onDrop(listener: () => void): () => void {
    return this.#dropListeners.add(listener);
  }

  /** Whether the owner of a borrowed client has ended it. Only the owner can connect it again. */
  get isEnded(): boolean {
    return this.#hasEnded && !isOwned(this.client);
  }

  /** The first call adds kit's listeners to the client. The listener for `error` also keeps ioredis from printing. */
  attach(): void {
    if (this.#users++ > 0) return;
    const { client } = this;
    this.#hasEnded = hasEnded(client);
    const ready = (): void => this.#ready();
    const stopListening = addListeners(client, {
      error: (error: unknown) => {
        this.lastError = originOf(error);
      },
      ready,
      // Another database counts as another server.
      select: ready,
      close: () => this.#drop(),
      connecting: () => {
        this.#hasEnded = false;
      },
      connect: () => noticeReopened(client),
      // On a Cluster only: from now on another server may serve a slot.
      "-node": () => {
        this.#drop();
        if (isReady(client)) this.#readyListeners.call();
      },
      "+node": guardNode,
    });
    const stopListeningToEnd = listenToEnd(client, () => {
      this.#hasEnded = true;
      this.#drop();
    });
    this.#undo = () => {
      stopListening();
      stopListeningToEnd();
    };
    connectionsOf(client).forEach(guardNode);
  }

  /**
   * Each `attach()` needs one `detach()`. The last one removes the listeners, and so ends the waits for the client to become ready.
   */
  detach(): void {
    if (--this.#users > 0) return;
    this.#undo?.();
    this.#waiting.call();
  }

  /** A borrowed client keeps a silent connection, so it emits nothing when the server answers again. */
  protected readonly heard = (): void => {
    if (!this.isSilent) return;
    this.isSilent = false;
    detached(() => this.#readyListeners.call());
  };

  /** Resolves with whether the client became ready before the deadline. */
  protected untilReady(limit: Limit & { readonly signal?: AbortSignal | undefined }): Promise<boolean> {
    limit.signal?.throwIfAborted();
    return settled<boolean>(
      limit,
      ({ resolve }) => resolve(false),
      ({ resolve }) => {
        const look = (): void => {
          if (isReady(this.client)) resolve(true);
          // Only its owner can connect a borrowed client again. kit's own client is already reconnecting.
          else if (this.isEnded || this.#users === 0) resolve(false);
        };
        const stop = this.#waiting.add(look);
        if (this.client.status === "wait") detached(() => this.client.connect()).catch(() => undefined);
        look();
        return stop;
      },
    );
  }

  #ready(): void {
    if (!isReady(this.client)) return;
    this.lastError = undefined;
    this.isSilent = false;
    this.#waiting.call();
    this.#readyListeners.call();
  }

  #drop(): void {
    this.connectionEpoch++;
    // A Cluster client goes on with its other nodes, and rejects the commands of a lost one itself.
    if (!isClusterClient(this.client)) for (const lose of this.sentOnce) lose();
    this.#waiting.call();
    this.#dropListeners.call();
  }
}
