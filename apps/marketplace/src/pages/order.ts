import { money } from "../common/money.js";
import { type FlowName, type Order, orderFlow, type Step } from "../orders/orders.js";
import type { JobName } from "../common/tools.js";
import { html, type Html, mark } from "./html.js";
import { fact, intro, panel, seconds, table } from "./parts.js";

const jobWords: Readonly<Partial<Record<JobName, string>>> = {
  charge: "Charge the card",
  stock: "Take it from stock",
  invoice: "Write the invoice",
  label: "Print the label",
  receipt: "Mail the receipt",
  review: "Ask for a review",
};

type Kind = "held" | "waited" | "slot" | "ran" | "failed";

interface Span {
  readonly kind: Kind;
  readonly from: number;
  readonly to: number;
}

/** The phases of a job: waiting for other jobs until `readyAt`, for a worker, for a permit, running, failing. */
const spansOf = (steps: readonly Step[], isDone: boolean, now: number, readyAt: number): Span[] => {
  const spans: Span[] = [];
  let [from, kind]: [number | null, Kind] = [null, "waited"];
  const close = (to: number, as: Kind = kind): void => {
    if (from === null || to < from) return;
    const at = as === "waited" ? Math.min(Math.max(readyAt, from), to) : from;
    if (at > from) spans.push({ kind: "held", from, to: at });
    spans.push({ kind: as, from: at, to });
  };
  for (const { what, at, job } of steps) {
    if (what === "done") {
      close(at);
      from = null;
    } else if (what === "failed") {
      close(at, "failed");
      [from, kind] = [at, "waited"];
    } else {
      close(at);
      [from, kind] = [at, what === "taken" ? (job === "charge" ? "slot" : "ran") : what === "slot" ? "ran" : "waited"];
    }
  }
  if (!isDone) close(now);
  return spans;
};

const kindWords: Readonly<Record<Kind, string>> = {
  held: "waiting for other jobs",
  waited: "waiting for a worker",
  slot: "waiting for a permit",
  ran: "running",
  failed: "failed attempt",
};

const leastMs = 2_000;

/** The place of each job in the picture: the column, and the middle of its box. */
const places: Readonly<Record<FlowName, readonly [column: number, y: number]>> = {
  charge: [0, 35],
  stock: [0, 115],
  invoice: [1, 35],
  label: [1, 115],
  receipt: [2, 75],
};
const [boxWidth, columnWidth] = [190, 240];

/** The jobs of an order as boxes, each with lines from the jobs that it waits for. The list below it says the same. */
const picture = (order: Order, steps: readonly Step[]): Html => {
  const names = Object.keys(orderFlow) as FlowName[];
  const lines = names.flatMap((name) =>
    orderFlow[name].map((child) => {
      const [[from, y], [to, toY]] = [places[child], places[name]];
      const kind = order.done[child] === undefined ? "" : "passed";
      return html`<line
        class="${kind}"
        x1="${from * columnWidth + boxWidth}"
        y1="${y}"
        x2="${to * columnWidth}"
        y2="${toY}"
      />`;
    }),
  );
  const boxes = names.map((name) => {
    const [column, y] = places[name];
    const last = steps.findLast(({ job }) => job === name)?.what ?? "added";
    const kind =
      order.done[name] !== undefined ? "done" : last === "added" ? "" : last === "failed" ? "broken" : "runs";
    return html`<g class="${kind}">
      <rect x="${column * columnWidth}" y="${y - 22}" width="${boxWidth}" height="44" rx="8" />
      <text x="${column * columnWidth + boxWidth / 2}" y="${y + 5}">${jobWords[name]}</text>
    </g>`;
  });
  return html`<svg class="flow" viewBox="-2 0 674 150" aria-hidden="true">${lines}${boxes}</svg>`;
};

/** The jobs of an order as bars over time, and the same events as a list below. */
export const waterfall = (order: Order, steps: readonly Step[], now: number): Html => {
  const shown = Object.keys(orderFlow) as FlowName[];
  const ofJob = (job: JobName): Step[] => steps.filter((step) => step.job === job);
  const start = Math.min(order.at, ...steps.map(({ at }) => at));
  const isOver = shown.every((job) => order.done[job] !== undefined);
  const ends = shown.flatMap((job) => ofJob(job).map(({ at }) => at));
  const end = Math.max(start + leastMs, isOver ? Math.max(start, ...ends) : now);
  const x = (at: number): string => (((Math.min(at, end) - start) / (end - start)) * 1_000).toFixed(1);
  const rows = shown.map((job) => {
    const own = ofJob(job);
    const readyAt = Math.max(...orderFlow[job].map((child) => order.done[child] ?? now), 0);
    const spans = spansOf(own, order.done[job] !== undefined, now, readyAt);
    const open = orderFlow[job].filter((child) => order.done[child] === undefined);
    const attempts = own.filter(({ what }) => what === "taken").length;
    const last = own.at(-1);
    const worker = own.findLast(({ worker: who }) => who !== undefined)?.worker;
    const state =
      order.done[job] !== undefined
        ? `done in ${seconds((order.done[job] ?? 0) - order.at)}`
        : last?.what === "failed"
          ? "failed, retrying soon"
          : last?.what === "added"
            ? open.length > 0
              ? `waits for: ${open.map((child) => (jobWords[child] ?? "").toLowerCase()).join(", ")}`
              : "queued"
            : "running";
    return html`<li class="job">
      <p class="job-name">
        ${order.done[job] === undefined ? html`<span class="pending" aria-hidden="true"></span>` : mark(true)}
        <b>${jobWords[job]}</b>
      </p>
      <svg class="gantt" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" width="1000" height="20" />
        ${spans.map(
          ({ kind, from, to }) =>
            html`<rect
              class="${kind}"
              x="${x(from)}"
              width="${Math.max(3, Number(x(to)) - Number(x(from))).toFixed(1)}"
              height="20"
            />`,
        )}
      </svg>
      <p class="job-state">
        ${state}${attempts > 1 ? `, ${attempts} attempts` : ""}${worker === undefined ? "" : `, by ${worker}`}${last?.note !== undefined && order.done[job] !== undefined ? html`, <span class="fact">${last.note}</span>` : ""}
      </p>
    </li>`;
  });
  const legend = (Object.keys(kindWords) as Kind[]).map(
    (kind) =>
      html`<li>
        <svg class="key" viewBox="0 0 10 10" aria-hidden="true">
          <rect class="${kind}" width="10" height="10" rx="2" />
        </svg>
        ${kindWords[kind]}
      </li>`,
  );
  const events = steps.filter(({ what }) => what !== "added").slice(-24);
  const review = order.done.review;
  return html`${picture(order, steps)}
    <ol class="waterfall">
      ${rows}
    </ol>
    <ul class="legend">
      ${legend}
    </ul>
    <p class="hint">
      ${jobWords.review}:
      ${review === undefined ? "a delayed job, one minute after the sale (one week in a real shop)" : "sent"}.
    </p>
    <details class="twin">
      <summary>Show as a table</summary>
      ${table({
        ...{ caption: "Events of this order's jobs", isCaptionAway: true },
        columns: ["After", "Job", "Event", "Worker"],
        rows: events.map(({ job, what, at, worker, attempt, note }) => [
          seconds(at - start),
          job,
          html`${what === "slot" ? "got a permit" : what}${attempt !== undefined && attempt > 1 ? `, attempt ${attempt}` : ""}${note === undefined ? "" : html` <span class="fact">${note}</span>`}`,
          worker ?? "",
        ]),
      })}
    </details>`;
};

export interface OrderView {
  readonly order: Order;
  readonly buyer: string;
  readonly seller: string;
  readonly jobs: Html;
  readonly chat: Html;
}

export const orderPage = ({ order, buyer, seller, jobs, chat }: OrderView): Html =>
  html`${intro(html`Order <span class="code">${order.id}</span>`, "", html`<a href="/me">Your orders</a>`)}
    <div class="order">
      ${panel("Progress", html`<div id="jobs">${jobs}</div>`, "", "jobs-title")}
      ${panel(
        "Item",
        html`<div class="thumb"><img src="/pictures/${order.item}.svg" alt="" width="400" height="300" /></div>
          <p><a href="/item/${order.item}">${order.title}</a></p>
          <dl class="facts">
            ${fact("Price", money(order.price))} ${fact("Buyer", html`<bdi>${buyer}</bdi>`)}
            ${fact("Seller", html`<bdi>${seller}</bdi>`)}
          </dl>`,
        "summary",
        "sum-title",
      )}
      ${panel(
        "Chat: buyer, seller and support",
        html`${chat}
          <p class="hint">
            A program plays the seller unless you use that persona. Most sellers reply within a second.
          </p>`,
        "",
        "chat-title",
      )}
    </div>`;
