// Sign-in. A semaphore whose tenants are the personas allows each of them five sessions.
import type { Connection } from "@kit/core";
import type { Semaphore } from "@kit/semaphore";
import { isAway } from "../common/away.js";
import type { MarketKeys } from "../common/keys.js";
import { Forms } from "./forms.js";
import { idleMs, type Session, type Sessions } from "./sessions.js";
import { accountSessions } from "../common/tools.js";

/** How long the permit of a session lasts before its first visit, which follows the sign-in at once. */
const unseenMs = 60_000;
const renewMs = 10 * 60_000;
const presentMs = 30 * 60_000;
const mostRenewals = 10_000;

export class Accounts {
  readonly forms: Forms;
  readonly #redis: Connection;
  readonly #keys: MarketKeys;
  readonly #sessions: Sessions;
  readonly #limit: Semaphore;
  /** When this process last extended the permit of a session. */
  readonly #renewed = new Map<string, number>();

  constructor(redis: Connection, keys: MarketKeys, sessions: Sessions, prefix: string) {
    this.#redis = redis;
    this.#keys = keys;
    this.#sessions = sessions;
    this.forms = new Forms(redis, prefix);
    this.#limit = accountSessions(redis, prefix, idleMs);
    this.#limit.on("error", () => undefined);
  }

  /** Signs in; null if the persona has five open sessions already. */
  async signIn(user: string, isPerson: boolean): Promise<Session | null> {
    const permit = await this.#limit.tryAcquire({ tenant: user, holder: `session of ${user}`, leaseMs: unseenMs });
    if (!permit) return null;
    try {
      const session = await this.#sessions.open(user, undefined, permit.serialise());
      if (isPerson) await this.#redis.set(this.#keys.present(user), 1, "PX", presentMs);
      // From here on the session owns the permit, not this process.
      permit.handOver();
      return session;
    } catch (error) {
      // Nobody will ever use this session. If Redis does not answer now either, the permit ends by itself.
      await permit.release().catch(() => undefined);
      throw error;
    }
  }

  async signOut(session: Session): Promise<void> {
    const text = await this.#sessions.permit(session);
    await this.#sessions.close(session);
    this.#renewed.delete(session.id);
    if (session.user === "") return;
    // A permit that has expired needs no release.
    if (text !== "") await (await this.#limit.resume(text).catch(() => null))?.release();
    // Another window may still play this persona.
    if ((await this.open(session.user)) === 0) await this.#redis.del(this.#keys.present(session.user));
  }

  /** Extends the permit of the session and the presence of its person: at the first visit, then every ten minutes. */
  seen(session: Session): void {
    const now = performance.now();
    if (session.user === "" || now - (this.#renewed.get(session.id) ?? Number.NEGATIVE_INFINITY) < renewMs) return;
    if (this.#renewed.size >= mostRenewals) this.#renewed.clear();
    this.#renewed.set(session.id, now);
    // PEXPIRE extends the presence of a person; it creates none.
    void this.#redis.pexpire(this.#keys.present(session.user), presentMs).catch(() => undefined);
    void this.#sessions
      .permit(session)
      .then(async (text) => {
        if (text === "") return;
        const permit = await this.#limit.resume(text);
        // `resume` renews for as long as the permit lasted at the sign-in.
        await permit.extend(idleMs);
        permit.handOver();
      })
      // A permit that is gone stays gone. One that could not be reached is extended at the next visit.
      .catch((error: unknown) => isAway(error) && this.#renewed.delete(session.id));
  }

  async open(user: string): Promise<number> {
    return (await this.#limit.inspect({ tenant: user })).used;
  }

  async close(): Promise<void> {
    await Promise.all([this.forms.close(), this.#limit.close({ timeoutMs: 0 })]);
  }
}
