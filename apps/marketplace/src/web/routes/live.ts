// The live parts of pages, and the stream that carries them.
import type { Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { isId, lockName } from "../../common/keys.js";
import { watch, type Watch } from "../live.js";
import { chatLines } from "../../pages/chat.js";
import { faultParts } from "../../pages/faults.js";
import { offerList } from "../../pages/item.js";
import { lockPanel, staleNote } from "../../pages/live.js";
import { logsParts } from "../../pages/logs.js";
import { mailList } from "../../pages/mail.js";
import { soldTicker } from "../../pages/market.js";
import { opsParts } from "../../pages/ops.js";
import { waterfall } from "../../pages/order.js";
import { pricesParts } from "../../pages/prices.js";
import { orderChat, pairChat } from "../../common/tools.js";
import { isSameOrigin, type Routes, sessionIdOf } from "../web.js";
import { lookAtLogs, lookAtMail, lookAtOps } from "./behind.js";
import { lookAtOffers, lookAtTicker } from "./market.js";
import { lookAtChat, ownOrder } from "./people.js";
import { lookAtPrices } from "./race.js";

const slowTicks = 4;

export const liveRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;
  const { live, faults } = web.options;
  const nameOf = (user: string): string => shop.nameOf(user);
  const items = new Set(shop.world.items.map(({ id }) => id));

  const itemWatch = (item: string, shown: number, hasOffers: boolean): Watch =>
    watch({
      key: `item ${item}`,
      everyTicks: 1,
      look: async () => {
        const [lock, revision] = await Promise.all([
          shop.lock.inspect(lockName("main", item)).catch(() => null),
          shop.market.revision(item).catch(() => null),
        ]);
        const offers = revision === null ? [] : await lookAtOffers(web, { id: item, revision }).catch(() => []);
        return { lock, revision, offers };
      },
      parts: ({ lock, revision, offers }) => [
        ["lock", lockPanel(lock)],
        ...(hasOffers ? [["offers", offerList(offers)] as const] : []),
        ["stale", staleNote(revision !== null && revision !== shown)],
      ],
    });

  const orderWatch = async (c: Context, id: string): Promise<Watch> => {
    const persona = await web.persona(c);
    if (!persona) throw new HTTPException(401);
    const me = persona.user.id;
    await ownOrder(web, id, me);
    return watch({
      key: `order ${id} ${me}`,
      everyTicks: 1,
      look: async () => {
        const [order, steps, view] = await Promise.all([
          shop.orders.order(id),
          shop.orders.steps(id),
          lookAtChat(web, orderChat(id), me, nameOf),
        ]);
        return { order, steps, view };
      },
      parts: ({ order, steps, view }) => [
        ...(order ? [["jobs", waterfall(order, steps, Date.now())] as const] : []),
        ["chat", chatLines(view)] as const,
      ],
    });
  };

  const chatWatch = async (c: Context, other: string): Promise<Watch> => {
    const persona = await web.persona(c);
    if (!persona) throw new HTTPException(401);
    const me = persona.user.id;
    return watch({
      key: `chat ${me} ${other}`,
      everyTicks: 1,
      look: () => lookAtChat(web, pairChat(me, other), me, nameOf),
      parts: (view) => [["chat", chatLines(view)]],
    });
  };

  const boards: Readonly<Record<string, Watch>> = {
    market: watch({
      key: "market",
      everyTicks: slowTicks,
      look: () => lookAtTicker(shop),
      parts: (ticker) => [["ticker", soldTicker(ticker)]],
    }),
    ops: watch({ key: "ops", everyTicks: 2, look: () => lookAtOps(web), parts: opsParts }),
    logs: watch({ key: "logs", everyTicks: slowTicks, look: () => lookAtLogs(web), parts: logsParts }),
    mail: watch({
      key: "mail",
      everyTicks: slowTicks,
      look: () => lookAtMail(web),
      parts: ({ mails }) => [["mails", mailList(mails)]],
    }),
    prices: watch({ key: "prices", everyTicks: 1, look: () => lookAtPrices(web), parts: pricesParts }),
    faults: watch({
      key: "faults",
      everyTicks: slowTicks,
      look: () => Promise.resolve(faults.list()),
      parts: faultParts,
    }),
  };

  app.get("/live", async (c) => {
    // A foreign page could not read a stream, but it could use up all of them.
    if (c.req.header("sec-fetch-site") !== undefined && !isSameOrigin(c)) throw new HTTPException(403);
    // A reply to HEAD has no body, so nobody would read the stream or end it.
    if (c.req.method === "HEAD") return c.body(null);
    const { item, revision = "0", offers, order, with: other, on } = c.req.query();
    const watches: Watch[] = [];
    if (item !== undefined) {
      if (!items.has(item)) throw new HTTPException(404);
      watches.push(itemWatch(item, Number(revision), offers !== undefined));
    }
    if (order !== undefined) watches.push(await orderWatch(c, order));
    if (other !== undefined) {
      if (!isId(other)) throw new HTTPException(404);
      watches.push(await chatWatch(c, other));
    }
    if (on !== undefined) {
      const board = Object.hasOwn(boards, on) ? boards[on] : undefined;
      if (!board) throw new HTTPException(404);
      watches.push(board);
    }
    const isPrivate = order !== undefined || other !== undefined;
    const session = isPrivate ? sessionIdOf(c) : null;
    const body = live.open(watches, c.req.header("last-event-id"), session ?? undefined);
    if (!body) throw new HTTPException(503);
    return c.body(body, 200, { "Content-Type": "text/event-stream; charset=utf-8" });
  });
};
