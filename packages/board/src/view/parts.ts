import type { Report } from "@kit/core/toolkit";
import { address, capital, foreign, html, type Html, none, prose, thingAddress, visible } from "./html.js";
import type { OfferedButton } from "./view.js";

/** A cell is a text, or a part of a page. */
export type Cell = string | Html;

/** The facts of a report. */
export const factList = (facts: readonly (readonly [string, Cell])[], without: readonly string[] = []): Html => {
  // The next step is only for a terminal.
  const shown = facts.filter(([name]) => name !== "next step" && !without.includes(name));
  if (shown.length === 0) return none;
  return html`<dl class="facts">
    ${shown.map(
      ([name, value]) =>
        html`<div>
          <dt>${visible(name)}</dt>
          <dd>${typeof value === "string" ? prose(value) : value}</dd>
        </div>`,
    )}
  </dl>`;
};

/** A table, which scrolls by itself on a narrow screen. */
export const tableOf = (caption: string, columns: readonly string[], rows: readonly (readonly Cell[])[]): Html =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption class="unseen">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((name) => html`<th scope="col">${name === "" ? html`<span class="unseen">Chart</span>` : visible(name)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map((cell) => html`<td>${typeof cell === "string" ? prose(cell) : cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;

/** The table of a report. `linked` makes the first cell of a row a link. */
export const reportTable = ({ table }: Report, caption: string, linked?: (text: string) => Html): Html => {
  if (!table) return none;
  const rows = table.rows.map(([first = "", ...cells]) => [linked?.(first) ?? first, ...cells]);
  return tableOf(caption, table.columns, rows);
};

export const thingLink = (thing: string, names: readonly string[], text = names.at(-1) ?? ""): Html =>
  html`<a href="${thingAddress(thing, names)}">${foreign(text)}</a>`;

/** Links to the pages of actions: each page asks before it changes anything. */
export const buttonBar = (thing: string, names: readonly string[], buttons: readonly OfferedButton[]): Html =>
  buttons.length === 0
    ? none
    : html`<section class="actions" aria-label="Actions">
        ${buttons.map(({ command, text }) => html`<a class="button" href="${thingAddress(thing, names, ["do", command.path])}">${text}</a>`)}
      </section>`;

/** Fields that no person sees. */
export const hidden = (fields: readonly (readonly [name: string, value: string])[]): Html =>
  html`${fields.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}`;

/** Hidden fields that keep the place of a form. */
export const placeFields = (
  thing: string,
  names: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Html => hidden([["thing", thing], ...names.map((name) => ["name", name] as const), ...Object.entries(more)]);

/** A part of a page with a title. */
export const card = (
  title: Cell,
  body: Html,
  { id = "", badge = "" }: Partial<Record<"id" | "badge", string>> = {},
): Html =>
  html`<section class="card" ${id === "" ? none : html`id="${id}"`}>
    <h2>${title} ${badge === "" ? none : html`<span class="badge">${badge}</span>`}</h2>
    ${body}
  </section>`;

/** A link to another page of a list. */
export const turn = (to: string, text: string): Html => html`<a class="button" href="${to}">${text}</a>`;

/** A message with a tone that is not only a color. */
export const note = (tone: "good" | "bad" | "warn" | "info", text: string | Html): Html =>
  html`<p class="note ${tone}">${typeof text === "string" ? visible(text) : text}</p>`;

export const overviewPath = ["Overview", "?"] as const;
export const kindPath = (things: string): readonly [string, string] => [capital(things), address(["list", things])];
