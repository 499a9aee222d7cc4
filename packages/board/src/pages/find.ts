import type { Connection } from "@kit/core";
import { type Inspector, nameIn, type PackageDescriptor } from "@kit/core/toolkit";

/** Keys per step. One step takes the server less than a millisecond. */
const batch = 1_000;
/** The steps of one page. */
export const scanSteps = 15;
/** The keys of each package whose memory is measured. */
const sampledKeys = 8;
/** The names of one kind that a page keeps in memory. */
const maxNames = 1_000;

type Listed = NonNullable<Inspector["listed"]>;

/** A kind of thing that can be found. */
export interface Kind {
  readonly from: string;
  readonly inspector: Inspector;
  readonly listed: Listed;
}

/** A thing that was found, and the options that its inspector needs. */
export interface Found {
  readonly name: string;
  readonly options: Readonly<Record<string, number>>;
}

/** What one bounded scan has seen. */
export interface Scan {
  /** In the order of their names. */
  readonly things: readonly Found[][];
  /** The number of keys of each package, and a few of them. */
  readonly packages: ReadonlyMap<string, { keys: number; readonly some: readonly string[] }>;
  /** The commands that it has sent. */
  readonly steps: number;
  /** Where the next scan continues. Undefined at the end. */
  readonly next: string | undefined;
}

export const kindsOf = (packages: readonly PackageDescriptor[]): readonly Kind[] =>
  packages.flatMap(({ name, inspectors = [] }) =>
    inspectors.flatMap((inspector) => (inspector.listed ? [{ from: name, inspector, listed: inspector.listed }] : [])),
  );

/** Reads the thing from a key, if it is one of that kind. */
const readerOf = ({ listed }: Kind, head: string): ((key: string) => Found | undefined) => {
  const forms = listed.keys.map((key) => {
    const source = key.replace(/[{}]/g, "\\$&").replace("*", "[^{}]*").replace("NAME", "([^{}]+)");
    return new RegExp(`^${source}$`, "s");
  });
  return (key) => {
    if (!key.startsWith(head)) return undefined;
    const text = forms.map((form) => form.exec(key.slice(head.length))?.[1]).find((one) => one !== undefined);
    if (text === undefined) return undefined;
    const { name, options = {} } = listed.thingOf?.(text) ?? { name: text };
    return { name: nameIn(`{${name}}`) ?? name, options };
  };
};

interface Node {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

const mastersOf = (redis: Connection): readonly Node[] => {
  const { nodes } = redis as unknown as { nodes?: (role: "master") => readonly Node[] };
  return nodes ? nodes.call(redis, "master") : [redis];
};

const globOf = (text: string): string => text.replace(/[\\*?[\]]/g, "\\$&");

/**
 * Looks for things of these kinds in the next keys of the server: up to 15,000, in 15 commands. `cursor` is the `next` of the scan before.
 */
export const scan = async (
  redis: Connection,
  prefix: string,
  kinds: readonly Kind[],
  { cursor = "0-0", text = "" }: { readonly cursor?: string | undefined; readonly text?: string } = {},
): Promise<Scan> => {
  const found = kinds.map((kind) => ({
    read: readerOf(kind, `${prefix}:${kind.from}:`),
    things: new Map<string, Found>(),
  }));
  const packages = new Map<string, { keys: number; some: string[] }>();
  const known = new Set(kinds.map(({ from }) => from));
  const take = (key: string): void => {
    const [first = ""] = key.slice(prefix.length + 1).split(":", 1);
    // Another program may have any number of names under the prefix.
    const name = known.has(first) ? first : "other";
    const seen = packages.get(name) ?? { keys: 0, some: [] };
    packages.set(name, seen);
    seen.keys++;
    // Each key has the same chance to be among them.
    if (seen.some.length < sampledKeys) seen.some.push(key);
    else if (Math.random() < sampledKeys / seen.keys) seen.some[Math.floor(Math.random() * sampledKeys)] = key;
    for (const { read, things } of found) {
      const thing = read(key);
      if (thing && things.size < maxNames && thing.name.includes(text)) things.set(thing.name, thing);
    }
  };
  const only = known.size === 1 ? `${[...known].join("")}:` : "";
  const pattern = `${globOf(prefix)}:${only}*`;
  const nodes = mastersOf(redis);
  let [at = 0, place = "0"] = /^\d{1,4}-\d{1,20}$/.test(cursor) ? (cursor.split("-") as [never, string]) : [];
  at = Number(at);
  let steps = 0;
  for (; steps < scanSteps && at < nodes.length; steps++) {
    const reply = await nodes[at]?.call("SCAN", place, "MATCH", pattern, "COUNT", batch);
    const [next, keys] = reply as [string | number, string[]];
    keys.forEach(take);
    place = String(next);
    if (place === "0") at++;
  }
  return {
    things: found.map(({ things }) => [...things.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))),
    packages,
    steps,
    next: at < nodes.length ? `${String(at)}-${place}` : undefined,
  };
};
