import { html } from "hono/html";
import type { HtmlEscapedString } from "hono/utils/html";

/** A part of a page; every value in it is escaped. */
export type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

export { html };

/** The text of a piece, for the stream. Our pieces are never promises, since nothing in them waits. */
export const text = (piece: Html): string => String(piece as HtmlEscapedString);

/** A mark beside every verdict, so that nothing depends on colour alone. */
export const mark = (good: boolean): Html =>
  good
    ? html`<svg class="mark good" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="8" />
        <path d="M4.5 8.4l2.4 2.4 4.7-5.2" />
      </svg>`
    : html`<svg class="mark bad" viewBox="0 0 16 16" aria-hidden="true">
        <path class="plate" d="M8 0l8 14.5H0z" />
        <path d="M8 5v4.6M8 12v.2" />
      </svg>`;

export const plural = (count: number, one: string, many: string = `${one}s`): string =>
  `${count.toLocaleString("en-GB")} ${count === 1 ? one : many}`;
