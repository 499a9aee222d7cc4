// The order of a sale, with its chat and its jobs.
//
// The sale itself is one script, which also writes the ledger. Chat and jobs lie in other slots, so they cannot be part
// of it. The web process places the order right after the sale. If it dies in between, a worker finds the ledger entry
// without an order and places it. Placing is safe to repeat, since all ids follow from the sale.
import { createHash } from "node:crypto";
import type { Chat } from "@kit/chat";
import type { Connection } from "@kit/core";
import { addFlow, type FlowJob, FlowTakenError } from "@kit/queue/flows";
import type { Counter } from "@kit/stats";
import { isAway } from "../common/away.js";
import type { MarketKeys } from "../common/keys.js";
import { type JobName, orderChat, type OrdersQueue, type ShopJobs } from "../common/tools.js";

const weekMs = 7 * 24 * 3_600_000;
const stepsKept = 200;
const ordersKept = 500;
const ordersOfUserKept = 100;
const chatKept = 500;
/** A real shop would wait a week; here a visitor should see it happen. */
const reviewDelayMs = 60_000;
/** The third party of every order's chat. */
export const support = "support";

export interface Sale {
  readonly request: string;
  readonly item: string;
  readonly buyer: string;
  readonly seller: string;
  readonly price: number;
  /** The revision of the item that was sold: no two sales of an item have the same. */
  readonly revision: number;
  /** Epoch ms of the sale by the server's clock. */
  readonly at: number;
}

export interface Order extends Sale {
  readonly id: string;
  readonly title: string;
  /** The time at which each finished job was done, in epoch ms. */
  readonly done: Readonly<Partial<Record<JobName, number>>>;
}

/** An event of one job of an order. */
export interface Step {
  readonly job: JobName;
  readonly what: "added" | "due" | "taken" | "slot" | "failed" | "done";
  readonly at: number;
  readonly worker?: string;
  readonly attempt?: number;
  readonly note?: string;
}

export type FlowName = "charge" | "stock" | "invoice" | "label" | "receipt";

/** The flow of an order: for each job, the jobs that it waits for. The receipt is the last one. */
export const orderFlow: Readonly<Record<FlowName, readonly FlowName[]>> = {
  charge: [],
  stock: [],
  invoice: ["charge"],
  label: ["stock"],
  receipt: ["invoice", "label"],
};

/** The jobs of every order. */
export const jobsOfOrder: readonly (FlowName | "review")[] = [...(Object.keys(orderFlow) as FlowName[]), "review"];

/** `7F3K-9Q2M-0XHD-T5VB`, always the same for the same sale. 80 bits: a billion orders have different ids. */
export const orderId = ({ item, revision, buyer, request }: Omit<Sale, "seller" | "price" | "at">): string => {
  const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const digest = createHash("sha256").update(`${item}:${revision}:${buyer}:${request}`).digest();
  const text = Array.from(digest.subarray(0, 16), (byte) => letters[byte % 32]).join("");
  return text.replace(/.{4}(?=.)/g, "$&-");
};

const jobId = (job: JobName, order: string): string => `${job}.${order}`;

/** The job of this name, and all jobs below it. */
const flowOf = (name: FlowName, order: string): FlowJob<ShopJobs> => ({
  ...{ name, data: { order }, id: jobId(name, order) },
  children: orderFlow[name].map((child) => flowOf(child, order)),
});

interface Deps {
  readonly redis: Connection;
  readonly keys: MarketKeys;
  readonly queue: OrdersQueue;
  readonly chat: Chat<string>;
  /** Counts each sale once: when its order is placed, by whichever process that does. */
  readonly sales: Pick<Counter, "inc">;
}

export class Orders {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates the order of a sale, with its chat and jobs. Safe to repeat: `isNew` is true once. */
  async place(sale: Sale): Promise<{ readonly id: string; readonly isNew: boolean }> {
    const { redis, keys, queue, chat, sales } = this.#deps;
    const id = orderId(sale);
    const key = keys.order(id);
    if ((await redis.hget(key, "placed")) !== null) return { id, isNew: false };
    const title = (await redis.hget(keys.item(sale.item), "title")) ?? sale.item;
    const { request, item, buyer, seller, price, revision, at } = sale;
    const record = redis
      .multi()
      .hset(key, { request, item, title, buyer, seller, price, revision, at })
      .pexpire(key, weekMs);
    record.zadd(keys.orders, at, id).zremrangebyrank(keys.orders, 0, -ordersKept - 1);
    for (const user of [buyer, seller])
      record
        .zadd(keys.ordersOf(user), at, id)
        .zremrangebyrank(keys.ordersOf(user), 0, -ordersOfUserKept - 1)
        .pexpire(keys.ordersOf(user), weekMs);
    await record.exec();

    const name = orderChat(id);
    await chat.create(name, { members: [buyer, seller, support], retain: { count: chatKept, ageMs: weekMs } });
    await chat.send(name, {
      from: support,
      body: `Order ${id}: ${title}. Ask your questions here.`,
      clientId: "opened",
    });

    // The jobs come last. If the process dies before, `placed` is not set, and the order is placed again.
    for (const job of jobsOfOrder)
      await this.step(id, {
        job,
        what: "added",
        ...(job === "review" ? { note: `due in ${reviewDelayMs / 1_000} s` } : {}),
      });
    await addFlow(queue, flowOf("receipt", id)).catch((error: unknown) => {
      // An earlier call has added the flow, or its reply was lost.
      if (!(error instanceof FlowTakenError)) throw error;
    });
    await queue.add("review", { order: id }, { id: jobId("review", id), delayMs: reviewDelayMs });
    const isNew = (await redis.hset(key, "placed", 1)) === 1;
    if (isNew) sales.inc();
    return { id, isNew };
  }

  /**
   * Places every sale of the ledger that has no order yet, in order. Only one process may do this at a time. A sale that
   * cannot be placed does not hold up the ones after it: it is set apart and tried again by each call.
   *
   * @returns how many entries of the ledger it has passed; 0 at its end.
   */
  async dispatch(): Promise<number> {
    const { redis, keys } = this.#deps;
    for (const entry of await redis.srandmember(keys.undispatched, 100)) {
      const [found] = await redis.xrange(keys.ledger, entry, entry);
      // The ledger keeps the newest 10,000 sales. What has left it cannot be placed any more.
      if (!found || (await this.#tryPlace(found))) await redis.srem(keys.undispatched, entry);
    }
    const from = (await redis.get(keys.dispatched)) ?? "0-0";
    const entries = await redis.xrange(keys.ledger, `(${from}`, "+", "COUNT", 100);
    for (const found of entries) {
      const [entry] = found;
      if (!(await this.#tryPlace(found))) await redis.sadd(keys.undispatched, entry);
      await redis.set(keys.dispatched, entry);
    }
    return entries.length;
  }

  /** The number of sales whose order could not be placed yet. */
  async undispatched(): Promise<number> {
    return await this.#deps.redis.scard(this.#deps.keys.undispatched);
  }

  /** False if this one sale cannot be placed. Rejects if Redis does not answer, which concerns all of them. */
  async #tryPlace([entry, fields]: readonly [entry: string, fields: readonly string[]]): Promise<boolean> {
    try {
      await this.place(saleOf(entry, fields));
      return true;
    } catch (error) {
      if (isAway(error)) throw error;
      return false;
    }
  }

  async order(id: string): Promise<Order | null> {
    const { redis, keys } = this.#deps;
    const all = await redis.hgetall(keys.order(id));
    const { request, item, title, buyer, seller, price, revision, at } = all;
    if (request == null || item == null || title == null || buyer == null || seller == null) return null;
    const done: Partial<Record<JobName, number>> = {};
    for (const job of jobsOfOrder) if (all[`done:${job}`] !== undefined) done[job] = Number(all[`done:${job}`]);
    const numbers = { price: Number(price), revision: Number(revision), at: Number(at) };
    return { id, request, item, title, buyer, seller, ...numbers, done };
  }

  /** How many orders of a user are kept. */
  async count(user: string): Promise<number> {
    const { redis, keys } = this.#deps;
    return await redis.zcard(keys.ordersOf(user));
  }

  /** The newest orders, of all users or of one, without the first `offset`. */
  async newest(count: number, user?: string, offset = 0): Promise<Order[]> {
    const { redis, keys } = this.#deps;
    const key = user === undefined ? keys.orders : keys.ordersOf(user);
    const ids = await redis.zrevrange(key, offset, offset + count - 1);
    const orders = await Promise.all(ids.map((id) => this.order(id)));
    return orders.filter((order) => order !== null);
  }

  async steps(id: string): Promise<Step[]> {
    const { redis, keys } = this.#deps;
    const texts = await redis.lrange(keys.steps(id), 0, -1);
    return texts.map((text) => JSON.parse(text) as Step);
  }

  async step(id: string, step: Omit<Step, "at">): Promise<void> {
    const { redis, keys } = this.#deps;
    const key = keys.steps(id);
    const text = JSON.stringify({ ...step, at: Date.now() } satisfies Step);
    await redis.multi().rpush(key, text).ltrim(key, -stepsKept, -1).pexpire(key, weekMs).exec();
  }

  /** Records that a job of an order is done. Jobs run at least once: false if it was already recorded. */
  async done(id: string, job: JobName): Promise<boolean> {
    const { redis, keys } = this.#deps;
    return (await redis.hsetnx(keys.order(id), `done:${job}`, Date.now())) === 1;
  }
}

const saleOf = (entry: string, fields: readonly string[]): Sale => {
  // By position: a request may have the name of a field.
  const value = (name: string): string => fields[fields.findIndex((one, at) => at % 2 === 0 && one === name) + 1] ?? "";
  return {
    request: value("request"),
    item: value("item"),
    buyer: value("buyer"),
    seller: value("seller"),
    price: Number(value("price")),
    revision: Number(value("revision")),
    at: Number(entry.split("-")[0]),
  };
};
