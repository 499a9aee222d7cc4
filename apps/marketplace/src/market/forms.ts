// How many forms a sender may send: signing in, offers, purchases and all others. A session is limited, its persona in all
// sessions, and the address in all of them.
import type { Connection } from "@kit/core";
import type { Limiter } from "@kit/limiter";
import { formLimiters, quiet, type Sender } from "../common/tools.js";
import { digestOf, type Session } from "./sessions.js";

export class Forms {
  readonly #limiters: Readonly<Record<Sender, Limiter>>;

  constructor(redis: Connection, prefix: string) {
    this.#limiters = formLimiters(redis, prefix);
    quiet(...Object.values(this.#limiters));
  }

  /** Counts a form. Returns 0, or the milliseconds until its session, persona or address may send another. */
  async use({ id, user }: Session, address: string): Promise<number> {
    const waits = await Promise.all([
      this.#use("session", digestOf(id)),
      user === "" ? 0 : this.#use("persona", user),
      this.useAddress(address),
    ]);
    return Math.max(...waits);
  }

  /** The same for a request that stores something, such as the session of a new visitor. */
  async useAddress(address: string): Promise<number> {
    return await this.#use("address", digestOf(address));
  }

  async #use(sender: Sender, key: string): Promise<number> {
    return (await this.#limiters[sender].consume(key)).retryAfterMs;
  }

  async close(): Promise<void> {
    await Promise.all(Object.values(this.#limiters).map((limiter) => limiter.close({ timeoutMs: 0 })));
  }
}
