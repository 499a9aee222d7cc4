import { type Connection, KitError } from "@kit/core";
import { counted, type DoctorCheck, type Finding, inTime, isForbidden } from "@kit/core/toolkit";
import type { Finder } from "./find.js";
import { address, bytes, count, html, type Html, instant, none, prose, visible } from "./html.js";
import { card, note, overviewPath, tableOf } from "./parts.js";
import type { Page, View } from "./view.js";

/** How long one check may take, and how long the findings are kept for all viewers. */
const checkMs = 5_000;
const keptMs = 60_000;

interface Checked {
  readonly id: string;
  readonly findings: readonly Finding[];
}

/** The last findings. The checks run once for all viewers. */
export class Doctor {
  #last: { readonly at: number; readonly checks: readonly Checked[] } | undefined;
  #running: Promise<readonly Checked[]> | undefined;

  /** The findings of the last minute, if there are any. */
  get recent(): readonly Checked[] | undefined {
    return this.#last && performance.now() - this.#last.at < keptMs ? this.#last.checks : undefined;
  }

  async check(view: View): Promise<readonly Checked[]> {
    const { recent } = this;
    if (recent) return recent;
    this.#running ??= this.#checkAll(view).finally(() => (this.#running = undefined));
    return await this.#running;
  }

  async #checkAll({ redis, prefix, packages }: View): Promise<readonly Checked[]> {
    const checks: Checked[] = [];
    // One check after another: a board must not put load on the server.
    for (const check of packages.flatMap((one) => one.checks ?? []))
      checks.push({ id: check.id, findings: await findingsOf(check, redis, prefix) });
    this.#last = { at: performance.now(), checks };
    return checks;
  }
}

const findingsOf = async ({ look }: DoctorCheck, redis: Connection, prefix: string): Promise<readonly Finding[]> => {
  const signal = AbortSignal.timeout(checkMs);
  try {
    return await inTime(look({ redis, prefix, signal }), { signal }, () => new Error("late"));
  } catch (error) {
    const text = KitError.is(error)
      ? error.message
      : signal.aborted
        ? "the check took longer than 5 s"
        : "the check failed";
    return [{ severity: "skipped", text }];
  }
};

const tones = { problem: "bad", warning: "warn", ok: "good", skipped: "info" } as const;
const order = ["problem", "warning", "skipped", "ok"] as const;

const findingRow = ({ severity, text, fix }: Finding, id: string): readonly (string | Html)[] => [
  html`<span class="badge ${tones[severity]}">${severity}</span>`,
  id,
  html`${prose(text)}${fix === undefined ? none : html`<br /><span class="quiet">Fix: ${prose(fix)}</span>`}`,
];

/** The findings that somebody should act on, or one line that there are none. */
const findingsPart = (checks: readonly Checked[], isWhole: boolean): Html => {
  const all = checks.flatMap(({ id, findings }) => findings.map((finding) => ({ id, finding })));
  const rows = all
    .filter(({ finding: { severity } }) => isWhole || severity === "problem" || severity === "warning")
    .toSorted((a, b) => order.indexOf(a.finding.severity) - order.indexOf(b.finding.severity))
    .map(({ id, finding }) => findingRow(finding, id));
  return html`<section id="findings" class="${rows.length === 0 ? "" : "card"}">
    ${
      rows.length === 0
        ? note("good", `${counted(checks.length, "check")}: no problems found.`)
        : html`${isWhole ? none : html`<h2>Needs attention</h2>`}${tableOf("Findings", ["severity", "check", "finding"], rows)}`
    }
  </section>`;
};

/** The findings at the top of the overview. If there are none from the last minute, they are loaded after the page. */
export const findingsHead = (doctor: Doctor): Html => {
  if (doctor.recent) return findingsPart(doctor.recent, false);
  const page = address(["page", "health"], ["part", "findings"]);
  return html`<section id="findings" hx-get="${page}" hx-trigger="load" hx-select="#findings" hx-swap="outerHTML">
    <p class="quiet"><a href="${address(["page", "health"])}">Run the health checks</a></p>
  </section>`;
};

/** The keys and the memory of each package, from a few of its keys. */
const memoryPart = async ({ redis }: View, finder: Finder): Promise<Html> => {
  await finder.next(redis);
  const rows = await Promise.all(
    [...finder.packages]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(async ([name, { keys, some }]) => {
        const sizes = await Promise.all(some.map((key) => redis.call("MEMORY", "USAGE", key)));
        const total = sizes.reduce<number>((sum, size) => sum + Number(size ?? 0), 0);
        const memory = `about ${bytes((total / some.length) * keys)}`;
        return [visible(name), count(keys), memory, `${String(some.length)} keys`];
      }),
  ).catch((error: unknown) => {
    if (isForbidden(error) || (KitError.is(error) && error.code === "KIT_NO_PERMISSION")) return undefined;
    throw error;
  });
  if (!rows) return note("info", "This user has no permission for MEMORY USAGE.");
  if (rows.length === 0) return note("info", "Nothing is stored under this prefix.");
  return html`${tableOf("Memory by package", ["package", "keys", "memory", "estimated from"], rows)}${
    finder.isWhole ? none : html`<p class="quiet">From the keys that were read so far.</p>`
  }`;
};

const actionsPart = ({ actions }: View): Html =>
  actions.length === 0
    ? note("info", "No action since this process started.")
    : tableOf(
        "Recent actions",
        ["at", "who", "action", "on", "outcome", "result"],
        actions.map(({ at, person, action, thing, outcome, text }) => [
          instant(at),
          person,
          action,
          thing.names.join(" "),
          outcome,
          text.slice(0, 160),
        ]),
      );

/** The checks of the packages, their memory, and the last actions. */
export const healthPage = async (view: View, doctor: Doctor, finder: Finder): Promise<Page> => {
  const checks = await doctor.check(view);
  if (view.query.get("part") === "findings") return { title: "Health", body: findingsPart(checks, false) };
  return {
    title: "Health",
    path: [overviewPath],
    head: html`<p class="quiet">
      The checks of the packages, as in <code>kit doctor</code>, from the last minute. A check reads up to 200,000 keys.
    </p>`,
    body: html`${card("Checks", findingsPart(checks, true))}${card("Memory", await memoryPart(view, finder))}
    ${card("Recent actions", actionsPart(view))}`,
  };
};
