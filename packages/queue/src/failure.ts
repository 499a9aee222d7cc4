/** The stored form of any thrown value, as JSON. */
export interface StoredError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
}

const mostName = 128;
const mostMessage = 1_024;
const mostStack = 4_096;

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…` : text);

const textOf = (value: unknown): string => {
  try {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return Object.prototype.toString.call(value);
  }
};

/** Never throws: the fields of an error may hold anything, and reading one may throw. */
export const storedError = (error: unknown): StoredError => {
  try {
    if (!(error instanceof Error)) return { name: typeof error, message: cut(textOf(error), mostMessage) };
    const { name, message, code, stack } = error as { readonly [Field in keyof StoredError]: unknown };
    return {
      name: cut(textOf(name), mostName),
      message: cut(textOf(message), mostMessage),
      ...(typeof code === "string" ? { code: cut(code, mostName) } : {}),
      ...(typeof stack === "string" ? { stack: cut(stack, mostStack) } : {}),
    };
  } catch {
    return { name: typeof error, message: "The error cannot be read" };
  }
};

/** The record of a job in `failures`: one line. `begin.lua` adds to the crashes the fence under which the job was begun. */
export const recordOf = (attempts: number, crashes: number, error: StoredError): string =>
  `${String(attempts)}\t${String(crashes)}\t${JSON.stringify(error)}`;

/** The parts of a record. */
export const parseRecord = (
  record: string,
): { readonly attempts: number; readonly crashes: number; readonly error: StoredError | undefined } => {
  const [attempts, crashes, text = ""] = record.split("\t");
  let error: StoredError | undefined;
  try {
    error = text === "" ? undefined : (JSON.parse(text) as StoredError);
  } catch {
    error = undefined;
  }
  return { attempts: Number(attempts ?? 0), crashes: Number.parseInt(crashes ?? "0", 10), error };
};
