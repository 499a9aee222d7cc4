// The parts of a page that the stream replaces.
import { hasBooks, itemsHold, moneyHolds, nobodyInDebt } from "../market/auditor.js";
import type { LockInspection } from "@kit/lock";
import { money } from "../common/money.js";
import type { Audit } from "../scripts/index.js";
import { html, type Html, mark, plural } from "./html.js";
import { fact } from "./parts.js";

/** A part of a page: the id of its element, and the content. */
export type Part = readonly [target: string, content: Html];

/** A part in an event. One event may carry several, each with its target element. */
export const partial = (target: string, content: string): string =>
  `<hx-partial hx-target="#${target}" hx-swap="innerHTML">${content}</hx-partial>`;

/** Small screens hide `more`. */
const verdict = (good: boolean, name: string, words: string, more = ""): Html =>
  html`<span class="verdict"
    >${mark(good)}<span
      ><b>${name}</b>
      <span class="fact">${words}${more === "" ? "" : html`<span class="more">${more}</span>`}</span></span
    ></span
  >`;

const unknown = (silentMs: number): string =>
  `unknown for ${Math.max(1, Math.round(silentMs / 1_000))} s: Redis is unreachable`;
const gone = "lost: Redis restarted without its data";

/** The cells of the bar at the foot of every page, by their ids. */
export const barParts = (audit: Audit | null, silentMs = 0): Part[] => {
  if (!audit || !hasBooks(audit)) {
    const why = audit ? gone : unknown(silentMs);
    return [
      ["bar-money", verdict(false, "Money", why)],
      ["bar-items", verdict(false, "Items", why)],
      ["bar-sales", html``],
    ];
  }
  const { openingMoney, money: now, openingItems, items, itemsTwice, inDebt, sales } = audit;
  const moneyOk = moneyHolds(audit) && nobodyInDebt(audit);
  const moneyFact = moneyOk
    ? money(now)
    : moneyHolds(audit)
      ? `${plural(inDebt, "person", "people")} in debt`
      : `${money(now)} instead of ${money(openingMoney)}`;
  const itemsOk = itemsHold(audit);
  const itemFact = itemsOk
    ? plural(items, "item")
    : `${openingItems - items} lost, ${itemsTwice} duplicated, of ${plural(openingItems, "item")}`;
  return [
    ["bar-money", verdict(moneyOk, "Money", moneyFact, moneyOk ? ", exactly the starting total" : "")],
    ["bar-items", verdict(itemsOk, "Items", itemFact, itemsOk ? ", each with exactly one owner" : "")],
    ["bar-sales", html`${plural(sales, "sale")} so far`],
  ];
};

/** The state of the lock of one item. */
export const lockPanel = (state: LockInspection | null): Html => {
  if (!state) return html`<p class="lock-state away">${mark(false)} Redis is unreachable.</p>`;
  const { holder, msLeft, queue, waiters, fencingToken } = state;
  const isHeld = state.state === "held";
  const figure = (id: string, value: string | number): Html => html`<span data-lock="${id}">${value}</span>`;
  return html`${
      isHeld
        ? html`<p class="lock-state held"><span class="chip held">held</span> by <b>${holder ?? "unknown"}</b></p>`
        : html`<p class="lock-state free"><span class="chip free">free</span></p>`
    }
    <dl class="facts">
      ${fact("Lease left", figure("left", isHeld && msLeft !== null && Number.isFinite(msLeft) ? `${(msLeft / 1_000).toFixed(1)} s` : "–"))}
      ${fact("Waiters", figure("waiters", waiters))}
      ${fact("Fencing token", figure("fence", fencingToken ?? "none yet"))}
    </dl>
    ${
      queue.length === 0
        ? ""
        : html`<p class="label">Waiting</p>
            <ol class="queue">
              ${queue.map(({ holder: waiter }) => html`<li>${waiter}</li>`)}
            </ol>`
    }`;
};

/** A note that the item has changed since the page was made. */
export const staleNote = (isStale: boolean): Html =>
  isStale ? html`<a class="note" href="">This item has changed. Reload the page</a>` : html``;
