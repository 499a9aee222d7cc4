// The program: a Redis of its own, the shop in it, the web before it; and one way out for all three.
import { parseArgs } from "node:util";
import { createApp } from "./app.js";
import { killChildren, runChild } from "./child.js";
import type { Recount, RecountTask } from "./recount.js";
import { type PrivateRedis, startRedis } from "./redis-server.js";
import { serve, type WebServer } from "./server.js";
import { Shop } from "./shop.js";
import { smokeSummary } from "./smoke.js";
import type { VisitorsReport, VisitorsTask } from "./visitors.js";

const usage = `Usage: node dist/main.js [--port N] [--redis URL] [--smoke]

  --port N     serve on this port (default: 3000 if it is free, else any)
  --redis URL  use this Redis instead of an own one; races and measurements are switched off
  --smoke      send scripted visitors, print one JSON summary, and exit 0 if all is well, else 1
`;

const exitLimitMs = 2_500;
const visitorsLimitMs = 120_000;
const recountLimitMs = 20_000;

interface Flags {
  readonly port: number | undefined;
  readonly redis: string | undefined;
  readonly smoke: boolean;
}

const readFlags = (): Flags | string => {
  try {
    const { values } = parseArgs({
      options: { port: { type: "string" }, redis: { type: "string" }, smoke: { type: "boolean", default: false } },
    });
    const port = values.port === undefined ? undefined : Number(values.port);
    if (port !== undefined && !(Number.isInteger(port) && port >= 1 && port <= 65_535))
      return `--port takes a number from 1 to 65535`;
    if (values.smoke && values.redis !== undefined)
      return `--smoke races, so it needs a Redis of its own: leave out --redis`;
    return { port, redis: values.redis, smoke: values.smoke };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** What is to be ended, in the order in which it was begun. */
const begun: { readonly name: string; readonly end: () => Promise<void> }[] = [];
let leaving: Promise<never> | undefined;

const leave = (code: number): Promise<never> => {
  leaving ??= (async () => {
    // If something hangs, what was begun is killed by the exit handlers.
    setTimeout(() => process.exit(code), exitLimitMs).unref();
    killChildren();
    for (const { name, end } of begun.reverse())
      await end().catch((error: unknown) => say(`${name} did not end cleanly: ${wordsOf(error)}`));
    process.exit(code);
  })();
  return leaving;
};

const run = async ({ port, redis: givenUrl, smoke }: Flags): Promise<void> => {
  const startedAt = performance.now();
  let redis: PrivateRedis | undefined;
  if (givenUrl === undefined) {
    redis = await startRedis();
    const { stop } = redis;
    begun.push({ name: "Redis", end: stop });
    redis.lost.catch((error: unknown) => {
      if (leaving) return;
      say(wordsOf(error));
      void leave(1);
    });
  }
  const redisMs = performance.now() - startedAt;

  const redisUrl = givenUrl ?? redis?.url ?? "";
  const shop = await Shop.open({ redisUrl, isGuestServer: givenUrl !== undefined });
  begun.push({ name: "the shop", end: () => shop.close() });
  const seededMs = performance.now() - startedAt - redisMs;

  let web: WebServer | undefined;
  const app = createApp({
    shop,
    origin: () => web?.origin ?? "",
    onFault: (error) => say(error instanceof Error ? (error.stack ?? error.message) : String(error)),
  });
  web = await serve(app, port);
  const { origin, close } = web;
  begun.push({
    name: "the web server",
    end: async () => {
      shop.live.close();
      await close();
    },
  });

  if (!smoke) {
    process.stdout.write(`Bazaar is open: ${origin}\n`);
    return;
  }
  const readyMs = performance.now() - startedAt;
  const visitors = await runChild<VisitorsReport>("visitors", { origin } satisfies VisitorsTask, visitorsLimitMs);
  const { users, items } = shop.world;
  const openingMoney = users.reduce((sum, { funds }) => sum + funds, 0);
  const recountTask: RecountTask = {
    url: redisUrl,
    market: "main",
    users: users.map(({ id }) => id),
    items: items.map(({ id }) => id),
    openingMoney,
    seller: null,
  };
  const recount = await runChild<Recount>("recount", recountTask, recountLimitMs);
  const { summary, ok } = smokeSummary(visitors, recount, { redisMs, seededMs, readyMs });
  process.stdout.write(`${JSON.stringify(summary)}\n`);
  await leave(ok ? 0 : 1);
};

const flags = readFlags();
if (typeof flags === "string") {
  say(`${flags}\n\n${usage}`);
  process.exit(2);
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void leave(0));
run(flags).catch((error: unknown) => {
  if (leaving) return;
  say(wordsOf(error));
  void leave(1);
});
