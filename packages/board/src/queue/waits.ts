import { html, type Html, instant, none, visible } from "../view/index.js";
import type { JobData } from "./data.js";

const whyPart = (title: string, reasons: readonly Html[], more: Html): Html =>
  reasons.length === 0
    ? none
    : html`<section class="card why">
        <h2>${title}</h2>
        <ul>
          ${reasons.map((one) => html`<li>${one}</li>`)}
        </ul>
        <p class="quiet">${more}</p>
      </section>`;

/** Why a job does not run now. */
export const jobWaits = ({ waits = [] }: JobData, more: Html): Html =>
  whyPart(
    "Why does it wait?",
    waits.map(
      ({ text, until }) =>
        html`<strong>${visible(text)}.</strong> ${until === null ? none : html`Until ${instant(until)} UTC.`}`,
    ),
    more,
  );
