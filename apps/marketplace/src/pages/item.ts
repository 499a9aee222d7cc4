import type { LockInspection } from "@kit/lock";
import type { Item, User } from "../market/market.js";
import { money, priceField } from "../common/money.js";
import { html, type Html, plural } from "./html.js";
import { lockPanel } from "./live.js";
import { categoryName } from "./market.js";
import { panel, postForm } from "./parts.js";

export interface NamedOffer {
  readonly buyer: string;
  readonly name: string;
  readonly price: number;
}

export interface ItemView {
  readonly item: Item;
  readonly seller: User | null;
  readonly user: User | null;
  readonly isOwner: boolean;
  readonly views: number;
  readonly lock: LockInspection | null;
  readonly offers: readonly NamedOffer[];
  readonly csrf: string;
  /** A new request id for each page, so that the same form sent twice is one purchase. */
  readonly request: string;
  /** A sale can wait until a replica has it. */
  readonly hasReplicas: boolean;
}

const buyForm = ({ item, csrf, request, hasReplicas }: ItemView, price: number): Html =>
  postForm(
    `/item/${item.id}/buy`,
    { csrf, request, price, revision: item.revision },
    html`<button name="way" value="lock" class="button primary">Buy with the lock</button>
      <button name="way" value="optimistic" class="button">Buy optimistically</button>
      ${
        hasReplicas
          ? html`<label class="tick"
              ><input type="checkbox" name="durable" value="1" checked /> wait until a replica has the sale (lock
              only)</label
            >`
          : ""
      }`,
    "buy",
  );

const holdForm = ({ item, csrf }: ItemView): Html =>
  postForm(
    `/item/${item.id}/hold`,
    { csrf },
    html`<button class="quiet">Hold its lock for 8 seconds</button>
      <span class="hint">Then buy it in another window. That purchase waits until the lock is free.</span>`,
    "hold",
  );

const poundsInput = (example: string, value = ""): Html =>
  html`<span aria-hidden="true">£</span
    ><input
      id="pounds"
      name="pounds"
      inputmode="decimal"
      autocomplete="off"
      required
      maxlength="13"
      value="${value}"
      placeholder="${example}"
    />`;

const offerForm = ({ item, csrf }: ItemView, price: number): Html =>
  postForm(
    `/item/${item.id}/offer`,
    { csrf, revision: item.revision },
    html`<label for="pounds">Your offer, in pounds</label>
      <span class="field">${poundsInput(priceField(Math.max(1, Math.round(price * 0.9))))}</span>
      <button class="button">Make an offer</button>`,
    "haggle",
  );

const listForm = ({ item, csrf, request }: ItemView): Html => {
  const verb = item.listing ? "Change" : "List";
  return postForm(
    `/item/${item.id}/list`,
    { csrf, request, revision: item.revision },
    html`<label for="pounds">${item.listing ? "New price" : "Your price"}, in pounds</label>
      <div class="field">${poundsInput("24.50", item.listing ? priceField(item.listing.price) : "")}</div>
      <div class="buy">
        <button name="way" value="lock" class="button primary">${verb} with the lock</button>
        <button name="way" value="optimistic" class="button">${verb} optimistically</button>
      </div>`,
    "list",
  );
};

const action = (view: ItemView): Html => {
  const { item, user, isOwner } = view;
  if (isOwner) return listForm(view);
  if (!item.listing) return html`<p class="aside">Not for sale.</p>`;
  if (!user) return html`<p><a class="button primary" href="/personas">Choose a persona to buy</a></p>`;
  return buyForm(view, item.listing.price);
};

/** The offers that stand at this moment. */
export const offerList = (offers: readonly NamedOffer[]): Html =>
  html`<ul class="offers">
    ${offers.map(({ name, price }) => html`<li><bdi>${name}</bdi> offers <b>${money(price)}</b></li>`)}
  </ul>`;

/** Each button carries the price that it shows: the buyer may offer another one meanwhile. */
const decisions = ({ item, offers, csrf }: ItemView): Html =>
  html`<div class="offers">
    ${offers.map(({ buyer, name, price }) =>
      postForm(
        `/item/${item.id}/accept`,
        { csrf, price, revision: item.revision },
        html`<button name="buyer" value="${buyer}" class="button">
          Accept ${money(price)} from <bdi>${name}</bdi>
        </button>`,
      ),
    )}
  </div>`;

/** Buyers offer less and see the offers of others, live; the seller decides. */
const offerPanel = (view: ItemView): Html => {
  const { item, offers, user, isOwner } = view;
  if (!item.listing) return html``;
  const body = isOwner
    ? offers.length === 0
      ? html`<p class="empty">None yet.</p>`
      : decisions(view)
    : html`${user ? offerForm(view, item.listing.price) : html`<p class="hint">Buyers can offer less than the price.</p>`}
        <div id="offers">${offerList(offers)}</div>`;
  return panel("Offers", body, "", "offers-title");
};

const owner = ({ item, seller, isOwner }: ItemView): Html => {
  if (isOwner) return html`<p class="seller">${item.listing ? "You are selling this item." : "You own this item."}</p>`;
  return seller ? html`<p class="seller">Sold by <b dir="auto">${seller.name}</b></p>` : html``;
};

export const itemPage = (view: ItemView): Html => {
  const { item, views, lock, user, isOwner } = view;
  return html`<article class="item">
    <div class="picture">
      <img
        src="/pictures/${item.id}.svg"
        alt="Drawing: ${categoryName(item.category).toLowerCase()}"
        width="400"
        height="300"
      />
    </div>
    <div class="offer">
      <p class="label"><a href="/?category=${item.category}">${categoryName(item.category)}</a></p>
      <h1>${item.title}</h1>
      <div class="asking">
        <p class="asked">${item.listing ? money(item.listing.price) : "Not listed"}</p>
        ${owner(view)}
        <p class="hint">Seen ${plural(views, "time")}</p>
      </div>
      <div id="stale" class="stale"></div>
      ${action(view)}
      ${panel(
        "Lock of this item, live",
        html`<div id="lock" class="lock">${lockPanel(lock)}</div>
          ${user && item.listing && !isOwner ? holdForm(view) : ""}`,
        "",
        "lock-title",
      )}
      ${offerPanel(view)}
    </div>
    ${panel(
      "Two ways to buy",
      html`<p>
          <b>With the lock</b>, a sale acquires the locks of item, buyer and seller together, or none of them. Buyers
          wait in order of arrival. The write carries the fencing token of the item's lease. The item rejects older
          tokens, so a buyer whose lease has expired cannot write.
        </p>
        <p>
          <b>Optimistically</b>, no buyer waits. Redis watches the data that the decision depends on. If the data
          changes, the buyer tries again.
        </p>
        <p>Both check item, price, money and revision during the write, so you can mix them.</p>`,
      "",
      "ways-title",
    )}
  </article>`;
};
