import { assetUrl } from "./assets.js";
import type { FaultView } from "../behind/faults.js";
import type { User } from "../market/market.js";
import { money } from "../common/money.js";
import type { Audit } from "../scripts/index.js";
import { type Screen, screenOf } from "./screens.js";
import { screenFacts } from "./about.js";
import { html, type Html, mark } from "./html.js";
import { barParts } from "./live.js";
import { postForm } from "./parts.js";
import { tourStrip } from "./tour.js";

/** The visitor and the shop, as every page shows them. */
export interface Frame {
  readonly user: User | null;
  /** Token of the forms; empty where a page has none. */
  readonly csrf: string;
  /** The result of the last form, shown once above the page. */
  readonly notice: Notice | null;
  readonly audit: Audit | null;
  /** Milliseconds since Redis last answered with the totals. */
  readonly silentMs: number;
  /** The shop runs in a Redis that belongs to somebody else. */
  readonly isGuestServer: boolean;
  /** Messages that the visitor has not seen. */
  readonly unread: number;
  /** The reason for which buyers are refused; null while the shop is open. */
  readonly maintenance: string | null;
  readonly faults: readonly FaultView[];
  /** The visitor's step of the tour; 0 outside the tour. */
  readonly tour: number;
}

export interface Notice {
  readonly tone: "good" | "bad";
  readonly text: string;
}

export interface Page {
  readonly title: string;
  readonly path: string;
  /** The query for `/live` that the page subscribes to. */
  readonly watch?: Readonly<Record<string, string | number>>;
  /** The text in the search box. */
  readonly query?: string;
  /** The page has charts, so it loads their scripts. */
  readonly hasCharts?: boolean;
  readonly body: Html;
}

interface Link {
  readonly href: string;
  readonly name: string;
}

const groups: readonly { readonly name: string; readonly links: readonly Link[] }[] = [
  {
    name: "Shop",
    links: [
      { href: "/", name: "Market" },
      { href: "/messages", name: "Messages" },
    ],
  },
  {
    name: "Try it",
    links: [
      { href: "/race", name: "Race" },
      { href: "/faults", name: "Faults" },
      { href: "/pipeline", name: "Pipeline" },
    ],
  },
  {
    name: "Inside",
    links: [
      { href: "/ops", name: "Ops" },
      { href: "/logs", name: "Logs" },
      { href: "/stats", name: "Stats" },
      { href: "/mail", name: "Mail" },
      { href: "/board", name: "Board" },
    ],
  },
];

const isHere = (href: string, path: string): boolean =>
  href === "/"
    ? path === "/" || path === "/search" || path.startsWith("/item/")
    : path === href || path.startsWith(`${href}/`);

/** A page that lost its stream reconnects about every second, without a growing backoff. */
const htmxConfig = JSON.stringify({
  includeIndicatorCSS: false,
  extensions: "sse",
  history: false,
  sse: { reconnectMaxDelay: 1_000 },
});

const nav = (path: string, unread: number): Html[] =>
  groups.map(
    ({ name, links }) =>
      html`<li class="group">
        <span class="group-name" aria-hidden="true">${name}</span>
        <ul>
          ${links.map(
            ({ href, name: text }) =>
              html`<li>
                <a href="${href}" ${isHere(href, path) ? html`aria-current="page"` : ""}
                  >${text}${href === "/messages" && unread > 0 ? html`<span class="badge">${unread}<span class="away"> unread</span></span>` : ""}</a
                >
              </li>`,
          )}
        </ul>
      </li>`,
  );

const visitor = ({ user, csrf }: Frame): Html =>
  user
    ? html`<a class="who" href="/me" title="Your account"
          ><span class="name" dir="auto">${user.name}</span><span class="purse">${money(user.funds)}</span></a
        >
        <a class="quiet button small" href="/personas">Switch</a>
        ${postForm("/logout", { csrf }, html`<button class="quiet">Log out</button>`)}`
    : html`<a class="button small" href="/personas">Choose a persona</a>`;

const noticeBox = (notice: Notice | null): Html =>
  notice ? html`<p class="notice ${notice.tone}" role="status">${notice.text}</p>` : html``;

const searchBox = (query: string, hasFocus: boolean): Html =>
  html`<form class="search" action="/search" role="search">
    <label class="away" for="q">Search sellers and items</label>
    <input
      id="q"
      name="q"
      type="search"
      autocomplete="off"
      maxlength="80"
      placeholder="Search sellers and items"
      value="${query}"
      data-suggest="/suggest"
      dir="auto"
      ${hasFocus ? html`autofocus` : ""}
    />
    <button class="away-button">Search</button>
  </form>`;

const stream = (watch: Page["watch"]): string => {
  const query = new URLSearchParams(
    Object.entries(watch ?? {}).map(([name, value]): [string, string] => [name, String(value)]),
  );
  return query.size === 0 ? "/live" : `/live?${query.toString()}`;
};

/** The head of a document, the same for all of them. */
const head = (title: string, scripts: Html): Html =>
  html`<meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="htmx-config" content="${htmxConfig}" />
    <title>${title} · Bazaar</title>
    <link rel="icon" href="${assetUrl("favicon.svg")}" type="image/svg+xml" />
    <link rel="stylesheet" href="${assetUrl("shop.css")}" />
    ${scripts}`;

const faultButtons = ({ faults, csrf }: Frame): Html =>
  html`<details class="drawer">
    <summary>Break something</summary>
    <div class="drawer-body">
      ${
        csrf === ""
          ? html`<p><a href="/faults">Open the faults page</a> to use these buttons.</p>`
          : postForm(
              "/faults",
              { csrf },
              html`${faults.map(
                ({ name, title, isRunning }) =>
                  html`<button name="fault" value="${name}" ${isRunning ? html`disabled` : ""}>${title}</button>`,
              )}`,
              "fault-list",
            )
      }
      <p class="hint">Everything recovers automatically. <a href="/faults">What each button tests</a></p>
    </div>
  </details>`;

const behind = (screen: Screen): Html =>
  html`<details>
    <summary>What am I looking at?</summary>
    <div class="explained-body">
      <p>${screen.what}</p>
      ${screenFacts(screen, "as it runs")}
    </div>
  </details>`;

const explained = (path: string): Html => {
  const screen = screenOf(path);
  return html`<aside class="explained" aria-label="About this page">
    ${screen ? behind(screen) : ""}
    <p class="kit-line">
      <b>kit</b> is a set of independent Redis packages for Node.js: locks, queues, chat, search and more. This shop
      uses all of them. <a href="/about">See every page and its code</a>
    </p>
  </aside>`;
};

/** A whole page. It works without scripts, which only keep it current. */
export const layout = (frame: Frame, { title, path, watch, query = "", hasCharts = false, body }: Page): Html => {
  const bar = barParts(frame.audit, frame.silentMs).map(
    ([id, content]) => html`<div id="${id}" class="cell">${content}</div>`,
  );
  const scripts = html`<script src="${assetUrl("htmx.js")}" defer></script>
    <script src="${assetUrl("shop.js")}" defer></script>
    ${
      hasCharts
        ? html`<link rel="stylesheet" href="${assetUrl("uplot.css")}" />
            <script src="${assetUrl("uplot.js")}" defer></script>
            <script src="${assetUrl("charts.js")}" defer></script>`
        : ""
    }`;
  return html`<!doctype html>
    <html lang="en">
      <head>
        ${head(title, scripts)}
      </head>
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header class="top">
          <a class="brand" href="/">Bazaar</a>
          ${searchBox(query, frame.tour === 1 && path === "/")}
          <div class="visitor">${visitor(frame)}</div>
          <nav aria-label="Pages">
            <ul class="groups">
              ${nav(path, frame.unread)}
            </ul>
          </nav>
        </header>
        <main id="main" tabindex="-1">
          ${tourStrip(frame.tour, path)}
          <p class="offline" data-offline hidden role="alert"></p>
          ${
            frame.maintenance === null
              ? ""
              : html`<p class="note">${mark(false)} Closed to buyers: ${frame.maintenance}. You can still browse.</p>`
          }
          ${noticeBox(frame.notice)} ${body} ${explained(path)}
        </main>
        <footer class="bar" aria-label="Invariants" hx-sse:connect="${stream(watch)}" hx-swap="none">
          <div class="cells">${bar}</div>
          ${frame.faults.length === 0 ? "" : faultButtons(frame)}
          <button type="button" class="pause" data-pause hidden aria-pressed="false">Pause</button>
          <p class="away" role="status" data-status></p>
        </footer>
      </body>
    </html>`;
};

/**
 * A page for errors. It has no bar, since the bar's numbers may be missing. With `reopensAt` it goes there as soon as the
 * shop has its data again; without scripts, it tries that every five seconds.
 */
export const plainPage = (
  title: string,
  text: string,
  link: { href: string; name: string },
  reopensAt: string | null = null,
): Html => {
  const more =
    reopensAt === null
      ? html``
      : html`<script src="${assetUrl("shop.js")}" defer></script>
          <noscript><meta http-equiv="refresh" content="5;url=${reopensAt}" /></noscript>`;
  return html`<!doctype html>
    <html lang="en">
      <head>
        ${head(title, more)}
      </head>
      <body class="plain">
        <main id="main" ${reopensAt === null ? "" : html`data-reopens="${reopensAt}"`}>
          <a class="brand" href="/">Bazaar</a>
          <h1>${title}</h1>
          <p class="lead">${text}</p>
          <p><a class="button" href="${link.href}">${link.name}</a></p>
        </main>
      </body>
    </html>`;
};
