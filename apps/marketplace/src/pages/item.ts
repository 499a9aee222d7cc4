import type { LockInspection } from "@kit/lock";
import type { Item, User } from "../market.js";
import { money, priceField } from "../money.js";
import { html, type Html, plural, safe } from "./html.js";
import { lockPanel } from "./live.js";
import { categoryName } from "./market.js";
import { csrfField, slot, text } from "./parts.js";

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

const hidden = (fields: Readonly<Record<string, string | number>>): Html[] =>
  Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`);

const buyForm = ({ item, csrf, request, hasReplicas }: ItemView, price: number): Html =>
  html`<form method="post" action="/item/${item.id}/buy" class="buy">
    ${hidden({ csrf, request, price, revision: item.revision })}
    <button name="way" value="lock" class="button primary">Buy with the lock</button>
    <button name="way" value="optimistic" class="button">Buy optimistically</button>
    ${
      hasReplicas
        ? html`<label class="tick"
            ><input type="checkbox" name="durable" value="1" checked /> wait until a replica has the sale (with the
            lock)</label
          >`
        : ""
    }
  </form>`;

const holdForm = ({ item, csrf }: ItemView): Html =>
  html`<form method="post" action="/item/${item.id}/hold" class="hold">
    ${csrfField(csrf)}
    <button class="quiet">Hold its lock for 8 seconds</button>
    <span class="hint"
      >Then buy it in another window: that purchase waits, and goes through when the lock is free.</span
    >
  </form>`;

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
  html`<form method="post" action="/item/${item.id}/offer" class="haggle">
    ${hidden({ csrf, revision: item.revision })}
    <label for="pounds">Your offer, in pounds</label>
    <span class="field">${poundsInput(priceField(Math.max(1, Math.round(price * 0.9))))}</span>
    <button class="button">Make an offer</button>
  </form>`;

const listForm = ({ item, csrf, request }: ItemView): Html =>
  html`<form method="post" action="/item/${item.id}/list" class="list">
    ${hidden({ csrf, request, revision: item.revision })}
    <label for="pounds">${item.listing ? "New price" : "Your price"}, in pounds</label>
    <div class="field">${poundsInput("24.50", item.listing ? priceField(item.listing.price) : "")}</div>
    <div class="buy">
      <button name="way" value="lock" class="button primary">
        ${item.listing ? "Change it" : "List it"} with the lock
      </button>
      <button name="way" value="optimistic" class="button">
        ${item.listing ? "Change it" : "List it"} optimistically
      </button>
    </div>
  </form>`;

const action = (view: ItemView): Html => {
  const { item, user, isOwner } = view;
  if (isOwner) return listForm(view);
  if (!item.listing) return html`<p class="aside">Not for sale. Its owner keeps it for now.</p>`;
  if (!user) return html`<p><a class="button primary" href="/personas">Choose a persona to buy</a></p>`;
  return buyForm(view, item.listing.price);
};

/** The offers that stand at this moment. */
export const offerList = (offers: readonly NamedOffer[]): string =>
  text(
    html`<ul class="offers">
      ${offers.map(({ name, price }) => html`<li><bdi>${name}</bdi> offers <b>${money(price)}</b></li>`)}
    </ul>`,
  );

/** Each button carries the price that it shows: the buyer may offer another one meanwhile. */
const decisions = ({ item, offers, csrf }: ItemView): Html =>
  html`<div class="offers">
    ${offers.map(
      ({ buyer, name, price }) =>
        html`<form method="post" action="/item/${item.id}/accept">
          ${hidden({ csrf, price, revision: item.revision })}
          <button name="buyer" value="${buyer}" class="button">Accept ${money(price)} of <bdi>${name}</bdi></button>
        </form>`,
    )}
  </div>`;

/** Buyers offer less and see the offers of others, live; the seller decides. */
const offerPanel = (view: ItemView): Html => {
  const { item, offers, user, isOwner } = view;
  if (!item.listing) return html``;
  return html`<section class="panel" aria-labelledby="offers-title">
    <h2 id="offers-title">Offers</h2>
    ${
      isOwner
        ? offers.length === 0
          ? html`<p class="empty">None yet.</p>`
          : decisions(view)
        : html`${user ? offerForm(view, item.listing.price) : html`<p class="hint">Buyers may offer less than the price.</p>`}
          ${slot("offers", offerList(offers))}`
    }
  </section>`;
};

const owner = ({ item, seller, isOwner }: ItemView): Html => {
  if (isOwner) return html`<p class="seller">${item.listing ? "You offer this." : "This is yours."}</p>`;
  return seller ? html`<p class="seller">Offered by <b dir="auto">${seller.name}</b></p>` : html``;
};

export const itemPage = (view: ItemView): Html => {
  const { item, views, lock, user, isOwner } = view;
  return html`<article class="item">
    <div class="picture">
      <img
        src="/pictures/${item.id}.svg"
        alt="A drawing: ${categoryName(item.category).toLowerCase()}"
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
      <section class="panel" aria-labelledby="lock-title">
        <h2 id="lock-title">The lock of this item, live</h2>
        <div id="lock" class="lock">${safe(lockPanel(lock))}</div>
        ${user && item.listing && !isOwner ? holdForm(view) : ""}
      </section>
      ${offerPanel(view)}
    </div>
    <section class="panel words" aria-labelledby="ways-title">
      <h2 id="ways-title">Two ways, one item</h2>
      <p>
        <b>With the lock</b>, buyers wait in order of arrival. The write carries the fencing token of the lease, and the
        item refuses a token older than the newest it has seen, so a buyer that slept past its lease comes too late.
      </p>
      <p>
        <b>Optimistically</b>, nobody waits. Redis watches the data that the decision depends on. If they change, the
        buyer decides again.
      </p>
      <p>Both check item, price, money and revision at the instant of the write. Mix them as you like.</p>
    </section>
  </article>`;
};
