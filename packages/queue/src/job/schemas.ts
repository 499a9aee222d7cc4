import type { StandardSchema } from "@kit/core/config";
import { JobPayloadError } from "./errors.js";

/** The verdict of a schema on one payload: the value to use, or the reason why it does not fit. */
export type Checked =
  { readonly isValid: true; readonly value: unknown } | { readonly isValid: false; readonly reason: string };

/** Schemas by job name. */
export type SchemaMap = ReadonlyMap<string, StandardSchema>;

type Verdict = Awaited<ReturnType<StandardSchema["~standard"]["validate"]>>;

const mostPaths = 5;
const longestReason = 400;

/** Shows only the paths. Messages of a schema can quote the data, and errors must not contain payloads. */
const reasonOf = (issues: NonNullable<Verdict["issues"]>): string => {
  const paths = issues.map(({ path = [] }) =>
    path.map((step) => String(typeof step === "object" ? step.key : step)).join("."),
  );
  const shown = [...new Set(paths)].filter((path) => path !== "").slice(0, mostPaths);
  const where = shown.length === 0 ? "" : ` at ${shown.join(", ")}`;
  return `does not match its schema${where}`.slice(0, longestReason);
};

export const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === "function";

const checkedOf = (verdict: Verdict): Checked =>
  verdict.issues ? { isValid: false, reason: reasonOf(verdict.issues) } : { isValid: true, value: verdict.value };

/** @throws the schema's own error. */
export const check = (schema: StandardSchema, value: unknown): Checked | Promise<Checked> => {
  const verdict = schema["~standard"].validate(value);
  // Some libraries return their own kind of promise.
  return isThenable(verdict) ? Promise.resolve(verdict).then(checkedOf) : checkedOf(verdict);
};

/**
 * Resolves if data that is about to be added fits its schema. Returns undefined if the check was synchronous.
 *
 * @throws {JobPayloadError} the data does not fit, or the schema threw.
 */
export const assertFits = (schema: StandardSchema, name: string, value: unknown): Promise<void> | undefined => {
  const judge = (checked: Checked): void => {
    if (!checked.isValid) throw new JobPayloadError(name, checked.reason);
  };
  const failed = (error: unknown): never => {
    throw new JobPayloadError(name, "cannot be checked: its schema threw an error", error);
  };
  let checked: Checked | Promise<Checked>;
  try {
    checked = check(schema, value);
  } catch (error) {
    return failed(error);
  }
  if (checked instanceof Promise) return checked.catch(failed).then(judge);
  judge(checked);
  return undefined;
};

/** @throws {TypeError} `schemas` is not an object of Standard Schemas. */
export const schemaMap = (schemas: unknown): SchemaMap => {
  if (schemas === undefined) return new Map();
  if (typeof schemas !== "object" || schemas === null)
    throw new TypeError("Expected `schemas` to be an object of Standard Schemas");
  const given = Object.entries(schemas as Record<string, StandardSchema | undefined>).filter(
    (entry): entry is [string, StandardSchema] => entry[1] !== undefined,
  );
  for (const [name, schema] of given) {
    const standard = (schema as { "~standard"?: { validate?: unknown } } | null)?.["~standard"];
    if (typeof standard?.validate !== "function")
      throw new TypeError(`Expected the schema of ${JSON.stringify(name)} to be a Standard Schema`);
  }
  return new Map(given);
};
