import { counted } from "@kit/core/toolkit";
import { look } from "./call.js";
import { address, capital, count, foreign, html, type Html, none, prose, thingAddress } from "./html.js";
import { card, hidden, note, overviewPath, tableOf, thingLink, turn } from "./parts.js";
import type { Page, View } from "./view.js";
import { type Finder, type Found, type Kind, maxNames, scanSteps, thingsOf } from "./find.js";

/**
 * The most commands that the scan and the inspectors of a page send: 25 below the limit of a page, because the first look at a thing also
 * loads scripts. `usualCost`: the commands of an inspector that does not state its cost.
 */
const maxCommands = 75;
const usualCost = 10;
/** The rows of one kind on the overview, with or without their state. */
const maxRows = 12;

/** The kinds that people look for first. */
const first: readonly string[] = ["queue", "lock", "semaphore"];
const placeOf = ({ inspector }: Kind): number =>
  (first.indexOf(inspector.thing) + first.length + 1) % (first.length + 1);

/** Takes a row of each kind in turn while the commands last. */
const chosen = (
  kinds: readonly { readonly kind: Kind; readonly things: readonly Found[] }[],
  commands: number,
): ReadonlySet<Found> => {
  const taken = new Set<Found>();
  let left = commands;
  for (let row = 0; row < maxRows; row++)
    for (const { kind, things } of kinds) {
      const thing = things[row];
      const cost = kind.inspector.cost ?? usualCost;
      if (!thing || cost > left) continue;
      taken.add(thing);
      left -= cost;
    }
  return taken;
};

/** The first part of a fact, and its details below it. */
const cellOf = (text: string): Html => {
  const [main = "", ...details] = text.split(", ");
  return html`${prose(main)}${details.length === 0 ? none : html`<small>${prose(details.join(", "))}</small>`}`;
};

const rowOf = async (
  view: View,
  { inspector, listed }: Kind,
  thing: Found,
  isRead: boolean,
): Promise<readonly (string | Html)[]> => {
  // Some inspectors need an option that only the key shows, such as the number of shards.
  const options = Object.entries(thing.options).map(([option, value]) => [`o.${option}`, String(value)] as const);
  const name = html`<a href="${thingAddress(inspector.thing, [thing.name], ...options)}">${foreign(thing.name)}</a>`;
  if (!isRead) return [name, ...listed.columns.map(() => html`<span class="quiet">…</span>`)];
  const { facts = [] } = await look(view, inspector, [thing.name], thing.options);
  const textOf = (column: string): string =>
    facts.flatMap(([fact, text]) => (fact === column ? [text] : [])).join("; ");
  return [name, ...listed.columns.map((column, at) => cellOf(textOf(column) || (at === 0 ? textOf("damaged") : "")))];
};

/** A table of things. */
const thingsTable = async (
  view: View,
  kind: Kind,
  shown: readonly Found[],
  isRead: (thing: Found) => boolean,
): Promise<Html> => {
  const rows = await Promise.all(shown.map((thing) => rowOf(view, kind, thing, isRead(thing))));
  return tableOf(kind.listed.things, ["name", ...kind.listed.columns], rows);
};

/** The note of a list that can still lack things. */
const scanNote = ({ isWhole, kinds }: Finder): Html => {
  if (isWhole) return none;
  const links = kinds.map(({ listed: { things } }) => html`<a href="${address(["list", things])}">${things}</a> `);
  return note(
    "info",
    html`The server has more keys than the ${count(scanSteps * 1_000)} of one page. The list grows with each update. To
    open a thing by its name, search in ${links}`,
  );
};

const countOf = (things: readonly Found[]): string => `${count(things.length)}${things.length < maxNames ? "" : "+"}`;

const kindSection = async (
  view: View,
  { kind, things }: { readonly kind: Kind; readonly things: readonly Found[] },
  read: ReadonlySet<Found>,
): Promise<Html> => {
  const { things: plural } = kind.listed;
  const shown = things.slice(0, maxRows);
  const table = await thingsTable(view, kind, shown, (thing) => read.has(thing));
  const rest = things.length - shown.length;
  const all = address(["list", plural]);
  const more = rest > 0 ? `${count(rest)} more ${plural}` : `The state of all ${plural}`;
  const hasMore = rest > 0 || shown.some((thing) => !read.has(thing));
  return card(
    html`<a href="${all}">${capital(plural)}</a>`,
    html`${table}${hasMore ? html`<p class="quiet"><a href="${all}">${more}</a></p>` : none}`,
    { badge: countOf(things) },
  );
};

/** The first page: a row for each thing under the prefix. */
export const overviewPage = async (view: View, finder: Finder, findings: Html): Promise<Page> => {
  await finder.next(view.redis);
  const found = finder.kinds
    .toSorted((a, b) => placeOf(a) - placeOf(b))
    .map((kind) => ({ kind, things: thingsOf(kind) }))
    .filter(({ things }) => things.length > 0);
  const read = chosen(found, maxCommands - scanSteps);
  const sections = await Promise.all(found.map((one) => kindSection(view, one, read)));
  const keys = [...finder.packages].map(([name, { keys: of }]) => `${name} ${counted(of, "key")}`).join(", ");
  return {
    title: "Overview",
    isLive: true,
    head: findings,
    body: html`${scanNote(finder)}${
      sections.length === 0 && finder.isWhole
        ? note("info", `Nothing is stored under the prefix ${view.prefix} yet.`)
        : html`<div class="grid">${sections}</div>`
    }
    ${keys === "" ? none : html`<p class="quiet">Keys seen: ${keys}.</p>`}`,
  };
};

/** All things of one kind. */
export const listPage = async (view: View, finder: Finder, kind: Kind): Promise<Page> => {
  await finder.next(view.redis);
  const { inspector, listed } = kind;
  const { things: plural } = listed;
  const text = view.query.get("q") ?? "";
  const start = Math.max(0, Math.trunc(Number(view.query.get("start")) || 0));
  const things = thingsOf(kind, text);
  const perPage = Math.max(1, Math.floor((maxCommands - scanSteps) / (inspector.cost ?? usualCost)));
  const shown = things.slice(start, start + perPage);
  const at = (to: number): string => address(["list", plural], ["q", text], ["start", String(to)]);
  return {
    title: capital(plural),
    path: [overviewPath],
    isLive: true,
    head: html`<form class="search" role="search">
      ${hidden([["list", plural]])}
      <label for="q">Name contains</label>
      <input id="q" name="q" type="search" value="${text}" maxlength="200" autocomplete="off" />
      <button>Search</button>
    </form>`,
    body: html`${scanNote(finder)}
      <section class="card">
        ${
          shown.length === 0
            ? note("info", text === "" ? `There are no ${plural} here.` : `No ${plural} here have this in their name.`)
            : await thingsTable(view, kind, shown, () => true)
        }
        <p class="pages">
          ${start > 0 ? turn(at(Math.max(0, start - perPage)), "Previous") : none}
          ${start + perPage < things.length ? turn(at(start + perPage), "Next") : none}
          <span class="quiet">${count(shown.length)} of ${countOf(things)} shown</span>
        </p>
        ${text === "" ? none : html`<p class="quiet">Open the exact name: ${thingLink(inspector.thing, [text])}</p>`}
      </section>`,
  };
};
