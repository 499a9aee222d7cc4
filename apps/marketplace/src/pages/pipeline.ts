import type { Measured, Measurements } from "../race/measure.js";
import { html, type Html } from "./html.js";
import { guestNote, intro, meter, panel, postForm, table } from "./parts.js";

const time = (ms: number): string => (ms < 1 ? `${(ms * 1_000).toFixed(0)} µs` : `${ms.toFixed(2)} ms`);

const measuredTable = (caption: string, ways: readonly Measured[]): Html => {
  const slowest = Math.max(1e-6, ...ways.map(({ median }) => median));
  return table({
    ...{ caption, kind: "bench", hasRowHeads: true },
    columns: ["Way", ["Round trips", "number"], ["Median", "number"], ["From – to", "number range"]],
    rows: ways.map(({ name, what, roundTrips, median, min, max }) => [
      html`${name} <span class="fact">${what}</span>${meter(median / slowest)}`,
      roundTrips,
      time(median),
      `${time(min)} – ${time(max)}`,
    ]),
  });
};

export const pipelinePage = (seen: Measurements | null, csrf: string, isGuestServer: boolean): Html => {
  const button = seen === null ? "Measure" : "Measure again";
  return html`${intro("Thirty reads, three ways", "A round trip costs more than the work. Measure, then slow down the network by 300 ms with “Break something”, and measure again.")}
    <section class="panel">
      ${seen === null ? html`<p class="hint">Not measured yet.</p>` : measuredTable("All 30 reads, nine rounds, alternating", seen.reads)}
      ${isGuestServer ? guestNote("Measurements are disabled") : postForm("/pipeline", { csrf }, html`<button class="button primary">${button}</button>`, "start")}
    </section>
    ${panel(
      "With writes: one page view",
      html`<p>
          A page view checks the session, adds the item to the last 25, and counts the view. The textbook version never
          removes its keys. The shop's script does the same in one round trip, deletes old sessions and limits its data.
        </p>
        ${seen === null ? "" : measuredTable("Each of 150 views, five rounds, alternating", seen.views)}`,
    )}`;
};
