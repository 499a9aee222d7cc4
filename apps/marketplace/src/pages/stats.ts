import { html, type Html } from "./html.js";
import { count } from "./parts.js";

interface Point {
  readonly at: number;
  readonly sales: number;
  readonly views: number;
}

interface Band {
  readonly at: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly count: number;
}

export interface StatsView {
  readonly points: readonly Point[];
  readonly stepMs: number;
  readonly from: number;
  readonly to: number;
  readonly span: string;
  readonly totals: { readonly sales: number; readonly views: number };
  readonly route: string;
  readonly routes: readonly string[];
  readonly band: readonly Band[];
  readonly slowest: readonly { readonly subject: string; readonly value: number }[];
}

export const spans: readonly { readonly id: string; readonly name: string; readonly ms: number }[] = [
  { id: "15m", name: "15 minutes", ms: 15 * 60_000 },
  { id: "2h", name: "2 hours", ms: 2 * 3_600_000 },
  { id: "1d", name: "1 day", ms: 86_400_000 },
  { id: "7d", name: "7 days", ms: 7 * 86_400_000 },
  { id: "90d", name: "90 days", ms: 90 * 86_400_000 },
];

const stepWords = (stepMs: number): string =>
  stepMs < 60_000
    ? stepMs === 1_000
      ? "1 second"
      : `${stepMs / 1_000} seconds`
    : stepMs < 3_600_000
      ? "1 minute"
      : "1 hour";

const when = (at: number, stepMs: number): string => {
  const iso = new Date(at).toISOString();
  return stepMs >= 3_600_000
    ? `${iso.slice(0, 10)} ${iso.slice(11, 16)}`
    : stepMs >= 60_000
      ? iso.slice(11, 16)
      : iso.slice(11, 19);
};

const width = 1_000;
const height = 220;

/** The mean of the next steps, so that a line of seconds does not look like grass. */
const chart = ({ points, stepMs, from, to }: StatsView, which: "sales" | "views", title: string): Html => {
  const most = Math.max(1, ...points.map((point) => point[which]));
  const x = (at: number): number => ((at - from) / Math.max(1, to - from)) * width;
  const step = Math.max(0.6, (stepMs / Math.max(1, to - from)) * width);
  const sum = points.reduce((total, point) => total + point[which], 0);
  const bars = points
    .filter((point) => point[which] > 0)
    .map((point) => {
      const tall = (point[which] / most) * height;
      return `M${x(point.at).toFixed(1)} ${height}v-${tall.toFixed(1)}h${Math.max(0.6, step * 0.86).toFixed(1)}V${height}z`;
    })
    .join("");
  return html`<figure class="chart">
    <figcaption>
      <b>${title}</b> <span class="fact">${count(sum)} in all, at most ${count(most)} in ${stepWords(stepMs)}</span>
    </figcaption>
    <svg
      viewBox="0 0 ${width} ${height}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title}: ${count(sum)} between ${when(from, 3_600_000)} and ${when(to, 3_600_000)}, as a table below"
      data-zoom
      data-from="${from}"
      data-to="${to}"
    >
      <path class="rule" d="M0 ${height / 2}H${width}M0 1H${width}" />
      <path class="${which}" d="${bars}" />
      <rect class="selection" y="0" height="${height}" width="0" />
    </svg>
    <p class="axis" aria-hidden="true">
      <span>${when(from, stepMs)}</span><span>${when(from + (to - from) / 2, stepMs)}</span
      ><span>${when(to, stepMs)}</span>
    </p>
  </figure>`;
};

const table = ({ points, stepMs }: StatsView): Html => {
  const busy = points.filter(({ sales, views }) => sales > 0 || views > 0).slice(-60);
  return html`<details class="twin">
    <summary>The newest ${busy.length} buckets as a table</summary>
    <table>
      <caption class="away">
        Sales and page views, newest last
      </caption>
      <thead>
        <tr>
          <th scope="col">From (UTC)</th>
          <th scope="col" class="number">Sales</th>
          <th scope="col" class="number">Views</th>
        </tr>
      </thead>
      <tbody>
        ${busy.map(
          ({ at, sales, views }) =>
            html`<tr>
              <td>${when(at, stepMs)}</td>
              <td class="number">${count(sales)}</td>
              <td class="number">${count(views)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </details>`;
};

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

const bands = (band: readonly Band[]): Html => {
  const known = band.filter(({ count: answers }) => answers > 0);
  if (known.length === 0) return html`<p class="empty">No request of this kind in the last hour.</p>`;
  const most = Math.max(...known.map(({ p99 }) => p99), 1);
  const first = known[0]?.at ?? 0;
  const last = known.at(-1)?.at ?? 0;
  const x = (at: number): string => (last === first ? width / 2 : ((at - first) / (last - first)) * width).toFixed(1);
  const y = (value: number): string => (height - (value / most) * (height - 8)).toFixed(1);
  const line = (which: "p50" | "p95" | "p99"): string =>
    known.map((one, n) => `${n === 0 ? "M" : "L"}${x(one.at)} ${y(one[which])}`).join("");
  const newest = known.at(-1);
  return html`<figure class="chart">
    <figcaption>
      <b>Time to answer</b>
      <span class="fact"
        >newest minute: median ${ms(newest?.p50 ?? 0)}, 95 % within ${ms(newest?.p95 ?? 0)}, 99 % within
        ${ms(newest?.p99 ?? 0)}</span
      >
    </figcaption>
    <svg
      viewBox="0 0 ${width} ${height}"
      preserveAspectRatio="none"
      role="img"
      aria-label="Median, 95th and 99th percentile of each minute of the last hour, at most ${ms(most)}"
    >
      <path class="rule" d="M0 ${height / 2}H${width}M0 1H${width}" />
      <path class="p99" d="${line("p99")}" />
      <path class="p95" d="${line("p95")}" />
      <path class="p50" d="${line("p50")}" />
    </svg>
    <ul class="legend">
      <li>
        <svg class="key" viewBox="0 0 10 10" aria-hidden="true"><path class="p50" d="M0 5H10" /></svg> median
      </li>
      <li>
        <svg class="key" viewBox="0 0 10 10" aria-hidden="true"><path class="p95" d="M0 5H10" /></svg> 95 %
      </li>
      <li>
        <svg class="key" viewBox="0 0 10 10" aria-hidden="true"><path class="p99" d="M0 5H10" /></svg> 99 %
      </li>
    </ul>
  </figure>`;
};

export const statsPage = (view: StatsView): Html => {
  const { stepMs, from, to, span, totals, route, routes, band, slowest } = view;
  const wide = to - from;
  const at = (nextFrom: number, nextTo: number): string =>
    `/stats?from=${Math.round(nextFrom)}&to=${Math.round(nextTo)}`;
  return html`<section class="intro">
      <h1>Counted by the second, kept for ninety days</h1>
      <p class="lead">
        ${count(totals.sales)} sales and ${count(totals.views)} page views so far. What was before this shop was opened
        is made up, so that there is something to see; the rest is real.
      </p>
    </section>
    <nav class="tabs" aria-label="Span of time">
      <ul>
        ${spans.map(({ id, name }) =>
          id === span
            ? html`<li><a href="/stats?span=${id}" aria-current="page">${name}</a></li>`
            : html`<li><a href="/stats?span=${id}">${name}</a></li>`,
        )}
      </ul>
    </nav>
    <section class="panel">
      <p class="answered">
        <b>Precision: ${stepWords(stepMs)}</b>
        <span class="fact"
          >the finest that is kept for this span and fits the chart. Drag over a chart to zoom in.</span
        >
      </p>
      <p class="zoom">
        <a class="button small" href="${at(from - wide / 2, to - wide / 2)}">← Earlier</a>
        <a class="button small" href="${at(from + wide / 4, to - wide / 4)}">Zoom in</a>
        <a class="button small" href="${at(from - wide / 2, to + wide / 2)}">Zoom out</a>
        <a class="button small" href="${at(from + wide / 2, to + wide / 2)}">Later →</a>
      </p>
      ${chart(view, "sales", "Sales")} ${chart(view, "views", "Page views")} ${table(view)}
    </section>
    <section class="panel">
      <h2>How long requests take</h2>
      <form action="/stats" class="choose">
        <label for="route">Route</label>
        <select id="route" name="route">
          ${routes.map((one) => (one === route ? html`<option selected>${one}</option>` : html`<option>${one}</option>`))}
        </select>
        <button class="button small">Show</button>
      </form>
      ${bands(band)}
      <h3>Slowest of the last hour</h3>
      ${
        slowest.length === 0
          ? html`<p class="empty">Nothing yet.</p>`
          : html`<table>
              <caption class="away">
                Slowest requests of ${route}
              </caption>
              <thead>
                <tr>
                  <th scope="col">Request</th>
                  <th scope="col" class="number">Took</th>
                </tr>
              </thead>
              <tbody>
                ${slowest.map(
                  ({ subject, value }) =>
                    html`<tr>
                      <td><code>${subject}</code></td>
                      <td class="number">${ms(value)}</td>
                    </tr>`,
                )}
              </tbody>
            </table>`
      }
      <p class="hint">
        All of it for Prometheus: <a href="/metrics"><code>/metrics</code></a>
      </p>
    </section>`;
};
