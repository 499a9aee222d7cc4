import { type Connection, KitError } from "@kit/core";
import { counted, type DoctorCheck, type Finding, inTime, isForbidden } from "@kit/core/toolkit";
import type { Finder } from "./find.js";
import { address, bytes, count, html, type Html, instant, none, prose, visible } from "./html.js";
import { card, note, overviewPath, tableOf } from "./parts.js";
import type { Page, View } from "./view.js";

/** How long one check may take. */
const checkMs = 5_000;

interface Checked {
  readonly at: string;
  readonly checks: readonly { readonly id: string; readonly findings: readonly Finding[] }[];
}

/** The last findings, for all viewers. Checks can send many commands, so they run only when a viewer asks. */
export class Doctor {
  last: Checked | undefined;
  #running: Promise<Checked> | undefined;

  /** Runs all checks. Viewers who ask at the same time share the run. */
  async check(view: View): Promise<void> {
    this.#running ??= this.#checkAll(view).finally(() => (this.#running = undefined));
    this.last = await this.#running;
  }

  async #checkAll({ redis, prefix, packages }: View): Promise<Checked> {
    const checks: Checked["checks"][number][] = [];
    // One check after another: a board must not put load on the server.
    for (const check of packages.flatMap((one) => one.checks ?? []))
      checks.push({ id: check.id, findings: await findingsOf(check, redis, prefix) });
    return { at: new Date().toISOString(), checks };
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

/** The last findings: all, or those that somebody should `act` on. Below them is a link that runs the checks. */
export const findingsPart = ({ last }: Doctor, part: "all" | "act"): Html => {
  const rows = (last?.checks ?? [])
    .flatMap(({ id, findings }) => findings.map((finding) => ({ id, finding })))
    .filter(({ finding: { severity } }) => part === "all" || severity === "problem" || severity === "warning")
    .toSorted((a, b) => order.indexOf(a.finding.severity) - order.indexOf(b.finding.severity))
    .map(({ id, finding }) => findingRow(finding, id));
  const title = part === "all" ? none : html`<h2>Needs attention</h2>`;
  return html`<section id="findings" class="${rows.length === 0 ? "" : "card"}">
    ${rows.length === 0 ? none : html`${title}${tableOf("Findings", ["severity", "check", "finding"], rows)}`}
    ${last && rows.length === 0 ? note("good", `${counted(last.checks.length, "check")}: no problems found.`) : none}
    <p class="quiet">
      ${last ? html`Checked at ${instant(last.at)}. ` : none}<a
        href="${address(["page", "health"], ["run", "1"])}"
        hx-get="${address(["page", "health"], ["run", "1"], ["part", part])}"
        hx-target="#findings"
        hx-select="#findings"
        hx-swap="outerHTML"
        >${last ? "Check again" : "Run the health checks"}</a
      >
    </p>
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
  const part = view.query.get("part");
  if (view.query.has("run")) await doctor.check(view);
  if (part === "all" || part === "act") return { title: "Health", body: findingsPart(doctor, part) };
  return {
    title: "Health",
    path: [overviewPath],
    head: html`<p class="quiet">
      The checks of the packages, as in <code>kit doctor</code>. They run when you ask: each reads up to 200,000 keys.
    </p>`,
    body: html`${card("Checks", findingsPart(doctor, "all"))}${card("Memory", await memoryPart(view, finder))}
    ${card("Recent actions", actionsPart(view))}`,
  };
};
