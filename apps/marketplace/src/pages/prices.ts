import type { ReadWriteInspection } from "@kit/lock/read-write";
import { money } from "../common/money.js";
import type { PriceLine } from "../market/price-list.js";
import type { RepricingResult, RepricingState } from "../race/repricing.js";
import { html, type Html, mark, plural } from "./html.js";
import type { Part } from "./live.js";
import { fact, guestNote, intro, panel, postForm, seconds, table } from "./parts.js";
import { raceTabs } from "./race.js";

export interface PricesLook {
  readonly lines: readonly PriceLine[];
  readonly lock: ReadWriteInspection;
  readonly repricing: RepricingState;
}

const lineTable = (lines: readonly PriceLine[]): Html => {
  const newest = Math.max(...lines.map(({ edition }) => edition));
  const hasTwo = lines.some(({ edition }) => edition !== newest);
  return table({
    ...{ caption: "Price list", isCaptionAway: true, hasRowHeads: true, kind: "prices" },
    columns: ["Category", ["Edition", "number"], ["Price", "number"]],
    rows: lines.map(({ name, edition, price }) => [
      name,
      hasTwo && edition === newest ? html`<span class="chip held">${edition}</span>` : edition,
      money(price),
    ]),
  });
};

const stateOf = ({ state, holding }: ReadWriteInspection): Html => {
  if (state === "free") return html`<span class="chip free">free</span>`;
  return state === "write"
    ? html`<span class="chip held">writing</span> one writer`
    : html`<span class="chip read">reading</span> ${plural(holding, "reader")} at the same time`;
};

const lockState = (lock: ReadWriteInspection): Html => {
  const { holders, queue, waiters, fencingToken } = lock;
  return html`<p class="lock-state">${stateOf(lock)}</p>
    <dl class="facts">${fact("Waiters", waiters)} ${fact("Fencing token", fencingToken ?? "none yet")}</dl>
    <div class="columns">
      <div>
        <p class="label">Holders</p>
        ${
          holders.length === 0
            ? html`<p class="empty">None.</p>`
            : html`<ul class="queue">
                ${holders.map(({ holder }) => html`<li><bdi>${holder}</bdi></li>`)}
              </ul>`
        }
      </div>
      <div>
        <p class="label">Waiting</p>
        ${
          queue.length === 0
            ? html`<p class="empty">None.</p>`
            : html`<ol class="queue">
                ${queue.map(({ holder, mode }) => html`<li><bdi>${holder}</bdi>, to ${mode}</li>`)}
              </ol>`
        }
      </div>
    </div>`;
};

const resultOf = ({ edition, lists, mixed, waitedMs }: RepricingResult): Html =>
  html`<ul class="checks">
    <li>
      ${mark(mixed === 0)}<span
        ><b>Consistent lists</b>
        <span class="fact"
          >${plural(lists, "list")} read, ${mixed === 0 ? "each from one edition" : `${mixed} mix two editions`}</span
        ></span
      >
    </li>
    <li>
      ${mark(true)}<span
        ><b>Edition ${edition}</b>
        <span class="fact">written after the current readers finished, ${seconds(waitedMs)}</span></span
      >
    </li>
  </ul>`;

const outcome = ({ isRunning, lists, last }: RepricingState): Html => {
  if (isRunning) return html`<p class="fact">Running: ${plural(lists, "list")} read so far.</p>`;
  if (last === null) return html`<p class="hint">Not run yet.</p>`;
  return typeof last === "string" ? html`<p>${mark(false)} ${last}</p>` : resultOf(last);
};

/** The parts of the page that the stream replaces. */
export const pricesParts = ({ lines, lock, repricing }: PricesLook): Part[] => [
  ["prices-list", lineTable(lines)],
  ["prices-lock", lockState(lock)],
  ["prices-result", outcome(repricing)],
];

export interface PricesView {
  readonly look: PricesLook;
  readonly csrf: string;
  readonly isGuestServer: boolean;
  /** A command that shows the lock from another terminal; null if there is none. */
  readonly inspect: string | null;
}

export const pricesPage = ({ look, csrf, isGuestServer, inspect }: PricesView): Html => {
  const parts = new Map(pricesParts(look));
  const live = (title: string, id: string): Html => panel(title, html`<div id="${id}">${parts.get(id) ?? ""}</div>`);
  const button = html`<button class="button primary">Change all prices while six readers read them</button>`;
  return html`${intro("A price list that changes while clients read it", "Readers share a read/write lock. A writer waits until the current readers finish, and later readers wait for the writer. So readers cannot starve the writer. It writes alone, then all waiting readers continue. No reader sees a mix of old and new prices.")}
    ${raceTabs("prices")}
    ${isGuestServer ? guestNote("Price changes are disabled") : postForm("/race/prices", { csrf }, button, "start")}
    <div class="price-list">
      <div>
        ${live("Lock", "prices-lock")} ${live("Result", "prices-result")}
        ${
          inspect === null
            ? ""
            : panel("From another terminal", html`<pre class="command" tabindex="0"><code>${inspect}</code></pre>`)
        }
      </div>
      ${live("Price list", "prices-list")}
    </div>`;
};
