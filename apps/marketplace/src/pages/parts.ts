// The pieces that several pages are made of.
import { html, type Html } from "./html.js";

type Text = string | number | Html;

/** The sentence by which pages of a shop in somebody else's Redis say what is missing. */
export const guestNote = (what: string): Html =>
  html`<p class="aside">${what}, because this shop uses an external Redis (<code>--redis</code>).</p>`;

/** The head of a page. */
export const intro = (title: Text, lead: Text = "", label: Text = ""): Html =>
  html`<section class="intro">
    ${label === "" ? "" : html`<p class="label">${label}</p>`}
    <h1>${title}</h1>
    ${lead === "" ? "" : html`<p class="lead">${lead}</p>`}
  </section>`;

/** A part of a page with a title. With an `id` of the title it is a landmark. */
export const panel = (title: Text, body: Text, kind = "", id = ""): Html =>
  html`<section class="panel ${kind}" ${id === "" ? "" : html`aria-labelledby="${id}"`}>
    <h2 ${id === "" ? "" : html`id="${id}"`}>${title}</h2>
    ${body}
  </section>`;

/** A list; where it has no items, a line that says so. */
export const list = (kind: string, items: readonly Html[], empty: Text): Html =>
  items.length === 0
    ? html`<p class="empty">${empty}</p>`
    : html`<ul class="${kind}">
        ${items}
      </ul>`;

/** Links of which one is chosen. */
export const choices = <Id>(
  kind: string,
  label: string,
  links: readonly { readonly id: Id; readonly name: string; readonly href: string }[],
  chosen: Id,
): Html =>
  html`<nav class="${kind}" aria-label="${label}">
    <ul>
      ${links.map(
        ({ id, name, href }) =>
          html`<li><a href="${href}" ${id === chosen ? html`aria-current="page"` : ""}>${name}</a></li>`,
      )}
    </ul>
  </nav>`;

/** A form that is sent by POST, with fields that nobody sees. */
export const postForm = (
  action: string,
  hidden: Readonly<Record<string, string | number>>,
  body: Text,
  kind = "",
): Html =>
  html`<form method="post" action="${action}" class="${kind}">
    ${Object.entries(hidden).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
    ${body}
  </form>`;

/** The content of a cell, alone or with a class of the cell. */
type Cell = Text | readonly [content: Text, kind: string];

interface Table {
  readonly caption: Text;
  /** The caption is for screen readers only. @default false */
  readonly isCaptionAway?: boolean;
  /** The heads of the columns. The class of a head is that of all cells below it. */
  readonly columns: readonly Cell[];
  readonly rows: readonly (readonly Cell[])[];
  readonly foot?: readonly (readonly Cell[])[];
  /** The first cell of a row is its head. @default false */
  readonly hasRowHeads?: boolean;
  readonly kind?: string;
}

const split = (cell: Cell): readonly [Text, string] =>
  Array.isArray(cell) ? (cell as readonly [Text, string]) : [cell as Text, ""];

export const table = (all: Table): Html => {
  const { caption, isCaptionAway = false, columns, rows, foot = [], hasRowHeads = false, kind = "" } = all;
  const heads = columns.map(split);
  const row = (cells: readonly Cell[]): Html =>
    html`<tr>
      ${cells.map((cell, at) => {
        const [content, own] = split(cell);
        if (hasRowHeads && at === 0) return html`<th scope="row">${content}</th>`;
        const its = `${heads[at]?.[1] ?? ""} ${own}`.trim();
        return its === "" ? html`<td>${content}</td>` : html`<td class="${its}">${content}</td>`;
      })}
    </tr>`;
  return html`<table class="${kind}">
    <caption class="${isCaptionAway ? "away" : ""}">
      ${caption}
    </caption>
    <thead>
      <tr>
        ${heads.map(([head, its]) => html`<th scope="col" class="${its}">${head}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(row)}
    </tbody>
    ${
      foot.length === 0
        ? ""
        : html`<tfoot>
            ${foot.map(row)}
          </tfoot>`
    }
  </table>`;
};

/** A name in which the typed letters are marked. */
export const marked = (name: string, ranges: readonly (readonly [number, number])[]): Html => {
  const pieces: (string | Html)[] = [];
  let at = 0;
  for (const [start, end] of ranges) {
    pieces.push(name.slice(at, start), html`<mark>${name.slice(start, end)}</mark>`);
    at = end;
  }
  pieces.push(name.slice(at));
  return html`<bdi>${pieces}</bdi>`;
};

export const seconds = (ms: number): string => `${(ms / 1_000).toFixed(ms < 9_950 ? 1 : 0)} s`;

export const milliseconds = (ms: number): string => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;

export const clock = (at: number): Html => {
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}">${iso.slice(11, 19)}</time>`;
};

export const count = (value: number): string => value.toLocaleString("en-GB");

export const bytes = (value: number): string =>
  value < 1_024
    ? `${value} B`
    : value < 1_048_576
      ? `${(value / 1_024).toFixed(0)} KiB`
      : `${(value / 1_048_576).toFixed(1)} MiB`;

/** A bar from 0 to 1. Widths are attributes, since the policy of the pages forbids styles. */
export const meter = (share: number): Html =>
  html`<svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="4" rx="2" />
    <rect class="fill" width="${(Math.max(0, Math.min(1, share)) * 100).toFixed(1)}" height="4" rx="2" />
  </svg>`;

export const fact = (name: string, value: Text): Html =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;

export interface Pages {
  /** From 1. */
  readonly page: number;
  readonly hasMore: boolean;
  /** Unknown for a search. */
  readonly pages?: number;
}

/** Links to the page before and the page after; nothing where all is on one page. */
export const pager = (label: string, { page, hasMore, pages }: Pages, address: (page: number) => string): Html =>
  page === 1 && !hasMore
    ? html``
    : html`<nav class="pager" aria-label="${label}">
        ${page > 1 ? html`<a rel="prev" class="button small" href="${address(page - 1)}">← Previous</a>` : html`<span></span>`}
        <span>Page ${page}${pages === undefined ? "" : ` of ${pages}`}</span>
        ${hasMore ? html`<a rel="next" class="button small" href="${address(page + 1)}">Next →</a>` : html`<span></span>`}
      </nav>`;
