import type { CliArgument, CliOption } from "@kit/core/toolkit";
import type { Values } from "./call.js";
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

/** A text field with its label and help. */
const field = (id: string, name: string, of: CliOption | CliArgument, value: string, more: Html | string): Html =>
  html`<div class="field">
    <label for="${id}">${labelOf(of.name)}</label>
    <input
      id="${id}"
      name="${name}"
      value="${value}"
      maxlength="2000"
      autocomplete="off"
      aria-describedby="${id}-help"
      ${more}
    />
    <span class="help" id="${id}-help">${capital(helpOf(of.about))}</span>
  </div>`;

const optionInput = (option: CliOption, value: string): Html => {
  const { name, about, takes } = option;
  const id = `o-${name}`;
  if (takes !== undefined)
    return field(
      id,
      optionField + name,
      option,
      value,
      takes === "integer" ? html`inputmode="numeric" pattern="[0-9]{1,15}"` : "",
    );
  return html`<div class="field check">
    <input
      id="${id}"
      name="${optionField}${name}"
      type="checkbox"
      aria-describedby="${id}-help"
      ${value === "" ? "" : html`checked`}
    />
    <label for="${id}">${labelOf(name)}</label>
    <span class="help" id="${id}-help">${capital(helpOf(about))}</span>
  </div>`;
};

/** Fields for the options of a command or an inspector. */
export const optionFields = (options: readonly CliOption[], fields: URLSearchParams): readonly Html[] =>
  options.map((option) => optionInput(option, fields.get(optionField + option.name) ?? ""));

/** Fields for arguments after the names of the thing. */
export const argumentFields = (args: readonly CliArgument[], fields: URLSearchParams): readonly Html[] => {
  const given = fields.getAll(argumentField);
  return args.map((arg, at) =>
    field(`a-${arg.name}`, argumentField, arg, given[at] ?? "", arg.count === "optional" ? "" : html`required`),
  );
};
