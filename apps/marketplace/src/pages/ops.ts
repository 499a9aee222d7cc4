import type { DeadLetter } from "@kit/queue";
import type { SemaphoreInspection } from "@kit/semaphore";
import type { CrewEvent, Member } from "../crew/crew.js";
import type { PartnersState } from "../crew/partners.js";
import type { WorkerStatus } from "../crew/worker.js";
import type { HeldLock } from "../held-locks.js";
import type { Order } from "../orders.js";
import { jobsOfOrder } from "../orders.js";
import type { RedisFacts } from "../inspect-line.js";
import { money } from "../money.js";
import { paymentPermits } from "../tools.js";
import { html, type Html, mark, plural, safe } from "./html.js";
import { clock, count, csrfField, fact, meter, seconds, text } from "./parts.js";

/** The state of the queue. */
export interface QueueLook {
  readonly waiting: number;
  readonly prioritised: number;
  readonly delayed: number;
  readonly active: number;
  readonly dead: number;
  readonly now: number;
  readonly nextDue: number | null;
  readonly completed: number;
  readonly crashed: number;
}

export interface OpsLook {
  readonly locks: readonly HeldLock[];
  readonly payments: SemaphoreInspection;
  readonly partners: PartnersState | null;
  readonly queue: QueueLook;
  readonly workers: readonly Member[];
  readonly others: readonly Member[];
  readonly events: readonly CrewEvent[];
  readonly orders: readonly Order[];
  /** Sales whose order could not be placed. */
  readonly undispatched: number;
  readonly diary: readonly string[];
}

const lockRows = (locks: readonly HeldLock[]): Html =>
  locks.length === 0
    ? html`<p class="empty">None at this moment. A sale holds one for a few milliseconds.</p>`
    : html`<table>
        <caption class="away">
          Locks
        </caption>
        <thead>
          <tr>
            <th scope="col">Lock</th>
            <th scope="col">Holder</th>
            <th scope="col" class="number">Left</th>
            <th scope="col" class="number">In line</th>
          </tr>
        </thead>
        <tbody>
          ${locks.map(
            ({ name, state }) =>
              html`<tr>
                <td><code>${name.replace(/^shop\./, "")}</code></td>
                <td>
                  ${state.state === "held" ? html`<span class="chip held">held</span> <bdi>${state.holder ?? ""}</bdi>` : html`<span class="chip free">released</span>`}
                </td>
                <td class="number">${state.state === "held" && state.msLeft !== null ? seconds(state.msLeft) : "–"}</td>
                <td class="number">${state.waiters}</td>
              </tr>`,
          )}
        </tbody>
      </table>`;

const permitRow = ({ holders, waiters }: SemaphoreInspection, partners: PartnersState | null): Html => {
  const permits = Array.from({ length: paymentPermits }, (_, n) => holders[n]);
  return html`<ol class="permits">
      ${permits.map((holder) =>
        holder
          ? html`<li class="permit taken"><span class="away">taken by </span>${holder.holder}</li>`
          : html`<li class="permit">free</li>`,
      )}
    </ol>
    <p class="fact">
      ${plural(waiters, "payment")} in
      line.${partners === null ? "" : html` The provider has made ${count(partners.charges)}, never more than ${partners.peak} at once, and turned ${partners.refused} away.`}
    </p>`;
};

const queueFacts = ({
  waiting,
  prioritised,
  delayed,
  active,
  dead,
  now,
  nextDue,
  completed,
  crashed,
}: QueueLook): Html =>
  html`<dl class="facts">
    ${fact("Ready", count(waiting + prioritised))} ${fact("Active", count(active))}
    ${fact("Delayed", nextDue === null ? count(delayed) : `${count(delayed)}, next in ${seconds(Math.max(0, nextDue - now))}`)}
    ${fact("Dead letters", count(dead))} ${fact("Done so far", count(completed))}
    ${fact("Taken from the dead", count(crashed))}
  </dl>`;

const stateWords: Readonly<Record<Member["state"], string>> = {
  starting: "starting",
  running: "running",
  paused: "paused",
  gone: "gone, starts again soon",
};

const workerCard = ({ name, pid, state, restarts, status }: Member): Html => {
  const { running = [], done = 0, failed = 0 } = (status ?? {}) as Partial<WorkerStatus>;
  return html`<li class="worker ${state}">
    <p class="worker-head">
      ${mark(state === "running")} <b>${name}</b>
      <span class="fact">pid ${pid}, ${stateWords[state]}${restarts > 0 ? `, started ${restarts + 1} times` : ""}</span>
    </p>
    ${
      running.length === 0
        ? html`<p class="fact">${state === "running" ? "idle" : "no jobs"}</p>`
        : html`<ul class="running">
            ${running.map(
              ({ name: job, id, progress }) =>
                html`<li>
                  <span>${job} <code>${id.split(".").at(-1) ?? id}</code></span
                  >${progress === undefined ? "" : meter(progress)}
                </li>`,
            )}
          </ul>`
    }
    <p class="fact">${count(done)} done, ${plural(failed, "attempt")} failed</p>
  </li>`;
};

const orderRows = (orders: readonly Order[]): Html =>
  html`<table>
    <caption class="away">
      Newest orders
    </caption>
    <thead>
      <tr>
        <th scope="col">Order</th>
        <th scope="col" class="number">Price</th>
        <th scope="col">Jobs done</th>
      </tr>
    </thead>
    <tbody>
      ${orders.map(
        ({ id, price, done }) =>
          html`<tr>
            <td><code>${id}</code></td>
            <td class="number">${money(price)}</td>
            <td>${jobsOfOrder.filter((job) => done[job] !== undefined).join(", ") || "none yet"}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;

/** The parts of the page that the stream replaces, by the id of their element. */
export const opsParts = (look: OpsLook): [id: string, content: string][] => [
  ["ops-locks", text(lockRows(look.locks))],
  ["ops-payments", text(permitRow(look.payments, look.partners))],
  ["ops-queue", text(queueFacts(look.queue))],
  [
    "ops-workers",
    text(
      html`<ul class="workers">
        ${look.workers.map(workerCard)}
      </ul>`,
    ),
  ],
  [
    "ops-others",
    text(
      html`<ul class="checks">
        ${look.others.map(
          ({ name, pid, state }) =>
            html`<li>
              ${mark(state === "running")}<span
                ><b>${name}</b> <span class="fact">pid ${pid}, ${stateWords[state]}</span></span
              >
            </li>`,
        )}
      </ul>`,
    ),
  ],
  [
    "ops-orders",
    text(
      html`${look.orders.length === 0 ? html`<p class="empty">None yet.</p>` : orderRows(look.orders)}
      ${
        look.undispatched === 0
          ? ""
          : html`<p class="fact">
              ${mark(false)} ${plural(look.undispatched, "sale")} without an order: placing fails, and is tried again
              every three seconds.
            </p>`
      }`,
    ),
  ],
  [
    "ops-events",
    text(
      look.events.length === 0
        ? html`<p class="empty">Nothing out of the ordinary.</p>`
        : html`<ol class="events">
            ${look.events.slice(0, 8).map(({ at, text: what }) => html`<li>${clock(at)} ${what}</li>`)}
          </ol>`,
    ),
  ],
  [
    "ops-diary",
    text(
      look.diary.length === 0
        ? html`<p class="empty">Empty here.</p>`
        : html`<ol class="events">
            ${look.diary.map((line) => html`<li><time>${line.slice(11, 19)}</time> ${line.slice(25)}</li>`)}
          </ol>`,
    ),
  ],
];

export interface OpsView {
  readonly look: OpsLook;
  readonly letters: readonly DeadLetter[];
  readonly csrf: string;
  readonly maintenance: boolean;
  readonly redis: RedisFacts;
  /** Where the diary is kept. */
  readonly logs: { readonly address: string; readonly isHome: boolean; readonly canMove: boolean };
}

const letterRows = (letters: readonly DeadLetter[], dead: number, csrf: string): Html =>
  letters.length === 0
    ? html`<p class="empty">None. <a href="/faults">Add a poisonous job</a> to see one.</p>`
    : html`<ul class="letters">
          ${letters.map(
            ({ id, name, attempts, crashes, error }) =>
              html`<li>
                <p>
                  <b>${name}</b> <code>${id}</code><br /><span class="fact"
                    >${plural(attempts, "attempt")}, ${plural(crashes, "crash", "crashes")}:
                    ${error?.message ?? "no error"}</span
                  >
                </p>
                <form method="post" action="/ops/letters">
                  ${csrfField(csrf)}<input type="hidden" name="id" value="${id}" />
                  <button name="do" value="retry" class="button small">Retry</button>
                  <button name="do" value="drop" class="quiet">Drop</button>
                </form>
              </li>`,
          )}
        </ul>
        ${dead > letters.length ? html`<p class="hint">The newest ${letters.length} of ${count(dead)}.</p>` : ""}`;

const redisPanel = ({ address, inspect }: RedisFacts): Html =>
  html`<p>At <code>${address}</code>.</p>
    ${
      inspect === null
        ? ""
        : html`<p class="hint">The same queue, seen from another terminal:</p>
            <pre class="command" tabindex="0"><code>${inspect}</code></pre>`
    }`;

export const opsPage = ({ look, letters, csrf, maintenance, redis, logs }: OpsView): Html => {
  const parts = new Map(opsParts(look));
  const live = (id: string, more = ""): Html => html`<div id="${id}" ${safe(more)}>${safe(parts.get(id) ?? "")}</div>`;
  const panel = (title: string, body: Html, kind = ""): Html =>
    html`<section class="panel ${kind}">
      <h2>${title}</h2>
      ${body}
    </section>`;
  return html`<section class="intro">
      <h1>Operations</h1>
      <p class="lead">Real processes on this machine. Kill one with “Break something” below, and watch.</p>
    </section>
    <div class="ops">
      ${panel("Five permits for payments", live("ops-payments"), "wide")}
      ${panel("Workers", live("ops-workers"), "wide")} ${panel("The Redis of this shop", redisPanel(redis), "wide")}
      ${panel("Queue", html`${live("ops-queue")}`)} ${panel("Locks", live("ops-locks"))}
      ${panel("Dead letters", letterRows(letters, look.queue.dead, csrf))} ${panel("Newest orders", live("ops-orders"))}
      ${panel("Other processes", live("ops-others"))} ${panel("What happened", live("ops-events"))}
      ${panel(
        "Switches",
        html`<form method="post" action="/ops/maintenance" class="switch">
            ${csrfField(csrf)}
            <p>
              <b>Maintenance</b>
              <span class="fact">${maintenance ? "on: buying is refused, looking is not" : "off"}</span>
            </p>
            <button name="on" value="${maintenance ? "0" : "1"}" class="button small">
              ${maintenance ? "Open again" : "Close for maintenance"}
            </button>
          </form>
          ${
            logs.canMove
              ? html`<form method="post" action="/ops/logs" class="switch">
                  ${csrfField(csrf)}
                  <p>
                    <b>Diary</b> <span class="fact">kept at <code>${logs.address}</code></span>
                  </p>
                  <button name="to" value="${logs.isHome ? "other" : "home"}" class="button small">
                    Move it ${logs.isHome ? "to the other Redis" : "back to the shop's own Redis"}
                  </button>
                </form>`
              : ""
          }
          <p class="hint">Each is an entry of the live configuration: a change is pushed to all processes.</p>`,
      )}
      ${panel("Diary", live("ops-diary"))}
    </div>`;
};
