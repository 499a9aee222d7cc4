// The parts of a page that the stream replaces. They are text, since the stream compares each with the one sent last.
import { hasBooks, itemsHold, moneyHolds, nobodyInDebt } from "../auditor.js";
import type { LockInspection } from "@kit/lock";
import { money } from "../money.js";
import type { Audit } from "../scripts/index.js";
import { html, mark, plural } from "./html.js";

const text = (piece: unknown): string => String(piece);

/** A part in an event. One event may carry several, each with its target element. */
export const partial = (target: string, content: string): string =>
  `<hx-partial hx-target="#${target}" hx-swap="innerHTML">${content}</hx-partial>`;

/** Small screens hide `more`. */
const verdict = (good: boolean, name: string, fact: string, more = ""): string =>
  text(
    html`<span class="verdict"
      >${mark(good)}<span
        ><b>${name}</b>
        <span class="fact">${fact}${more === "" ? "" : html`<span class="more">${more}</span>`}</span></span
      ></span
    >`,
  );

const unknown = (silentMs: number): string =>
  `unknown since ${Math.max(1, Math.round(silentMs / 1_000))} s: Redis does not answer`;
const gone = "gone: Redis came back without its data";

/** The cells of the bar at the foot of every page, by their ids. */
export const barParts = (audit: Audit | null, silentMs = 0): [id: string, content: string][] => {
  if (!audit || !hasBooks(audit)) {
    const why = audit ? gone : unknown(silentMs);
    return [
      ["bar-money", verdict(false, "Money", why)],
      ["bar-items", verdict(false, "Items", why)],
      ["bar-sales", ""],
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
    : `${openingItems - items} lost, ${itemsTwice} in two places, of ${plural(openingItems, "item")}`;
  return [
    ["bar-money", verdict(moneyOk, "Money", moneyFact, moneyOk ? ", not a penny more or less" : "")],
    ["bar-items", verdict(itemsOk, "Items", itemFact, itemsOk ? ", each in exactly one place" : "")],
    ["bar-sales", `${plural(sales, "sale")} so far`],
  ];
};

const row = (name: string, value: string, id: string): string =>
  text(
    html`<div>
      <dt>${name}</dt>
      <dd data-lock="${id}">${value}</dd>
    </div>`,
  );

/** The state of the lock of one item. */
export const lockPanel = (state: LockInspection | null): string => {
  if (!state) return text(html`<p class="lock-state away">${mark(false)} Redis does not answer.</p>`);
  const held = state.state === "held";
  const head = held
    ? text(
        html`<p class="lock-state held">
          <span class="chip held">held</span> by <b>${state.holder ?? "somebody"}</b>
        </p>`,
      )
    : text(html`<p class="lock-state free"><span class="chip free">not held</span></p>`);
  const queue = state.queue.map(({ holder }) => text(html`<li>${holder}</li>`)).join("");
  return [
    head,
    `<dl class="facts">`,
    row(
      "Lease left",
      held && state.msLeft !== null && Number.isFinite(state.msLeft) ? `${(state.msLeft / 1_000).toFixed(1)} s` : "–",
      "left",
    ),
    row("Waiting", String(state.waiters), "waiters"),
    row("Fencing token", state.fencingToken ?? "none yet", "fence"),
    `</dl>`,
    queue === "" ? "" : `<p class="label">In line</p><ol class="queue">${queue}</ol>`,
  ].join("");
};

/** A note that the item has changed since the page was made. */
export const staleNote = (isStale: boolean): string =>
  isStale ? text(html`<a class="note" href="">Somebody was faster: this item has changed. Look again</a>`) : "";
