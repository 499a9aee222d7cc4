import type { HtmlEscapedString } from "hono/utils/html";
import { assetAddress } from "../assets/index.js";
import { address, foreign, html, type Html, none, visible } from "./html.js";
import type { Page, View } from "./view.js";

/** How often a live part is read again. */
const refreshS = 5;

const htmxConfig = JSON.stringify({ includeIndicatorCSS: false, history: false });

const withLive = (query: URLSearchParams, isOn: boolean): string => {
  const other = new URLSearchParams(query);
  other.delete("live");
  if (!isOn) other.set("live", "off");
  return `?${other.toString()}`;
};

const livePart = ({ body, isLive = false }: Page, { query }: View): Html => {
  const isPaused = query.get("live") === "off";
  const updates =
    isLive && !isPaused
      ? html`hx-get="?${query.toString()}" hx-trigger="every ${refreshS}s" hx-select="#live" hx-target="#live"
        hx-swap="outerMorph"`
      : none;
  const about = isPaused
    ? html`Updates are paused. <a href="${withLive(query, true)}">Resume updates</a>`
    : html`Times are in UTC. With JavaScript, this page updates every ${refreshS} seconds.
        <a href="${withLive(query, false)}">Pause updates</a>`;
  return html`<div id="live" ${updates}>${body}</div>
    ${isLive ? html`<p class="quiet">${about}</p>` : none}`;
};

const crumbs = ({ path = [], title }: Page): Html =>
  path.length === 0
    ? none
    : html`<nav aria-label="Breadcrumb" class="crumbs">
        <ol>
          ${path.map(([text, to]) => html`<li><a href="${to}">${foreign(text)}</a></li>`)}
          <li aria-current="page">${foreign(title)}</li>
        </ol>
      </nav>`;

/** A whole document. */
export const layout = (page: Page, view: View): string => {
  const here = view.query.get("page") ?? (["thing", "list"].some((name) => view.query.has(name)) ? "" : "overview");
  const link = (name: string, text: string, to: string): Html =>
    html`<li><a href="${to}" ${here === name ? html`aria-current="page"` : ""}>${text}</a></li>`;
  const document = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <meta name="htmx-config" content="${htmxConfig}" />
        <title>${visible(page.title)} · ${visible(view.title)}</title>
        <link rel="icon" type="image/svg+xml" href="${assetAddress("icon.svg")}" />
        <link rel="stylesheet" href="${assetAddress("board.css")}" />
        <script src="${assetAddress("htmx.js")}" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header class="top">
          <a class="brand" href="?"><span class="mark" aria-hidden="true"></span>${foreign(view.title)}</a>
          <nav aria-label="Main">
            <ul>
              ${link("overview", "Overview", "?")}${link("health", "Health", address(["page", "health"]))}
            </ul>
          </nav>
          <span class="prefix">prefix <code>${view.prefix}</code></span>
        </header>
        <main id="main" tabindex="-1">
          ${crumbs(page)}
          <h1>${foreign(page.title)}</h1>
          ${page.head ?? none}${livePart(page, view)}${page.foot ?? none}
        </main>
      </body>
    </html>`;
  // No part of a page waits, so it is no promise.
  return (document as HtmlEscapedString).toString();
};
