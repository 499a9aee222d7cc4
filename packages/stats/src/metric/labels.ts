import { type Rule, text, textOption } from "@kit/core/toolkit";

/** A label value. Numbers are written as text: `200` and `"200"` are one value. */
export type LabelValue = string | number;

/** Values for the labels of a metric. */
export type Labels<Names extends string = string> = { readonly [Name in Names]: LabelValue };

/** The arguments of a metric's method: labels first, if the metric has any. */
export type Labelled<Names extends string, Rest extends readonly unknown[]> = [Names] extends [never]
  ? Rest
  : [labels: Labels<Names>, ...rest: Rest];

/** The value of each label of the overflow series. */
export const overflowValue = "__overflow__";

const maxValueLength = 200;
const metricPattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
// Prometheus generates these itself.
const reservedLabels = new Set(["le", "quantile"]);

/**
 * A metric's name: the form that Prometheus accepts, without colons, which are meant for recording rules.
 *
 * @throws {TypeError | RangeError} it is not such a name.
 */
export const metricName = (name: string): string => {
  textOption("name", name, 128);
  if (!metricPattern.test(name))
    throw new RangeError(
      `Expected \`name\` to have only letters, digits and _, and not to start with a digit, got ${shown(name)}`,
    );
  return name;
};

/** @throws {TypeError | RangeError} one is no label name, is reserved, or is given twice. */
export const labelNames = (names: readonly string[]): readonly string[] => {
  const given: unknown = names;
  if (!Array.isArray(given)) throw new TypeError("Expected `labelNames` to be an array of strings");
  for (const name of names) {
    textOption("labelNames", name, 128);
    if (!metricPattern.test(name) || name.startsWith("__") || reservedLabels.has(name))
      throw new RangeError(
        `Invalid name ${shown(name)} in \`labelNames\`: use letters, digits and _. It must not start with a digit or __, or be le or quantile`,
      );
  }
  if (new Set(names).size < names.length) throw new RangeError("Expected `labelNames` to be different names");
  return [...names];
};

/**
 * The values of a metric's labels in the order of their names.
 *
 * @throws {TypeError | RangeError} a label is missing, unknown, no text or number, too long, or not well-formed Unicode.
 */
export const labelValues = (names: readonly string[], labels: Readonly<Record<string, unknown>>): string[] => {
  if (typeof labels !== "object" || labels === null)
    throw new TypeError(`Expected \`labels\` to be an object with ${names.join(", ")}`);
  for (const name of Object.keys(labels))
    if (!names.includes(name)) throw new TypeError(`Unknown label ${shown(name)}. Known labels: ${names.join(", ")}`);
  return names.map((name) => labelValue(name, Object.hasOwn(labels, name) ? labels[name] : undefined));
};

const labelValue = (name: string, value: unknown): string => {
  if (typeof value === "number") {
    if (!Number.isFinite(value))
      throw new RangeError(`Expected label \`${name}\` to be a finite number, got ${String(value)}`);
    return String(value);
  }
  if (typeof value !== "string")
    throw new TypeError(
      `Expected label \`${name}\` to be a string or a number, got ${value === null ? "null" : typeof value}`,
    );
  if (value.length > maxValueLength)
    throw new RangeError(
      `Expected label \`${name}\` to have at most ${String(maxValueLength)} characters, got ${String(value.length)}`,
    );
  return wellFormed(`label \`${name}\``, value);
};

/** @throws {RangeError} it has a lone surrogate, which becomes U+FFFD on the wire: two texts could become one. */
const wellFormed = (what: string, text: string): string => {
  if (/\p{Surrogate}/u.test(text)) throw new RangeError(`Expected ${what} to be well-formed Unicode`);
  return text;
};

/** Well-formed text of 1 to `max` characters. */
export const wellFormedText = (max: number): Rule<string | undefined, string> => ({
  ...text(max),
  check: (name, value) => wellFormed(`\`${name}\``, textOption(name, value, max)),
});

/**
 * The id of a series: `name;label=value;…`, labels sorted by name. Distinct label sets have distinct ids, since `;` and
 * `%` are escaped in values.
 *
 * @throws {RangeError} name and labels together are too long for a key.
 */
export const seriesId = (metric: string, names: readonly string[], values: readonly string[]): string => {
  const pairs = names.map((name, index) => `${name}=${(values[index] ?? "").replace(/[%;]/g, encodeURIComponent)}`);
  const id = [metric, ...pairs.toSorted()].join(";");
  if (Buffer.byteLength(id) > 512)
    throw new RangeError(`Expected the name and labels of a series of ${metric} to have at most 512 bytes in UTF-8`);
  return id;
};

/** Label names with their values. */
export type SeriesLabels = readonly (readonly [name: string, value: string])[];

/** The labels of a series, by its id. */
export const labelsOf = (id: string): SeriesLabels =>
  id
    .split(";")
    .slice(1)
    .map((pair) => {
      const end = pair.indexOf("=");
      const value = pair.slice(end + 1).replace(/%(?:25|3B)/g, decodeURIComponent);
      return [pair.slice(0, end), value] as const;
    });

const shown = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
