import type { RedisLike } from "@kit/core";
import { attach, type ClientContext } from "@kit/core/toolkit";
import { SharedWait } from "./shared-wait.js";

/** The connections to the server of one client. */
interface Shared {
  readonly context: ClientContext;
  readonly wait: SharedWait;
  /** How many queues use them. */
  users: number;
}

/** The connections of an ordered worker. Queues with the same client share one for commands, and one on which they wait. */
export class Connections {
  readonly #byClient = new Map<RedisLike, Shared>();
  readonly #closing = new Set<Promise<void>>();

  /**
   * The caller's queue uses the connections until `release()`.
   *
   * @throws {KitError} `KIT_UNSUPPORTED`: the client has no connections. `KIT_CLOSED`: the client has ended.
   */
  share(redis: RedisLike): { readonly client: RedisLike; readonly wakeups: SharedWait; readonly release: () => void } {
    const shared = this.#byClient.get(redis) ?? this.#open(redis);
    shared.users++;
    const release = (): void => {
      if (--shared.users > 0) return;
      this.#byClient.delete(redis);
      const closing = shared.wait.settle().finally(() => {
        shared.context.detach();
        this.#closing.delete(closing);
      });
      this.#closing.add(closing);
    };
    return { client: shared.context.client, wakeups: shared.wait, release };
  }

  /** Resolves once the connections that no queue uses are closed. */
  async closed(): Promise<void> {
    await Promise.all(this.#closing);
  }

  #open(redis: RedisLike): Shared {
    const context = attach(redis, { isolate: true });
    const shared = { context, wait: new SharedWait(context), users: 0 };
    this.#byClient.set(redis, shared);
    return shared;
  }
}
