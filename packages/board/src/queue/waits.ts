import { secondsText } from "@kit/core/toolkit";
import { count, html, type Html, instant, none, visible } from "../view/index.js";
import type { JobData, QueueData } from "./data.js";

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

/** The reasons why no ready job of a queue starts. The page of a job has the reasons that apply only to that job. */
export const queueWaits = (data: QueueData): Html => {
  const { waiting, prioritised, suspended, grouped, groupsInTurn, active, workers, now } = data;
  const { pausedAt, heldUntil, concurrency } = data;
  if (waiting + prioritised + suspended + grouped === 0) return none;
  const running = workers.filter(({ state }) => state !== "paused" && state !== "closing");
  const handlers = running.reduce((sum, one) => sum + (one.concurrency ?? 1), 0);
  const reasons: readonly (readonly [isSo: boolean, text: string])[] = [
    [pausedAt !== null, `The queue is paused, for ${secondsText(now - (pausedAt ?? now))}`],
    [
      heldUntil !== null && heldUntil > now,
      `A handler asked for no starts for ${secondsText((heldUntil ?? now) - now)}`,
    ],
    [
      concurrency !== null && active >= concurrency,
      `The limit of active jobs is reached: ${count(active)} of ${count(concurrency ?? 0)}`,
    ],
    [workers.length === 0, "No worker is connected"],
    [workers.length > 0 && running.length === 0, "Every worker is paused or closing"],
    [running.length > 0 && active >= handlers, `All handlers are busy: ${count(handlers)}`],
    [waiting + prioritised === 0 && grouped > 0 && groupsInTurn === 0, "No group can start its next job. See Groups"],
    [suspended > 0, `Jobs whose name is paused or at its limit: ${count(suspended)}`],
  ];
  const shown = reasons.filter(([isSo]) => isSo).map(([, text]) => html`<strong>${text}.</strong>`);
  return whyPart("Why do jobs wait?", shown, html`The page of a job shows its own reasons.`);
};
