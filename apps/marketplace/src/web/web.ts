// The parts that all pages share: session and persona, checks of forms, the frame around a page, and error pages.
import type { Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { HTTPException } from "hono/http-exception";
import type { AccessLog } from "../behind/access-log.js";
import type { Crew } from "../behind/crew.js";
import type { PartnersFacts } from "../behind/partners.js";
import type { Faults } from "../behind/faults.js";
import type { RedisFacts } from "../behind/inspect-line.js";
import type { Item, User } from "../market/market.js";
import { stepAfter } from "../pages/tour.js";
import { type Frame, layout, type Notice, type Page, plainPage } from "../pages/layout.js";
import { isOwnForm, type Session } from "../market/sessions.js";
import type { Shop } from "../behind/shop.js";
import { isId } from "../common/keys.js";
import type { Live } from "./live.js";

const cookieName = "sid";
const mostPages = 10_000;
/** Holds the step of the tour. It is no secret, and ends with the browser. */
export const tourCookie = "tour";

export interface Visitor {
  readonly session: Session | null;
  readonly user: User | null;
}

export type Form = Readonly<Record<string, string>>;

export interface WebOptions {
  readonly shop: Shop;
  readonly live: Live;
  readonly crew: Crew;
  readonly partners: PartnersFacts | null;
  readonly faults: Faults;
  readonly accessLog: AccessLog;
  /** The address of this server, for the buyers of a race. */
  readonly origin: () => string;
  /** A secret of the program that plays visitors. A request that carries it may state its own address. */
  readonly pass: string;
  /** Where the data of the shop lie. */
  readonly redis: RedisFacts;
  /** The second Redis that the component `logs` can be moved to; null if there is none. */
  readonly otherLogsUrl: string | null;
  /** Receives unexpected errors. They are shown to the operator, never to a visitor. */
  readonly onFault: (error: unknown) => void;
}

/** Adds pages to the shop. */
export type Routes = (app: Hono, web: Web) => void;

export class Web {
  readonly options: WebOptions;
  readonly shop: Shop;

  constructor(options: WebOptions) {
    this.options = options;
    this.shop = options.shop;
  }

  /** The address of a request: this machine's, or the one that the program which plays visitors states. */
  addressOf(c: Context): string {
    return this.options.accessLog.addressOf(c.req.header("x-bazaar-visitor"));
  }

  async visit(c: Context, item?: string): Promise<Visitor> {
    const { sessions, accounts, market } = this.shop;
    const id = getCookie(c, cookieName);
    const session = id !== undefined && isSessionId(id) ? await sessions.visit(id, item) : null;
    if (session) accounts.seen(session);
    return { session, user: session?.user ? await market.user(session.user) : null };
  }

  /** The visitor of a page with forms. A new visitor gets a short session, which carries the token of the forms. */
  async visitWithForms(c: Context, item?: string): Promise<Visitor & { session: Session }> {
    const visitor = await this.visit(c, item);
    if (visitor.session) return { ...visitor, session: visitor.session };
    assertMaySend(c, await this.shop.accounts.forms.useAddress(this.addressOf(c)));
    const session = await this.shop.sessions.open();
    remember(c, session);
    return { session, user: null };
  }

  /** The fields of a form, which must carry the token of this session. */
  async ownForm(c: Context, session: Session | null): Promise<Form> {
    const form = await formOf(c);
    if (!session || !isOwnForm(session, form["csrf"])) throw new HTTPException(403);
    assertMaySend(c, await this.shop.accounts.forms.use(session, this.addressOf(c)));
    return form;
  }

  /** A form of any visitor with a session, with or without a persona. */
  async anyForm(c: Context): Promise<{ session: Session; form: Form }> {
    const { session } = await this.visit(c);
    const form = await this.ownForm(c, session);
    if (!session) throw new HTTPException(403);
    return { session, form };
  }

  async signedIn(c: Context): Promise<{ session: Session; user: User; form: Form }> {
    const { session, user } = await this.visit(c);
    if (!session || !user) throw new HTTPException(401);
    return { session, user, form: await this.ownForm(c, session) };
  }

  /** The session and persona of a request for private data; null without a persona. */
  async persona(c: Context): Promise<{ session: Session; user: User } | null> {
    const { session, user } = await this.visit(c);
    return session && user ? { session, user } : null;
  }

  async show(c: Context, { session, user }: Visitor, page: Page): Promise<Response> {
    const { auditor, chat, flags, isGuestServer } = this.shop;
    const unread = user ? await chat.unread(user.id).catch(() => new Map<string, number>()) : new Map<string, number>();
    const maintenance = flags.get("maintenance");
    const step = Number(getCookie(c, tourCookie) ?? 0);
    const tour = stepAfter(step, page.path);
    if (tour !== step) rememberStep(c, tour);
    const frame: Frame = {
      user,
      csrf: session?.csrf ?? "",
      notice: noticeOf(session?.notice),
      audit: await auditor.look(),
      silentMs: auditor.silentMs,
      isGuestServer,
      unread: [...unread.values()].reduce((sum, count) => sum + count, 0),
      maintenance: maintenance.on ? (maintenance.reason ?? "maintenance") : null,
      faults: this.options.faults.list(),
      tour,
    };
    this.shop.stats.views.inc();
    return c.html(layout(frame, page));
  }

  async itemOr404(c: Context): Promise<Item> {
    const id = c.req.param("id");
    const item = isId(id) ? await this.shop.market.item(id) : null;
    if (!item) throw new HTTPException(404);
    return item;
  }

  /** Leaves a notice for the next page of this session. */
  async notify(session: Session, tone: Notice["tone"], text: string): Promise<void> {
    await this.shop.sessions.notify(session, JSON.stringify({ tone, text } satisfies Notice));
  }
}

// --- reading requests ---

const isSessionId = (text: string): boolean => /^[\w-]{22}$/.test(text);

/** The session id in a request's cookie, of the shop or of a race. Whether that session exists is not checked. */
export const sessionIdOf = (c: Context): string | null => {
  const id = getCookie(c, cookieName);
  return id !== undefined && isSessionId(id) ? id : null;
};

export const remember = (c: Context, session: Session): void =>
  // No `Secure`: the shop is served by plain HTTP, and only on the loopback.
  setCookie(c, cookieName, session.id, { httpOnly: true, sameSite: "Lax", path: "/" });

export const rememberStep = (c: Context, step: number): void =>
  setCookie(c, tourCookie, String(step), { httpOnly: true, sameSite: "Lax", path: "/" });

export const forget = (c: Context): void => void deleteCookie(c, cookieName, { path: "/" });

/** Whether one of our pages sent the request. Browsers state its origin; a request that states nothing is refused. */
export const isSameOrigin = (c: Context): boolean => {
  const site = c.req.header("sec-fetch-site");
  const from = c.req.header("origin");
  const isOurs = from === new URL(c.req.url).origin;
  return site === undefined ? isOurs : site === "same-origin" && (from === undefined || isOurs);
};

const formOf = async (c: Context): Promise<Form> => {
  if (!c.req.header("content-type")?.startsWith("application/x-www-form-urlencoded")) throw new HTTPException(400);
  return Object.fromEntries(new URLSearchParams(await c.req.text()));
};

/** The number of a page, from 1. */
export const pageOf = (text: string | undefined): number => {
  if (text === undefined) return 1;
  if (!/^[1-9]\d{0,4}$/.test(text) || Number(text) > mostPages) throw new HTTPException(404);
  return Number(text);
};

export const wantsJson = (c: Context): boolean => c.req.header("accept") === "application/json";

const noticeOf = (text: string | undefined): Notice | null => (text ? (JSON.parse(text) as Notice) : null);

// --- error pages ---

type Problem = readonly [title: string, text: string];

export const problems: Readonly<Record<number, Problem>> & Readonly<Record<400 | 404 | 429 | 500 | 503, Problem>> = {
  400: ["Invalid request", "The shop could not read your request. Go back and try again."],
  401: ["Not logged in", "Choose a persona first. Your session may have expired."],
  403: ["Form expired", "This form is too old or belongs to another session. Reload the page and try again."],
  404: ["Not found", "This page does not exist. If it was a race, it has been deleted."],
  409: ["Not possible now", "This action is not possible right now. Go back and reload the page."],
  421: ["Not allowed", "The shop is only available on this machine."],
  429: ["Too many requests", "Too many requests are waiting. Try again in a few seconds."],
  500: ["Internal error", "The shop has an internal error. This request sold nothing."],
  503: [
    "Temporarily unavailable",
    "The shop cannot reach its database. When the database is back, your page reopens automatically. Then send your form again.",
  ],
};

/** @throws {HTTPException} 429, if its sender may send the next form only in `waitMs`. */
const assertMaySend = (c: Context, waitMs: number): void => {
  if (waitMs === 0) return;
  c.header("Retry-After", String(Math.ceil(waitMs / 1_000)));
  throw new HTTPException(429);
};

/** The page that was asked for, or from which a form was sent. */
const pageBehind = (c: Context): string => {
  const { url, method } = c.req;
  const from = method === "GET" ? url : (c.req.header("referer") ?? "");
  if (!URL.canParse(from)) return "/";
  const { origin, pathname, search } = new URL(from);
  // A path that begins with two slashes would be the address of another server.
  return origin === new URL(url).origin && !pathname.startsWith("//") ? `${pathname}${search}` : "/";
};

export const problem = (c: Context, status: number, title: string, text: string): Response | Promise<Response> => {
  c.status(status as 400);
  if (wantsJson(c)) return c.json({ error: title });
  const back = pageBehind(c);
  const link =
    status === 401
      ? { href: "/personas", name: "Choose a persona" }
      : c.req.method === "GET" || back === "/"
        ? { href: "/", name: "To the market" }
        : { href: back, name: "Back to the page" };
  return c.html(plainPage(title, text, link));
};

/** The page while Redis does not answer. It leads back by itself, with and without scripts. */
export const closed = (c: Context): Response | Promise<Response> => {
  const [title, text] = problems[503];
  c.status(503);
  c.header("Retry-After", "2");
  if (wantsJson(c)) return c.json({ error: title });
  const back = pageBehind(c);
  return c.html(plainPage(title, text, { href: back, name: "Try again" }, back));
};
