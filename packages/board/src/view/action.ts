import { KitError } from "@kit/core";
import type { CliCommand, Inspector } from "@kit/core/toolkit";
import { InputError, type Outcome, run, type Values } from "./call.js";
import { argumentFields, argumentsOf, optionFields, valuesOf } from "./form.js";
import { address, capital, foreign, html, type Html, none, thingAddress, visible } from "./html.js";
import { card, factList, hidden, note, placeFields, reportTable, turn } from "./parts.js";
import { pathTo } from "./thing.js";
import type { Page, View } from "./view.js";
import type { BoardAction, BoardThing } from "../options.js";

/** An action that a person has asked for. */
export interface Asked {
  readonly command: CliCommand;
  readonly inspector: Inspector;
  readonly thing: BoardThing;
}

/** With it a command changes something, without it only shows what it would do. */
const runSwitch = "run";

const hasDryRun = ({ options = [] }: CliCommand): boolean => options.some(({ name }) => name === runSwitch);

const shownOptions = ({ options = [] }: CliCommand): NonNullable<CliCommand["options"]> =>
  options.filter(({ name }) => name !== runSwitch);

const shownArgs = ({ args = [] }: CliCommand, names: readonly string[]): NonNullable<CliCommand["args"]> =>
  args.slice(names.length);

const reportsOf = ({ reports, lines }: Outcome): Html =>
  html`${reports.map((report) => html`${factList(report.facts ?? [])}${reportTable(report, "Affected")}`)}${
    lines.length === 0 ? none : html`<pre class="code">${lines.map(visible).join("\n")}</pre>`
  }`;

/** The message of an error that a person can act on. Undefined for any other error. */
export const messageOf = (error: unknown): string | undefined =>
  KitError.is(error) || error instanceof InputError || error instanceof TypeError || error instanceof RangeError
    ? error.message.replaceAll("--", "")
    : undefined;

/** Runs the command's dry run, if it has one. Shows the changes that it would make, or its error. */
const dryRun = async (
  view: View,
  { command, thing }: Asked,
): Promise<{ readonly shown: Html; readonly isReady: boolean }> => {
  const args = argumentsOf(view.query);
  const missing = shownArgs(command, thing.names).some(({ count = "one" }, at) => count !== "optional" && !args[at]);
  if (!hasDryRun(command) || missing) return { shown: none, isReady: !missing || !hasDryRun(command) };
  try {
    const outcome = await run(view, command, [...thing.names, ...args], valuesOf(view.query, shownOptions(command)));
    const isVain = outcome.reports.some(({ isUnknown, hasProblem }) => isUnknown || hasProblem);
    return { shown: card("What would change", reportsOf(outcome)), isReady: !isVain };
  } catch (error) {
    const message = messageOf(error);
    if (message === undefined) throw error;
    return { shown: note("warn", message), isReady: false };
  }
};

const buttonText = ({ command, thing }: Asked): string =>
  command.buttons?.find((one) => one.thing === thing.kind)?.text ?? capital(command.path);

/** Asks before anything changes. */
export const askPage = async (view: View, asked: Asked): Promise<Page> => {
  const { command, inspector, thing } = asked;
  const { kind, names } = thing;
  const options = shownOptions(command);
  const args = shownArgs(command, names);
  const fields = html`${argumentFields(args, view.query)}${optionFields(options, view.query)}`;
  const hasFields = options.length + args.length > 0;
  const { shown, isReady } = await dryRun(view, asked);
  const here = thingAddress(kind, names, ["do", command.path]);
  const back = turn(thingAddress(kind, names), "Back");
  // With a dry run, a person sees the effect of these values before a second button appears.
  const preview =
    hasFields && hasDryRun(command)
      ? html`<form class="card fields">
          ${placeFields(kind, names, { do: command.path })}${fields}<button class="plain">
            Show what would change
          </button>
        </form>`
      : none;
  const kept = [...view.query].filter(([name]) => name.startsWith("o.") || name === "a");
  const doIt = html`<form class="card fields" method="post" action="${here}">
    ${hasDryRun(command) ? hidden(kept) : fields}
    <p class="row">
      <button class="danger">${buttonText(asked)}</button>
      ${back}
    </p>
  </form>`;
  return {
    title: `${buttonText(asked)}: ${names.at(-1) ?? ""}`,
    path: [...pathTo(view, inspector, names), [names.at(-1) ?? "", thingAddress(kind, names)]],
    head: html`<p>${capital(command.about.replace(/ \(dry run unless you pass --run\)/, ""))}.</p>`,
    body: html`${preview}${shown}${isReady ? doIt : html`<p>${back}</p>`}`,
  };
};

/** The outcome of one run of an action. */
export interface Acted extends Pick<BoardAction, "outcome" | "text" | "options"> {
  readonly shown: Html;
  /** An error whose message is not for the page. */
  readonly error?: unknown;
}

const textOf = ({ reports, lines }: Outcome): string =>
  [...reports.flatMap(({ facts = [] }) => facts.map(([name, value]) => `${name}: ${value}`)), ...lines]
    .join("; ")
    .slice(0, 1_000);

/** Runs an action. Never rejects. */
export const act = async (view: View, { command, thing }: Asked, form: URLSearchParams): Promise<Acted> => {
  const options: Values = valuesOf(form, shownOptions(command));
  // Logs must not have the data of a job.
  const told = Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, name === "data" ? "…" : String(value)]),
  );
  try {
    const all: Values = hasDryRun(command) ? { ...options, [runSwitch]: true } : options;
    const outcome = await run(view, command, [...thing.names, ...argumentsOf(form)], all);
    const isRefused = outcome.reports.some(({ isUnknown, hasProblem }) => isUnknown || hasProblem);
    return { outcome: isRefused ? "refused" : "done", text: textOf(outcome), options: told, shown: reportsOf(outcome) };
  } catch (error) {
    const message = messageOf(error);
    const text = message ?? "An unexpected error. See the board's onError";
    const shown = note("bad", text);
    return { outcome: "failed", text, options: told, shown, ...(message === undefined && { error }) };
  }
};

/** The page after an action. */
export const actedPage = (view: View, asked: Asked, { outcome, shown }: Acted, problem?: string): Page => {
  const { kind, names } = asked.thing;
  const words = {
    done: ["good", "Done."],
    refused: ["warn", "Nothing or only a part was changed."],
    failed: ["bad", "It failed."],
  } as const;
  const [tone, text] = words[outcome];
  return {
    title: `${buttonText(asked)}: ${names.at(-1) ?? ""}`,
    path: [...pathTo(view, asked.inspector, names), [names.at(-1) ?? "", thingAddress(kind, names)]],
    status: outcome === "failed" ? 422 : 200,
    body: html`<div role="status">${note(tone, text)}</div>
      ${problem === undefined ? none : note("bad", problem)}
      <section class="card">${shown}</section>
      <p class="row">
        <a class="button" href="${thingAddress(kind, names)}">Back to ${foreign(names.at(-1) ?? "")}</a>
        ${turn(address(["page", "health"]), "Recent actions")}
      </p>`,
  };
};
