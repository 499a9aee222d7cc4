// The packages as the shop uses them: names and settings that all of its processes share.
import type { Connection } from "@kit/core";
import { type Accepted, createChat, type Chat } from "@kit/chat";
import { createLimiter, type Limiter } from "@kit/limiter";
import { createQueue, type Queue } from "@kit/queue";
import { createSemaphore, type Semaphore } from "@kit/semaphore";
import { type Counter, createStats, type Distribution, type Stats } from "@kit/stats";

/** A typed emitter of any package; background faults reach its `error` event. */
interface Source {
  on(event: "error", listener: () => void): unknown;
}

/** Ignores the background faults of objects that retry by themselves. Their calls still reject. */
export const quiet = (...sources: readonly object[]): void => {
  for (const source of sources) (source as Source).on("error", () => undefined);
};

/** A job of an order. Its result is a note for the order's page, which the jobs that wait for it read as well. */
type OrderJob = (data: { order: string }) => string | undefined;

/** The jobs of the shop, and the data of each. */
export type ShopJobs = {
  charge: OrderJob;
  stock: OrderJob;
  invoice: OrderJob;
  label: OrderJob;
  receipt: OrderJob;
  review: OrderJob;
  stocktake: (data: { ms: number }) => void;
  print: (data: { sheet: string }) => void;
  offer: (data: { item: string; buyer: string }) => void;
};

export type JobName = keyof ShopJobs;
export type OrdersQueue = Queue<ShopJobs>;

/** Shorter than the package's default of 10 s, so that visitors soon see the jobs of a killed worker move. */
export const jobLeaseMs = 4_000;
export const queueName = "orders";

export const ordersQueue = (redis: Connection, prefix: string): OrdersQueue =>
  createQueue<ShopJobs>(redis, queueName, {
    prefix,
    maxAttempts: 5,
    backoff: { firstMs: 250, factor: 2, maxMs: 5_000 },
    timeoutMs: 30_000,
    // A throw-away server of a demonstration may have any policy.
    allowEviction: true,
  });

/** The provider takes five payments at once, and no more. */
export const paymentPermits = 5;

export const payments = (redis: Connection, prefix: string): Semaphore =>
  createSemaphore(redis, "payments", { prefix, permits: paymentPermits, leaseMs: 5_000 });

/** The most open sessions of one persona. A session that is not used ends after twelve hours. */
export const sessionsPerPersona = 5;

export const accountSessions = (redis: Connection, prefix: string, idleMs: number): Semaphore =>
  createSemaphore(redis, "sessions", {
    prefix,
    permits: 1_000_000,
    permitsPerTenant: sessionsPerPersona,
    leaseMs: idleMs,
    renew: false,
  });

/**
 * Forms in any ten seconds. In a race, one buyer sends fifty at once. A persona has at most five sessions. All visitors on
 * this machine share one address.
 */
const formsOf = { session: 100, persona: 200, address: 1_000 };

export type Sender = keyof typeof formsOf;

export const formLimiters = (redis: Connection, prefix: string): Record<Sender, Limiter> => {
  const of = (sender: Sender): Limiter =>
    createLimiter(redis, `forms.${sender}`, {
      prefix,
      limits: { forms: { count: formsOf[sender], perMs: 10_000, algorithm: "sliding-window" } },
      // There is one web process, so it can count alone while Redis is unreachable.
      onUnavailable: "local",
      processes: 1,
    });
  return { session: of("session"), persona: of("persona"), address: of("address") };
};

export const shopChat = (redis: Connection, prefix: string): Chat<string> => createChat<string>(redis, { prefix });

/** The chat of an order. Its members are the buyer, the seller and support. */
export const orderChat = (order: string): string => `order:${order}`;

/** The chat of two people; the same for both of them. */
export const pairChat = (one: string, other: string): string => `pair:${[one, other].sort().join("~")}`;

const chatRetention = { count: 500, ageMs: 7 * 24 * 3_600_000 };

/** Writes to somebody, in the chat of the two. The same `clientId` again is the same message. */
export const writeTo = async (
  chat: Chat<string>,
  from: string,
  to: string,
  message: { readonly body: string; readonly clientId: string },
): Promise<Accepted> => {
  const name = pairChat(from, to);
  await chat.create(name, { members: [from, to], retain: chatRetention });
  return await chat.send(name, { from, ...message });
};

export const logChannel = "access";
export const logConsumers = ["countries", "status"] as const;
export const geoDatabase = "synthetic";

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** The finest is kept for 15 minutes, the coarsest for 90 days. */
export const precisions: readonly { readonly stepMs: number; readonly keepMs: number }[] = [
  { stepMs: secondMs, keepMs: 15 * minuteMs },
  { stepMs: 5 * secondMs, keepMs: 2 * hourMs },
  { stepMs: minuteMs, keepMs: dayMs },
  { stepMs: hourMs, keepMs: 90 * dayMs },
];

export interface ShopStats {
  readonly stats: Stats;
  readonly sales: Counter;
  readonly views: Counter;
  readonly requests: Distribution<"route">;
  readonly jobs: Counter<"job" | "outcome">;
  readonly jobMs: Distribution<"job">;
}

export const shopStats = (redis: Connection, prefix: string): ShopStats => {
  const stats = createStats(redis, { prefix });
  const windows = [
    { stepMs: 10 * secondMs, keepMs: 2 * hourMs },
    { stepMs: minuteMs, keepMs: dayMs },
  ];
  return {
    stats,
    sales: stats.counter("shop_sales_total", { help: "Items sold", precisions }),
    views: stats.counter("shop_views_total", { help: "Page views", precisions }),
    requests: stats.distribution("shop_request_ms", {
      help: "Response time",
      labelNames: ["route"],
      slowest: 10,
      windows,
    }),
    jobs: stats.counter("shop_jobs_total", { help: "Completed jobs", labelNames: ["job", "outcome"] }),
    jobMs: stats.distribution("shop_job_ms", { help: "Job duration", labelNames: ["job"], windows }),
  };
};
