// Things to try: races, measurements, faults; and the pages that explain the shop.
import { existsSync, readFileSync } from "node:fs";
import type { Hono } from "hono";
import { deleteCookie } from "hono/cookie";
import { HTTPException } from "hono/http-exception";
import { isFault } from "../faults.js";
import { isId } from "../keys.js";
import { measure, type Measurements } from "../measure.js";
import { parsePence } from "../money.js";
import { aboutPage, docsPage } from "../pages/about.js";
import { faultsPage } from "../pages/faults.js";
import { pausePage } from "../pages/pause.js";
import { pipelinePage } from "../pages/pipeline.js";
import { racePage } from "../pages/race.js";
import { startOfStep } from "../pages/tour.js";
import { type PauseResult, playPause } from "../pause.js";
import { isRaceWay, type RaceResult, type RaceWay } from "../race.js";
import { screens } from "../screens.js";
import { rememberStep, type Routes, sessionIdOf, tourCookie, wantsJson } from "../web.js";

const rememberedVisitors = 200;
const packages = "autocomplete chat core geoip lock logship queue semaphore stats testing".split(" ");

/** Runs one task at a time. While it runs, another is refused with 429. */
class OneAtATime {
  #isRunning = false;

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isRunning) throw new HTTPException(429);
    this.#isRunning = true;
    try {
      return await work();
    } finally {
      this.#isRunning = false;
    }
  }
}

export const tryRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;
  const { races, isGuestServer } = shop;
  const { origin, faults } = web.options;
  const measuring = new OneAtATime();
  const pausing = new OneAtATime();
  let measured: Measurements | null = null;
  /** The last result of each kind of race, by the session that started it. */
  const seen = new Map<string, Map<RaceWay, RaceResult>>();

  const remembered = (session: string): Map<RaceWay, RaceResult> => {
    const own = seen.get(session) ?? new Map<RaceWay, RaceResult>();
    seen.delete(session);
    seen.set(session, own);
    if (seen.size > rememberedVisitors) seen.delete(seen.keys().next().value ?? "");
    return own;
  };

  // --- races ---

  app.get("/race", async (c) => {
    const way = c.req.query("way") ?? "none";
    if (!isRaceWay(way)) throw new HTTPException(404);
    const visitor = await web.visitWithForms(c);
    const own = remembered(visitor.session.id);
    const body = racePage({ way, result: own.get(way) ?? null, all: own, csrf: visitor.session.csrf, isGuestServer });
    return await web.show(c, visitor, { title: "Race", path: "/race", body });
  });

  app.post("/race", async (c) => {
    const { session, form } = await web.anyForm(c);
    const { way } = form;
    if (!isRaceWay(way)) throw new HTTPException(400);
    if (isGuestServer) throw new HTTPException(403);
    const result = await races.run(way, origin());
    remembered(session.id).set(way, result);
    return c.redirect(`/race/${result.id}#result`, 303);
  });

  let paused: readonly PauseResult[] | null = null;
  app.get("/race/pause", async (c) => {
    const visitor = await web.visitWithForms(c);
    const body = pausePage({ results: paused, csrf: visitor.session.csrf, isGuestServer });
    return await web.show(c, visitor, { title: "A buyer that sleeps", path: "/race", body });
  });

  app.post("/race/pause", async (c) => {
    await web.anyForm(c);
    if (isGuestServer) throw new HTTPException(403);
    paused = await pausing.run(() => Promise.all([playPause(shop, "setnx"), playPause(shop, "lock")]));
    return wantsJson(c) ? c.json(paused) : c.redirect("/race/pause#result", 303);
  });

  app.get("/race/:id", async (c) => {
    const id = c.req.param("id");
    const result = isId(id) ? await races.result(id) : null;
    if (!result) throw new HTTPException(404);
    if (wantsJson(c)) return c.json(result);
    const visitor = await web.visitWithForms(c);
    const all = remembered(visitor.session.id);
    const body = racePage({ way: result.way, result, all, csrf: visitor.session.csrf, isGuestServer });
    return await web.show(c, visitor, { title: "Race", path: "/race", body });
  });

  // A purchase by one of the buyers. Their sessions belong to the race's own market.
  app.post("/race/:id/buy", async (c) => {
    const race = races.running(c.req.param("id"));
    if (!race) throw new HTTPException(404);
    const id = sessionIdOf(c);
    const session = id === null ? null : await race.sessions.visit(id);
    if (!session?.user) throw new HTTPException(401);
    const form = await web.ownForm(c, session);
    const { item, request, revision } = form;
    const price = parsePence(form["price"]);
    if (!isId(item) || !isId(request) || price === null || !/^\d{1,15}$/.test(revision ?? ""))
      throw new HTTPException(400);
    const outcome = await race.buy({ item, buyer: session.user, price, revision: Number(revision), request });
    return c.json({ outcome }, outcome.kind === "sold" ? 200 : 409);
  });

  // --- the cost of round trips ---

  app.get("/pipeline", async (c) => {
    const visitor = await web.visitWithForms(c);
    const body = pipelinePage(measured, visitor.session.csrf, isGuestServer);
    return await web.show(c, visitor, { title: "Pipeline", path: "/pipeline", body });
  });

  app.post("/pipeline", async (c) => {
    await web.anyForm(c);
    if (isGuestServer) throw new HTTPException(403);
    measured = await measuring.run(() => measure(shop.redis, shop.place, shop.market.keys));
    return c.redirect("/pipeline", 303);
  });

  // --- faults ---

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
      .notify(session, "good", `Under way: ${title.toLowerCase()}. The result appears on this page.`)
      .catch(() => undefined);
    return c.redirect("/faults", 303);
  });

  // --- explanations ---

  app.get("/about", async (c) => {
    const visitor = await web.visit(c);
    return await web.show(c, visitor, { title: "What am I looking at?", path: "/about", body: aboutPage(screens) });
  });

  app.get("/tour/:step", async (c) => {
    const step = c.req.param("step");
    if (step === "0") {
      deleteCookie(c, tourCookie, { path: "/" });
      return c.redirect("/about", 303);
    }
    const start = /^\d$/.test(step) ? startOfStep(Number(step)) : undefined;
    if (start === undefined) throw new HTTPException(404);
    rememberStep(c, Number(step));
    // The step about an order begins at the visitor's newest order.
    const persona = start === "/me" ? await web.persona(c) : null;
    const [order] = persona ? await shop.orders.newest(1, persona.user.id) : [];
    return c.redirect(order ? `/order/${order.id}` : start, 303);
  });

  app.get("/docs/:package", async (c) => {
    const name = c.req.param("package");
    if (!packages.includes(name)) throw new HTTPException(404);
    const file = new URL(`../../../packages/${name}/README.md`, import.meta.url);
    if (!existsSync(file)) throw new HTTPException(404);
    const visitor = await web.visit(c);
    return await web.show(c, visitor, {
      title: `@kit/${name}`,
      path: "/about",
      body: docsPage(name, readFileSync(file, "utf8")),
    });
  });
};
