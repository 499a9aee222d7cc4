import { type Connection, KitError, KitUnavailableError, type RedisLike } from "@kit/core";
import { addressOf, Deadline, inTime, type PackageDescriptor, resolve } from "@kit/core/toolkit";
import { formOf, headers, isOwnForm } from "./guard.js";
import { type BoardAction, type BoardOptions, boardRules, type BoardThing } from "./options.js";
import {
  act,
  actedPage,
  type Asked,
  askPage,
  assets,
  commandOf,
  Doctor,
  Finder,
  findingsPart,
  healthPage,
  html,
  type Html,
  inspectorOf,
  layout,
  listPage,
  messageOf,
  note,
  overviewPage,
  overviewPath,
  type Page,
  Samples,
  thingPage,
  type View,
} from "./view/index.js";

/** Answers a request with a page of the board. It never rejects. */
export type Board = (request: Request) => Promise<Response>;

/** How long a page and an action may take. A client without a server may keep a command for ever. */
const pageMs = 8_000;
const actionMs = 25_000;
/** The actions that the page Health shows. */
const keptActions = 20;
const viewing = "view";
const board: BoardThing = { kind: "board", names: [] };

const plainPage = (title: string, status: number, text: string | Html): Page => ({
  title,
  status,
  path: [overviewPath],
  body: note("bad", text),
});
const refused = plainPage("Not allowed", 403, "You may not see or do this. The option authorize decides about it.");
const unknown = plainPage("Not found", 404, "The board has no such page.");
const foreignForm = plainPage("Refused", 403, "This form was not sent by a page of this board.");

/** The thing that an address names, and the function that makes its page. */
interface Route {
  readonly thing: BoardThing;
  readonly page: (view: View) => Promise<Page>;
  readonly asked?: Asked;
}

/** One board: its settings, and what it keeps for all its viewers. */
class Handler {
  readonly #redis: Connection;
  readonly #settings: ReturnType<typeof resolve<typeof boardRules>>;
  readonly #finder: Finder;
  readonly #doctor = new Doctor();
  readonly #samples = new Samples();
  readonly #actions: (BoardAction & { readonly at: string })[] = [];

  constructor(redis: RedisLike, options: BoardOptions) {
    this.#settings = resolve("options", options, boardRules);
    this.#finder = new Finder(this.#settings.packages, this.#settings.prefix);
    // Descriptors are written for `connect()`, and use what every client has.
    this.#redis = redis as Connection;
  }

  async answer(request: Request): Promise<Response> {
    const { searchParams: query } = new URL(request.url);
    const asset = query.get("asset");
    if (asset !== null) return assetReply(asset, query.get("v"));
    const view = this.#viewOf(request, query);
    // Finding what an action would change can take as long as the action, and so can the checks.
    const ms = request.method === "POST" || query.has("do") || query.has("run") ? actionMs : pageMs;
    const page = await this.#inTime(this.#pageFor(request, view), ms).catch((error: unknown) => this.#errorPage(error));
    return reply(page, view, request.method === "HEAD");
  }

  async #inTime<Result>(result: Promise<Result>, ms: number): Promise<Result> {
    const address = addressOf(this.#redis);
    const late = `No answer within ${String(ms / 1_000)} s from ${address}`;
    try {
      return await inTime(result, { deadline: Deadline.in(ms) }, () => new KitUnavailableError(late, address));
    } catch (error) {
      // The client's own error for a command that it cannot send.
      if (messageOf(error) !== undefined || this.#redis.status === "ready") throw error;
      throw new KitUnavailableError(`No connection to ${address}`, address, error);
    }
  }

  async #pageFor(request: Request, view: View): Promise<Page> {
    const route = this.#routeOf(view.query);
    if (!route) return unknown;
    if (request.method === "POST") return await this.#post(request, view, route);
    if (request.method !== "GET" && request.method !== "HEAD")
      return plainPage("Refused", 405, "Only GET and POST are answered.");
    const action = route.asked?.command.path ?? viewing;
    if ((await this.#personFor(request, action, route.thing)) === undefined) return refused;
    return await route.page(view);
  }

  /** The page of an address. The path of the address does not matter, so that the board can be mounted anywhere. */
  #routeOf(query: URLSearchParams): Route | undefined {
    const { packages } = this.#settings;
    const [page, list, kind, path] = ["page", "list", "thing", "do"].map((name) => query.get(name) ?? undefined);
    if (page === "health")
      return { thing: { kind: "health", names: [] }, page: (view) => healthPage(view, this.#doctor, this.#finder) };
    if (list !== undefined) {
      const of = this.#finder.kinds.find(({ listed }) => listed.things === list);
      return of && { thing: { kind: of.inspector.thing, names: [] }, page: (view) => listPage(view, this.#finder, of) };
    }
    if (kind === undefined)
      return page === undefined
        ? { thing: board, page: (view) => overviewPage(view, this.#finder, findingsPart(this.#doctor, "act")) }
        : undefined;
    const inspector = inspectorOf(packages, kind);
    const names = query.getAll("name");
    const { length } = inspector?.args ?? [{}];
    if (!inspector || names.length !== length || names.includes("")) return undefined;
    const thing: BoardThing = { kind, names };
    if (path !== undefined) {
      const command = commandOf(packages, path);
      // Only what a package offers as a button, on that kind of thing.
      if (!command?.buttons?.some((one) => one.thing === kind)) return undefined;
      const asked: Asked = { command, inspector, thing };
      return { thing, asked, page: (view) => askPage(view, asked) };
    }
    if (!isOfQueue(packages, kind)) return { thing, page: (view) => thingPage(view, inspector, names) };
    const ofQueue = async (view: View): Promise<Page> => {
      const { queuePage, jobPage } = await import("./queue/index.js");
      return await (kind === "queue" ? queuePage : jobPage)(view, inspector, names);
    };
    return { thing, page: ofQueue };
  }

  async #post(request: Request, view: View, { asked, thing }: Route): Promise<Page> {
    if (!isOwnForm(request)) return foreignForm;
    if (!asked) return unknown;
    const person = await this.#personFor(request, asked.command.path, thing);
    if (person === undefined) return refused;
    const form = await formOf(request);
    if (!form) return plainPage("Refused", 413, "The form is too large, or is no form.");
    const acted = await act(view, asked, form);
    const { outcome, text, options } = acted;
    if ("error" in acted) this.#report(acted.error);
    const problem = await this.#record({ person, action: asked.command.path, thing, options, outcome, text });
    return actedPage(view, asked, acted, problem);
  }

  /** The name of the person who may. Undefined: refused. */
  async #personFor(request: Request, action: string, thing: BoardThing): Promise<string | undefined> {
    const { authorize } = this.#settings;
    if (!authorize) return action === viewing ? "" : undefined;
    const person: unknown = await authorize(request, action, thing);
    return typeof person === "string" && person !== "" ? person.slice(0, 200) : undefined;
  }

  /** Resolves with what to tell the person if the action could not be logged. */
  async #record(action: BoardAction): Promise<string | undefined> {
    this.#actions.unshift({ ...action, at: new Date().toISOString() });
    this.#actions.length = Math.min(this.#actions.length, keptActions);
    try {
      await this.#settings.onAction?.(action);
      return undefined;
    } catch (error) {
      this.#report(error);
      return "The action ran, but your audit log did not accept it: onAction threw an error.";
    }
  }

  #report(error: unknown): void {
    try {
      this.#settings.onError?.(error);
    } catch {
      // No listener is left to receive this error.
    }
  }

  #errorPage(error: unknown): Page {
    const message = messageOf(error);
    if (message === undefined) this.#report(error);
    const unexpected = "An unexpected error. The board's option onError receives it.";
    if (!KitError.is(error)) return plainPage("Error", message === undefined ? 500 : 400, message ?? unexpected);
    const isAway = error.code === "KIT_UNAVAILABLE";
    const text = html`${error.message} <code>${error.code}</code>`;
    // A page that stays open shows when the server is back.
    return { ...plainPage(isAway ? "Redis is unavailable" : "Error", isAway ? 503 : 500, text), isLive: isAway };
  }

  #viewOf(request: Request, query: URLSearchParams): View {
    const { packages, prefix, title, jobData, metrics } = this.#settings;
    return {
      ...{ redis: this.#redis, packages, prefix, title: title ?? "kit", query, jobData, metrics },
      ...{ actions: this.#actions, samples: this.#samples },
      may: async (action, thing) => (await this.#personFor(request, action, thing)) !== undefined,
    };
  }
}

/** Another package may have a thing that is called `queue`. */
const isOfQueue = (packages: readonly PackageDescriptor[], kind: string): kind is "queue" | "job" =>
  (kind === "queue" || kind === "job") &&
  packages.some(({ name, inspectors = [] }) => name === "queue" && inspectors.some(({ thing }) => thing === kind));

const reply = (page: Page, view: View, isHead: boolean): Response => {
  const body = isHead ? null : layout(page, view);
  const all = {
    ...headers,
    "content-type": "text/html; charset=utf-8",
    ...(page.status === 405 && { allow: "GET, HEAD, POST" }),
  };
  return new Response(body, { status: page.status ?? 200, headers: all });
};

const assetReply = (name: string, digest: string | null): Response => {
  const asset = Object.hasOwn(assets, name) ? assets[name as keyof typeof assets] : undefined;
  if (!asset) return new Response("", { status: 404, headers: { ...headers, "content-type": "text/plain" } });
  const life = digest === asset.digest ? "public, max-age=31536000, immutable" : "no-store";
  return new Response(asset.body, { headers: { ...headers, "content-type": asset.type, "cache-control": life } });
};

/**
 * Creates a board: web pages for everything that kit packages keep in Redis. The returned function answers every web-standard `Request`
 * with a `Response`. The board reads only the query of the address, so you can mount it at any path without an option.
 *
 * The board shows what the descriptors report, and stores nothing. Without `authorize` it is read-only, and visible to everybody who can
 * reach it: mount it after your login. A page sends up to 100 commands. The health checks can send more, so they run only when a viewer
 * asks. If no server answers within 8 s, the page has the status 503. The board never closes or blocks your client.
 *
 * @throws {TypeError | RangeError} an option is invalid.
 *
 * @example
 * const board = createBoard(redis, { packages: [queue, lock] });
 * const response = await board(request);
 */
export const createBoard = (redis: RedisLike, options: BoardOptions): Board => {
  const handler = new Handler(redis, options);
  return async (request) => await handler.answer(request);
};
