// Personas, their things and orders, and their messages.
import { createHash } from "node:crypto";
import type { Message } from "@kit/chat";
import type { Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { isId } from "../../common/keys.js";
import type { Order } from "../../orders/orders.js";
import { chatBox, type ChatView } from "../../pages/chat.js";
import { type Conversation, conversationPage, messagesPage } from "../../pages/messages.js";
import { orderPage, waterfall } from "../../pages/order.js";
import type { Pages } from "../../pages/parts.js";
import { mePage, personasPage } from "../../pages/people.js";
import { personas } from "../../seed/personas.js";
import { newId, type Session } from "../../market/sessions.js";
import { orderChat, pairChat, sessionsPerPersona, writeTo } from "../../common/tools.js";
import { forget, pageOf, problem, remember, type Routes, type Web, wantsJson } from "../web.js";
import { typed } from "./market.js";

const shownMessages = 100;
const shownChats = 30;
const ordersPerPage = 20;
const thingsPerPage = 24;
const suggested = 8;
const textLength = 2_000;

/** One chat as a member sees it. Messages that are shown count as read. */
export const lookAtChat = async (
  { shop }: Web,
  chat: string,
  me: string,
  nameOf: (user: string) => string,
): Promise<ChatView> => {
  const { messages } = await shop.chat.history(chat, { limit: shownMessages });
  const last: Message<string> | undefined = messages.at(-1);
  // Only messages of others need an acknowledgement; a member's own count as read.
  if (last && last.from !== me) await shop.chat.ack(me, last);
  const { members } = await shop.chat.members(chat, { limit: 10 });
  return { messages, positions: members, me, nameOf };
};

/** The order, if this person is its buyer or seller; otherwise 404. */
export const ownOrder = async ({ shop }: Web, id: string | undefined, user: string): Promise<Order> => {
  const order = id !== undefined && isId(id) ? await shop.orders.order(id) : null;
  if (!order || (order.buyer !== user && order.seller !== user)) throw new HTTPException(404);
  return order;
};

export const peopleRoutes: Routes = (app: Hono, web): void => {
  const { shop } = web;
  const { market, chat, orders, search, accounts } = shop;
  const users = new Set(shop.world.users.map(({ id }) => id));
  const byName = new Map(shop.world.users.map(({ id, name }) => [name.normalize(), id]));
  const nameOf = (user: string): string => shop.nameOf(user);

  /** Ends a session and its streams, since another tab may still show its private data. */
  const leave = async (session: Session): Promise<void> => {
    await accounts.signOut(session);
    web.options.live.endOf(session.id);
  };

  app.get("/personas", async (c) => {
    const visitor = await web.visitWithForms(c);
    const list = await Promise.all(
      personas(shop.world).map(async ({ id, role }) => {
        const user = await market.user(id);
        return user && { ...user, role };
      }),
    );
    const known = list.filter((persona) => persona !== null);
    const body = personasPage(known, visitor.session.csrf, visitor.user?.id ?? "");
    return await web.show(c, visitor, { title: "Personas", path: "/personas", body });
  });

  app.post("/login", async (c) => {
    const { session, form } = await web.anyForm(c);
    const user = form["user"] ?? "";
    if (!users.has(user)) throw new HTTPException(400);
    // Programs play visitors, too, from made-up addresses. They do not make a person present.
    const isPerson = web.addressOf(c) === "127.0.0.1";
    // Every change of persona gets a new session id, which prevents session fixation.
    await leave(session);
    const opened = await accounts.signIn(user, isPerson);
    if (!opened) {
      forget(c);
      const words = `${nameOf(user)} already has ${sessionsPerPersona} open sessions, the maximum. Log out of one, or choose another persona.`;
      return problem(c, 429, "Too many sessions", words);
    }
    remember(c, opened);
    return c.redirect("/", 303);
  });

  app.post("/logout", async (c) => {
    const { session } = await web.anyForm(c);
    await leave(session);
    forget(c);
    return c.redirect("/", 303);
  });

  app.get("/me", async (c) => {
    const visitor = await web.visit(c);
    const { session, user } = visitor;
    if (!session || !user) return c.redirect("/personas", 303);
    const [page, things] = [pageOf(c.req.query("page")), pageOf(c.req.query("things"))];
    const [inventory, recent, own, ordered] = await Promise.all([
      market.inventory(user.id, (things - 1) * thingsPerPage, thingsPerPage),
      market.items(session.recent),
      orders.newest(ordersPerPage, user.id, (page - 1) * ordersPerPage),
      orders.count(user.id),
    ]);
    const pagesOf = (at: number, total: number, each: number): Pages => {
      const pages = Math.max(1, Math.ceil(total / each));
      return { page: at, pages, hasMore: at < pages };
    };
    const body = mePage({
      ...{ user, inventory, recent, orders: own },
      orderPages: pagesOf(page, ordered, ordersPerPage),
      thingPages: pagesOf(things, inventory.total, thingsPerPage),
    });
    return await web.show(c, visitor, { title: user.name, path: "/me", body });
  });

  // --- orders ---

  const personaOf = async (c: Context): Promise<Awaited<ReturnType<Web["persona"]>>> => await web.persona(c);

  app.get("/order/:id", async (c) => {
    const persona = await personaOf(c);
    if (!persona) throw new HTTPException(401);
    const { session, user } = persona;
    const order = await ownOrder(web, c.req.param("id"), user.id);
    const [steps, view] = await Promise.all([
      orders.steps(order.id),
      lookAtChat(web, orderChat(order.id), user.id, nameOf).catch(() => null),
    ]);
    const body = orderPage({
      order,
      buyer: nameOf(order.buyer),
      seller: nameOf(order.seller),
      jobs: waterfall(order, steps, Date.now()),
      chat: chatBox(view, `/order/${order.id}/say`, session.csrf, newId()),
    });
    const watch = { order: order.id };
    return await web.show(c, persona, { title: `Order ${order.id}`, path: `/order/${order.id}`, watch, body });
  });

  /**
   * The message in a form. Its client id makes a repeat the same message. The id belongs to the text, since a visitor may
   * change that before sending it again; and it differs from those of the messages that the shop itself sends.
   */
  const messageOf = (form: Readonly<Record<string, string>>): { body: string; clientId: string } => {
    const [body, id] = [(form["text"] ?? "").trim(), form["id"]];
    if (body === "" || body.length > textLength || !isId(id)) throw new HTTPException(400);
    return { body, clientId: `form-${id}-${createHash("sha256").update(body).digest("base64url").slice(0, 16)}` };
  };

  app.post("/order/:id/say", async (c) => {
    const { user, form } = await web.signedIn(c);
    const order = await ownOrder(web, c.req.param("id"), user.id);
    await chat.send(orderChat(order.id), { from: user.id, ...messageOf(form) });
    await search.wrote(user.id, user.id === order.buyer ? order.seller : order.buyer);
    return wantsJson(c) ? c.json({ ok: true }) : c.redirect(`/order/${order.id}#chat`, 303);
  });

  // --- messages ---

  const conversations = async (me: string): Promise<Conversation[]> => {
    const [unread, own, { items: contacts }] = await Promise.all([
      chat.unread(me),
      orders.newest(shownChats, me),
      search.addressees(me, "", shownChats).then((items) => ({ items })),
    ]);
    const named = [
      ...own.map((order) => ({ chat: orderChat(order.id), href: `/order/${order.id}`, name: order.title })),
      ...contacts.map(({ id, text }) => ({ chat: pairChat(me, id), href: `/messages/with/${id}`, name: text })),
    ];
    const found = await Promise.all(
      named.map(async ({ chat: name, href, name: title }): Promise<Conversation | null> => {
        const page = await chat.history(name, { limit: 1 }).catch(() => null);
        const last = page?.messages.at(-1);
        if (!last) return null;
        const shown = { from: last.from === me ? "You" : nameOf(last.from), body: last.body, at: last.at };
        return { href, name: title, unread: unread.get(name) ?? 0, last: shown };
      }),
    );
    return found
      .filter((one) => one !== null)
      .sort((one, other) => other.unread - one.unread || (other.last?.at ?? 0) - (one.last?.at ?? 0))
      .slice(0, shownChats);
  };

  app.get("/messages", async (c) => {
    const persona = await web.persona(c);
    if (!persona) return c.redirect("/personas", 303);
    const { session, user } = persona;
    const [list, contacts] = await Promise.all([conversations(user.id), search.addressees(user.id, "", 5)]);
    const guild = search.guild(user.id)?.name ?? null;
    const body = messagesPage({ conversations: list, guild, contacts, csrf: session.csrf, id: newId() });
    return await web.show(c, persona, { title: "Messages", path: "/messages", body });
  });

  app.get("/messages/suggest", async (c) => {
    const persona = await web.persona(c);
    if (!persona) throw new HTTPException(401);
    const people = await search.addressees(persona.user.id, typed(c.req.query("q")), suggested);
    return c.json(
      people.map(({ text, ranges, why }) => ({
        text,
        ranges,
        kind: why === "contact" ? "Recent contacts" : "Your guild",
      })),
    );
  });

  app.get("/messages/with/:id", async (c) => {
    const persona = await web.persona(c);
    const other = c.req.param("id");
    if (!persona) throw new HTTPException(401);
    const { session, user } = persona;
    if (!users.has(other) || other === user.id) throw new HTTPException(404);
    const view = await lookAtChat(web, pairChat(user.id, other), user.id, nameOf).catch(() => null);
    if (!view) throw new HTTPException(404);
    const body = conversationPage(nameOf(other), chatBox(view, `/messages/with/${other}/say`, session.csrf, newId()));
    const watch = { with: other };
    return await web.show(c, persona, { title: nameOf(other), path: "/messages/with", watch, body });
  });

  const sendTo = async (from: string, to: string, message: { body: string; clientId: string }): Promise<void> => {
    await writeTo(chat, from, to, message);
    await search.wrote(from, to);
  };

  app.post("/messages/with/:id/say", async (c) => {
    const { user, form } = await web.signedIn(c);
    const other = c.req.param("id");
    if (!users.has(other) || other === user.id) throw new HTTPException(404);
    // Only an existing chat continues here. `/messages/send` opens a new one, for contacts and members of the guild.
    await chat.inspect(pairChat(user.id, other)).catch(() => {
      throw new HTTPException(404);
    });
    await sendTo(user.id, other, messageOf(form));
    return wantsJson(c) ? c.json({ ok: true }) : c.redirect(`/messages/with/${other}#chat`, 303);
  });

  app.post("/messages/send", async (c) => {
    const { session, user, form } = await web.signedIn(c);
    const wanted = typed(form["to"]).trim();
    const message = messageOf(form);
    const to = byName.get(wanted.normalize());
    const people = to === undefined ? [] : await search.addressees(user.id, wanted, 50);
    if (to === undefined || !people.some(({ id }) => id === to)) {
      await web.notify(
        session,
        "bad",
        "Your guild and contacts have no such name. Choose one of the suggestions that appear while you type.",
      );
      return c.redirect("/messages", 303);
    }
    await sendTo(user.id, to, message);
    return c.redirect(`/messages/with/${to}`, 303);
  });
};
