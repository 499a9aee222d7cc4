import { KitError } from "@kit/core";
import { counted, type DoctorCheck, type Finding, inTime, isForbidden } from "@kit/core/toolkit";
import { type Finder, thingsOf } from "./find.js";
import { address, bytes, count, html, type Html, instant, none, prose, visible } from "./html.js";
import { usualCost } from "./overview.js";
import { card, note, overviewPath, tableOf } from "./parts.js";
import type { Page, View } from "./view.js";

/** How long one check may take, and how long the findings are kept for all viewers. */
const checkMs = 5_000;
const keptMs = 60_000;
/** The commands of the checks in one page, and the things that a check looks at. */
const maxCommands = 50;
const maxThings = 100;

/** A check, or its part about one thing. */
interface Part {
  readonly check: DoctorCheck;
  readonly cost: number;
  readonly names?: readonly string[];
}

/** The findings of the checks. Each page runs some parts of them. When all have run, the findings are kept for a minute, for all viewers. */
export class Doctor {
  #parts: Part[] = [];
  /** The findings of the last round by check, or else those so far. Only the doctor sets them. */
  found: ReadonlyMap<string, readonly Finding[]> = new Map();
  #round = new Map<string, readonly Finding[]>();
  /** Whether the round looks at all things, since the finder has read all keys. */
  #isOfAll = false;
  /** When a page last ran some. */
  #at = -Infinity;
  #running: Promise<void> | undefined;

  /** Whether all checks have run, the last one within a minute. */
  get isWhole(): boolean {
    return this.#parts.length === 0 && this.#isOfAll && !this.#isOld;
  }

  get #isOld(): boolean {
    return performance.now() - this.#at > keptMs;
  }

  /** Runs the next parts. Pages that ask at the same time share this. */
  async next(view: View, finder: Finder): Promise<void> {
    if (this.isWhole) return;
    this.#running ??= this.#run(view, finder).finally(() => (this.#running = undefined));
    await this.#running;
  }

  async #run(view: View, finder: Finder): Promise<void> {
    if (this.#parts.length === 0 || this.#isOld)
      [this.#parts, this.#round, this.#isOfAll] = [partsOf(view, finder), new Map(), finder.isWhole];
    if (this.found.size === 0) this.found = this.#round;
    this.#at = performance.now();
    let left = maxCommands;
    // One after another: a board must not put load on the server.
    for (let [part] = this.#parts; part; [part] = this.#parts) {
      if (part.cost > left) return;
      left -= part.cost;
      const all = [...(this.#round.get(part.check.id) ?? []), ...(await findingsOf(part, view))];
      const notable = all.filter(({ severity }) => severity !== "ok");
      this.#round.set(part.check.id, notable.length > 0 ? notable : all.slice(-1));
      this.#parts.shift();
    }
    this.found = this.#round;
  }
}

const partsOf = ({ packages }: View, { kinds }: Finder): Part[] =>
  packages
    .flatMap(({ checks = [] }) => checks)
    .flatMap((check): readonly Part[] => {
      const cost = Math.min(check.cost ?? usualCost, maxCommands);
      const kind = kinds.find(({ inspector }) => inspector.thing === check.thing);
      const things = kind ? thingsOf(kind).slice(0, maxThings) : [];
      if (things.length === 0) return [{ check, cost: kind ? 0 : cost, ...(kind && { names: [] }) }];
      return things.map(({ name }) => ({ check, cost, names: [name] }));
    });

const findingsOf = async ({ check, names }: Part, { redis, prefix }: View): Promise<readonly Finding[]> => {
  const signal = AbortSignal.timeout(checkMs);
  try {
    const looked = check.look({ redis, prefix, signal, ...(names && { names }) });
    return await inTime(looked, { signal }, () => new Error("late"));
  } catch (error) {
    const text = KitError.is(error)
      ? error.message
      : signal.aborted
        ? "the check took longer than 5 s"
        : "the check failed";
    return [{ severity: "skipped", text }];
  }
};

/** In the order of the rows. */
const tones = { problem: "bad", warning: "warn", skipped: "info", ok: "good" } as const;
const order = Object.keys(tones);

/** Loads the findings again, until all checks have run. */
const again = (part: string): Html =>
  html`hx-get="${address(["page", "health"], ["part", part])}" hx-trigger="load delay:300ms" hx-select="#findings"
  hx-swap="outerHTML"`;

/** The findings, or only those that somebody should act on. One line if there are none. */
export const findingsPart = ({ found, isWhole }: Doctor, hasAll: boolean): Html => {
  const rows = [...found]
    .flatMap(([id, findings]) => findings.map((finding) => ({ id, ...finding })))
    .filter(({ severity }) => hasAll || severity === "problem" || severity === "warning")
    .toSorted((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity))
    .map(({ id, severity, text, fix }) => [
      html`<span class="badge ${tones[severity]}">${severity}</span> <small>${id}</small>`,
      html`${prose(text)}${fix === undefined ? none : html`<br /><span class="quiet">Fix: ${prose(fix)}</span>`}`,
    ]);
  return html`<section
    id="findings"
    class="${rows.length === 0 ? "" : "card"}"
    ${isWhole ? none : again(hasAll ? "all" : "findings")}
  >
    ${
      rows.length > 0
        ? html`${hasAll ? none : html`<h2>Needs attention</h2>`}${tableOf("Findings", ["check", "finding"], rows)}`
        : isWhole
          ? note("good", `${counted(found.size, "check")}: no problems found.`)
          : none
    }
    ${isWhole ? none : html`<p class="quiet"><a href="${address(["page", "health"])}">Run the health checks</a></p>`}
  </section>`;
};

/** The keys and the memory of each package, from a few of its keys. */
const memoryPart = async ({ redis }: View, finder: Finder): Promise<Html> => {
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
  await finder.next(view.redis);
  await doctor.next(view, finder);
  const part = view.query.get("part");
  if (part !== null) return { title: "Health", body: findingsPart(doctor, part === "all") };
  return {
    title: "Health",
    path: [overviewPath],
    head: html`<p class="quiet">
      The checks of the packages, as in <code>kit doctor</code>, from the last minute. A check looks at up to
      ${maxThings} things.
    </p>`,
    body: html`${card("Checks", findingsPart(doctor, true))}${card("Memory", await memoryPart(view, finder))}
    ${card("Recent actions", actionsPart(view))}`,
  };
};
