// The order of a sale, with its chat and its jobs.
//
// The sale itself is one script, which also writes the ledger. Chat and jobs lie in other slots, so they cannot be part
// of it. The web process places the order right after the sale. If it dies in between, a worker finds the ledger entry
// without an order and places it. Placing is safe to repeat, since all ids follow from the sale.
import { createHash } from "node:crypto";
import type { Chat } from "@kit/chat";
import type { Connection } from "@kit/core";
import type { MarketKeys } from "./keys.js";
import { type JobName, orderChat, type OrdersQueue } from "./tools.js";

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

/** The jobs of every order. */
export const jobsOfOrder: readonly ("charge" | "label" | "receipt" | "review")[] = [
  "charge",
  "label",
  "receipt",
  "review",
];

/** `7F3K-9Q2M`: easy to say on the telephone, and always the same for the same sale. */
export const orderId = ({ buyer, request }: Pick<Sale, "buyer" | "request">): string => {
  const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const digest = createHash("sha256").update(`${buyer}:${request}`).digest();
  const text = Array.from(digest.subarray(0, 8), (byte) => letters[byte % 32]).join("");
  return `${text.slice(0, 4)}-${text.slice(4)}`;
};

const jobId = (job: JobName, order: string): string => `${job}.${order}`;

interface Deps {
  readonly redis: Connection;
  readonly keys: MarketKeys;
  readonly queue: OrdersQueue;
  readonly chat: Chat<string>;
}

export class Orders {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Creates the order of a sale, with its chat and jobs. Safe to repeat. */
  async place(sale: Sale): Promise<string> {
    const { redis, keys, queue, chat } = this.#deps;
    const id = orderId(sale);
    const key = keys.order(id);
    if ((await redis.hget(key, "placed")) !== null) return id;
    const title = (await redis.hget(keys.item(sale.item), "title")) ?? sale.item;
    const { request, item, buyer, seller, price, at } = sale;
    const record = redis.multi().hset(key, { request, item, title, buyer, seller, price, at }).pexpire(key, weekMs);
    record.zadd(keys.orders, at, id).zremrangebyrank(keys.orders, 0, -ordersKept - 1);
    for (const user of [buyer, seller])
      record
        .zadd(keys.ordersOf(user), at, id)
        .zremrangebyrank(keys.ordersOf(user), 0, -ordersOfUserKept - 1)
        .pexpire(keys.ordersOf(user), weekMs);
    await record.exec();

    const name = orderChat(id);
    await chat.create(name, { members: [buyer, seller, support], retain: { count: chatKept, ageMs: weekMs } });
    await chat.send(name, { from: support, body: `Order ${id}: ${title}. Questions go here.`, clientId: "opened" });

    // The jobs come last. If the process dies before, `placed` is not set, and the order is placed again.
    for (const job of jobsOfOrder)
      await this.step(id, {
        job,
        what: "added",
        ...(job === "review" ? { note: `due in ${reviewDelayMs / 1_000} s` } : {}),
      });
    await queue.addAll(
      jobsOfOrder.map((job) => ({
        name: job,
        data: { order: id },
        id: jobId(job, id),
        ...(job === "review" ? { delayMs: reviewDelayMs } : {}),
      })),
    );
    await redis.hset(key, "placed", 1);
    return id;
  }

  /** Places every sale of the ledger that has no order yet. Only one process may do this at a time. */
  async dispatch(): Promise<number> {
    const { redis, keys } = this.#deps;
    const from = (await redis.get(keys.dispatched)) ?? "0-0";
    const entries = await redis.xrange(keys.ledger, `(${from}`, "+", "COUNT", 100);
    for (const [entry, fields] of entries) {
      await this.place(saleOf(entry, fields));
      await redis.set(keys.dispatched, entry);
    }
    return entries.length;
  }

  async order(id: string): Promise<Order | null> {
    const { redis, keys } = this.#deps;
    const all = await redis.hgetall(keys.order(id));
    const { request, item, title, buyer, seller, price, at } = all;
    if (request == null || item == null || title == null || buyer == null || seller == null) return null;
    const done: Partial<Record<JobName, number>> = {};
    for (const job of jobsOfOrder) if (all[`done:${job}`] !== undefined) done[job] = Number(all[`done:${job}`]);
    return { id, request, item, title, buyer, seller, price: Number(price), at: Number(at), done };
  }

  /** The newest orders, of all users or of one. */
  async newest(count: number, user?: string): Promise<Order[]> {
    const { redis, keys } = this.#deps;
    const key = user === undefined ? keys.orders : keys.ordersOf(user);
    const ids = await redis.zrevrange(key, 0, count - 1);
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
  const value = (name: string): string => fields[fields.indexOf(name) + 1] ?? "";
  return {
    request: value("request"),
    item: value("item"),
    buyer: value("buyer"),
    seller: value("seller"),
    price: Number(value("price")),
    at: Number(entry.split("-")[0]),
  };
};
