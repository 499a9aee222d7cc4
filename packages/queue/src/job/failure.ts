/** The stored form of any thrown value, as JSON. */
export interface StoredError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  /** Up to four errors deep. */
  readonly cause?: StoredError;
  /** The first five errors of an AggregateError. */
  readonly errors?: readonly StoredError[];
}

const mostName = 128;
const mostMessage = 1_024;
const mostStack = 4_096;
const mostDepth = 4;
const mostMembers = 5;
/** The maximum number of causes and members together. Their stacks are cut shorter. */
const mostNested = 12;
const mostNestedStack = 1_024;

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…` : text);

const textOf = (value: unknown): string => {
  try {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return Object.prototype.toString.call(value);
  }
};

/** The stored form of a thrown value. Never throws, even though the fields of an error can hold anything and reading them can throw. */
export const storedError = (error: unknown): StoredError => stored(error, mostDepth, { left: mostNested }, mostStack);

const stored = (error: unknown, depth: number, nested: { left: number }, stackLength: number): StoredError => {
  try {
    if (!(error instanceof Error)) return { name: typeof error, message: cut(textOf(error), mostMessage) };
    const { name, message, code, stack, cause, errors } = error as { readonly [Field in keyof StoredError]: unknown };
    const within = (one: unknown): StoredError => stored(one, depth - 1, nested, mostNestedStack);
    const isDeep = depth === 0 || nested.left <= 0;
    const members = isDeep || !Array.isArray(errors) ? [] : errors.slice(0, mostMembers);
    const hasCause = !isDeep && cause !== undefined;
    nested.left -= members.length + Number(hasCause);
    return {
      name: cut(textOf(name), mostName),
      message: cut(textOf(message), mostMessage),
      ...(typeof code === "string" ? { code: cut(code, mostName) } : {}),
      ...(typeof stack === "string" ? { stack: cut(stack, stackLength) } : {}),
      ...(hasCause ? { cause: within(cause) } : {}),
      ...(members.length > 0 ? { errors: members.map(within) } : {}),
    };
  } catch {
    return { name: typeof error, message: "The error cannot be read" };
  }
};

/**
 * The record of a job in `failures`, as one line. `begin.lua` writes the take id under which the job started after the crashes. Scripts
 * keep everything after the crashes unchanged.
 */
export const recordOf = (
  attempts: number,
  crashes: number,
  error: StoredError,
  snoozes = 0,
  passes: Passes = { count: 0, isFresh: false },
): string => {
  const passed = passes.count === 0 ? "" : `\t${String(passes.count)}${passes.isFresh ? " fresh" : ""}`;
  const snoozed = snoozes === 0 && passed === "" ? "" : `\t${String(snoozes)}`;
  return `${String(attempts)}\t${String(crashes)}\t${JSON.stringify(error)}${snoozed}${passed}`;
};

/** How often workers that cannot run a job passed it on. `isFresh`: the job counts as never taken, so it can expire. */
interface Passes {
  readonly count: number;
  readonly isFresh: boolean;
}

/** Whether the job of a record has neither run nor crashed. It may have been passed on. */
export const isFresh = (record: string): boolean =>
  record === "" || (record.startsWith("0\t0\t") && record.endsWith(" fresh"));

/** The parts of a record. */
export const parseRecord = (
  record: string,
): {
  readonly attempts: number;
  readonly crashes: number;
  readonly snoozes: number;
  readonly passes: number;
  readonly error: StoredError | undefined;
} => {
  const [attempts, crashes, text = "", snoozes, passes] = record.split("\t");
  let error: StoredError | undefined;
  try {
    error = text === "" ? undefined : (JSON.parse(text) as StoredError);
  } catch {
    error = undefined;
  }
  return {
    attempts: Number(attempts ?? 0),
    crashes: Number.parseInt(crashes ?? "0", 10),
    snoozes: Number(snoozes ?? 0),
    passes: Number.parseInt(passes ?? "0", 10),
    error,
  };
};
