import { firstParagraph, grouped, oneLine, table } from "./markdown.mjs";

/** @typedef {import("./options.mjs").Table} Table */
/** @typedef {import("./options.mjs").Option} Option */

/**
 * The section with the tables of options, and the options whose comment contradicts their rule.
 * @param {readonly Table[]} tables
 * @returns {{ text: string, problems: string[] }}
 */
export function optionsSection(tables) {
  const problems = tables.flatMap(({ type, options }) =>
    options.flatMap((option) => problemsOf(option).map((problem) => `${type}.${option.name} ${problem}`)),
  );
  if (tables.length === 0) return { text: "", problems };
  const texts = tables.map(({ type, doc, options }) => {
    const rows = options.map((option) => [
      `\`${option.name}\``,
      valuesOf(option),
      usualOf(option),
      firstParagraph(option.doc),
    ]);
    return `### \`${type}\`\n\n${oneLine(doc)}\n\n${table(["Option", "Values", "Default", "What it does"], rows)}`;
  });
  return {
    text: ["## Options", "Times are in milliseconds.", ...texts].join("\n\n"),
    problems: [...new Set(problems)],
  };
}

/** @param {Option} option */
const valuesOf = ({ rule: { kind, min = 0, max = Number.MAX_SAFE_INTEGER, choices = [], nullable }, type }) => {
  /** @type {Record<string, () => string>} */
  const texts = {
    integer: () => (max === Number.MAX_SAFE_INTEGER ? `from ${grouped(min)}` : `${grouped(min)} to ${grouped(max)}`),
    boolean: () => "boolean",
    text: () => `text of 1 to ${grouped(max)} characters`,
    choice: () => choices.map((choice) => `\`"${choice}"\``).join(", "),
  };
  const text = (texts[kind] ?? (() => `\`${type}\``))();
  return nullable && texts[kind] ? `${text}, or null` : text;
};

/** A default that can be written, as code has it. @param {unknown} value */
const literalOf = (value) => {
  if (typeof value === "string") return JSON.stringify(value);
  return typeof value === "boolean" || Number.isFinite(value) ? String(value) : undefined;
};

/** The literal that a comment begins with: `10,000` and `10_000` are 10000. @param {string} usual */
const writtenIn = (usual) => /^(?:"[^"]*"|true|false|-?\d+(?:[,_]\d{3})*(?:\.\d+)?)(?=$| \(|, [a-z])/.exec(usual)?.[0];

/** @param {string} written */
const plain = (written) => (/^-?\d/.test(written) ? written.replace(/[,_]/g, "") : written);

/** @param {Option} option */
export const usualOf = ({ rule, usual = "" }) => {
  if (rule.required) return "required";
  const written = writtenIn(usual);
  if (written !== undefined) return `\`${plain(written)}\`${usual.slice(written.length)}`;
  return usual === "" || usual === "undefined" ? "none" : usual;
};

/** @param {Option} option @returns {string[]} */
const problemsOf = ({ doc, rule, usual }) => {
  const problems = doc.trim() === "" ? ["has no comment"] : [];
  const written = usual === undefined ? undefined : writtenIn(usual);
  const literal = literalOf(rule.default);
  if (rule.required && usual !== undefined) return [...problems, "has a @default, and is required"];
  // The text of a default may be one of the machine, as a host name, or what a check makes of an option: the comment describes it.
  const isText = typeof rule.default === "string";
  const isDescribed =
    written === undefined && isText && (rule.kind === "custom" || (rule.kind === "text" && usual !== undefined));
  if (literal === undefined || isDescribed)
    return written === undefined ? problems : [...problems, `has the @default ${usual}, and no such default`];
  if (written !== undefined && plain(written) === literal) return problems;
  return [
    ...problems,
    `has the default ${literal}, and ${usual === undefined ? "no @default" : `the @default ${usual}`}`,
  ];
};
