import { inspect } from "node:util";

/**
 * The ways in which `value` shows one of `secrets` when it is printed, serialised or walked. A way is a kind of output or
 * the path of a property: own or inherited, hidden ones and symbols included. Empty if no secret is shown.
 */
export const exposures = (value: unknown, secrets: readonly string[]): string[] => {
  const isExposed = (text: unknown): boolean =>
    typeof text === "string" && secrets.some((secret) => text.includes(secret));
  const found = Object.entries(views)
    .filter(([, view]) => isExposed(attempt(() => view(value))))
    .map(([name]) => name);
  const seen = new Set<unknown>();
  const walk = (part: unknown, path: string): void => {
    if (isExposed(part) || (part instanceof Uint8Array && isExposed(Buffer.from(part).toString("latin1"))))
      found.push(path);
    if (typeof part !== "object" || part === null || seen.has(part) || part instanceof Uint8Array) return;
    seen.add(part);
    if (part instanceof Map || part instanceof Set)
      for (const [index, entry] of [...part.entries()].flat().entries()) walk(entry, `${path}[${String(index)}]`);
    for (
      let owner: object | null = part;
      owner && !isBuiltIn(owner);
      owner = Object.getPrototypeOf(owner) as object | null
    )
      for (const key of Reflect.ownKeys(owner)) {
        const step = `${path}.${String(key)}`;
        if (isExposed(String(key))) found.push(step);
        walk(
          attempt(() => Reflect.get(owner, key, part)),
          step,
        );
      }
  };
  walk(value, "");
  return found;
};

const views: Readonly<Record<string, (value: unknown) => string | undefined>> = {
  inspect: (value) => inspect(value, { depth: 9, showHidden: true, getters: true, maxStringLength: null }),
  "inspect, as a log does": (value) => inspect(value),
  text: String,
  JSON: (value) => JSON.stringify(value),
};

/** The result of `look`. An error that `look` throws is no exposure. */
const attempt = <T>(look: () => T): T | undefined => {
  try {
    return look();
  } catch {
    return undefined;
  }
};

const isBuiltIn = (owner: object): boolean =>
  owner === Object.prototype || owner === Array.prototype || owner === Map.prototype || owner === Set.prototype;
