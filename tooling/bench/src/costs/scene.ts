// Where costs are measured: a server, and the clients and objects that a measurement opens on it.
import { type Connection, connect } from "@kit/core";
import type { RedisServer } from "@kit/testing";

interface Closing {
  close(options?: { readonly timeoutMs?: number }): Promise<unknown>;
}

export class Scene implements AsyncDisposable {
  readonly server: RedisServer;
  /** Its number among the callers that run at the same time. */
  readonly index: number;
  readonly #open: (() => Promise<unknown>)[] = [];

  constructor(server: RedisServer, index = 0) {
    this.server = server;
    this.index = index;
  }

  /** A client of its own, as `connect()` makes it. */
  async client(): Promise<Connection> {
    const redis = await connect(this.server.url);
    this.atEnd(() => redis.close());
    return redis;
  }

  /** An object to be closed at the end, before its client. Leases and jobs that it holds then are not waited for. */
  own<One extends Closing>(one: One): One {
    this.atEnd(() => one.close({ timeoutMs: 0 }).catch(() => undefined));
    return one;
  }

  /** The last one first. */
  atEnd(end: () => Promise<unknown>): void {
    this.#open.push(end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#open.splice(0).toReversed()) await end();
  }
}
