import type { PipelineRow } from "../pipeline.js";
import { html, type Html } from "./html.js";
import { csrfField, meter } from "./parts.js";

export const pipelinePage = (rows: readonly PipelineRow[] | null, csrf: string, isGuestServer: boolean): Html => {
  const slowest = Math.max(1e-6, ...(rows ?? []).map(({ median }) => median));
  const first = rows?.[0]?.median ?? 0;
  return html`<section class="intro">
      <h1>Thirty reads, three ways</h1>
      <p class="lead">
        A round trip costs more than what is asked in it. Press the button, then make the wire 300 ms slow with “Break
        something”, and press it again.
      </p>
    </section>
    <section class="panel">
      ${
        rows === null
          ? html`<p class="hint">Not measured yet.</p>`
          : html`<table class="bench">
                <caption>
                  Time for all thirty reads, nine rounds, the ways in turn
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
                        <td class="number">${median.toFixed(2)} ms</td>
                        <td class="number range">${min.toFixed(2)} – ${max.toFixed(2)} ms</td>
                      </tr>`,
                  )}
                </tbody>
              </table>
              <p>
                Here and now the pipeline took ${(first / Math.max(1e-6, rows[1]?.median ?? 1)) | 0 || "less than 1"}
                ${"times less than one by one, the gathering client"}
                ${(first / Math.max(1e-6, rows[2]?.median ?? 1)) | 0 || "less than 1"} times less.
              </p>`
      }
      ${
        isGuestServer
          ? html`<p class="aside">
              Measuring is switched off, since this shop runs in a Redis that is not its own (<code>--redis</code>).
            </p>`
          : html`<form method="post" action="/pipeline" class="start">
              ${csrfField(csrf)}<button class="button primary">${rows === null ? "Measure" : "Measure again"}</button>
            </form>`
      }
    </section>`;
};
