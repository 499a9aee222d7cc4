import type { DeadLetter } from "@kit/queue";
import type { SemaphoreInspection } from "@kit/semaphore";
import type { CrewEvent, Member } from "../behind/crew.js";
import type { PartnersState } from "../behind/partners.js";
import type { WorkerStatus } from "../behind/worker.js";
import type { HeldLock } from "../market/held-locks.js";
import type { Order } from "../orders/orders.js";
import { jobsOfOrder } from "../orders/orders.js";
import type { RedisFacts } from "../behind/inspect-line.js";
import { money } from "../common/money.js";
import { paymentPermits, queueName } from "../common/tools.js";
import { html, type Html, mark, plural } from "./html.js";
import { clock, count, fact, intro, list, meter, panel, postForm, seconds, table } from "./parts.js";
import type { Part } from "./live.js";

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

const lockTable = (locks: readonly HeldLock[]): Html =>
  locks.length === 0
    ? html`<p class="empty">None right now. A sale holds its locks for a few milliseconds.</p>`
    : table({
        ...{ caption: "Locks", isCaptionAway: true },
        columns: ["Lock", "Holder", ["Left", "number"], ["Waiters", "number"]],
        rows: locks.map(({ name, state: { state, holder, msLeft, waiters } }) => [
          html`<code>${name.replace(/^shop\./, "")}</code>`,
          state === "held"
            ? html`<span class="chip held">held</span> <bdi>${holder ?? ""}</bdi>`
            : html`<span class="chip free">released</span>`,
          state === "held" && msLeft !== null ? seconds(msLeft) : "–",
          waiters,
        ]),
      });

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
      ${plural(waiters, "payment")}
      waiting.${partners === null ? "" : html` The provider processed ${plural(partners.charges, "payment")}, up to ${partners.peak} at the same time, and rejected ${partners.refused}.`}
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
    ${fact("Dead letters", count(dead))} ${fact("Completed", count(completed))}
    ${fact("Crash recoveries", count(crashed))}
  </dl>`;

const stateWords: Readonly<Record<Member["state"], string>> = {
  starting: "starting",
  running: "running",
  paused: "paused",
  gone: "stopped, restarting",
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

const orderTable = (orders: readonly Order[]): Html =>
  orders.length === 0
    ? html`<p class="empty">None yet.</p>`
    : table({
        ...{ caption: "Newest orders", isCaptionAway: true },
        columns: ["Order", ["Price", "number"], "Jobs done"],
        rows: orders.map(({ id, price, done }) => [
          html`<code>${id}</code>`,
          money(price),
          jobsOfOrder.filter((job) => done[job] !== undefined).join(", ") || "none yet",
        ]),
      });

/** The parts of the page that the stream replaces. */
export const opsParts = (look: OpsLook): Part[] => [
  ["ops-locks", lockTable(look.locks)],
  ["ops-payments", permitRow(look.payments, look.partners)],
  ["ops-queue", queueFacts(look.queue)],
  ["ops-workers", list("workers", look.workers.map(workerCard), "No workers.")],
  [
    "ops-others",
    list(
      "checks",
      look.others.map(
        ({ name, pid, state }) =>
          html`<li>
            ${mark(state === "running")}<span
              ><b>${name}</b> <span class="fact">pid ${pid}, ${stateWords[state]}</span></span
            >
          </li>`,
      ),
      "No others.",
    ),
  ],
  [
    "ops-orders",
    html`${orderTable(look.orders)}
    ${
      look.undispatched === 0
        ? ""
        : html`<p class="fact">
            ${mark(false)} ${plural(look.undispatched, "sale")} without an order: placing failed. The shop retries every
            three seconds.
          </p>`
    }`,
  ],
  [
    "ops-events",
    list(
      "events",
      look.events.slice(0, 8).map(({ at, text }) => html`<li>${clock(at)} ${text}</li>`),
      "No events.",
    ),
  ],
  [
    "ops-diary",
    list(
      "events",
      look.diary.map((line) => html`<li><time>${line.slice(11, 19)}</time> ${line.slice(25)}</li>`),
      "No entries.",
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

const letterList = (letters: readonly DeadLetter[], dead: number, csrf: string): Html =>
  html`${list(
    "letters",
    letters.map(
      ({ id, name, attempts, crashes, error }) =>
        html`<li>
          <p>
            <b>${name}</b> <code>${id}</code><br /><span class="fact"
              >${plural(attempts, "attempt")}, ${plural(crashes, "crash", "crashes")}:
              ${error?.message ?? "no error"}</span
            >
          </p>
          ${postForm(
            "/ops/letters",
            { csrf, id },
            html`<button name="do" value="retry" class="button small">Retry</button>
              <button name="do" value="drop" class="quiet">Drop</button>`,
          )}
        </li>`,
    ),
    html`None. To see one, <a href="/faults">add a poison job</a>.`,
  )}
  ${dead > letters.length ? html`<p class="hint">Showing the newest ${letters.length} of ${count(dead)}.</p>` : ""}`;

const switches = ({ csrf, maintenance, logs }: OpsView): Html =>
  html`${postForm(
      "/ops/maintenance",
      { csrf },
      html`<p>
          <b>Maintenance</b>
          <span class="fact">${maintenance ? "on: you can browse, but not buy" : "off"}</span>
        </p>
        <button name="on" value="${maintenance ? "0" : "1"}" class="button small">
          ${maintenance ? "Reopen" : "Close for maintenance"}
        </button>`,
      "switch",
    )}
    ${
      logs.canMove
        ? postForm(
            "/ops/logs",
            { csrf },
            html`<p>
                <b>Diary</b> <span class="fact">kept at <code>${logs.address}</code></span>
              </p>
              <button name="to" value="${logs.isHome ? "other" : "home"}" class="button small">
                Move it ${logs.isHome ? "to the other Redis" : "back to the shop's own Redis"}
              </button>`,
            "switch",
          )
        : ""
    }
    <p class="hint">Both are live configuration: a change reaches all processes immediately.</p>`;

const redisFacts = (redis: RedisFacts): Html => {
  const inspect = redis.inspect("queue", queueName);
  return html`<p>At <code>${redis.address}</code>.</p>
    ${
      inspect === null
        ? ""
        : html`<p class="hint">Inspect the queue from another terminal:</p>
            <pre class="command" tabindex="0"><code>${inspect}</code></pre>`
    }`;
};

export const opsPage = (view: OpsView): Html => {
  const { look, letters, csrf, redis } = view;
  const parts = new Map(opsParts(look));
  const live = (title: string, id: string, kind = ""): Html =>
    panel(title, html`<div id="${id}">${parts.get(id) ?? ""}</div>`, kind);
  return html`${intro("Operations", "These are real processes on this machine. Kill one with “Break something” below, and watch.")}
    <div class="ops">
      ${live("Five permits for payments", "ops-payments", "wide")} ${live("Workers", "ops-workers", "wide")}
      ${panel("The Redis of this shop", redisFacts(redis), "wide")} ${live("Queue", "ops-queue")}
      ${live("Locks", "ops-locks")} ${panel("Dead letters", letterList(letters, look.queue.dead, csrf))}
      ${live("Newest orders", "ops-orders")} ${live("Other processes", "ops-others")} ${live("Events", "ops-events")}
      ${panel("Switches", switches(view))} ${live("Diary", "ops-diary")}
    </div>`;
};
