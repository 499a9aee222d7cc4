import type { Item, User } from "../market/market.js";
import { money } from "../common/money.js";
import type { Order } from "../orders/orders.js";
import { html, type Html, plural } from "./html.js";
import { intro, list, type Pages, pager, postForm } from "./parts.js";

export interface Persona extends User {
  readonly role: string;
}

export const personasPage = (personas: readonly Persona[], csrf: string, current: string): Html =>
  html`${intro("Who do you want to be?", "No password needed. Choose a persona, then buy and sell. You can switch at any time.")}
  ${postForm(
    "/login",
    { csrf },
    html`${personas.map(
      ({ id, name, funds, role }) =>
        html`<button name="user" value="${id}" class="persona" ${id === current ? html` aria-current="true"` : ""}>
          <span class="name" dir="auto">${name}</span>
          <span class="meta"><span>${role}</span><span class="purse">${money(funds)}</span></span>
        </button>`,
    )}`,
    "personas",
  )}`;

const thing = (item: Item): Html =>
  html`<li class="card small">
    <a href="/item/${item.id}">
      <img src="/pictures/${item.id}.svg" alt="" width="400" height="300" loading="lazy" />
      <span class="title">${item.title}</span>
      <span class="meta"><span class="price">${item.listing ? money(item.listing.price) : "not listed"}</span></span>
    </a>
  </li>`;

export interface MeView {
  readonly user: User;
  readonly inventory: { readonly total: number; readonly items: readonly Item[] };
  readonly recent: readonly Item[];
  readonly orders: readonly Order[];
  readonly orderPages: Pages;
  readonly thingPages: Pages;
}

const orderRow = (order: Order, me: string): Html =>
  html`<li>
    <a href="/order/${order.id}"
      ><code>${order.id}</code><span class="hit">${order.title}</span
      ><span class="fact">${order.buyer === me ? "bought" : "sold"}</span
      ><span class="price">${money(order.price)}</span></a
    >
  </li>`;

export const mePage = ({ user, inventory, recent, orders, orderPages, thingPages }: MeView): Html =>
  html`<section class="intro">
      <h1 dir="auto">${user.name}</h1>
      <p class="lead">
        ${money(user.funds)} to spend, ${plural(inventory.total, "item")} not for sale.
        <a href="/personas">Switch persona</a>
      </p>
    </section>
    <h2>Orders</h2>
    ${list(
      "results",
      orders.map((order) => orderRow(order, user.id)),
      "No orders yet.",
    )}
    ${pager("More orders", orderPages, (page) => `/me?page=${page}`)}
    <h2>Your items, not for sale</h2>
    ${list("cards", inventory.items.map(thing), "No items yet. Buy one on the market.")}
    ${pager("More items", thingPages, (page) => `/me?things=${page}`)}
    <h2>Recently viewed</h2>
    ${list("cards", recent.map(thing), "No items yet.")}
    <p class="small-print">The last 25 items. They are deleted with the session.</p>`;
