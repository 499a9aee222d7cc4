// The web of the shop: what may come in, and which page answers.
import { KitError } from "@kit/core";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { HTTPException } from "hono/http-exception";
import { asset } from "./assets.js";
import { type BenchRow, benchSessions } from "./bench.js";
import { isId } from "./keys.js";
import type { Busy, Item, User, Way } from "./market.js";
import { money, parsePence, parsePrice } from "./money.js";
import { benchPage } from "./pages/bench.js";
import { itemPage } from "./pages/item.js";
import { type Frame, layout, type Notice, type Page, plainPage } from "./pages/layout.js";
import { marketPage } from "./pages/market.js";
import { mePage, personasPage } from "./pages/people.js";
import { racePage } from "./pages/race.js";
import { picture } from "./pictures.js";
import { RaceQueueFullError } from "./race.js";
import { isRaceWay } from "./race-ways.js";
import type { BuyOutcome, ListOutcome } from "./scripts/index.js";
import { personas } from "./seed/personas.js";
import { categories } from "./seed/titles.js";
import { isOwnForm, newId, type Session } from "./sessions.js";
import type { Shop } from "./shop.js";

const bodyBytes = 64 * 1024;
const perPage = 24;
const cookieName = "sid";
const mostPages = 10_000;

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

interface Visitor {
  readonly session: Session | null;
  readonly user: User | null;
}

type Form = Readonly<Record<string, string>>;

export interface AppOptions {
  readonly shop: Shop;
  /** Where the shop is reached, for the buyers of a race. */
  readonly origin: () => string;
  /** Faults that are nobody's input: for the operator, never for the visitor. */
  readonly onFault: (error: unknown) => void;
}

export const createApp = ({ shop, origin, onFault }: AppOptions): Hono => {
  const { market, sessions, races, live, auditor, isGuestServer } = shop;
  const kinds = new Map(shop.world.items.map(({ id, category }) => [id, category]));
  const users = new Set(shop.world.users.map(({ id }) => id));
  const cspReports: string[] = [];
  let benchRows: BenchRow[] | null = null;
  let isBenchRunning = false;
  const app = new Hono();

  // --- what every request passes ---

  app.use(async (c, next) => {
    await next();
    c.header("Content-Security-Policy", policy);
    c.header("X-Content-Type-Options", "nosniff");
    c.header("Referrer-Policy", "same-origin");
    c.header("Cross-Origin-Opener-Policy", "same-origin");
    c.header("Cross-Origin-Resource-Policy", "same-origin");
    if (!c.res.headers.has("Cache-Control")) c.header("Cache-Control", "no-store");
  });

  // The shop listens on the loopback only. Another name in Host is a page elsewhere whose name was bent to point here.
  app.use(async (c, next) => {
    const { hostname } = new URL(c.req.url);
    if (!["127.0.0.1", "localhost", "[::1]"].includes(hostname)) throw new HTTPException(421);
    await next();
  });

  app.use(
    bodyLimit({
      maxSize: bodyBytes,
      onError: (c) => problem(c, 413, "Too much", "That was more than a form of ours can hold."),
    }),
  );

  app.use(async (c, next) => {
    const isSafe = c.req.method === "GET" || c.req.method === "HEAD";
    // Browsers send reports on their own account.
    if (!isSafe && c.req.path !== "/csp-report" && !isSameOrigin(c)) throw new HTTPException(403);
    await next();
  });

  app.onError((error, c) => {
    if (error instanceof HTTPException) return problem(c, error.status, ...(problems[error.status] ?? problems[400]));
    if (error instanceof RaceQueueFullError) return problem(c, 429, ...problems[429]);
    if (isAway(error)) {
      c.header("Retry-After", "2");
      return problem(c, 503, ...problems[503]);
    }
    onFault(error);
    return problem(c, 500, ...problems[500]);
  });

  app.notFound((c) => problem(c, 404, ...problems[404]));

  // --- who is it ---

  const visit = async (c: Context, item?: string): Promise<Visitor> => {
    const id = getCookie(c, cookieName);
    const session = id !== undefined && isSessionId(id) ? await sessions.visit(id, item) : null;
    return { session, user: session?.user ? await market.user(session.user) : null };
  };

  /** A visitor whose page has forms: somebody new gets a short session that carries their token. */
  const visitWithForms = async (c: Context, item?: string): Promise<Visitor & { session: Session }> => {
    const visitor = await visit(c, item);
    if (visitor.session) return { ...visitor, session: visitor.session };
    const session = await sessions.open();
    remember(c, session);
    return { session, user: null };
  };

  /** The fields of a form that this very session was given. */
  const ownForm = async (c: Context, session: Session | null): Promise<Form> => {
    const form = await formOf(c);
    if (!session || !isOwnForm(session, form["csrf"])) throw new HTTPException(403);
    return form;
  };

  const signedIn = async (c: Context): Promise<{ session: Session; user: User; form: Form }> => {
    const { session, user } = await visit(c);
    if (!session || !user) throw new HTTPException(401);
    return { session, user, form: await ownForm(c, session) };
  };

  const show = async (c: Context, { session, user }: Visitor, page: Page): Promise<Response> => {
    const frame: Frame = {
      user,
      csrf: session?.csrf ?? "",
      notice: noticeOf(session?.notice),
      audit: await auditor.look(),
      isGuestServer,
    };
    return c.html(layout(frame, page));
  };

  const tell = async (session: Session, tone: Notice["tone"], text: string): Promise<void> =>
    await sessions.tell(session, JSON.stringify({ tone, text } satisfies Notice));

  // --- the market ---

  app.get("/", async (c) => {
    const category = c.req.query("category") ?? null;
    if (category !== null && !categories.some(({ id }) => id === category)) throw new HTTPException(404);
    const page = pageOf(c.req.query("page"));
    const [visitor, { total, items }] = await Promise.all([
      visit(c),
      market.page(category, (page - 1) * perPage, perPage),
    ]);
    const pages = Math.max(1, Math.ceil(total / perPage));
    if (page > pages) throw new HTTPException(404);
    const locks = new Map(await Promise.all(items.map(async ({ id }) => [id, await live.lockState(id)] as const)));
    const view = { category, page, pages, total, items, locks };
    return await show(c, visitor, { title: "Market", path: "/", body: marketPage(view) });
  });

  const itemOr404 = async (c: Context): Promise<Item> => {
    const id = c.req.param("id");
    const item = isId(id) ? await market.item(id) : null;
    if (!item) throw new HTTPException(404);
    return item;
  };

  app.get("/item/:id", async (c) => {
    const item = await itemOr404(c);
    const [visitor, lock] = await Promise.all([visit(c, item.id), live.lockState(item.id)]);
    const { session, user } = visitor;
    const owner = item.listing?.seller ?? null;
    const isOwner = user !== null && (owner === user.id || (owner === null && (await market.owns(user.id, item.id))));
    const view = {
      item,
      seller: owner === null ? null : await market.user(owner),
      user,
      isOwner,
      views: session?.views ?? (await market.views(item.id)),
      lock,
      csrf: session?.csrf ?? "",
      request: newId(),
    };
    const watch = { item: item.id, revision: item.revision };
    return await show(c, visitor, { title: item.title, path: `/item/${item.id}`, watch, body: itemPage(view) });
  });

  app.post("/item/:id/buy", async (c) => {
    const { session, user, form } = await signedIn(c);
    const item = await itemOr404(c);
    const [way, price, revision, request] = [wayOf(form), parsePence(form["price"]), revisionOf(form), form["request"]];
    if (!way || price === null || revision === null || !isId(request)) throw new HTTPException(400);
    const outcome = await market.buy(way, { item: item.id, buyer: user.id, price, revision, request }, user.name);
    if (wantsJson(c)) return c.json({ outcome }, outcome.kind === "sold" ? 200 : 409);
    await tell(session, outcome.kind === "sold" ? "good" : "bad", buyWords(outcome, item.title, price));
    return c.redirect(`/item/${item.id}`, 303);
  });

  app.post("/item/:id/list", async (c) => {
    const { session, user, form } = await signedIn(c);
    const item = await itemOr404(c);
    const [way, revision, request] = [wayOf(form), revisionOf(form), form["request"]];
    if (!way || revision === null || !isId(request)) throw new HTTPException(400);
    const price = parsePrice(form["pounds"] ?? "");
    if (price === null) {
      if (wantsJson(c)) return c.json({ outcome: { kind: "bad-price" } }, 400);
      await tell(
        session,
        "bad",
        "That is no price. Give pounds and pence between £0.01 and £1,000,000, such as 24.50.",
      );
      return c.redirect(`/item/${item.id}`, 303);
    }
    const outcome = await market.list(way, { item: item.id, seller: user.id, price, revision, request }, user.name);
    const good = outcome.kind === "listed" || outcome.kind === "repriced";
    if (wantsJson(c)) return c.json({ outcome }, good ? 200 : outcome.kind === "not-yours" ? 403 : 409);
    await tell(session, good ? "good" : "bad", listWords(outcome, item.title));
    return c.redirect(`/item/${item.id}`, 303);
  });

  app.post("/item/:id/hold", async (c) => {
    const { session, user } = await signedIn(c);
    const item = await itemOr404(c);
    const held = await shop.hold(item.id, user.id, user.name);
    const text = held
      ? "The lock is yours for eight seconds. Others wait in line."
      : "You hold one already, or the line is too long just now.";
    await tell(session, held ? "good" : "bad", text);
    return c.redirect(`/item/${item.id}`, 303);
  });

  // --- people ---

  app.get("/personas", async (c) => {
    const visitor = await visitWithForms(c);
    const list = await Promise.all(
      personas(shop.world).map(async ({ id, role }) => {
        const user = await market.user(id);
        return user && { ...user, role };
      }),
    );
    const body = personasPage(
      list.filter((persona) => persona !== null),
      visitor.session.csrf,
      visitor.user?.id ?? "",
    );
    return await show(c, visitor, { title: "Personas", path: "/personas", body });
  });

  app.post("/login", async (c) => {
    const { session } = await visit(c);
    const form = await ownForm(c, session);
    const user = form["user"] ?? "";
    if (!users.has(user)) throw new HTTPException(400);
    // A new id with every change of persona: one that was planted before is worth nothing afterwards.
    if (session) await sessions.close(session);
    remember(c, await sessions.open(user));
    return c.redirect("/", 303);
  });

  app.post("/logout", async (c) => {
    const { session } = await visit(c);
    await ownForm(c, session);
    if (session) await sessions.close(session);
    deleteCookie(c, cookieName, { path: "/" });
    return c.redirect("/", 303);
  });

  app.get("/me", async (c) => {
    const visitor = await visit(c);
    const { session, user } = visitor;
    if (!session || !user) return c.redirect("/personas", 303);
    const [inventory, recent] = await Promise.all([market.inventory(user.id), market.items(session.recent)]);
    return await show(c, visitor, { title: user.name, path: "/me", body: mePage({ user, inventory, recent }) });
  });

  // --- races ---

  app.get("/race", async (c) => {
    const way = c.req.query("way") ?? "none";
    if (!isRaceWay(way)) throw new HTTPException(404);
    const visitor = await visitWithForms(c);
    const body = racePage({ way, result: null, csrf: visitor.session.csrf, isGuestServer });
    return await show(c, visitor, { title: "Race", path: "/race", body });
  });

  app.post("/race", async (c) => {
    const { session } = await visit(c);
    const { way } = await ownForm(c, session);
    if (!isRaceWay(way)) throw new HTTPException(400);
    if (isGuestServer) throw new HTTPException(403);
    const { id } = await races.run(way, origin());
    return c.redirect(`/race/${id}#result`, 303);
  });

  app.get("/race/:id", async (c) => {
    const id = c.req.param("id");
    const result = isId(id) ? await races.result(id) : null;
    if (!result) throw new HTTPException(404);
    if (wantsJson(c)) return c.json(result);
    const visitor = await visitWithForms(c);
    const body = racePage({ way: result.way, result, csrf: visitor.session.csrf, isGuestServer });
    return await show(c, visitor, { title: "Race", path: "/race", body });
  });

  // One of the buyers. Their sessions are those of the race's own market.
  app.post("/race/:id/buy", async (c) => {
    const race = races.running(c.req.param("id"));
    if (!race) throw new HTTPException(404);
    const id = getCookie(c, cookieName);
    const session = id !== undefined && isSessionId(id) ? await race.sessions.visit(id) : null;
    if (!session?.user) throw new HTTPException(401);
    const form = await ownForm(c, session);
    const { item, request } = form;
    const [price, revision] = [parsePence(form["price"]), revisionOf(form)];
    if (!isId(item) || !isId(request) || price === null || revision === null) throw new HTTPException(400);
    const outcome = await race.buy({ item, buyer: session.user, price, revision, request });
    return c.json({ outcome }, outcome.kind === "sold" ? 200 : 409);
  });

  // --- what a page view costs ---

  app.get("/sessions", async (c) => {
    const visitor = await visitWithForms(c);
    const body = benchPage({ rows: benchRows, csrf: visitor.session.csrf, isGuestServer });
    return await show(c, visitor, { title: "Sessions", path: "/sessions", body });
  });

  app.post("/sessions", async (c) => {
    const { session } = await visit(c);
    await ownForm(c, session);
    if (isGuestServer) throw new HTTPException(403);
    if (isBenchRunning) throw new HTTPException(429);
    isBenchRunning = true;
    try {
      benchRows = await benchSessions(shop.redis, shop.redisUrl);
    } finally {
      isBenchRunning = false;
    }
    return c.redirect("/sessions", 303);
  });

  // --- what a page needs besides itself ---

  app.get("/live", (c) => {
    const item = c.req.query("item") ?? null;
    if (item !== null && !kinds.has(item)) throw new HTTPException(404);
    const body = live.open(item, Number(c.req.query("revision") ?? "0"));
    if (!body) throw new HTTPException(503);
    return c.body(body, 200, { "Content-Type": "text/event-stream; charset=utf-8" });
  });

  app.get("/invariants", async (c) => c.json(await auditor.fresh()));

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
    // Kept for a look and for the tests, never more than a few.
    if (cspReports.length < 20) cspReports.push((await c.req.text()).slice(0, 2_000));
    return c.body(null, 204);
  });
  app.get("/csp-report", (c) => c.json({ count: cspReports.length, reports: cspReports }));

  return app;
};

// --- reading what came in ---

const isSessionId = (text: string): boolean => /^[\w-]{22}$/.test(text);

const remember = (c: Context, session: Session): void =>
  // No `Secure`: the shop is reached by plain HTTP on the loopback, and nowhere else.
  setCookie(c, cookieName, session.id, { httpOnly: true, sameSite: "Lax", path: "/" });

/** A browser says where a request comes from; one that says nothing is not a browser with our page open. */
const isSameOrigin = (c: Context): boolean => {
  const site = c.req.header("sec-fetch-site");
  const from = c.req.header("origin");
  const isOurs = from === new URL(c.req.url).origin;
  return site === undefined ? isOurs : site === "same-origin" && (from === undefined || isOurs);
};

const formOf = async (c: Context): Promise<Form> => {
  if (!c.req.header("content-type")?.startsWith("application/x-www-form-urlencoded")) throw new HTTPException(400);
  return Object.fromEntries(new URLSearchParams(await c.req.text()));
};

const wantsJson = (c: Context): boolean => c.req.header("accept") === "application/json";

const wayOf = ({ way }: Form): Way | null => (way === "lock" || way === "optimistic" ? way : null);

const revisionOf = ({ revision }: Form): number | null =>
  revision !== undefined && /^\d{1,15}$/.test(revision) ? Number(revision) : null;

const pageOf = (text: string | undefined): number => {
  if (text === undefined) return 1;
  if (!/^[1-9]\d{0,4}$/.test(text) || Number(text) > mostPages) throw new HTTPException(404);
  return Number(text);
};

const noticeOf = (text: string | undefined): Notice | null => (text ? (JSON.parse(text) as Notice) : null);

// --- saying what happened ---

const buyWords = (outcome: BuyOutcome | Busy, title: string, price: number): string => {
  switch (outcome.kind) {
    case "sold":
      return outcome.repeat
        ? `That form was sent before: ${title} is yours for ${money(outcome.price)}, once.`
        : `Yours: ${title} for ${money(outcome.price)}${outcome.fence === "" ? "" : `, under fencing token ${outcome.fence}`}.`;
    case "not-for-sale":
      return "Too late: it is not for sale any more. You paid nothing.";
    case "price-changed":
      return `The price is ${money(outcome.price)} now, you saw ${money(price)}. You paid nothing; look again.`;
    case "changed":
      return "It was sold and offered anew since you looked. You paid nothing; look again.";
    case "short":
      return `You have ${money(outcome.funds)}, it costs ${money(price)}.`;
    case "stale-fence":
      return "Your lease on the item ran out and somebody came after you. You paid nothing; try again.";
    case "own-item":
      return "It is yours already.";
    case "busy":
      return "Others kept the item busy for five seconds. You paid nothing; try again.";
  }
};

const listWords = (outcome: ListOutcome | Busy, title: string): string => {
  switch (outcome.kind) {
    case "listed":
      return `${title} is on the market for ${money(outcome.price)}.`;
    case "repriced":
      return `${title} costs ${money(outcome.price)} now.`;
    case "not-yours":
      return "That is not yours to offer.";
    case "changed":
      return "It changed since you looked; look again.";
    case "stale-fence":
      return "Your lease on the item ran out and somebody came after you; try again.";
    case "busy":
      return "Others kept the item busy for five seconds; try again.";
  }
};

// --- when it does not work ---

type Problem = readonly [title: string, text: string];

const problems: Readonly<Record<number, Problem>> & Readonly<Record<400 | 404 | 429 | 500 | 503, Problem>> = {
  400: ["That makes no sense", "The shop could not read what was sent. Go back and try again."],
  401: ["Who are you?", "Choose a persona first; your session may have ended."],
  403: ["Not from here", "This form was not made for you, or it is too old. Open the page again and repeat it."],
  404: ["Not here", "There is nothing under this address; it may have been a race that is over."],
  421: ["Wrong door", "The shop answers on this machine only."],
  429: ["One moment", "Several are waiting for that already. Try again in a few seconds."],
  500: ["Something broke", "That is our fault. Nothing was sold by it."],
  503: [
    "Closed for a moment",
    "The shop cannot reach its books. It opens again by itself; whatever you sent can be sent once more.",
  ],
};

const problem = (c: Context, status: number, title: string, text: string): Response | Promise<Response> => {
  c.status(status as 400);
  if (wantsJson(c)) return c.json({ error: title });
  const link = status === 401 ? { href: "/personas", name: "Choose a persona" } : { href: "/", name: "To the market" };
  return c.html(plainPage(title, text, link));
};

const awayCodes = new Set(["KIT_UNAVAILABLE", "KIT_UNKNOWN_OUTCOME", "KIT_CLOSED", "KIT_LOCK_LOST"]);

/** Redis does not answer, or not now. ioredis has no class of its own for most of it. */
const isAway = (error: unknown): boolean => {
  if (KitError.is(error)) return error.retryable || awayCodes.has(error.code);
  if (!(error instanceof Error)) return false;
  return (
    error.name === "MaxRetriesPerRequestError" ||
    /^(Connection is closed|Command timed out|Stream isn't writeable|LOADING|CLUSTERDOWN|MASTERDOWN)/.test(
      error.message,
    ) ||
    /^(ECONN|EPIPE|ETIMEDOUT)/.test((error as NodeJS.ErrnoException).code ?? "")
  );
};
