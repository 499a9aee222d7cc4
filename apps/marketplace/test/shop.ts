// The shop that several files share, and its visitors.
import { connect, type Connection } from "@kit/core";
import { afterAll, beforeAll, inject } from "vitest";
import { ask, field, type Reply } from "../src/common/http-client.js";
import { type MarketKeys, marketKeys } from "../src/common/keys.js";

export { type RunningShop, scratch, spawnShop, startShop, whenOpen } from "./program.js";

export interface SharedShop {
  readonly origin: string;
  readonly url: string;
  readonly redis: Connection;
  readonly keys: MarketKeys;
  /** Something for sale for little money, another one with every call. */
  cheap(): Promise<{ id: string; price: string; seller: string; revision: string }>;
  /** Gives somebody money from nowhere, and the books with it. */
  enrich(user: string): Promise<void>;
}

/** The shop in a Redis of the tests, open while any file runs. Each file has its own shelves, and plays buyers of its own. */
export const useSharedShop = (...shelves: readonly string[]): SharedShop => {
  const { origin, url } = inject("shared");
  const keys = marketKeys("main");
  const given = new Set<string>();
  let redis: Connection;
  beforeAll(async () => {
    redis = await connect({ url, deadlineMs: 20_000 });
  });
  afterAll(() => redis.close());
  return {
    ...{ origin, url, keys },
    get redis() {
      return redis;
    },
    cheap: async () => {
      for (const shelf of shelves)
        for (const id of await redis.zrange(keys.shelf(shelf), "0", "-1")) {
          const { price = "", seller = "" } = await redis.hgetall(keys.listing(id));
          if (given.has(id) || price === "" || Number(price) >= 5_000) continue;
          given.add(id);
          return { id, price, seller, revision: (await redis.hget(keys.item(id), "revision")) ?? "" };
        }
      throw new Error("nothing is cheap");
    },
    enrich: async (user) => {
      await redis.multi().hincrby(keys.user(user), "funds", 100_000).hincrby(keys.totals, "money", 100_000).exec();
    },
  };
};

/** Those who are signed in: at most five sessions of one persona may be open, so each test leaves none behind. */
const present = new Set<Visitor>();

/** Signs out everybody who is still signed in. */
export const leaveAll = async (): Promise<void> => {
  await Promise.all([...present].map((visitor) => visitor.leave().catch(() => undefined)));
  present.clear();
};

/** A visitor with a cookie, as a browser without JavaScript. */
export class Visitor {
  readonly origin: string;
  cookie: string | undefined;
  #csrf = "";

  constructor(origin: string) {
    this.origin = origin;
  }

  async get(path: string, accept = "text/html"): Promise<Reply> {
    return this.#keep(await ask(this.origin, path, { cookie: this.cookie, accept }));
  }

  async post(path: string, form: Readonly<Record<string, string>>, accept = "text/html"): Promise<Reply> {
    return this.#keep(await ask(this.origin, path, { cookie: this.cookie, form, accept }));
  }

  /** Becomes `user`; returns the token of this session's forms. */
  async signIn(user: string): Promise<string> {
    const page = await this.get("/personas");
    const entered = await this.post("/login", { user, csrf: field(page.body, "csrf") });
    if (entered.status !== 303) throw new Error(`${user} was not let in: ${entered.status}`);
    present.add(this);
    this.#csrf = field((await this.get("/")).body, "csrf");
    return this.#csrf;
  }

  async leave(): Promise<void> {
    await this.post("/logout", { csrf: this.#csrf });
  }

  #keep(reply: Reply): Reply {
    if (reply.cookie !== undefined) this.cookie = reply.cookie;
    return reply;
  }
}
