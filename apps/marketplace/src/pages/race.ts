import { money } from "../common/money.js";
import type { RaceResult, RaceWay } from "../race/race.js";
import { html, type Html, mark, plural } from "./html.js";
import { choices, guestNote, intro, milliseconds, postForm, table } from "./parts.js";

const ways: readonly { readonly way: RaceWay; readonly tab: string; readonly what: string; readonly button: string }[] =
  [
    {
      way: "none",
      tab: "No lock",
      what: "Each buyer reads the price and the balance, then writes. Nothing is slowed down to make it fail. Fifty concurrent requests are enough.",
      button: "Send 50 buyers, no lock",
    },
    {
      way: "setnx",
      tab: "SETNX, no owner",
      what: "A common first lock: SETNX a key with an expiry, and delete the key at the end. It works while nothing goes wrong. If a holder takes longer than the expiry, it deletes the next holder's lock without an error. This race shows the good case.",
      button: "Send 50 buyers, SETNX",
    },
    {
      way: "optimistic",
      tab: "Optimistic",
      what: "WATCH the data, decide, then MULTI/EXEC. If the data has changed, the buyer retries after a short wait with jitter.",
      button: "Send 50 buyers, optimistic",
    },
    {
      way: "lock",
      tab: "Kit lock",
      what: "A buyer acquires the locks of item, buyer and seller together, in order of arrival. One script checks item, price, money and fencing token, and writes. Buyers wait, so that each one decides on data that no other buyer is changing. The first buyer gets the item, and the others get a clear answer.",
      button: "Send 50 buyers, kit lock",
    },
    {
      way: "poor",
      tab: "One poor buyer",
      what: "One buyer has money for one item and buys fifty at the same time. All sales need the buyer's lock, so they run one after another. The write rejects every sale after the first.",
      button: "Buy 50 with money for one",
    },
  ];

const reasons: Readonly<Record<string, string>> = {
  sold: "bought it",
  "not-for-sale": "too late: already sold",
  "price-changed": "saw an old price",
  changed: "saw an old listing",
  short: "not enough money",
  "stale-fence": "rejected by the fencing token",
  busy: "gave up waiting",
  "own-item": "already owns it",
  "not-answered": "no reply",
};

const dotClass = (outcome: string): string =>
  outcome === "sold" ? "won" : outcome === "not-answered" ? "none" : "lost";

/** The time within which half of the buyers were answered. */
const medianOf = ({ buyers }: RaceResult): string => {
  const times = buyers.map(({ ms }) => ms).sort((a, b) => a - b);
  return milliseconds(times[Math.floor(times.length / 2)] ?? 0);
};

export const raceTabs = (current: RaceWay | "pause" | "prices"): Html =>
  choices(
    "tabs",
    "Ways to buy",
    [
      ...ways.map(({ way, tab }) => ({ id: way, name: tab, href: `/race?way=${way}` })),
      { id: "pause" as const, name: "Paused buyer", href: "/race/pause" },
      { id: "prices" as const, name: "Readers and a writer", href: "/race/prices" },
    ],
    current,
  );

const verdict = ({ way, sold, recount, title, price, rounds }: RaceResult): Html => {
  const { owned } = recount;
  const good = sold === 1 && owned === 1;
  const head =
    way === "poor"
      ? `${plural(sold, "purchase")} of 50 went through`
      : sold === 1
        ? "Sold once"
        : sold === 0
          ? "Not sold at all"
          : `Sold ${sold} times`;
  const what =
    way === "poor"
      ? `One buyer with ${money(price)}, fifty items at ${money(price)} each.`
      : `${title}, ${money(price)}, fifty buyers.`;
  const tries = way !== "none" || rounds === 1 ? "" : ` The fault appeared in round ${rounds}, which is shown here.`;
  return html`<div class="outcome ${good ? "good" : "bad"}" role="status">
    <p class="headline">${mark(good)} ${head}</p>
    <p>${what}${tries}</p>
  </div>`;
};

const dots = ({ buyers }: RaceResult): Html =>
  html`<ul class="dots" aria-hidden="true">
    ${buyers.map(
      ({ name, outcome, ms }) =>
        html`<li
          class="dot ${dotClass(outcome)}"
          title="${name}: ${reasons[outcome] ?? outcome}, ${milliseconds(ms)}"
        ></li>`,
    )}
  </ul>`;

/** A bar per buyer, in order of arrival. The later a buyer was answered, the higher its bar. */
const orders = ({ buyers }: RaceResult): Html => {
  const all = buyers.length;
  const bars = buyers.map(({ came, answered, outcome }) => {
    const height = Math.max(2, ((answered === 0 ? all : answered) / all) * 76);
    return html`<rect
      class="${dotClass(outcome)}"
      x="${((came === 0 ? all : came) - 1) * 10 + 1}"
      y="${(80 - height).toFixed(1)}"
      width="8"
      height="${height.toFixed(1)}"
      rx="1.5"
    />`;
  });
  const overtaken = buyers.filter(({ came, answered }) => answered > came).length;
  return html`<svg class="bars" viewBox="0 0 ${all * 10} 80" preserveAspectRatio="none" aria-hidden="true">${bars}</svg>
    <p class="hint">
      In order of arrival. A higher bar means a later reply.
      ${overtaken === 0 ? "No buyer was overtaken." : `${plural(overtaken, "buyer")} ${overtaken === 1 ? "was" : "were"} overtaken.`}
    </p>`;
};

const answers = (result: RaceResult): Html => {
  const outcomes = Object.entries({ sold: result.sold, ...result.refused }).filter(([, count]) => count > 0);
  return table({
    caption: "Replies to the buyers",
    columns: ["Answer", ["Buyers", "number"]],
    rows: outcomes.map(([outcome, count]) => [reasons[outcome] ?? outcome, count]),
    foot: [
      ["answered", `${result.answered} of ${result.buyers.length}`],
      ["median answer", medianOf(result)],
      ["slowest answer", milliseconds(result.raceMs)],
    ],
  });
};

const recounted = ({ way, sold, recount }: RaceResult): Html => {
  const { money: now, openingMoney, items, itemsLost, itemsTwice, inDebt, owned, sales } = recount;
  const one = (good: boolean, name: string, fact: string): Html =>
    html`<li>
      ${mark(good)}<span><b>${name}</b> <span class="fact">${fact}</span></span>
    </li>`;
  const haves =
    way === "poor"
      ? `the buyer owns ${plural(owned, "item")}`
      : `${plural(owned, "buyer")} own${owned === 1 ? "s" : ""} the item`;
  return html`<ul class="checks">
    ${one(owned === 1, "Sold once", haves)}
    ${one(sold === owned, "Replies match", `${sold} confirmed, ${owned} found in Redis`)}
    ${one(itemsTwice === 0 && itemsLost === 0, "Items", itemsTwice === 0 && itemsLost === 0 ? `${plural(items, "item")}, each with exactly one owner` : `${itemsTwice} duplicated, ${itemsLost} lost`)}
    ${one(now === openingMoney, "Money", now === openingMoney ? "exactly the starting total" : `${money(now)} instead of ${money(openingMoney)}`)}
    ${one(inDebt === 0, "Debt", inDebt === 0 ? "none" : plural(inDebt, "buyer"))}
    ${sales === null ? html`` : one(sales === owned, "Ledger", plural(sales, "entry", "entries"))}
  </ul>`;
};

/** The races that this visitor has seen, side by side. */
const comparison = (all: ReadonlyMap<RaceWay, RaceResult>): Html => {
  const rows = ways.flatMap(({ way, tab }) => {
    const result = all.get(way);
    return result ? [{ tab, result }] : [];
  });
  if (rows.length < 2) return html``;
  return html`<section class="panel">
    ${table({
      ...{ caption: "Your races so far", kind: "compare", hasRowHeads: true },
      columns: ["Way", ["Sold", "number"], ["Owners", "number"], ["Median", "number median"], ["Slowest", "number"]],
      rows: rows.map(({ tab, result }) => [
        html`${mark(result.sold === 1 && result.recount.owned === 1)} ${tab}`,
        ...[result.sold, result.recount.owned, medianOf(result), milliseconds(result.raceMs)],
      ]),
    })}
    <p class="hint">
      With a lock, the median is longer because buyers decide one after another. Only sales that share an item, a buyer
      or a seller wait for each other. Optimistic buyers don't wait, but they retry when the data changes. Without a
      lock, replies are fast and wrong.
    </p>
  </section>`;
};

export interface RaceView {
  readonly way: RaceWay;
  readonly result: RaceResult | null;
  /** The races that this visitor has seen so far, by way. */
  readonly all: ReadonlyMap<RaceWay, RaceResult>;
  readonly csrf: string;
  readonly isGuestServer: boolean;
}

export const racePage = (view: RaceView): Html => {
  const chosen = ways.find(({ way }) => way === view.way) ?? ways[0];
  if (!chosen) return html``;
  const { result, csrf } = view;
  const button = result === null ? chosen.button : "Run again";
  return html`${intro("Fifty buyers, one item", "Another process sends fifty real HTTP requests over fifty sockets at the same time. A third process then counts what Redis holds.")}
    ${raceTabs(chosen.way)}
    <section class="panel race">
      <div class="explain">
        <h2>${chosen.tab}</h2>
        <p>${chosen.what}</p>
        ${view.isGuestServer ? guestNote("Races are disabled") : postForm("/race", { csrf }, html`<button name="way" value="${chosen.way}" class="button primary">${button}</button>`, "start")}
      </div>
      ${
        result === null
          ? html`<div class="waiting">
              <ul class="dots" aria-hidden="true">
                ${Array.from({ length: 50 }, () => html`<li class="dot"></li>`)}
              </ul>
              <p class="hint">Not run yet.</p>
            </div>`
          : html`<div class="result" id="result">
              ${verdict(result)} ${dots(result)}
              <div class="columns">
                <div>${answers(result)}</div>
                <div>
                  <h3>Counted in Redis by another process</h3>
                  ${recounted(result)}
                  <h3>Order of replies</h3>
                  ${orders(result)}
                </div>
              </div>
            </div>`
      }
    </section>
    ${comparison(view.all)}
    <p class="small-print">
      Every race has its own small market under its own hash tag${result ? html` <code>{${result.id}}</code>` : ""},
      deleted after ten minutes. The bar below shows the whole shop.
    </p>`;
};
