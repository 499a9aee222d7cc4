// The board of @kit/board: everything that the shop keeps in Redis. A persona of the shop may act on it.
import { createBoard } from "@kit/board";
import { descriptor as autocomplete } from "@kit/autocomplete/descriptor";
import { descriptor as chat } from "@kit/chat/descriptor";
import { descriptor as geoip } from "@kit/geoip/descriptor";
import { descriptor as limiter } from "@kit/limiter/descriptor";
import { descriptor as lock } from "@kit/lock/descriptor";
import { descriptor as logship } from "@kit/logship/descriptor";
import { descriptor as queue } from "@kit/queue/descriptor";
import { descriptor as semaphore } from "@kit/semaphore/descriptor";
import { descriptor as stats } from "@kit/stats/descriptor";
import type { Hono } from "hono";
import type { Routes } from "../web.js";

export const boardRoutes: Routes = (app: Hono, web): void => {
  const { shop, options } = web;
  const people = new WeakMap<Request, string>();
  const board = createBoard(shop.redis, {
    packages: [autocomplete, chat, geoip, limiter, lock, logship, queue, semaphore, stats],
    prefix: shop.place.prefix,
    title: "Bazaar",
    // Everybody may look. In a Redis of somebody else, nobody may act.
    authorize: (request, action) =>
      action === "view" ? "a visitor" : shop.isGuestServer ? undefined : people.get(request),
    jobData: (value) => value,
    onError: options.onFault,
  });
  app.all("/board", async (c) => {
    const { user } = await web.visit(c);
    if (user) people.set(c.req.raw, user.name);
    return await board(c.req.raw);
  });
};
