import type { Inspector } from "@kit/core/toolkit";
import {
  capital,
  card,
  factList,
  frameOf,
  html,
  type Html,
  inspectorOf,
  instant,
  look,
  none,
  note,
  type Page,
  read,
  reportTable,
  thingAddress,
  thingLink,
  thingPage,
  type View,
  visible,
} from "../view/index.js";
import type { JobValue } from "../options.js";
import { eventsPart } from "./events.js";
import type { FlowData, JobData, JobError, LogData } from "./data.js";
import { waitsPart } from "./waits.js";

/** The lines of a log, and the characters of a value, that a page shows. */
const maxLines = 100;
const maxText = 20_000;

const codeOf = (text: string): Html =>
  html`<pre class="code" tabindex="0">${visible(text.slice(0, maxText))}${text.length > maxText ? "\n…" : ""}</pre>`;

const tones: Readonly<Record<string, string>> = {
  active: "good",
  completed: "good",
  dead: "bad",
  lost: "bad",
  ready: "info",
};

/** Facts that other parts of the page show. */
const shownElsewhere: readonly string[] = ["queue", "job", "state", "last error", "progress", "log", "waits because"];

/** An error with all its causes. */
const errorText = ({ name, message, stack, cause, errors = [] }: JobError, depth = 0): string => {
  const own = stack ?? `${name}: ${message}`;
  const causes = depth === 5 ? [] : [...errors, ...(cause ? [cause] : [])];
  return [own, ...causes.map((one) => `Caused by ${errorText(one, depth + 1)}`)].join("\n");
};

const errorPart = ({ error }: JobData): Html => (error === null ? none : card("Last error", codeOf(errorText(error))));

const progressPart = ({ progress, progressAt }: JobData): Html => {
  if (progressAt === null) return none;
  const share = typeof progress === "number" && progress >= 0 && progress <= 100 ? progress : undefined;
  const shown =
    share === undefined
      ? codeOf(JSON.stringify(progress, undefined, 2))
      : html`<p class="row"><progress max="100" value="${share}" aria-label="Progress"></progress> ${share} %</p>`;
  return card(
    "Progress",
    html`${shown}
      <p class="quiet">Reported at ${instant(progressAt)}</p>`,
  );
};

const logPart = async (view: View, { queue, id, logLines }: JobData): Promise<Html> => {
  if (logLines === 0) return none;
  const { data } = await read<LogData>(view, "queue log", [queue, id], { count: maxLines });
  const { lines = [], dropped = 0 } = data;
  const all = codeOf(lines.map(({ at, text }) => `${at}  ${text}`).join("\n"));
  const older = dropped === 0 ? "" : `, ${String(dropped)} older ones were dropped`;
  return card(
    "Log",
    html`${all}
      <p class="quiet">The last ${String(lines.length)} of ${String(logLines)} lines${older}</p>`,
  );
};

const childrenPart = async (view: View, { queue, id, state }: JobData): Promise<Html> => {
  const flow = inspectorOf(view.packages, "flow");
  if (!flow || state !== "waiting-for-children") return none;
  const report = await look(view, flow, [queue, id]);
  const table = reportTable(report, "Children", (child) => thingLink("job", [queue, child]));
  return card("Children", table, { badge: `${String((report.data as FlowData).open)} open` });
};

const valueParts = ({ jobData }: View, job: JobData): Html => {
  const { queue, id, name } = job;
  if (!jobData)
    return html`<p class="quiet">Its data is hidden. To show it, set the board's option <code>jobData</code>.</p>`;
  const parts = (["data", "checkpoint", "result"] as const).flatMap((part): readonly Html[] => {
    if (!(part in job)) return [];
    const of: JobValue = { queue, id, name, part };
    const shown = jobData(job[part], of);
    if (shown === undefined) return [];
    const text = typeof shown === "bigint" ? String(shown) : (JSON.stringify(shown, undefined, 2) ?? "not JSON");
    return [card(capital(part), codeOf(text))];
  });
  return html`${parts}`;
};

/** The page of a job. */
export const jobPage = async (view: View, inspector: Inspector, names: readonly string[]): Promise<Page> => {
  const report = await look(view, inspector, names, { quick: true, data: view.jobData !== undefined });
  const [queue = "", id = ""] = names;
  if (report.hasProblem) return await thingPage(view, inspector, names);
  const frame = await frameOf(view, inspector, names, report);
  if (report.isUnknown) {
    const body = note(
      "info",
      html`The queue ${thingLink("queue", [queue])} has no job with this id. It has completed, was deleted, or was never
      added.`,
    );
    return { ...frame, body: html`${body}${await eventsPart(view, queue, id)}` };
  }
  const job = report.data as JobData;
  const limits = html`<a href="${thingAddress("queue", [queue])}">Limits and workers of the queue</a>`;
  const [log, children, events] = await Promise.all([
    logPart(view, job),
    childrenPart(view, job),
    eventsPart(view, queue, id, job),
  ]);
  return {
    ...frame,
    body: html`${waitsPart("Why does it wait?", job.waits ?? [], limits)}
      <section class="card">
        <p><span class="badge ${tones[job.state] ?? "warn"}">${job.state}</span></p>
        ${factList(report.facts ?? [], shownElsewhere)}
      </section>
      ${errorPart(job)}${progressPart(job)}${children}${events}${log}${valueParts(view, job)}`,
  };
};
