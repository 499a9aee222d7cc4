import { html, type Html, instant, none, visible } from "../view/index.js";
import type { Waits } from "./data.js";

/** Why a job, or the ready jobs of a queue, do not run now. */
export const waitsPart = (title: string, waits: Waits, more: Html): Html =>
  waits.length === 0
    ? none
    : html`<section class="card why">
        <h2>${title}</h2>
        <ul>
          ${waits.map(({ text, until }) => html`<li><strong>${visible(text)}.</strong> ${until === null ? none : html`Until ${instant(until)} UTC.`}</li>`)}
        </ul>
        <p class="quiet">${more}</p>
      </section>`;
