import type { LockInspection } from "@kit/lock";
import type { Item, User } from "../market.js";
import { money, priceField } from "../money.js";
import { html, type Html, plural, safe } from "./html.js";
import { lockPanel } from "./live.js";
import { categoryName } from "./market.js";

export interface ItemView {
  readonly item: Item;
  readonly seller: User | null;
  readonly user: User | null;
  readonly isOwner: boolean;
  readonly views: number;
  readonly lock: LockInspection | null;
  readonly csrf: string;
  /** A new one for each page: the same form sent twice is one purchase. */
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
    </form>
    <form method="post" action="/item/${item.id}/hold" class="hold">
      ${hidden({ csrf })}
      <button class="quiet">Hold its lock for 8 seconds</button>
      <span class="hint"
        >Then buy it in another window: that purchase waits in line, and goes through when you let go.</span
      >
    </form>`;

const listForm = ({ item, csrf, request }: ItemView): Html =>
  html`<form method="post" action="/item/${item.id}/list" class="list">
    ${hidden({ csrf, request, revision: item.revision })}
    <label for="pounds">${item.listing ? "New price" : "Your price"}, in pounds</label>
    <div class="field">
      <span aria-hidden="true">£</span
      ><input
        id="pounds"
        name="pounds"
        inputmode="decimal"
        autocomplete="off"
        required
        maxlength="13"
        value="${item.listing ? priceField(item.listing.price) : ""}"
        placeholder="24.50"
      />
    </div>
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

const owner = ({ item, seller, isOwner }: ItemView): Html => {
  if (isOwner) return html`<p class="seller">${item.listing ? "You offer this." : "This is yours."}</p>`;
  return seller ? html`<p class="seller">Offered by <b dir="auto">${seller.name}</b></p>` : html``;
};

export const itemPage = (view: ItemView): Html => {
  const { item, views, lock } = view;
  return html`<article class="item">
    <div>
      <div class="picture">
        <img
          src="/pictures/${item.id}.svg"
          alt="A drawing: ${categoryName(item.category).toLowerCase()}"
          width="400"
          height="300"
        />
      </div>
      <section class="panel words" aria-labelledby="ways-title">
        <h2 id="ways-title">Two ways, one item</h2>
        <p>
          <b>With the lock</b>, buyers stand in line. The write carries the fencing token of the lease, and the item
          refuses a token older than the newest it has seen: who slept past the lease comes too late.
        </p>
        <p>
          <b>Optimistically</b>, nobody waits. What the decision depends on is watched; if it changes, the decision is
          taken again.
        </p>
        <p>Both check item, price, money and revision at the instant of the write. Mix them as you like.</p>
      </section>
    </div>
    <div class="offer">
      <p class="label"><a href="/?category=${item.category}">${categoryName(item.category)}</a></p>
      <h1>${item.title}</h1>
      <div class="terms">
        <p class="asked">${item.listing ? money(item.listing.price) : "Not listed"}</p>
        ${owner(view)}
        <p class="hint">Seen ${plural(views, "time")}</p>
      </div>
      <div id="stale" class="stale"></div>
      ${action(view)}
      <section class="panel" aria-labelledby="lock-title">
        <h2 id="lock-title">The lock of this item, live</h2>
        <div id="lock" class="lock">${safe(lockPanel(lock))}</div>
      </section>
    </div>
  </article>`;
};
