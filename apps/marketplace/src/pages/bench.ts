import type { BenchRow } from "../bench.js";
import { html, type Html } from "./html.js";

export interface BenchView {
  readonly rows: readonly BenchRow[] | null;
  readonly csrf: string;
  readonly isGuestServer: boolean;
}

const micros = (value: number): string => `${value.toFixed(0)} µs`;

const table = (rows: readonly BenchRow[]): Html => {
  const slowest = Math.max(...rows.map(({ median }) => median), 1);
  return html`<table class="bench">
    <caption>
      Time per page view, five rounds of 150 views one after the other
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
        ({ name, roundTrips, median, min, max }) =>
          html`<tr>
            <th scope="row">
              ${name}<svg class="measure" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                <rect width="${((median / slowest) * 100).toFixed(1)}" height="4" />
              </svg>
            </th>
            <td class="number">${roundTrips}</td>
            <td class="number">${micros(median)}</td>
            <td class="number range">${micros(min)} – ${micros(max)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
};

export const benchPage = ({ rows, csrf, isGuestServer }: BenchView): Html =>
  html`<section class="intro">
      <h1>What a page view costs</h1>
      <p class="lead">
        Every view checks the session, remembers the item among the last 25, and counts the view. Three ways to do it,
        measured here and now.
      </p>
    </section>
    <section class="panel">
      ${rows === null ? html`<p class="hint">Not measured yet.</p>` : table(rows)}
      ${
        isGuestServer
          ? html`<p class="aside">
              Measuring is switched off, since this shop runs in a Redis that is not its own (<code>--redis</code>).
            </p>`
          : html`<form method="post" action="/sessions" class="start">
              <input type="hidden" name="csrf" value="${csrf}" /><button class="button primary">
                ${rows === null ? "Measure" : "Measure again"}
              </button>
            </form>`
      }
    </section>
    <section class="panel words">
      <h2>They do not do the same</h2>
      <p>
        The textbook writes five keys and none of them ever goes: sessions, last views and counts only grow until a
        clean-up process comes by. Our script checks the session first, prolongs it, and gives all it writes a bounded
        life. It does more, in one round trip.
      </p>
    </section>`;
