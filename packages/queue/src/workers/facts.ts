/** The facts of a worker, as its record has them. Null if the record does not have them. */
export interface ReadFacts {
  readonly host: string | null;
  readonly pid: number | null;
  readonly name: string | null;
  readonly concurrency: number | null;
  /** In epoch ms of the server's clock. */
  readonly since: number | null;
  readonly version: string | null;
  readonly state: "running" | "paused" | "closing" | null;
}

const longest = 256;
const states: readonly unknown[] = ["running", "paused", "closing"];

/** Undefined if the text is not JSON. Anything can write to the server, so nothing is trusted. */
export const parsedJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

const textOf = (value: unknown): string | null =>
  typeof value === "string" && value !== "" ? value.slice(0, longest) : null;

const integerOf = (value: unknown): number | null =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null;

export const factsIn = (line: string): ReadFacts => {
  const { host, pid, name, concurrency, since, version, state } = Object(parsedJson(line)) as Record<string, unknown>;
  return {
    ...{ host: textOf(host), pid: integerOf(pid), name: textOf(name), concurrency: integerOf(concurrency) },
    ...{ since: integerOf(since), version: textOf(version) },
    state: states.includes(state) ? (state as ReadFacts["state"]) : null,
  };
};

/** The names of handlers in a record, and whether they are all. */
export const namesIn = (line: string): { readonly handles: readonly string[]; readonly handlesMore: boolean } => {
  const all = parsedJson(line);
  const given: readonly unknown[] = Array.isArray(all) ? all : [];
  const handles = given
    .filter((name): name is string => typeof name === "string")
    .map((name) => name.slice(0, longest));
  return { handles, handlesMore: handles.length !== given.length || !Array.isArray(all) };
};
