import type { Limit } from "../kernel/index.js";
import { inTime } from "../toolkit/index.js";
import { type ConfigIssue, ConfigInvalidError } from "./errors.js";

/** The result of a schema. */
type Verdict<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: readonly {
        readonly message: string;
        readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
      }[];
    };

/** Standard Schema, version 1 (standardschema.dev): Zod, Valibot, ArkType and others implement it. Validation may be async. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Verdict<Output> | Promise<Verdict<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

const deepest = 100;

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** Calls `visit` for everything in a JSON value, starting with the value itself. */
const walk = (
  value: unknown,
  visit: (value: unknown, path: readonly string[]) => void,
  path: readonly string[] = [],
): void => {
  visit(value, path);
  if (isRecord(value) && path.length <= deepest)
    for (const [key, part] of Object.entries(value)) walk(part, visit, [...path, key]);
};

/** Parses JSON. A member that could become a prototype is rejected. */
export const parseJson = (entry: string, text: string): unknown => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ConfigInvalidError(entry, [{ path: "", message: "is not JSON" }]);
  }
  const issues: ConfigIssue[] = [];
  walk(value, (part, path) => {
    const at = path.slice(0, 10).join(".");
    if (path.at(-1) === "__proto__") issues.push({ path: at, message: "is not allowed as a name" });
    // It is parsed as Infinity, which JSON cannot express.
    if (typeof part === "number" && !Number.isFinite(part)) issues.push({ path: at, message: "is too large a number" });
    if (path.length > deepest) issues.push({ path: at, message: `is nested deeper than ${String(deepest)} levels` });
  });
  if (issues.length > 0) throw new ConfigInvalidError(entry, issues.slice(0, mostIssues));
  return value;
};

/** The JSON of a value, as it is stored. */
export const jsonOf = (entry: string, value: unknown, maxBytes: number): string => {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    // The thrown error may quote the value.
  }
  if (text === undefined) throw new ConfigInvalidError(entry, [{ path: "", message: "cannot be written as JSON" }]);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes)
    throw new ConfigInvalidError(entry, [
      { path: "", message: `has ${String(bytes)} bytes as JSON, more than maxBytes, ${String(maxBytes)}` },
    ]);
  return text;
};

/** The same text for the same content, whatever the order of its keys. */
const canonicalOf = (value: unknown): string => {
  if (!isRecord(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalOf).join()}]`;
  const parts = Object.keys(value).sort();
  return `{${parts.map((key) => `${JSON.stringify(key)}:${canonicalOf(value[key])}`).join()}}`;
};

/** Freezes plain objects and arrays at every depth, but not other objects that a schema made. */
const frozen = <Value>(value: Value): Value => {
  if (!isRecord(value) || Object.isFrozen(value)) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype && prototype !== null) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) frozen(part);
  return value;
};

/** Removes every part of the value from a validator's message: validators quote, and the value may be secret. */
const redactor = (text: string): ((message: string) => string) => {
  const leaves = new Set<string>();
  walk(JSON.parse(text), (part) => {
    if (isRecord(part) || part === "") return;
    const leaf = String(part);
    leaves.add(leaf).add(JSON.stringify(leaf).slice(1, -1));
  });
  // The longest first, because one may be part of another.
  const sorted = [...leaves].toSorted((a, b) => b.length - a.length);
  const all = sorted.join("\0");
  // Validators shorten what they quote.
  const quotesPart = (message: string): boolean =>
    Array.from({ length: Math.max(0, message.length - quoteLength + 1) }, (_, at) =>
      message.slice(at, at + quoteLength),
    ).some((part) => all.includes(part));
  return (message) => {
    // Only the leaves in this message: to compile one expression of all takes seconds, and its error would quote them.
    const quoted = sorted.filter((leaf) => message.includes(leaf));
    const literals = quoted.map((leaf) => leaf.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    // Short leaves are matched only as whole words.
    const firstShort = quoted.findIndex((leaf) => leaf.length < 4);
    const short = firstShort < 0 ? [] : literals.splice(firstShort);
    const patterns = [...literals, `(?<![\\p{L}\\p{N}])(?:${short.join("|") || "$^"})(?![\\p{L}\\p{N}])`];
    const redacted = message.replace(new RegExp(patterns.join("|"), "gu"), "…").slice(0, longestMessage);
    return quotesPart(redacted) ? "does not match the schema" : redacted;
  };
};

const quoteLength = 8;
const longestMessage = 300;
/** The maximum number of issues. More would not help a reader, and each needs a comparison with the whole value. */
const mostIssues = 10;

/** A stored value in the form that its readers get. */
export interface Content<Value> {
  readonly value: Value;
  /** Equal for equal content, in any order of keys. */
  readonly canonical: string;
}

/** kit's own schemas, whose messages never quote the value and need no redaction. */
const ours = new WeakSet<object>();

/** A schema whose messages never quote the value. */
export const ownSchema = <Value>(validate: StandardSchema<Value>["~standard"]["validate"]): StandardSchema<Value> => {
  const schema: StandardSchema<Value> = { "~standard": { version: 1, vendor: "kit", validate } };
  ours.add(schema);
  return schema;
};

const isPromise = <T>(given: T | Promise<T>): given is Promise<T> =>
  typeof (given as { then?: unknown } | undefined)?.then === "function";

/**
 * The schema's result for a JSON text, frozen.
 *
 * @throws {ConfigInvalidError} the text is not JSON, the schema rejects it, or the schema did not settle by the deadline of
 * `limit`.
 * @throws the reason of a signal in `limit`, if that signal aborts first.
 */
export const contentOf = async <Value>(
  entry: string,
  schema: StandardSchema<unknown, Value> | undefined,
  text: string,
  limit?: Limit,
): Promise<Content<Value>> => {
  const json = parseJson(entry, text);
  // Before the schema runs, which may change the object.
  const canonical = canonicalOf(json);
  if (!schema) return { value: frozen(json as Value), canonical };
  const failure = (error: unknown): ConfigInvalidError => {
    // Its message may quote the value.
    const kind = error instanceof Error ? error.name : typeof error;
    return new ConfigInvalidError(entry, [{ path: "", message: `the schema failed with ${redactor(text)(kind)}` }]);
  };
  const late = (): Error => new ConfigInvalidError(entry, [{ path: "", message: "the schema did not settle in time" }]);
  let asked: Verdict<Value> | Promise<Verdict<Value>>;
  try {
    asked = schema["~standard"].validate(json);
  } catch (error) {
    throw failure(error);
  }
  if (isPromise(asked)) {
    const work = Promise.resolve(asked).catch((error: unknown) => {
      throw failure(error);
    });
    asked = await (limit ? inTime(work, limit, late) : work);
  }
  const verdict = asked;
  if (!verdict.issues) return { value: frozen(verdict.value), canonical };
  const redact = ours.has(schema) ? (message: string): string => message : redactor(text);
  const issues = verdict.issues.slice(0, mostIssues).map(({ message, path = [] }) => ({
    path: path.map((step) => String(typeof step === "object" ? step.key : step)).join("."),
    message: redact(String(message)),
  }));
  throw new ConfigInvalidError(entry, issues);
};
