import { money } from "../common/money.js";
import type { RaceResult, RaceWay } from "../race/race.js";
import { html, type Html, mark, plural } from "./html.js";
import { choices, guestNote, intro, milliseconds, postForm, table } from "./parts.js";

const ways: readonly { readonly way: RaceWay; readonly tab: string; readonly what: string; readonly button: string }[] =
  [
    {
      way: "none",
      tab: "No lock",
      what: "The textbook purchase without any guard: read price and money, then write. Nothing was slowed down to make it fail; fifty requests at once are enough.",
      button: "Send 50 buyers, no lock",
    },
    {
      way: "setnx",
      tab: "SETNX, no owner",
      what: "The first lock everybody writes: SETNX a key, give it a time limit, delete it when done. It holds while all goes well. A holder that takes longer than the limit deletes the lock of the next one, and nobody notices. You see here what it really does on a good day.",
      button: "Send 50 buyers, SETNX",
    },
    {
      way: "optimistic",
      tab: "Optimistic",
      what: "WATCH what the decision depends on, decide, MULTI/EXEC; disturbed buyers try again after a short, jittered wait.",
      button: "Send 50 buyers, optimistic",
    },
    {
      way: "lock",
      tab: "Kit lock",
      what: "The locks of item, buyer and seller, taken together or not at all, and handed over in the order of arrival by a push. The write checks item, price, money and fencing token in one script. Buyers wait here, and that is the point: each decides alone, on data that nobody else is changing, so the first in line gets the item and the others are told so in turn. Without a lock they need not wait, since nothing keeps them apart.",
      button: "Send 50 buyers, kit lock",
    },
    {
      way: "poor",
      tab: "One poor buyer",
      what: "One buyer with money for one item buys fifty at once. Each sale has another item, but all need the lock of the buyer, so they go one after the other; the check inside the write refuses all but the first.",
      button: "Buy 50 with money for one",
    },
  ];

const reasons: Readonly<Record<string, string>> = {
  sold: "was told: it is yours",
  "not-for-sale": "came too late: sold already",
  "price-changed": "saw another price",
  changed: "saw another listing",
  short: "had not enough money",
  "stale-fence": "was refused by the fencing token",
  busy: "gave up waiting",
  "own-item": "owns it already",
  "not-answered": "got no answer",
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
      { id: "pause" as const, name: "A buyer that sleeps", href: "/race/pause" },
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
      ? `One buyer, ${money(price)} in hand, fifty items at ${money(price)} each.`
      : `${title}, ${money(price)}, wanted by fifty.`;
  const tries =
    way !== "none" || rounds === 1
      ? ""
      : ` It took ${rounds} rounds until it showed; these are the figures of the last.`;
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
      From left to right as they came in, the higher the later answered.
      ${overtaken === 0 ? "Nobody was overtaken." : `${plural(overtaken, "buyer")} ${overtaken === 1 ? "was" : "were"} overtaken.`}
    </p>`;
};

const answers = (result: RaceResult): Html => {
  const outcomes = Object.entries({ sold: result.sold, ...result.refused }).filter(([, count]) => count > 0);
  return table({
    caption: "What the buyers were told",
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
    ${one(sold === owned, "Told the truth", `${sold} told, ${owned} found in Redis`)}
    ${one(itemsTwice === 0 && itemsLost === 0, "Items", itemsTwice === 0 && itemsLost === 0 ? `${plural(items, "item")}, each in exactly one place` : `${itemsTwice} in several places, ${itemsLost} lost`)}
    ${one(now === openingMoney, "Money", now === openingMoney ? "not a penny more or less" : `${money(now)} instead of ${money(openingMoney)}`)}
    ${one(inDebt === 0, "Debt", inDebt === 0 ? "nobody" : plural(inDebt, "buyer"))}
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
      A lock makes the median longer on purpose. Fifty buyers decide one after the other, and each wait is the time that
      those before needed. Only sales that share an item, a buyer or a seller wait for each other. Optimistic buyers do
      not wait for their turn, but those who are disturbed do their work again. The quick answers without a lock are the
      wrong ones.
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
  const button = result === null ? chosen.button : "Once more";
  return html`${intro("Fifty buyers, one item", "Fifty real HTTP requests over fifty sockets, sent at once by another process. A third process counts again what Redis holds afterwards.")}
    ${raceTabs(chosen.way)}
    <section class="panel race">
      <div class="explain">
        <h2>${chosen.tab}</h2>
        <p>${chosen.what}</p>
        ${view.isGuestServer ? guestNote("Races are switched off") : postForm("/race", { csrf }, html`<button name="way" value="${chosen.way}" class="button primary">${button}</button>`, "start")}
      </div>
      ${
        result === null
          ? html`<div class="waiting">
              <ul class="dots" aria-hidden="true">
                ${Array.from({ length: 50 }, () => html`<li class="dot"></li>`)}
              </ul>
              <p class="hint">Nobody has run yet.</p>
            </div>`
          : html`<div class="result" id="result">
              ${verdict(result)} ${dots(result)}
              <div class="columns">
                <div>${answers(result)}</div>
                <div>
                  <h3>Counted again in Redis, by another process</h3>
                  ${recounted(result)}
                  <h3>In which order</h3>
                  ${orders(result)}
                </div>
              </div>
            </div>`
      }
    </section>
    ${comparison(view.all)}
    <p class="small-print">
      Every race has a small market of its own, under its own hash
      tag${result ? html` <code>{${result.id}}</code>` : ""}, gone after ten minutes. The bar below judges the shop.
    </p>`;
};
