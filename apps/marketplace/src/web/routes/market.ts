// The market and its things: looking, searching, buying, selling.
import type { Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { isId } from "../../common/keys.js";
import { lockName } from "../../common/keys.js";
import type { Busy, Way } from "../../market/market.js";
import { money, parsePence, parsePrice } from "../../common/money.js";
import { isListed } from "../../orders/offers.js";
import { orderId } from "../../orders/orders.js";
import { itemPage, type NamedOffer } from "../../pages/item.js";
import { marketPage, type Ticker } from "../../pages/market.js";
import { searchPage } from "../../pages/search.js";
import type { BuyOutcome, ListOutcome } from "../../scripts/index.js";
import { categories } from "../../seed/categories.js";
import { newId } from "../../market/sessions.js";
import type { Shop } from "../../behind/shop.js";
import { type Form, pageOf, problem, type Routes, wantsJson, type Web } from "../web.js";

const perPage = 24;
const perSearchPage = 40;
/** The most that the index answers with. */
const mostFound = 200;
const suggested = 8;
const tickerLength = 6;
const offersShown = 8;
const queryLength = 80;

const wayOf = ({ way }: Form): Way | null => (way === "lock" || way === "optimistic" ? way : null);

const revisionOf = ({ revision }: Form): number | null =>
  revision !== undefined && /^\d{1,15}$/.test(revision) ? Number(revision) : null;

/** Typed text, normalised and cut to the length of a name. */
export const typed = (text: string | undefined): string => (text ?? "").normalize().slice(0, queryLength);

export const lookAtTicker = async ({ orders, stats }: Shop): Promise<Ticker> => {
  const minuteMs = 60_000;
  const toAt = Math.floor(Date.now() / minuteMs) * minuteMs;
  const [sold, minutes] = await Promise.all([
    orders.newest(tickerLength),
    stats.sales.read({ fromAt: toAt - 60 * minuteMs, toAt, stepMs: minuteMs }),
  ]);
  return { sold, perMinute: minutes.map(({ value }) => value) };
};

export const lookAtOffers = async (
  { shop }: Web,
  item: { readonly id: string; readonly revision: number },
): Promise<NamedOffer[]> => {
  const offers = (await shop.offers.of(item)).slice(0, offersShown);
  return offers.map(({ buyer, price }) => ({ buyer, price, name: shop.nameOf(buyer) }));
};

export const marketRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;
  const { market, search } = shop;

  app.get("/", async (c) => {
    const visitor = await web.visit(c);
    const category = c.req.query("category") ?? null;
    if (category !== null && !categories.some(({ id }) => id === category)) throw new HTTPException(404);
    const page = pageOf(c.req.query("page"));
    const [{ total, items }, ticker] = await Promise.all([
      market.page(category, (page - 1) * perPage, perPage),
      category === null && page === 1 ? lookAtTicker(shop) : null,
    ]);
    const pages = Math.max(1, Math.ceil(total / perPage));
    if (page > pages) throw new HTTPException(404);
    const locks = new Map(
      await Promise.all(
        items.map(async ({ id }) => [id, await shop.lock.inspect(lockName("main", id)).catch(() => null)] as const),
      ),
    );
    const view = { category, page, pages, total, items, locks, ticker };
    return await web.show(c, visitor, { title: "Market", path: "/", watch: { on: "market" }, body: marketPage(view) });
  });

  app.get("/search", async (c) => {
    const query = typed(c.req.query("q"));
    const visitor = await web.visit(c);
    const page = pageOf(c.req.query("page"));
    const last = Math.ceil(mostFound / perSearchPage);
    if (page > last) throw new HTTPException(404);
    const { asked, hits } = await search.find(query, Math.min(page * perSearchPage + 1, mostFound), c.req.raw.signal);
    const results = await Promise.all(
      hits
        .slice((page - 1) * perSearchPage, page * perSearchPage)
        .map(async (hit) => ({ hit, item: hit.kind === "item" ? await market.item(hit.id) : null })),
    );
    const body = searchPage({
      query,
      asked,
      results,
      page,
      hasMore: hits.length > page * perSearchPage,
      first: (page - 1) * perSearchPage,
    });
    return await web.show(c, visitor, { title: "Search", path: "/search", query, body });
  });

  app.get("/suggest", async (c) => {
    const { hits } = await search.find(typed(c.req.query("q")), suggested, c.req.raw.signal);
    return c.json(
      hits.map(({ kind, id, text, ranges }) => ({
        ...{ text, ranges, kind: kind === "seller" ? "Seller" : "Thing" },
        href: kind === "seller" ? `/seller/${id}` : `/item/${id}`,
      })),
    );
  });

  app.get("/seller/:id", async (c) => {
    const id = c.req.param("id");
    const name = shop.nameOf(id);
    if (name === id) throw new HTTPException(404);
    const visitor = await web.visit(c);
    const own = shop.world.items.filter(({ owner }) => owner === id).map((item) => item.id);
    const items = (await market.items(own)).filter(({ listing }) => listing?.seller === id);
    const view = {
      category: null,
      page: 1,
      pages: 1,
      total: items.length,
      items,
      locks: new Map(),
      ticker: null,
      seller: name,
    };
    return await web.show(c, visitor, { title: name, path: "/", body: marketPage(view) });
  });

  app.get("/item/:id", async (c) => {
    const item = await web.itemOr404(c);
    const lock = shop.lock.inspect(lockName("main", item.id)).catch(() => null);
    const visitor = await web.visit(c, item.id);
    const { session, user } = visitor;
    const owner = item.listing?.seller ?? null;
    const isOwner = user !== null && (owner === user.id || (owner === null && (await market.owns(user.id, item.id))));
    const view = {
      item,
      seller: owner === null ? null : await market.user(owner),
      user,
      isOwner,
      views: session?.views ?? (await market.views(item.id)),
      lock: await lock,
      offers: await lookAtOffers(web, item),
      csrf: session?.csrf ?? "",
      request: newId(),
      hasReplicas: shop.hasReplicas,
    };
    const watch = { item: item.id, revision: item.revision, ...(isOwner || !item.listing ? {} : { offers: 1 }) };
    return await web.show(c, visitor, { title: item.title, path: `/item/${item.id}`, watch, body: itemPage(view) });
  });

  /** The reply to a purchase while the shop is closed to buyers; null while it is open. */
  const whenClosed = (c: Context): ReturnType<typeof problem> | null => {
    const { on, reason } = shop.flags.get("maintenance");
    if (!on) return null;
    return problem(c, 503, "Closed for maintenance", `${reason ?? "Maintenance in progress"}. You were not charged.`);
  };

  app.post("/item/:id/buy", async (c) => {
    const { session, user, form } = await web.signedIn(c);
    const item = await web.itemOr404(c);
    const [way, price, revision, request] = [wayOf(form), parsePence(form["price"]), revisionOf(form), form["request"]];
    if (!way || price === null || revision === null || !isId(request)) throw new HTTPException(400);
    const closed = whenClosed(c);
    if (closed) return closed;
    const copies = form["durable"] === "1" && shop.hasReplicas ? 1 : 0;
    const outcome = await market.buy(
      way,
      { item: item.id, buyer: user.id, price, revision, request, copies },
      user.name,
    );
    let order: string | null = null;
    let isRepeat = false;
    if (outcome.kind === "sold") {
      const { seller } = outcome;
      const sale = { request, item: item.id, buyer: user.id, seller, price, revision, at: Date.now() };
      order = orderId(sale);
      // The sale stands. If placing its order fails here, a worker finds the sale in the ledger and places it. A repeat
      // may be the first to get here, since the reply of the first can be lost.
      const isNew = await shop.orders.place(sale).then(
        (placed) => placed.isNew,
        () => false,
      );
      if (isNew) shop.recentLog.write(`sold ${item.title} for ${money(price)}`);
      isRepeat = outcome.repeat && !isNew;
    }
    if (wantsJson(c)) return c.json({ outcome, ...(order === null ? {} : { order }) }, order === null ? 409 : 200);
    await web.notify(session, order === null ? "bad" : "good", buyWords(outcome, item.title, price, isRepeat));
    return c.redirect(order === null ? `/item/${item.id}` : `/order/${order}`, 303);
  });

  app.post("/item/:id/offer", async (c) => {
    const { session, user, form } = await web.signedIn(c);
    const item = await web.itemOr404(c);
    const closed = whenClosed(c);
    if (closed) return closed;
    const [price, revision] = [parsePrice(form["pounds"] ?? ""), revisionOf(form)];
    if (revision === null) throw new HTTPException(400);
    const asked = isListed(item) && item.listing.seller !== user.id ? item.listing.price : 0;
    const isShown = item.revision === revision;
    const isGood = isShown && isListed(item) && price !== null && price < asked;
    if (isGood) {
      await shop.offers.make(item, user.id, price);
      await web.shop.search.wrote(user.id, item.listing.seller);
    }
    if (wantsJson(c)) return c.json({ ok: isGood }, isGood ? 200 : 409);
    const words =
      asked === 0
        ? "You cannot buy this item."
        : !isShown
          ? "The item was sold or listed again since you opened the page. No offer was made. Reload the page."
          : isGood
            ? `You offered ${money(price)}. The seller replies with a message. You pay only if the seller accepts.`
            : `Offer less than ${money(asked)}, in pounds and pence, such as 24.50.`;
    await web.notify(session, isGood ? "good" : "bad", words);
    return c.redirect(`/item/${item.id}`, 303);
  });

  app.post("/item/:id/accept", async (c) => {
    const { session, user, form } = await web.signedIn(c);
    const item = await web.itemOr404(c);
    if (!isListed(item) || item.listing.seller !== user.id) throw new HTTPException(404);
    const closed = whenClosed(c);
    if (closed) return closed;
    const [price, revision, buyer] = [parsePence(form["price"]), revisionOf(form), form["buyer"]];
    if (price === null || revision === null || !isId(buyer)) throw new HTTPException(400);
    // The offer as the page showed it. The buyer may offer another price by now, and the script then refuses.
    const outcome = await shop.offers.accept({ ...item, revision }, { buyer, price });
    const isSold = outcome.kind === "sold";
    if (wantsJson(c)) return c.json({ outcome }, isSold ? 200 : 409);
    await web.notify(session, isSold ? "good" : "bad", acceptWords(outcome, item.title));
    return c.redirect(`/item/${item.id}`, 303);
  });

  app.post("/item/:id/list", async (c) => {
    const { session, user, form } = await web.signedIn(c);
    const item = await web.itemOr404(c);
    const [way, revision, request] = [wayOf(form), revisionOf(form), form["request"]];
    if (!way || revision === null || !isId(request)) throw new HTTPException(400);
    const price = parsePrice(form["pounds"] ?? "");
    if (price === null) {
      if (wantsJson(c)) return c.json({ outcome: { kind: "bad-price" } }, 400);
      const words = "Invalid price. Enter pounds and pence from £0.01 to £1,000,000, such as 24.50.";
      await web.notify(session, "bad", words);
      return c.redirect(`/item/${item.id}`, 303);
    }
    const outcome = await market.list(way, { item: item.id, seller: user.id, price, revision, request }, user.name);
    const good = outcome.kind === "listed" || outcome.kind === "repriced";
    if (wantsJson(c)) return c.json({ outcome }, good ? 200 : outcome.kind === "not-yours" ? 403 : 409);
    await web.notify(session, good ? "good" : "bad", listWords(outcome, item.title));
    return c.redirect(`/item/${item.id}`, 303);
  });

  app.post("/item/:id/hold", async (c) => {
    const { session, user } = await web.signedIn(c);
    const item = await web.itemOr404(c);
    const held = await shop.hold(item.id, user.id, user.name);
    const text = held
      ? "You hold the lock for eight seconds. Buy the item now in another window, as another persona. That purchase waits until the lock is free."
      : "You already hold a lock, or too many others are waiting.";
    await web.notify(session, held ? "good" : "bad", text);
    return c.redirect(`/item/${item.id}`, 303);
  });
};

const buyWords = (outcome: BuyOutcome | Busy, title: string, price: number, isRepeat: boolean): string => {
  switch (outcome.kind) {
    case "sold":
      return isRepeat
        ? `You sent this form before. You bought ${title} once, for ${money(outcome.price)}.`
        : `You bought ${title} for ${money(outcome.price)}${outcome.fence === "" ? "" : `, with fencing token ${outcome.fence}`}.${copyWords(outcome.copies)}`;
    case "not-for-sale":
      return "Too late: this item is no longer for sale. You were not charged.";
    case "price-changed":
      return `The price changed from ${money(price)} to ${money(outcome.price)}. You were not charged. Reload the page.`;
    case "changed":
      return "The item was sold and listed again since you opened the page. You were not charged. Reload the page.";
    case "short":
      return `You have ${money(outcome.funds)}, but the item costs ${money(price)}.`;
    case "stale-fence":
      return "Your lease on the item expired, and another buyer acquired it. You were not charged. Try again.";
    case "own-item":
      return "You already own this item.";
    case "busy":
      return "The item was locked for nine seconds. You were not charged. Try again.";
  }
};

const acceptWords = (outcome: BuyOutcome | Busy, title: string): string => {
  switch (outcome.kind) {
    case "sold":
      return `Sold: ${title} for ${money(outcome.price)}.`;
    case "short":
      return `The buyer now has only ${money(outcome.funds)}. The item was not sold.`;
    case "busy":
      return "The item was locked for nine seconds. It was not sold. Try again.";
    default:
      return "The offer is no longer valid, because you or the buyer changed a price. The item was not sold. Reload the page.";
  }
};

const copyWords = (copies: number | undefined): string =>
  copies === undefined
    ? ""
    : copies > 0
      ? ` ${copies} ${copies === 1 ? "replica has" : "replicas have"} the sale.`
      : " No replica confirmed the sale in time. The master has it.";

const listWords = (outcome: ListOutcome | Busy, title: string): string => {
  switch (outcome.kind) {
    case "listed":
      return `You listed ${title} for ${money(outcome.price)}.`;
    case "repriced":
      return `${title} now costs ${money(outcome.price)}.`;
    case "not-yours":
      return "You don't own this item.";
    case "changed":
      return "The item has changed. Reload the page.";
    case "stale-fence":
      return "Your lease on the item expired, and another buyer acquired it. Try again.";
    case "busy":
      return "The item was locked for nine seconds. Try again.";
  }
};
