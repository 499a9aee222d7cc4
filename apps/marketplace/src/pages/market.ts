import type { LockInspection } from "@kit/lock";
import type { Item } from "../market/market.js";
import { money } from "../common/money.js";
import { categories } from "../seed/categories.js";
import type { Order } from "../orders/orders.js";
import { html, type Html, plural } from "./html.js";
import { choices, clock, count, intro, list, pager } from "./parts.js";

/** The last sales, and their number in each of the last minutes. */
export interface Ticker {
  readonly sold: readonly Order[];
  readonly perMinute: readonly number[];
}

export interface MarketView {
  readonly category: string | null;
  readonly page: number;
  readonly pages: number;
  readonly total: number;
  readonly items: readonly Item[];
  readonly locks: ReadonlyMap<string, LockInspection | null>;
  readonly ticker: Ticker | null;
  /** Shows only the items of this seller. */
  readonly seller?: string;
}

export const categoryName = (id: string): string => categories.find((category) => category.id === id)?.name ?? id;

const address = (category: string | null, page: number): string => {
  const query = new URLSearchParams();
  if (category !== null) query.set("category", category);
  if (page > 1) query.set("page", String(page));
  return query.size === 0 ? "/" : `/?${query.toString()}`;
};

/** Marks a locked item by shape and word, not by colour alone. */
const lockChip = (state: LockInspection | null | undefined): Html =>
  state?.state === "held"
    ? html`<span class="chip held" title="held by ${state.holder ?? "unknown"}">locked</span>`
    : html``;

const card = (item: Item, state: LockInspection | null | undefined): Html =>
  html`<li class="card">
    <a href="/item/${item.id}">
      <img src="/pictures/${item.id}.svg" alt="" width="400" height="300" loading="lazy" />
      <span class="title">${item.title}</span>
      <span class="meta"
        ><span class="price">${item.listing ? money(item.listing.price) : ""}</span>${lockChip(state)}</span
      >
    </a>
  </li>`;

const sparkline = (perMinute: readonly number[]): Html => {
  const most = Math.max(1, ...perMinute);
  const sum = perMinute.reduce((total, value) => total + value, 0);
  const points = perMinute.map((value, minute) => `${minute} ${(19 - (value / most) * 18).toFixed(1)}`);
  return html`<a class="spark" href="/stats">
    <svg viewBox="0 0 ${Math.max(1, perMinute.length - 1)} 20" preserveAspectRatio="none" aria-hidden="true">
      <path d="M${points.join("L")}" />
    </svg>
    <span>${count(sum)} sold in the last hour</span>
  </a>`;
};

export const soldTicker = ({ sold, perMinute }: Ticker): Html =>
  sold.length === 0
    ? html``
    : html`<div class="ticker-head">
          <h2 class="ticker-title">Just sold</h2>
          ${sparkline(perMinute)}
        </div>
        <ol class="sold">
          ${sold.map(
            ({ item, title, price, at }) =>
              html`<li>
                <a href="/item/${item}"
                  ><span class="sold-title">${title}</span><span class="price">${money(price)}</span>${clock(at)}</a
                >
              </li>`,
          )}
        </ol>`;

export const marketPage = (view: MarketView): Html => {
  const { category, page, pages, items, total, locks, ticker, seller } = view;
  const isFront = category === null && page === 1 && seller === undefined;
  const title =
    seller !== undefined
      ? html`<bdi>${seller}</bdi>`
      : category === null
        ? "Fine old things, sold exactly once"
        : categoryName(category);
  const lead = html`${plural(total, "item")} for sale. Each has its own lock, which a buyer holds for a moment.
  ${
    isFront
      ? html`This shop is a demo of <b>kit</b>, Redis packages for Node.js.
          <a href="/tour/1">Take the two-minute tour</a>, or <a href="/about">see the code behind each page</a>.`
      : ""
  }`;
  return html`${intro(title, lead)} ${ticker ? html`<div id="ticker" class="ticker">${soldTicker(ticker)}</div>` : ""}
    ${choices(
      "filter",
      "Categories",
      [{ id: null, name: "Everything" }, ...categories].map(({ id, name }) => ({ id, name, href: address(id, 1) })),
      category,
    )}
    ${list(
      "cards",
      items.map((item) => card(item, locks.get(item.id))),
      "No items here right now.",
    )}
    ${pager("More items", { page, pages, hasMore: page < pages }, (next) => address(category, next))}
    <p class="small-print">
      All keys of this market share one hash tag, <code>{main}</code>. So a sale is one step on a single Redis and on a
      Cluster.
    </p>`;
};
