import { type Inspector, secondsText } from "@kit/core/toolkit";
import {
  actionsOf,
  count,
  factList,
  foreign,
  html,
  type Html,
  instant,
  keysPart,
  look,
  none,
  note,
  type Page,
  pathTo,
  placeFields,
  read,
  tableOf,
  thingAddress,
  thingLink,
  thingPage,
  type View,
} from "../view/index.js";
import { chartsPart } from "./charts.js";
import { groupsPart } from "./groups.js";
import type { JobRow, ListData, QueueData, SchedulesData } from "./data.js";
import { queueWaits } from "./waits.js";

/** The jobs and the schedules of a page. */
const perPage = 20;
const maxSchedules = 20;
/** The workers that a page shows. A longer list is in `kit queue workers`. */
const maxWorkers = 50;
/** The workers that a queue lists. */
const listedWorkers = 1_000;

type Counts = Pick<
  QueueData,
  "waiting" | "prioritised" | "grouped" | "suspended" | "delayed" | "waitingForChildren" | "active" | "dead" | "kept"
>;

/** The states as tabs, each with its number of jobs and the time that its rows show. */
const states: readonly {
  readonly state: string;
  readonly count: keyof Counts;
  readonly text: string;
  readonly at: string;
}[] = [
  { state: "waiting", count: "waiting", text: "Waiting", at: "added" },
  { state: "prioritised", count: "prioritised", text: "Prioritized", at: "added" },
  { state: "grouped", count: "grouped", text: "In groups", at: "added" },
  { state: "suspended", count: "suspended", text: "Suspended", at: "added" },
  { state: "delayed", count: "delayed", text: "Delayed", at: "due" },
  { state: "waiting-for-children", count: "waitingForChildren", text: "Waiting for children", at: "added" },
  { state: "active", count: "active", text: "Active", at: "started" },
  { state: "dead", count: "dead", text: "Dead", at: "died" },
  { state: "completed", count: "kept", text: "Completed", at: "completed" },
];

/** These tabs are shown also without jobs. */
const always: readonly string[] = ["waiting", "delayed", "active", "dead"];

const tabs = (name: string, data: QueueData, chosen: string): Html =>
  html`<nav class="tabs" aria-label="Jobs by state">
    <ul>
      ${states
        .filter(({ state, count: field }) => data[field] > 0 || always.includes(state) || state === chosen)
        .map(
          ({ state, count: field, text }) =>
            html`<li>
              <a
                href="${thingAddress("queue", [name], ["state", state])}"
                class="state-${state}"
                ${state === chosen ? html`aria-current="page"` : ""}
                ><b>${count(data[field])}</b> ${text}</a
              >
            </li>`,
        )}
    </ul>
  </nav>`;

const timeOf = (job: JobRow, at: string): Html =>
  at === "added" ? instant(job.addedAt) : at === "started" ? instant(job.startedAt) : instant(job.at);

export const workerText = ({ id, host, pid, name }: NonNullable<JobRow["worker"]>): string =>
  `${host ?? "unknown host"}${pid === null ? "" : `:${String(pid)}`} ${name ?? id}`;

const jobsPart = async (view: View, name: string, state: string, data: QueueData): Promise<Html> => {
  const { query } = view;
  const job = query.get("job") ?? "";
  const group = query.get("group") ?? "";
  const start = Math.max(0, Math.trunc(Number(query.get("start")) || 0));
  const { text = state, at = "added" } = states.find((one) => one.state === state) ?? {};
  const values = { state, start, count: perPage, name: job, group };
  const page = await read<ListData>(view, "queue list", [name], values);
  const { jobs = [], next = null } = page ?? {};
  const rows = jobs.map((one) => [
    thingLink("job", [name, one.id]),
    foreign(one.name),
    `${String(one.attempts)} of ${String(one.maxAttempts)}${one.crashes === 0 ? "" : `, crashed ${String(one.crashes)}×`}`,
    timeOf(one, at),
    state === "active" && one.worker
      ? workerText(one.worker)
      : (one.error?.message.split("\n", 1)[0]?.slice(0, 120) ?? ""),
  ]);
  const turn = (to: number, label: string): Html =>
    html`<a
      class="button"
      href="${thingAddress("queue", [name], ["state", state], ["job", job], ["group", group], ["start", String(to)])}"
      >${label}</a
    >`;
  const nothing = job + group === "" ? `No jobs are ${text.toLowerCase()}.` : "No such job on this page.";
  return html`<section class="card" id="jobs">
    <h2>${text} jobs${group === "" ? none : html` of group ${foreign(group)}`}</h2>
    ${rows.length === 0 ? note("info", nothing) : tableOf(`${text} jobs`, ["id", "name", "failed attempts", at, state === "active" ? "runs on" : "last error"], rows)}
    <p class="pages">
      ${start > 0 ? turn(Math.max(0, start - perPage), "Previous") : none}${next === null ? none : turn(next, "Next")}
      <span class="quiet"
        >${rows.length === 0 ? "" : `${count(start + 1)} to ${count(start + rows.length)} of ${count(Math.max(start + rows.length, data[states.find((one) => one.state === state)?.count ?? "waiting"]))}`}</span
      >
    </p>
  </section>`;
};

const workersPart = (name: string, { workers, now }: QueueData): Html => {
  const ageOf = (iso: string): string => secondsText(Math.max(0, now - Date.parse(iso)));
  const startOf = ({ longest }: QueueData["workers"][number]): string => longest?.startedAt ?? "9";
  const rows = workers
    // The one with the oldest job first.
    .toSorted((one, other) => startOf(one).localeCompare(startOf(other)))
    .slice(0, maxWorkers)
    .map(({ id, host, pid, name: own, state, concurrency, running, handles, handlesMore, since, seenAt, longest }) => [
      foreign(workerText({ id, host, pid, name: own })),
      html`<span class="badge ${state === "running" ? "good" : "warn"}">${state ?? "unknown"}</span>`,
      `${String(running)} of ${String(concurrency ?? "?")}`,
      `${handles.slice(0, 5).join(", ")}${handles.length > 5 || handlesMore ? ", …" : ""}`,
      instant(since),
      `${ageOf(seenAt)} ago`,
      longest ? html`${thingLink("job", [name, longest.id])} for ${ageOf(longest.startedAt)}` : "",
    ]);
  const rest = workers.length - rows.length;
  return html`<section class="card" id="workers">
    <h2>
      Workers <span class="badge">${count(workers.length)}${workers.length < listedWorkers ? "" : " or more"}</span>
    </h2>
    ${
      rows.length === 0
        ? note("warn", "No worker is connected. Jobs wait until one starts.")
        : tableOf("Workers", ["worker", "state", "runs", "handles", "since", "seen", "longest job"], rows)
    }
    ${rest > 0 ? html`<p class="quiet">And ${count(rest)} more: <code>kit queue workers</code></p>` : none}
  </section>`;
};

const schedulesPart = async (view: View, name: string, { schedules: total }: QueueData): Promise<Html> => {
  if (!total) return none;
  const { schedules = [] } =
    (await read<SchedulesData>(view, "queue schedules", [name], { count: maxSchedules })) ?? {};
  const rows = schedules.map(({ id, name: job, everyMs, cron, timezone, isPaused, nextAt }) => [
    thingLink("schedule", [name, id]),
    foreign(job),
    cron === undefined ? `every ${secondsText(everyMs ?? 0)}` : `${cron} (${timezone ?? "UTC"})`,
    isPaused ? "paused" : nextAt === undefined ? "finished" : instant(new Date(nextAt).toISOString()),
  ]);
  return html`<section class="card">
    <h2>Schedules <span class="badge">${count(total)}</span></h2>
    ${tableOf("Schedules", ["id", "job", "when", "next run"], rows)}
  </section>`;
};

const searches = (name: string, state: string, job: string): Html =>
  html`<div class="searches">
    <form class="search" role="search" aria-label="Find a job by id">
      ${placeFields("job", [name])}<label for="id">Job id</label>
      <input id="id" name="name" type="search" required maxlength="400" autocomplete="off" /><button>Open</button>
    </form>
    <form class="search" role="search" aria-label="Jobs with a name">
      ${placeFields("queue", [name], { state })}<label for="job">Job name</label>
      <input id="job" name="job" type="search" value="${job}" maxlength="400" autocomplete="off" /><button>
        Filter
      </button>
    </form>
  </div>`;

/** Facts that the tabs and the list of workers show. */
const shownAbove: readonly string[] = [
  "queue",
  "ready",
  "delayed",
  "active",
  "dead",
  "kept",
  "workers",
  "waiting for children",
];

/** The page of a queue: its jobs by state, limits, groups, workers and schedules. */
export const queuePage = async (view: View, inspector: Inspector, names: readonly string[]): Promise<Page> => {
  const [name = ""] = names;
  const report = await look(view, inspector, names);
  if (report.isUnknown || report.hasProblem || view.query.has("keys")) return await thingPage(view, inspector, names);
  const data = report.data as QueueData;
  // The table of groups shows why each of them is halted.
  const facts = (report.facts ?? []).filter(([fact]) => !fact.startsWith("group "));
  const asked = states.find(({ state }) => state === view.query.get("state"));
  const fullest = states.find(({ state, count: field }) => state !== "completed" && data[field] > 0);
  const { state } = asked ?? fullest ?? { state: "waiting" };
  const [charts, jobs, groups, schedules] = await Promise.all([
    chartsPart(view, name, data),
    jobsPart(view, name, state, data),
    groupsPart(view, name, data),
    schedulesPart(view, name, data),
  ]);
  return {
    title: name,
    path: pathTo(view, inspector, names),
    isLive: true,
    head: html`<p class="kind">Queue</p>
      ${await actionsOf(view, "queue", names, report)}${searches(name, state, view.query.get("job") ?? "")}`,
    body: html`${tabs(name, data, state)}${queueWaits(data)}${factList(facts, shownAbove)}${charts}${jobs}${groups}${workersPart(name, data)}${schedules}`,
    foot: await keysPart(view, inspector, names),
  };
};
