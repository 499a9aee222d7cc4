import { assetUrl } from "../assets.js";
import type { User } from "../market.js";
import { money } from "../money.js";
import type { Audit } from "../scripts/index.js";
import { html, type Html, safe } from "./html.js";
import { barParts } from "./live.js";

/** What every page needs to know of the visitor and the shop. */
export interface Frame {
  readonly user: User | null;
  /** Token of the forms; empty where a page has none. */
  readonly csrf: string;
  /** Said once, above the page: what the last form came to. */
  readonly notice: Notice | null;
  readonly audit: Audit | null;
  /** What is missing because the shop runs in a Redis of somebody else. */
  readonly isGuestServer: boolean;
}

export interface Notice {
  readonly tone: "good" | "bad";
  readonly text: string;
}

export interface Page {
  readonly title: string;
  readonly path: string;
  /** The item whose lock the page shows live, and the revision it shows. */
  readonly watch?: { readonly item: string; readonly revision: number };
  readonly body: Html;
}

const links = [
  { href: "/", name: "Market" },
  { href: "/race", name: "Race" },
  { href: "/sessions", name: "Sessions" },
] as const;

const isHere = (href: string, path: string): boolean =>
  href === "/" ? path === "/" || path.startsWith("/item/") : path === href || path.startsWith(`${href}/`);

const htmxConfig = JSON.stringify({ includeIndicatorCSS: false, extensions: "sse", history: false });

const nav = (path: string): Html[] =>
  links.map(({ href, name }) =>
    isHere(href, path)
      ? html`<li><a href="${href}" aria-current="page">${name}</a></li>`
      : html`<li><a href="${href}">${name}</a></li>`,
  );

const visitor = ({ user, csrf }: Frame): Html =>
  user
    ? html`<a class="who" href="/me" title="Your things"
          ><span class="name" dir="auto">${user.name}</span><span class="purse">${money(user.funds)}</span></a
        >
        <form method="post" action="/logout">
          <input type="hidden" name="csrf" value="${csrf}" /><button class="quiet">Leave</button>
        </form>`
    : html`<a class="button small" href="/personas">Choose a persona</a>`;

const noticeBox = (notice: Notice | null): Html =>
  notice ? html`<p class="notice ${notice.tone}" role="status">${notice.text}</p>` : html``;

const stream = (watch: Page["watch"]): string =>
  watch ? `/live?item=${encodeURIComponent(watch.item)}&revision=${watch.revision}` : "/live";

/** A whole page. It works as it stands; the two scripts only keep it current. */
export const layout = (frame: Frame, { title, path, watch, body }: Page): Html => {
  const bar = barParts(frame.audit).map(([id, content]) => html`<div id="${id}" class="cell">${safe(content)}</div>`);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="htmx-config" content="${htmxConfig}" />
        <title>${title} · Bazaar</title>
        <link rel="icon" href="${assetUrl("favicon.svg")}" type="image/svg+xml" />
        <link rel="stylesheet" href="${assetUrl("shop.css")}" />
        <script src="${assetUrl("htmx.js")}" defer></script>
        <script src="${assetUrl("htmx-sse.js")}" defer></script>
        <script src="${assetUrl("shop.js")}" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">To the content</a>
        <header class="top">
          <a class="brand" href="/">Bazaar</a>
          <nav aria-label="Pages">
            <ul>
              ${nav(path)}
            </ul>
          </nav>
          <div class="visitor">${visitor(frame)}</div>
        </header>
        <main id="main">${noticeBox(frame.notice)} ${body}</main>
        <footer class="bar" aria-label="Invariants of the shop" hx-sse:connect="${stream(watch)}" hx-swap="none">
          <div class="cells">${bar}</div>
          <button type="button" class="pause" data-pause hidden aria-pressed="false">Pause</button>
        </footer>
      </body>
    </html>`;
};

/** A page that says one thing, for errors; no bar, since its numbers may be what is missing. */
export const plainPage = (title: string, text: string, link: { href: string; name: string }): Html =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} · Bazaar</title>
        <link rel="icon" href="${assetUrl("favicon.svg")}" type="image/svg+xml" />
        <link rel="stylesheet" href="${assetUrl("shop.css")}" />
      </head>
      <body class="plain">
        <main id="main">
          <a class="brand" href="/">Bazaar</a>
          <h1>${title}</h1>
          <p class="lead">${text}</p>
          <p><a class="button" href="${link.href}">${link.name}</a></p>
        </main>
      </body>
    </html>`;
