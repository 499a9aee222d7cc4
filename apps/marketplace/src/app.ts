// The web of the shop: the checks that every request passes, and the routes.
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { HTTPException } from "hono/http-exception";
import { matchedRoutes } from "hono/route";
import { asset } from "./pages/assets.js";
import { isAway } from "./common/away.js";
import { picture } from "./market/pictures.js";
import { RaceQueueFullError } from "./race/race.js";
import { aboutRoutes } from "./web/routes/about.js";
import { behindRoutes } from "./web/routes/behind.js";
import { boardRoutes } from "./web/routes/board.js";
import { liveRoutes } from "./web/routes/live.js";
import { marketRoutes } from "./web/routes/market.js";
import { peopleRoutes } from "./web/routes/people.js";
import { raceRoutes } from "./web/routes/race.js";
import { closed, isSameOrigin, problem, problems, Web, type WebOptions } from "./web/web.js";

const bodyBytes = 64 * 1024;

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "report-uri /csp-report",
].join("; ");

/** `/item/i5/buy` becomes `/item/:id/buy`, and an unknown path `none`. That bounds the number of labels. */
const routeOf = (c: Context): string => {
  if (c.res.status === 404) return "none";
  return matchedRoutes(c).find(({ path }) => path !== "/*")?.path ?? "none";
};

const isMeasured = (path: string): boolean => !/^\/(live|assets|pictures)(\/|$)/.test(path);

export const createApp = (options: WebOptions): Hono => {
  const { shop, accessLog, onFault } = options;
  const { auditor } = shop;
  const web = new Web(options);
  const kinds = new Map(shop.world.items.map(({ id, category }) => [id, category]));
  const cspReports: string[] = [];
  const app = new Hono();

  // --- checks of every request ---

  app.use(async (c, next) => {
    const startedAt = performance.now();
    await next();
    const { path, method } = c.req;
    const { status } = c.res;
    if (isMeasured(path))
      shop.stats.requests.observe({ route: routeOf(c) }, performance.now() - startedAt, {
        subject: `${method} ${path}`.slice(0, 80),
      });
    accessLog.write({
      address: web.addressOf(c),
      at: Date.now(),
      ...{ method, path: path.slice(0, 500), status },
      bytes: Number(c.res.headers.get("content-length") ?? 0),
      agent: (c.req.header("user-agent") ?? "-").slice(0, 120),
    });
  });

  app.use(async (c, next) => {
    await next();
    c.header("Content-Security-Policy", policy);
    c.header("X-Content-Type-Options", "nosniff");
    c.header("Referrer-Policy", "same-origin");
    c.header("Cross-Origin-Opener-Policy", "same-origin");
    c.header("Cross-Origin-Resource-Policy", "same-origin");
    c.header("Permissions-Policy", "camera=(), geolocation=(), microphone=()");
    if (!c.res.headers.has("Cache-Control")) c.header("Cache-Control", "no-store");
  });

  // The shop listens on loopback only. Another name in Host means DNS rebinding: a foreign page whose name resolves to
  // this machine.
  app.use(async (c, next) => {
    const { hostname } = new URL(c.req.url);
    if (!["127.0.0.1", "localhost", "[::1]"].includes(hostname)) throw new HTTPException(421);
    await next();
  });

  app.use(
    bodyLimit({
      maxSize: bodyBytes,
      onError: (c) => problem(c, 413, "Too much data", "The form you sent is too large."),
    }),
  );

  app.use(async (c, next) => {
    const isSafe = c.req.method === "GET" || c.req.method === "HEAD";
    // Browsers send policy reports by themselves, without a form of ours.
    if (!isSafe && c.req.path !== "/csp-report" && !isSameOrigin(c)) throw new HTTPException(403);
    await next();
  });

  app.onError((error, c) => {
    if (error instanceof HTTPException) return problem(c, error.status, ...(problems[error.status] ?? problems[400]));
    if (error instanceof RaceQueueFullError) return problem(c, 429, ...problems[429]);
    if (isAway(error)) return closed(c);
    // After the visitor has disconnected, errors are not reported.
    if (!c.req.raw.signal.aborted) onFault(error);
    return problem(c, 500, ...problems[500]);
  });

  app.notFound((c) => problem(c, 404, ...problems[404]));

  // --- the pages ---

  marketRoutes(app, web);
  peopleRoutes(app, web);
  behindRoutes(app, web);
  boardRoutes(app, web);
  raceRoutes(app, web);
  aboutRoutes(app, web);
  liveRoutes(app, web);

  // --- resources of pages ---

  app.get("/invariants", async (c) => {
    const audit = await auditor.look();
    if (!audit) throw new HTTPException(503);
    return c.json(audit);
  });

  app.get("/pictures/:name", (c) => {
    const id = /^(.+)\.svg$/.exec(c.req.param("name"))?.[1] ?? "";
    const category = kinds.get(id);
    if (category === undefined) throw new HTTPException(404);
    return c.body(picture(id, category), 200, {
      "Content-Type": "image/svg+xml",
      "Cache-Control": "public, max-age=86400",
    });
  });

  app.get("/assets/:digest/:name", (c) => {
    const found = asset(c.req.param("name"));
    if (!found || found.digest !== c.req.param("digest")) throw new HTTPException(404);
    const headers = { "Content-Type": found.type, "Cache-Control": "public, max-age=31536000, immutable" };
    return c.body(new Uint8Array(found.body), 200, headers);
  });

  app.get("/health", (c) => c.json({ ok: true }));

  app.post("/csp-report", async (c) => {
    // Kept for debugging and for the tests, never more than a few.
    if (cspReports.length < 20) cspReports.push((await c.req.text()).slice(0, 2_000));
    return c.body(null, 204);
  });
  app.get("/csp-report", (c) => c.json({ count: cspReports.length, reports: cspReports }));

  return app;
};
