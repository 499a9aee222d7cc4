import { type Inspector, secondsText } from "@kit/core/toolkit";
import {
  card,
  count,
  factList,
  foreign,
  frameOf,
  html,
  type Html,
  instant,
  keysPart,
  look,
  none,
  note,
  type Page,
  placeFields,
  read,
  reportTable,
  tableOf,
  thingAddress,
  thingLink,
  thingPage,
  turn,
  type View,
} from "../view/index.js";
import { chartsPart } from "./charts.js";
import { groupsPart } from "./groups.js";
import type { ListData, QueueData } from "./data.js";
import { waitsPart } from "./waits.js";

/** The jobs and the schedules of a page. */
const perPage = 20;
const maxSchedules = 20;
/** The workers that a page shows. A longer list is in `kit queue workers`. */
const maxWorkers = 50;
/** The workers that a queue lists. */
const listedWorkers = 1_000;

/** The states as tabs, each with its number of jobs. */
const states = [
  { state: "waiting", count: "waiting", text: "Waiting" },
  { state: "prioritised", count: "prioritised", text: "Prioritized" },
  { state: "grouped", count: "grouped", text: "In groups" },
  { state: "suspended", count: "suspended", text: "Suspended" },
  { state: "delayed", count: "delayed", text: "Delayed" },
  { state: "waiting-for-children", count: "waitingForChildren", text: "Waiting for children" },
  { state: "active", count: "active", text: "Active" },
  { state: "dead", count: "dead", text: "Dead" },
  { state: "completed", count: "kept", text: "Completed" },
] as const;

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

const jobsPart = async (view: View, name: string, shown: (typeof states)[number], data: QueueData): Promise<Html> => {
  const { query } = view;
  const { state, text } = shown;
  const job = query.get("job") ?? "";
  const group = query.get("group") ?? "";
  const start = Math.max(0, Math.trunc(Number(query.get("start")) || 0));
  const report = await read<ListData>(view, "queue list", [name], { state, start, count: perPage, name: job, group });
  const { jobs: { length } = [], next = null } = report.data;
  const at = (to: number): string =>
    thingAddress("queue", [name], ["state", state], ["job", job], ["group", group], ["start", String(to)]);
  const nothing = job + group === "" ? `No jobs are ${text.toLowerCase()}.` : "No such job on this page.";
  const place = `${count(start + 1)} to ${count(start + length)} of ${count(Math.max(start + length, data[shown.count]))}`;
  const body = html`${length === 0 ? note("info", nothing) : reportTable(report, `${text} jobs`, (id) => thingLink("job", [name, id]))}
    <p class="pages">
      ${start > 0 ? turn(at(Math.max(0, start - perPage)), "Previous") : none}${next === null ? none : turn(at(next), "Next")}
      <span class="quiet">${length === 0 ? "" : place}</span>
    </p>`;
  return card(html`${text} jobs${group === "" ? none : html` of group ${foreign(group)}`}`, body, { id: "jobs" });
};

const workerText = ({ host, pid, name, id }: QueueData["workers"][number]): string =>
  `${host ?? "unknown host"}${pid === null ? "" : `:${String(pid)}`} ${name ?? id}`;

const workersPart = (name: string, { workers, now }: QueueData): Html => {
  const ageOf = (iso: string): string => secondsText(Math.max(0, now - Date.parse(iso)));
  const startOf = ({ longest }: QueueData["workers"][number]): string => longest?.startedAt ?? "9";
  const rows = workers
    // The one with the oldest job first.
    .toSorted((one, other) => startOf(one).localeCompare(startOf(other)))
    .slice(0, maxWorkers)
    .map((worker) => {
      const { state, concurrency, running, handles, handlesMore, since, seenAt, longest } = worker;
      return [
        foreign(workerText(worker)),
        html`<span class="badge ${state === "running" ? "good" : "warn"}">${state ?? "unknown"}</span>`,
        `${String(running)} of ${String(concurrency ?? "?")}`,
        `${handles.slice(0, 5).join(", ")}${handles.length > 5 || handlesMore ? ", …" : ""}`,
        instant(since),
        `${ageOf(seenAt)} ago`,
        longest ? html`${thingLink("job", [name, longest.id])} for ${ageOf(longest.startedAt)}` : "",
      ];
    });
  const rest = workers.length - rows.length;
  const table =
    rows.length === 0
      ? note("warn", "No worker is connected. Jobs wait until one starts.")
      : tableOf("Workers", ["worker", "state", "runs", "handles", "since", "seen", "longest job"], rows);
  const more = html`<p class="quiet">And ${count(rest)} more: <code>kit queue workers</code></p>`;
  const badge = `${count(workers.length)}${workers.length < listedWorkers ? "" : " or more"}`;
  return card("Workers", html`${table}${rest > 0 ? more : none}`, { id: "workers", badge });
};

const schedulesPart = async (view: View, name: string, { schedules: total }: QueueData): Promise<Html> => {
  if (!total) return none;
  const report = await read(view, "queue schedules", [name], { count: maxSchedules });
  const table = reportTable(report, "Schedules", (id) => thingLink("schedule", [name, id]));
  return card("Schedules", table, { badge: count(total) });
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
  "waits because",
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
  const shown = asked ?? fullest ?? states[0];
  const [charts, jobs, groups, schedules] = await Promise.all([
    chartsPart(view, name, data),
    jobsPart(view, name, shown, data),
    groupsPart(view, name, data),
    schedulesPart(view, name, data),
  ]);
  return {
    ...(await frameOf(view, inspector, names, report, searches(name, shown.state, view.query.get("job") ?? ""))),
    body: html`${tabs(name, data, shown.state)}${waitsPart("Why do jobs wait?", data.waits ?? [], html`The page of a job shows its own reasons.`)}${factList(facts, shownAbove)}${charts}${jobs}${groups}${workersPart(name, data)}${schedules}`,
    foot: await keysPart(view, inspector, names),
  };
};
