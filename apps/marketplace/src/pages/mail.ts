import type { Mail } from "../behind/partners.js";
import { html, type Html } from "./html.js";
import { clock, intro, list, type Pages, pager } from "./parts.js";

export const mailList = (mails: readonly Mail[]): Html =>
  list(
    "mails",
    mails.map(
      ({ at, to, subject, text }) =>
        html`<li>
          <p class="mail-head"><b>${subject}</b><span class="fact">to ${to}, ${clock(at)}</span></p>
          <p class="mail-body" dir="auto">${text}</p>
        </li>`,
    ),
    "No mail yet. Buy something, and its receipt arrives within a second.",
  );

export const mailPage = (mails: readonly Mail[], pages: Pages): Html =>
  html`${intro("Sent mail", "A mail server on this machine keeps the newest messages and forwards none.")}
    <section class="panel"><div id="mails">${mailList(mails)}</div></section>
    ${pager("More mail", pages, (page) => `/mail?page=${page}`)}`;
