import { html, type Html } from "./html.js";
import { choices, count, intro, milliseconds, table } from "./parts.js";

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

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const stepWords = (stepMs: number): string =>
  stepMs < minuteMs
    ? stepMs === 1_000
      ? "1 second"
      : `${stepMs / 1_000} seconds`
    : stepMs < hourMs
      ? "1 minute"
      : "1 hour";

const when = (at: number, stepMs: number): string => {
  const iso = new Date(at).toISOString();
  return stepMs >= hourMs
    ? `${iso.slice(0, 10)} ${iso.slice(11, 16)}`
    : stepMs >= minuteMs
      ? iso.slice(11, 16)
      : iso.slice(11, 19);
};

const width = 1_000;
const height = 220;

interface Series {
  readonly name: string;
  /** The class that gives its colour. */
  readonly kind: "sales" | "views" | "p50" | "p95" | "p99";
  /** One value for each step; null if there is none. */
  readonly values: readonly (number | null)[];
}

interface Chart {
  readonly title: string;
  readonly fact: string;
  readonly label: string;
  readonly from: number;
  readonly stepMs: number;
  readonly shape: "bars" | "lines";
  readonly unit: string;
  readonly series: readonly [Series, ...Series[]];
}

const pathOf = ({ values }: Series, shape: Chart["shape"], most: number): string => {
  const step = width / Math.max(1, values.length);
  let pen = "M";
  return values
    .map((value, at) => {
      const [x, y] = [(at * step).toFixed(1), (height - ((value ?? 0) / most) * (height - 4)).toFixed(1)];
      if (shape === "bars")
        return value ? `M${x} ${height}V${y}h${Math.max(0.6, step * 0.86).toFixed(1)}V${height}z` : "";
      if (value === null) return "";
      const [from, to] = [pen, `${((at + 0.5) * step).toFixed(1)} ${y}`];
      pen = "L";
      return `${from}${to}`;
    })
    .join("");
};

/** A value beside a chart. */
const scaled = (value: number, unit: string): string =>
  `${value.toLocaleString("en-GB", { maximumFractionDigits: value < 10 ? 1 : 0 })}${unit}`;

/** A chart as SVG, for pages without JavaScript. `charts.js` draws it by uPlot, from `data-chart`. */
const figure = ({ title, fact, label, from, stepMs, shape, unit, series }: Chart): Html => {
  const steps = series[0].values.length;
  const to = from + steps * stepMs;
  const highest = Math.max(1, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  // Counts are whole, also in the middle of the scale.
  const most = unit === "" ? 2 * Math.ceil(highest / 2) : highest;
  const data = { from, stepMs, shape, unit, series: series.map(({ name, values }) => ({ name, values })) };
  return html`<figure class="chart" data-chart="${JSON.stringify(data)}">
    <figcaption><b>${title}</b> <span class="fact">${fact}</span></figcaption>
    <div class="drawn">
      <svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${label}">
        <path class="rule" d="M0 ${height / 2}H${width}M0 1H${width}" />
        ${series.map((one) => html`<path data-series class="${one.kind}" d="${pathOf(one, shape, most)}" />`)}
      </svg>
      <p class="scale" aria-hidden="true">
        <span>${scaled(most, unit)}</span><span>${scaled(most / 2, unit)}</span><span>${scaled(0, unit)}</span>
      </p>
    </div>
    <p class="axis" aria-hidden="true">
      <span>${when(from, stepMs)}</span><span>${when(from + (to - from) / 2, stepMs)}</span
      ><span>${when(to, stepMs)}</span>
    </p>
    ${
      series.length === 1
        ? ""
        : html`<ul class="legend">
            ${series.map(
              ({ name, kind }) =>
                html`<li>
                  <svg class="key" viewBox="0 0 10 10" aria-hidden="true"><path class="${kind}" d="M0 5H10" /></svg>
                  ${name}
                </li>`,
            )}
          </ul>`
    }
  </figure>`;
};

const chart = ({ points, stepMs, from, to }: StatsView, kind: "sales" | "views", title: string): Html => {
  const values = points.map((point) => point[kind]);
  const sum = count(values.reduce((total, value) => total + value, 0));
  const most = count(Math.max(0, ...values));
  return figure({
    title,
    fact: `${sum} in total, up to ${most} in ${stepWords(stepMs)}`,
    label: `${title}: ${sum} between ${when(from, hourMs)} and ${when(to, hourMs)}, see the table below`,
    from: points[0]?.at ?? from,
    ...{ stepMs, shape: "bars", unit: "", series: [{ name: title, kind, values }] },
  });
};

const buckets = ({ points, stepMs }: StatsView): Html => {
  const busy = points.filter(({ sales, views }) => sales > 0 || views > 0).slice(-60);
  return html`<details class="twin">
    <summary>The newest ${busy.length} buckets as a table</summary>
    ${table({
      ...{ caption: "Sales and page views, newest last", isCaptionAway: true },
      columns: ["From (UTC)", ["Sales", "number"], ["Views", "number"]],
      rows: busy.map(({ at, sales, views }) => [when(at, stepMs), count(sales), count(views)]),
    })}
  </details>`;
};

const bands = (band: readonly Band[]): Html => {
  const known = band.filter(({ count: answers }) => answers > 0);
  const newest = known.at(-1);
  if (!newest) return html`<p class="empty">No requests to this route in the last hour.</p>`;
  const [from, to] = [known[0]?.at ?? newest.at, newest.at];
  const minutes = new Map(known.map((one) => [one.at, one]));
  const series = (name: string, kind: "p50" | "p95" | "p99"): Series => ({
    ...{ name, kind },
    values: Array.from(
      { length: (to - from) / minuteMs + 1 },
      (_, at) => minutes.get(from + at * minuteMs)?.[kind] ?? null,
    ),
  });
  return figure({
    title: "Response time",
    fact: `newest minute: median ${milliseconds(newest.p50)}, 95 % within ${milliseconds(newest.p95)}, 99 % within ${milliseconds(newest.p99)}`,
    label: `Median, 95th and 99th percentile for each minute of the last hour, up to ${milliseconds(Math.max(...known.map(({ p99 }) => p99)))}`,
    ...{ from, stepMs: minuteMs, shape: "lines", unit: " ms" },
    series: [series("median", "p50"), series("95 %", "p95"), series("99 %", "p99")],
  });
};

export const statsPage = (view: StatsView): Html => {
  const { stepMs, from, to, span, totals, route, routes, band, slowest } = view;
  const wide = to - from;
  const at = (nextFrom: number, nextTo: number): string =>
    `/stats?from=${Math.round(nextFrom)}&to=${Math.round(nextTo)}`;
  return html`${intro("Counted every second, kept for 90 days", `${count(totals.sales)} sales and ${count(totals.views)} page views so far. Figures from before the shop started are generated. Newer figures are real. Times are UTC.`)}
    ${choices(
      "tabs",
      "Span of time",
      spans.map(({ id, name }) => ({ id, name, href: `/stats?span=${id}` })),
      span,
    )}
    <section class="panel" id="zoomed">
      <p class="answered">
        <b>Precision: ${stepWords(stepMs)}</b>
        <span class="fact">This is the finest precision that is kept for this span and fits the chart.</span>
        <span class="fact scripted">To zoom in, drag over a chart, or focus it and press + − ← →.</span>
      </p>
      <p class="zoom">
        <a class="button small" data-move="ArrowLeft" href="${at(from - wide / 2, to - wide / 2)}">← Earlier</a>
        <a class="button small" data-move="+" href="${at(from + wide / 4, to - wide / 4)}">Zoom in</a>
        <a class="button small" data-move="-" href="${at(from - wide / 2, to + wide / 2)}">Zoom out</a>
        <a class="button small" data-move="ArrowRight" href="${at(from + wide / 2, to + wide / 2)}">Later →</a>
      </p>
      ${chart(view, "sales", "Sales")} ${chart(view, "views", "Page views")} ${buckets(view)}
    </section>
    <section class="panel">
      <h2>Response times</h2>
      <form action="/stats" class="choose">
        <label for="route">Route</label>
        <select id="route" name="route">
          ${routes.map((one) => (one === route ? html`<option selected>${one}</option>` : html`<option>${one}</option>`))}
        </select>
        <button class="button small">Show</button>
      </form>
      ${bands(band)}
      <h3>Slowest requests of the last hour</h3>
      ${
        slowest.length === 0
          ? html`<p class="empty">No requests yet.</p>`
          : table({
              ...{ caption: `Slowest requests of ${route}`, isCaptionAway: true },
              columns: ["Request", ["Took", "number"]],
              rows: slowest.map(({ subject, value }) => [html`<code>${subject}</code>`, milliseconds(value)]),
            })
      }
      <p class="hint">
        Prometheus metrics: <a href="/metrics"><code>/metrics</code></a>
      </p>
    </section>`;
};
