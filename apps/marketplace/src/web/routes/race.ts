// Races, a buyer that sleeps, and the cost of round trips.
import type { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { isId, priceListLock } from "../../common/keys.js";
import { measure, type Measurements } from "../../race/measure.js";
import { parsePence } from "../../common/money.js";
import { pausePage } from "../../pages/pause.js";
import { type PricesLook, pricesPage } from "../../pages/prices.js";
import { pipelinePage } from "../../pages/pipeline.js";
import { racePage } from "../../pages/race.js";
import { type PauseResult, playPause } from "../../race/pause.js";
import { isRaceWay, type RaceResult, type RaceWay } from "../../race/race.js";
import { type Routes, sessionIdOf, type Web, wantsJson } from "../web.js";

const rememberedVisitors = 200;

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

export const lookAtPrices = async ({ shop }: Web): Promise<PricesLook> => {
  const { priceList, repricing } = shop;
  const [lines, lock] = await Promise.all([priceList.lines(), priceList.inspect()]);
  return { lines, lock, repricing: repricing.state };
};

export const raceRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;
  const { races, isGuestServer } = shop;
  const { origin } = web.options;
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
    return await web.show(c, visitor, { title: "Paused buyer", path: "/race", body });
  });

  app.post("/race/pause", async (c) => {
    await web.anyForm(c);
    if (isGuestServer) throw new HTTPException(403);
    paused = await pausing.run(() => Promise.all([playPause(shop, "setnx"), playPause(shop, "lock")]));
    return wantsJson(c) ? c.json(paused) : c.redirect("/race/pause#result", 303);
  });

  // --- a price list, read and re-priced ---

  app.get("/race/prices", async (c) => {
    const visitor = await web.visitWithForms(c);
    const inspect = web.options.redis.inspect("lock", priceListLock);
    const body = pricesPage({ look: await lookAtPrices(web), csrf: visitor.session.csrf, isGuestServer, inspect });
    return await web.show(c, visitor, { title: "Price list", path: "/race", watch: { on: "prices" }, body });
  });

  app.post("/race/prices", async (c) => {
    await web.anyForm(c);
    if (isGuestServer) throw new HTTPException(403);
    shop.repricing.begin();
    return c.redirect("/race/prices", 303);
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
};
