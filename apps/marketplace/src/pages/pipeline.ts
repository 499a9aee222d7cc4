import type { Measured, Measurements } from "../measure.js";
import { html, type Html } from "./html.js";
import { csrfField, meter } from "./parts.js";

const time = (ms: number): string => (ms < 1 ? `${(ms * 1_000).toFixed(0)} µs` : `${ms.toFixed(2)} ms`);

const table = (caption: string, rows: readonly Measured[]): Html => {
  const slowest = Math.max(1e-6, ...rows.map(({ median }) => median));
  return html`<table class="bench">
    <caption>
      ${caption}
    </caption>
    <thead>
      <tr>
        <th scope="col">Way</th>
        <th scope="col" class="number">Round trips</th>
        <th scope="col" class="number">Median</th>
        <th scope="col" class="number range">From – to</th>
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        ({ name, what, roundTrips, median, min, max }) =>
          html`<tr>
            <th scope="row">${name} <span class="fact">${what}</span>${meter(median / slowest)}</th>
            <td class="number">${roundTrips}</td>
            <td class="number">${time(median)}</td>
            <td class="number range">${time(min)} – ${time(max)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
};

export const pipelinePage = (seen: Measurements | null, csrf: string, isGuestServer: boolean): Html =>
  html`<section class="intro">
      <h1>Thirty reads, three ways</h1>
      <p class="lead">
        A round trip costs more than the work in it. Press the button, then make the wire 300 ms slow with “Break
        something”, and press it again.
      </p>
    </section>
    <section class="panel">
      ${seen === null ? html`<p class="hint">Not measured yet.</p>` : table("All thirty reads, nine rounds, the ways in turn", seen.reads)}
      ${
        isGuestServer
          ? html`<p class="aside">
              Measuring is switched off, since this shop runs in a Redis that is not its own (<code>--redis</code>).
            </p>`
          : html`<form method="post" action="/pipeline" class="start">
              ${csrfField(csrf)}<button class="button primary">${seen === null ? "Measure" : "Measure again"}</button>
            </form>`
      }
    </section>
    <section class="panel">
      <h2>The same with writes: one page view</h2>
      <p>
        A page view checks the session, remembers the item among the last 25, and counts the view. The textbook's keys
        are never removed. The shop's script also ends old sessions and bounds whatever it writes, in one round trip.
      </p>
      ${seen === null ? "" : table("Each of 150 views, five rounds, the ways in turn", seen.views)}
    </section>`;
