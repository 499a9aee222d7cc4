// Sessions are stored only in Redis. The cookie holds 128 random bits and Redis their digest, so a reader of the
// database cannot take over a session. A page view is one script.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Connection } from "@kit/core";
import type { MarketKeys } from "../common/keys.js";
import { notify, openSession, visit, type Visit } from "../scripts/index.js";

const hourMs = 3_600_000;
const recentKept = 25;
export const viewsKept = 2_000;
const viewsLifeMs = 7 * 24 * hourMs;
export const idleMs: number = 12 * hourMs;
const lifeMs = 7 * 24 * hourMs;
// The life of a session without a persona, which only carries the token of the forms.
const anonymousMs = hourMs / 2;

export interface Session extends Visit {
  readonly id: string;
}

export const newId = (): string => randomBytes(16).toString("base64url");

export const digestOf = (id: string): string => createHash("sha256").update(id).digest("base64url");

const sameText = (a: string, b: string): boolean => {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
};

/** Whether a form was made for this session. */
export const isOwnForm = (session: Session, csrf: unknown): boolean =>
  typeof csrf === "string" && sameText(session.csrf, csrf);

export class Sessions {
  readonly #redis: Connection;
  readonly #keys: MarketKeys;

  constructor(redis: Connection, keys: MarketKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Opens a session. Without `user` it is short, and only carries the token of the forms. */
  async open(user = "", life: number = user === "" ? anonymousMs : lifeMs, permit = ""): Promise<Session> {
    const [id, csrf] = [newId(), newId()];
    const key = this.#keys.session(digestOf(id));
    await openSession.run(this.#redis, { session: key }, { user, csrf, lifeMs: life, idleMs, permit });
    return { id, user, csrf, notice: "", views: 0, recent: [] };
  }

  /** Records a page view; null unless the session exists. The view of `item` is remembered and counted. */
  async visit(id: string, item = ""): Promise<Session | null> {
    const digest = digestOf(id);
    const { views } = this.#keys;
    const seen = await visit.run(
      this.#redis,
      { session: this.#keys.session(digest), recent: this.#keys.recent(digest), views },
      { itemId: item, idleMs, recentKept, viewsKept, viewsLifeMs },
    );
    return seen && { id, ...seen };
  }

  /** Leaves a message for the next page of this session. */
  async notify(session: Session, notice: string): Promise<void> {
    await notify.run(this.#redis, { session: this.#keys.session(digestOf(session.id)) }, { notice });
  }

  /** The permit that the session was opened with; empty if there was none. */
  async permit({ id }: Session): Promise<string> {
    return (await this.#redis.hget(this.#keys.session(digestOf(id)), "permit")) ?? "";
  }

  async close(session: Session): Promise<void> {
    const digest = digestOf(session.id);
    await this.#redis.del(this.#keys.session(digest), this.#keys.recent(digest));
  }
}
