// A worker: runs the jobs of orders, and places the orders that sales still lack.
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import type { Job } from "@kit/queue";
import { readChildren } from "@kit/queue/flows";
import { setTimeout as sleep } from "node:timers/promises";
import { createFlags } from "@kit/core/config";
import { marketKeys } from "../common/keys.js";
import { Market } from "../market/market.js";
import { money } from "../common/money.js";
import { Offers } from "../orders/offers.js";
import { type Order, Orders } from "../orders/orders.js";
import type { Place } from "../common/place.js";
import {
  jobLeaseMs,
  type JobName,
  ordersQueue,
  payments,
  paymentPermits,
  quiet,
  shopChat,
  shopStats,
} from "../common/tools.js";
import { sendMail } from "./mail.js";
import { serveMember, startLimitMs } from "./member.js";
import type { PartnersFacts } from "./partners.js";

export interface WorkerTask extends Place {
  readonly name: string;
  readonly partners: PartnersFacts;
}

export interface RunningJob {
  readonly id: string;
  readonly name: string;
  readonly since: number;
  /** From 0 to 1, if it is known. */
  readonly progress?: number;
}

export interface WorkerStatus {
  readonly running: readonly RunningJob[];
  readonly done: number;
  readonly failed: number;
}

const concurrency = 4;
const dispatchMs = 3_000;
const laterMs = 5_000;

serveMember(async ({ url, prefix, name, partners }: WorkerTask, report) => {
  const redis = await connect({ url, connectionName: `bazaar ${name}`, deadlineMs: startLimitMs });
  const keys = marketKeys("main", prefix);
  const queue = ordersQueue(redis, prefix);
  const chat = shopChat(redis, prefix);
  const slots = payments(redis, prefix);
  const lock = createLock(redis, { prefix, holder: name });
  const counted = shopStats(redis, prefix);
  const orders = new Orders({ redis, keys, queue, chat, sales: counted.sales });
  const market = new Market(redis, lock, "main", 0, prefix);
  const offers = new Offers({ redis, keys, market, orders, chat, queue });
  const flags = createFlags(redis, { maintenance: { whenUnknown: true } }, { prefix });
  const nothing = (): void => undefined;
  // In an outage the calls reject; these events carry nothing more.
  quiet(queue, chat, slots, lock, counted.stats, flags);

  const running = new Map<string, RunningJob>();
  let [done, failed] = [0, 0];
  const sendStatus = (): void => report({ running: [...running.values()], done, failed } satisfies WorkerStatus);
  const progress = (id: string, share: number): void => {
    const job = running.get(id);
    if (job) running.set(id, { ...job, progress: share });
    sendStatus();
  };

  const ask = async (path: string, of: string, signal: AbortSignal): Promise<void> => {
    const response = await fetch(`${partners.origin}${path}?of=${encodeURIComponent(of)}`, { method: "POST", signal });
    const { text } = (await response.json()) as { text: string };
    if (!response.ok) throw new Error(text);
  };

  /** Makes a payment while it holds one of the permits. The provider refuses more payments at once. */
  const pay = (of: string, holder: string, signal: AbortSignal, onPermit?: () => Promise<void>): Promise<void> =>
    slots.using(
      async (permit) => {
        await onPermit?.();
        await ask("/charge", of, AbortSignal.any([signal, permit.signal]));
      },
      { holder: `${holder} · ${name}`, signal },
    );

  /** Runs a job of an order and records its steps. A job that was done before is skipped. */
  const ofOrder =
    (job: JobName, work: (order: Order, job: Job) => Promise<string | undefined>) =>
    async (taken: Job<string, { order: string }>): Promise<string | undefined> => {
      const order = await orders.order(taken.data.order);
      if (!order || order.done[job] !== undefined) return undefined;
      running.set(taken.id, { id: taken.id, name: job, since: Date.now() });
      sendStatus();
      const attempt = taken.attempt + taken.crashes;
      const step = { job, worker: name, attempt };
      try {
        await orders.step(order.id, {
          ...step,
          what: "taken",
          ...(taken.crashes > 0 ? { note: "the worker died" } : {}),
        });
        const note = await work(order, taken as Job);
        // Two workers do the job if the lease of one ends while it runs. Only the first records it.
        if (await orders.done(order.id, job))
          await orders.step(order.id, { ...step, what: "done", ...(note === undefined ? {} : { note }) });
        return note;
      } catch (error) {
        const note = error instanceof Error ? error.message : String(error);
        await orders.step(order.id, { ...step, what: "failed", note }).catch(nothing);
        throw error;
      } finally {
        running.delete(taken.id);
        sendStatus();
      }
    };

  const worker = queue.work(
    {
      charge: ofOrder("charge", async (order, { signal }) => {
        const note = `one of ${paymentPermits} permits`;
        await pay(order.id, order.id, signal, () =>
          orders.step(order.id, { job: "charge", what: "slot", worker: name, note }),
        );
        return `${money(order.price)} charged`;
      }),
      stock: ofOrder("stock", async ({ id }, { signal }) => {
        await sleep(150, undefined, { signal });
        return `from shelf ${id.slice(0, 4)}`;
      }),
      invoice: ofOrder("invoice", async ({ id, price }, { signal }) => {
        await sleep(80, undefined, { signal });
        return `invoice ${id.slice(0, 9)} for ${money(price)}`;
      }),
      label: ofOrder("label", async (_order, { id, signal }) => {
        for (let part = 1; part <= 8; part++) {
          await sleep(90, undefined, { signal });
          progress(id, part / 8);
        }
        return "label printed";
      }),
      receipt: ofOrder("receipt", async (order, job) => {
        const { children } = await readChildren(job);
        const notes = children.flatMap(({ result }) => (typeof result === "string" ? [result] : [])).join(", ");
        const buyer = (await redis.hget(keys.user(order.buyer), "name")) ?? order.buyer;
        const text = `Dear ${buyer},\n\nThank you for your order ${order.id}: ${order.title}, ${money(order.price)} (${notes}).\n\nBazaar`;
        const to = `${order.buyer}@bazaar.example`;
        const mail = { id: job.id, to, subject: `Receipt for order ${order.id}`, text };
        await sendMail(partners.smtpPort, mail, job.signal);
        return `mail to ${to}`;
      }),
      review: ofOrder("review", async (order, { id, signal }) => {
        const text = `How do you like your ${order.title}?\n\nBazaar`;
        const to = `${order.buyer}@bazaar.example`;
        await sendMail(partners.smtpPort, { id, to, subject: `How was order ${order.id}?`, text }, signal);
        return `mail to ${to}`;
      }),
      stocktake: async ({ id, data: { ms }, signal, crashes }) => {
        running.set(id, { id, name: "stocktake", since: Date.now(), progress: 0 });
        try {
          // A stocktake includes a payment. A second attempt requests it again by the same id.
          await pay(`stocktake ${id}`, id, signal);
          const parts = 20;
          for (let part = 1; part <= parts; part++) {
            await sleep(ms / parts, undefined, { signal });
            progress(id, part / parts);
          }
          await redis.set(keys.result, JSON.stringify({ job: id, worker: name, crashes }), "PX", 600_000);
        } finally {
          running.delete(id);
          sendStatus();
        }
      },
      offer: async ({ data: { item, buyer }, group }) => {
        await flags.ready();
        const outcome = flags.isOn("maintenance") ? { kind: "busy" as const } : await offers.consider(item, buyer);
        // The shop is closed, or the item is busy. A new job tries again, since this may outlast the attempts of one.
        if (outcome?.kind === "busy") await queue.add("offer", { item, buyer }, { group, delayMs: laterMs });
      },
      print: ({ data: { sheet }, signal }) => ask("/print", sheet, signal),
    },
    { concurrency, leaseMs: jobLeaseMs, strict: true },
  );
  worker.on("error", nothing);
  worker.on("completed", ({ job }) => {
    done++;
    counted.jobs.inc({ job: job.name, outcome: "done" });
    counted.jobMs.observe({ job: job.name }, Math.max(0, Date.now() - job.takenAt));
    sendStatus();
  });
  worker.on("failed", ({ job }) => {
    failed++;
    counted.jobs.inc({ job: job.name, outcome: "failed" });
    sendStatus();
  });
  worker.on("dead", ({ job }) => counted.jobs.inc({ job: job.name, outcome: "dead" }));
  sendStatus();

  // One worker at a time scans the ledger.
  const dispatch = async (): Promise<void> => {
    await using lease = await lock.tryAcquire("shop.main.dispatch");
    if (lease) while ((await orders.dispatch()) > 0) lease.assertHeld();
  };
  const timer = setInterval(() => void dispatch().catch(nothing), dispatchMs);

  return {
    stop: async () => {
      clearInterval(timer);
      await queue.close({ timeoutMs: 500 }).catch(nothing);
      await counted.stats.close({ timeoutMs: 200 }).catch(nothing);
      await flags.close().catch(nothing);
      await redis.close();
    },
  };
});
