import { type CloseOptions, TypedEmitter, watchEviction } from "@kit/core/toolkit";
import type { LogConnection } from "./connection.js";

/** A job, shipper or receiver. */
export class LogObject<Events extends Record<keyof Events, readonly unknown[]>> extends TypedEmitter<Events> {
  readonly #connection: LogConnection;

  constructor(connection: LogConnection) {
    super();
    this.#connection = connection;
    connection.onError = (error) => this.emit("error" as never, ...([error] as never));
    connection.onUse = watchEviction(
      connection.context,
      () => this.hasListeners("evictable" as never),
      (policy) => this.emit("evictable" as never, ...([{ policy }] as never)),
    );
  }

  /** Aborts running calls, waits for them for up to `timeoutMs` (10 s by default), and detaches from the client. Idempotent. */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#connection.close(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
