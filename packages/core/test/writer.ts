import type { NodeClient, RedisLike } from "../src/kernel/connection/client.js";
import { addOnce } from "./scripts.js";

/** The port that a single client is connected to. */
export const peerPort = (client: RedisLike): number | undefined => (client as NodeClient).stream?.remotePort;

/** Changes a key of the test again and again until `stop()`; records each reply and its time. */
export class Writer {
  readonly acked: { readonly op: string; readonly at: number; readonly port: number | undefined }[] = [];
  readonly failures: { readonly op: string; readonly code: unknown }[] = [];
  readonly #running: Promise<void>;
  #goesOn = true;

  constructor(client: RedisLike, key: string, deadlineMs: number) {
    this.#running = this.#work(client, key, deadlineMs);
  }

  async stop(): Promise<void> {
    this.#goesOn = false;
    await this.#running;
  }

  async #work(client: RedisLike, key: string, deadlineMs: number): Promise<void> {
    let number = 0;
    while (this.#goesOn) {
      const op = `op-${String(number++)}`;
      await addOnce.run(client, { key }, { op }, { deadlineMs, op }).then(
        () => this.acked.push({ op, at: performance.now(), port: peerPort(client) }),
        (error: { code?: unknown }) => this.failures.push({ op, code: error.code }),
      );
      await new Promise(setImmediate);
    }
  }
}
