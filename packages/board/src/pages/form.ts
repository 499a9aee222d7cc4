import type { CliArgument, CliOption } from "@kit/core/toolkit";
import type { Values } from "../call/call.js";
import { capital, html, type Html } from "./html.js";

/** The prefix of the fields for options, and the field of the arguments after the thing's names. */
const optionField = "o.";
const argumentField = "a";

/** The options that a form or an address gives. Switches are `on`. */
export const valuesOf = (fields: URLSearchParams, options: readonly CliOption[] = []): Values =>
  Object.fromEntries(
    options.flatMap(({ name }) => {
      const value = fields.get(optionField + name);
      return value === null || value === "" ? [] : [[name, value]];
    }),
  );

/** The arguments that a form or an address gives. */
export const argumentsOf = (fields: URLSearchParams): readonly string[] =>
  fields.getAll(argumentField).filter((one) => one !== "");

/** What people read above a field: `rate per ms`. */
const labelOf = (name: string): string => capital(name.replaceAll("-", " "));

/** Help texts are written for a terminal. */
const helpOf = (about: string): string => about.replace(/; kit .*$/, "").replaceAll("--", "");

const field = (option: CliOption, value: string): Html => {
  const { name, about, takes } = option;
  const id = `o-${name}`;
  const help = html`<span class="help" id="${id}-help">${capital(helpOf(about))}</span>`;
  if (takes === undefined)
    return html`<div class="field check">
      <input
        id="${id}"
        name="${optionField}${name}"
        type="checkbox"
        aria-describedby="${id}-help"
        ${value === "" ? "" : html`checked`}
      />
      <label for="${id}">${labelOf(name)}</label>${help}
    </div>`;
  return html`<div class="field">
    <label for="${id}">${labelOf(name)}</label>
    <input
      id="${id}"
      name="${optionField}${name}"
      value="${value}"
      maxlength="2000"
      autocomplete="off"
      aria-describedby="${id}-help"
      ${takes === "integer" ? html`inputmode="numeric" pattern="[0-9]{1,15}"` : ""}
    />
    ${help}
  </div>`;
};

/** Fields for the options of a command or an inspector. */
export const optionFields = (options: readonly CliOption[], fields: URLSearchParams): readonly Html[] =>
  options.map((option) => field(option, fields.get(optionField + option.name) ?? ""));

/** Fields for arguments after the names of the thing. */
export const argumentFields = (args: readonly CliArgument[], fields: URLSearchParams): readonly Html[] => {
  const given = fields.getAll(argumentField);
  return args.map(
    ({ name, about, count }, at) =>
      html`<div class="field">
        <label for="a-${name}">${labelOf(name)}</label>
        <input
          id="a-${name}"
          name="${argumentField}"
          value="${given[at] ?? ""}"
          maxlength="2000"
          autocomplete="off"
          aria-describedby="a-${name}-help"
          ${count === "optional" ? "" : html`required`}
        />
        <span class="help" id="a-${name}-help">${capital(helpOf(about))}</span>
      </div>`,
  );
};
