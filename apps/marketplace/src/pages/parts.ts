// Small pieces that several pages use.
import { html, type Html, safe } from "./html.js";

/** The text of a part, for the stream. Our parts are never promises, since nothing in them waits. */
export const text = (piece: unknown): string => String(piece);

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
export const meter = (share: number, kind = ""): Html =>
  html`<svg class="meter ${kind}" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="4" rx="2" />
    <rect class="fill" width="${(Math.max(0, Math.min(1, share)) * 100).toFixed(1)}" height="4" rx="2" />
  </svg>`;

export const fact = (name: string, value: string | Html): Html =>
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
        ${page > 1 ? html`<a rel="prev" class="button small" href="${address(page - 1)}">← Newer</a>` : html`<span></span>`}
        <span>Page ${page}${pages === undefined ? "" : ` of ${pages}`}</span>
        ${hasMore ? html`<a rel="next" class="button small" href="${address(page + 1)}">Older →</a>` : html`<span></span>`}
      </nav>`;

export const csrfField = (csrf: string): Html => html`<input type="hidden" name="csrf" value="${csrf}" />`;

/** An element that the stream fills; `content` is its first content. */
export const slot = (id: string, content: string, more = ""): Html =>
  html`<div id="${id}" ${safe(more)}>${safe(content)}</div>`;
