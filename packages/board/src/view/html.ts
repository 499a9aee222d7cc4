import { html } from "hono/html";

/** A part of a page. Every value in it is escaped. */
export type Html = ReturnType<typeof html>;

export { html };

export const none: Html = html``;

/** A relative address: the board never knows its own path. */
export const address = (...pairs: readonly (readonly [string, string])[]): string =>
  `?${new URLSearchParams(pairs as [string, string][]).toString()}`;

/** The address of a thing's page. */
export const thingAddress = (
  thing: string,
  names: readonly string[],
  ...more: readonly (readonly [string, string])[]
): string => address(["thing", thing], ...names.map((name) => ["name", name] as const), ...more);

/** Control and bidi characters of a name could hide or reorder text. */
export const visible = (text: string): string => text.replace(/[^\P{C}\n\t]|[\p{Zl}\p{Zp}]/gu, "·");

/** Text of somebody else, which may run from right to left. */
export const foreign = (text: string): Html => html`<bdi>${visible(text)}</bdi>`;

const numbers = new Intl.NumberFormat("en-US");
export const count = (value: number): string => numbers.format(value);

const isoInstant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/** An instant, in UTC: the board does not know the reader's time zone. */
export const instant = (iso: string | null | undefined): Html =>
  iso && isoInstant.test(iso)
    ? html`<time datetime="${iso}">${iso.slice(0, 19).replace("T", " ")}</time>`
    : html`${visible(iso ?? "")}`;

const instantsInText = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A text of a report, with readable instants. */
export const prose = (text: string): Html =>
  html`<bdi>${text.split(instantsInText).map((part, at) => (at % 2 === 1 ? instant(part) : visible(part)))}</bdi>`;

const bytesUnits = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;
export const bytes = (value: number): string => {
  const power = Math.min(bytesUnits.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  const shown = value / 1_024 ** power;
  return `${shown < 10 && power > 0 ? shown.toFixed(1) : String(Math.round(shown))} ${bytesUnits[power] ?? ""}`;
};

export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
