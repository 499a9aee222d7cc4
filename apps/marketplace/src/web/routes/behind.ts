// The routes for operators: operations, logs, statistics, metrics, mail and faults.
import { descriptor as queueDescriptor } from "@kit/queue/descriptor";
import type { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ConsumerStatus } from "../../behind/consumer.js";
import type { Mails, PartnersState } from "../../behind/partners.js";
import type { ShipCall, ShipperStatus } from "../../behind/shipper.js";
import { isFault } from "../../behind/faults.js";
import { faultsPage } from "../../pages/faults.js";
import { type LogsLook, logsPage } from "../../pages/logs.js";
import { mailPage } from "../../pages/mail.js";
import { type OpsLook, opsPage, type QueueLook } from "../../pages/ops.js";
import { spans, statsPage } from "../../pages/stats.js";
import { precisions, queueName } from "../../common/tools.js";
import { pageOf, type Routes, type Web } from "../web.js";

/** Longer ones no job of the queue has, and it refuses them. */
const longestJobId = 160;
const shownLetters = 20;
const mailsPerPage = 20;
const shownOrders = 6;
const shownDiary = 8;
const partnersLimitMs = 1_500;
const mostPoints = 900;
const shippedLines = 20_000;
const routes = ["/item/:id/buy", "/", "/item/:id", "/order/:id", "/search", "/suggest", "/login"];

const fromPartners = async <T>({ options }: Web, path: string): Promise<T | null> => {
  if (!options.partners) return null;
  try {
    const reply = await fetch(`${options.partners.origin}${path}`, { signal: AbortSignal.timeout(partnersLimitMs) });
    return (await reply.json()) as T;
  } catch {
    return null;
  }
};

const queueInspector = (queueDescriptor.inspectors ?? []).find(({ thing }) => thing === "queue");

const lookAtQueue = async ({ shop }: Web): Promise<QueueLook> => {
  if (!queueInspector) throw new Error("the queue's package has no inspector");
  const { redis, place } = shop;
  // The same data that `kit inspect queue orders --json` prints.
  return (await queueInspector.look({ redis, prefix: place.prefix } as never, queueName)).data as QueueLook;
};

export const lookAtOps = async (web: Web): Promise<OpsLook> => {
  const { shop } = web;
  const { crew } = web.options;
  const [locks, payments, partners, queue, orders, undispatched, diary] = await Promise.all([
    shop.locks.look(),
    shop.payments.inspect(),
    fromPartners<PartnersState>(web, "/state"),
    lookAtQueue(web),
    shop.orders.newest(shownOrders),
    shop.orders.undispatched(),
    shop.recentLog.read(shownDiary),
  ]);
  const members = crew.members();
  const workers = members.filter(({ program }) => program === "worker");
  const others = members.filter(({ program }) => program !== "worker");
  return { locks, payments, partners, queue, workers, others, events: crew.events, orders, undispatched, diary };
};

export const lookAtLogs = async ({ shop, options }: Web): Promise<LogsLook> => {
  const [channel, visits, counts] = await Promise.all([
    shop.countries.status().catch(() => null),
    shop.countries.results("country").catch(() => new Map<string, string>()),
    shop.countries.results("lines").catch(() => new Map<string, string>()),
  ]);
  const shipper = (options.crew.members("shipper")[0]?.status ?? null) as ShipperStatus | null;
  const consumers = options.crew
    .members("consumer")
    .map(({ name, status }) => ({ name, lines: (status as ConsumerStatus | undefined)?.lines ?? 0 }));
  return { channel, shipper, visits, counted: Number(counts.get("countries") ?? 0), consumers };
};

export const lookAtMail = async (web: Web, page = 1): Promise<Mails> =>
  (await fromPartners<Mails>(web, `/mails?from=${(page - 1) * mailsPerPage}&count=${mailsPerPage}`)) ?? {
    total: 0,
    mails: [],
  };

/** The finest step that is kept for this span and fits the chart. */
const stepFor = (from: number, to: number, now: number): number => {
  const fits = precisions.filter(({ stepMs, keepMs }) => now - from <= keepMs && (to - from) / stepMs <= mostPoints);
  return (fits[0] ?? precisions.at(-1))?.stepMs ?? 3_600_000;
};

const instant = (text: string | undefined): number | null =>
  text !== undefined && /^\d{12,14}$/.test(text) ? Number(text) : null;

export const behindRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;
  const { queue, flags, recentLog } = shop;
  const { crew, faults, otherLogsUrl } = web.options;

  app.get("/ops", async (c) => {
    const visitor = await web.visitWithForms(c);
    const [look, letters] = await Promise.all([lookAtOps(web), queue.deadLetters({ count: shownLetters })]);
    const body = opsPage({
      ...{ look, letters, csrf: visitor.session.csrf, maintenance: flags.isOn("maintenance") },
      redis: web.options.redis,
      logs: {
        address: recentLog.address,
        isHome: recentLog.address === new URL(shop.place.url).host,
        canMove: otherLogsUrl !== null,
      },
    });
    return await web.show(c, visitor, { title: "Operations", path: "/ops", watch: { on: "ops" }, body });
  });

  app.post("/ops/letters", async (c) => {
    const { session, form } = await web.anyForm(c);
    const [id, what] = [form["id"] ?? "", form["do"]];
    if (id === "" || id.length > longestJobId || (what !== "retry" && what !== "drop")) throw new HTTPException(400);
    const count = what === "retry" ? await queue.redrive([id]) : await queue.dropDeadLetters([id]);
    const done =
      what === "retry" ? "The job is back in the queue with all its attempts." : "The dead letter was deleted.";
    await web.notify(session, count > 0 ? "good" : "bad", count > 0 ? done : "That dead letter no longer exists.");
    return c.redirect("/ops", 303);
  });

  app.post("/ops/maintenance", async (c) => {
    const { session, form } = await web.anyForm(c);
    if (form["on"] !== "0" && form["on"] !== "1") throw new HTTPException(400);
    const isOn = form["on"] === "1";
    await flags.set("maintenance", isOn, {
      author: "ops page",
      ...(isOn ? { reason: "maintenance in progress" } : {}),
    });
    const words = isOn ? "Closed. All processes now reject purchases." : "Reopened.";
    recentLog.write(isOn ? "closed for maintenance" : "reopened");
    await web.notify(session, "good", words);
    return c.redirect("/ops", 303);
  });

  app.post("/ops/logs", async (c) => {
    const { session, form } = await web.anyForm(c);
    if (otherLogsUrl === null) throw new HTTPException(403);
    // The button names the place: a page may be older than the last move.
    if (form["to"] !== "home" && form["to"] !== "other") throw new HTTPException(400);
    const isHome = form["to"] === "home";
    const lines = await recentLog.read(1);
    await recentLog.moveTo(isHome ? shop.place.url : otherLogsUrl);
    const words = `New diary entries go to ${isHome ? "the shop's own Redis" : "the other Redis"}. ${lines.length > 0 ? "Older entries stay in place." : ""}`;
    await web.notify(session, "good", words);
    return c.redirect("/ops", 303);
  });

  app.get("/logs", async (c) => {
    const visitor = await web.visitWithForms(c);
    const look = await lookAtLogs(web);
    const body = logsPage({ look, csrf: visitor.session.csrf, canShip: crew.members("shipper").length > 0 });
    return await web.show(c, visitor, { title: "Logs", path: "/logs", watch: { on: "logs" }, body });
  });

  app.post("/logs/ship", async (c) => {
    const { session } = await web.anyForm(c);
    const name = await crew.call<string | null>("shipper", { lines: shippedLines } satisfies ShipCall).catch(() => {
      throw new HTTPException(409);
    });
    if (name === null) throw new HTTPException(429);
    await web.notify(session, "good", `Shipping ${name}: ${shippedLines.toLocaleString("en-GB")} lines.`);
    return c.redirect("/logs", 303);
  });

  app.get("/stats", async (c) => {
    const visitor = await web.visit(c);
    const now = Date.now();
    const route = c.req.query("route") ?? routes[0] ?? "";
    if (!routes.includes(route)) throw new HTTPException(404);
    const asked = spans.find(({ id }) => id === (c.req.query("span") ?? "2h"));
    if (!asked) throw new HTTPException(404);
    const [start, end] = [instant(c.req.query("from")), instant(c.req.query("to"))];
    const isZoomed = start !== null && end !== null && end > start;
    const least = 60_000;
    let [from, to] = isZoomed ? [start, end] : [now - asked.ms, now];
    const oldest = now - 90 * 86_400_000;
    if (to - from < least) [from, to] = [(from + to) / 2 - least / 2, (from + to) / 2 + least / 2];
    to = Math.max(Math.min(to, now), oldest + least);
    from = Math.max(Math.min(from, to - least), oldest);
    const stepMs = stepFor(from, to, now);
    from = Math.floor(from / stepMs) * stepMs;
    const { sales, views, requests } = shop.stats;
    const range = { fromAt: from, toAt: Math.ceil(to), stepMs };
    const hour = { lastMs: 3_600_000 };
    const [sold, seen, soldInAll, seenInAll, windows, slowest] = await Promise.all([
      sales.read(range),
      views.read(range),
      sales.total(),
      views.total(),
      requests.windows({ route }, { ...hour, stepMs: 60_000 }),
      requests.slowest({ route }, { ...hour, limit: 10 }),
    ]);
    const viewsAt = new Map(seen.map(({ startAt, value }) => [startAt, value]));
    const body = statsPage({
      points: sold.map(({ startAt, value }) => ({ at: startAt, sales: value, views: viewsAt.get(startAt) ?? 0 })),
      ...{ stepMs, from, to, span: isZoomed ? "" : asked.id, totals: { sales: soldInAll, views: seenInAll } },
      ...{ route, routes, slowest },
      band: windows.map(({ startAt, summary }) => ({
        at: startAt,
        count: summary.count,
        p50: summary.count === 0 ? 0 : summary.quantile(0.5),
        p95: summary.count === 0 ? 0 : summary.quantile(0.95),
        p99: summary.count === 0 ? 0 : summary.quantile(0.99),
      })),
    });
    return await web.show(c, visitor, { title: "Stats", path: "/stats", hasCharts: true, body });
  });

  app.get("/metrics", async (c) => {
    const { contentType, text } = await shop.stats.stats.expose({ include: [shop.stats.stats] });
    return c.body(text, 200, { "Content-Type": contentType });
  });

  app.get("/mail", async (c) => {
    const visitor = await web.visit(c);
    const page = pageOf(c.req.query("page"));
    const { total, mails } = await lookAtMail(web, page);
    const pages = Math.max(1, Math.ceil(total / mailsPerPage));
    const body = mailPage(mails, { page, pages, hasMore: page < pages });
    // New mails arrive on the first page; the others stay as they are.
    const watch = page === 1 ? { watch: { on: "mail" } } : {};
    return await web.show(c, visitor, { title: "Mail", path: "/mail", ...watch, body });
  });

  app.get("/faults", async (c) => {
    const visitor = await web.visitWithForms(c);
    const body = faultsPage(faults.list(), visitor.session.csrf);
    return await web.show(c, visitor, { title: "Faults", path: "/faults", watch: { on: "faults" }, body });
  });

  app.post("/faults", async (c) => {
    const { session, form } = await web.anyForm(c);
    if (!isFault(form["fault"])) throw new HTTPException(400);
    const fault = form["fault"];
    if (!faults.list().some(({ name }) => name === fault)) throw new HTTPException(403);
    if (!faults.begin(fault)) throw new HTTPException(409);
    const { title = "" } = faults.list().find(({ name }) => name === fault) ?? {};
    // A fault that cuts Redis off may also stop this message.
    await web
      .notify(session, "good", `Started: ${title.toLowerCase()}. The result appears on this page.`)
      .catch(() => undefined);
    return c.redirect("/faults", 303);
  });
};
