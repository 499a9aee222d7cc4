import type { Mail } from "../crew/partners.js";
import { html, type Html, safe } from "./html.js";
import { clock, type Pages, pager, text } from "./parts.js";

export const mailList = (mails: readonly Mail[]): string =>
  text(
    mails.length === 0
      ? html`<p class="empty">No mail yet. Buy something: its receipt arrives within a second.</p>`
      : html`<ul class="mails">
          ${mails.map(
            ({ at, to, subject, text: body }) =>
              html`<li>
                <p class="mail-head"><b>${subject}</b><span class="fact">to ${to}, ${clock(at)}</span></p>
                <p class="mail-body" dir="auto">${body}</p>
              </li>`,
          )}
        </ul>`,
  );

export const mailPage = (list: string, pages: Pages): Html =>
  html`<section class="intro">
      <h1>Mail that left the shop</h1>
      <p class="lead">A mail server on this machine keeps the newest letters, and passes none of them on.</p>
    </section>
    <section class="panel"><div id="mails">${safe(list)}</div></section>
    ${pager("More mails", pages, (page) => `/mail?page=${page}`)}`;
