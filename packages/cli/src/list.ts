import { type Connection, KitError } from "@kit/core";
import { type Inspector, nameIn, type PackageDescriptor, type Report } from "@kit/core/toolkit";
import { isRefusal } from "./refusal.js";
import { connectionsOf } from "./server.js";

/** Keys per step, steps on each node, and names of a kind: a server replies to all of these in a few seconds at most. */
const batch = 1_000;
const maxSteps = 1_000;
const maxNames = 100;
/** The rows of a kind in the overview of all kinds. */
const maxRows = 20;

/** A kind of thing that can be listed. */
export interface Kind {
  readonly from: string;
  readonly inspector: Inspector;
  readonly listed: NonNullable<Inspector["listed"]>;
}

interface Thing {
  readonly name: string;
  readonly options: Readonly<Record<string, number>>;
}

interface Found {
  /** In the order of their names. */
  readonly things: readonly Thing[];
  /** Whether these are all. */
  readonly isWhole: boolean;
}

export const kindsOf = (descriptors: readonly PackageDescriptor[]): readonly Kind[] =>
  descriptors.flatMap(({ name, inspectors = [] }) =>
    inspectors.flatMap((inspector) => {
      const { listed } = inspector;
      return listed ? [{ from: name, inspector, listed }] : [];
    }),
  );

/** A pattern that matches all keys of the kinds, and few others. */
const patternOf = (prefix: string, kinds: readonly Kind[]): string => {
  const head = prefix.replace(/[\\*?[\]]/g, "\\$&");
  const packages = [...new Set(kinds.map(({ from }) => from))];
  if (packages.length !== 1) return `${head}:*`;
  const keys = kinds.flatMap(({ listed }) => listed.keys);
  return `${head}:${packages.join("")}:${keys.length === 1 ? keys.join("").replace("NAME", "*") : "*"}`;
};

/** Reads the thing from a key; undefined: the key is of no thing of that kind. */
const readerOf = ({ from, listed }: Kind, prefix: string): ((key: string) => Thing | undefined) => {
  const head = `${prefix}:${from}:`;
  const forms = listed.keys.map((key) => {
    const source = key.replace(/[{}]/g, "\\$&").replace("*", "[^{}]*").replace("NAME", "([^{}]+)");
    return new RegExp(`^${source}$`, "s");
  });
  return (key) => {
    if (!key.startsWith(head)) return undefined;
    const rest = key.slice(head.length);
    const text = forms.map((form) => form.exec(rest)?.[1]).find((one) => one !== undefined);
    if (text === undefined) return undefined;
    const { name, options = {} } = listed.thingOf?.(text) ?? { name: text };
    return { name: nameIn(`{${name}}`) ?? name, options };
  };
};

/** Looks for the things of all kinds in one scan. */
export const find = async (redis: Connection, prefix: string, kinds: readonly Kind[]): Promise<readonly Found[]> => {
  const found = kinds.map((kind) => ({
    read: readerOf(kind, prefix),
    things: new Map<string, Thing>(),
    isFull: false,
  }));
  const take = (key: string): void => {
    for (const kind of found) {
      const thing = kind.read(key);
      if (!thing || kind.things.has(thing.name)) continue;
      if (kind.things.size === maxNames) kind.isFull = true;
      else kind.things.set(thing.name, thing);
    }
  };
  const pattern = patternOf(prefix, kinds);
  let isWhole = true;
  for (const node of connectionsOf(redis)) {
    let cursor: string | undefined = "0";
    for (let step = 0; step < maxSteps && cursor !== undefined && !found.every(({ isFull }) => isFull); step++) {
      const [next, keys] = (await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", batch)) as [string, string[]];
      keys.forEach(take);
      cursor = next === "0" ? undefined : next;
    }
    if (cursor !== undefined) isWhole = false;
  }
  return found.map(({ things, isFull }) => ({
    things: [...things.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    isWhole: isWhole && !isFull,
  }));
};

/** An entry that is damaged, or is another application's, does not hide the others. */
const damage = (error: unknown): Report => {
  if (isRefusal(error)) {
    const summary = "this user has no permission";
    return { data: { error: "KIT_NO_PERMISSION" }, facts: [["damaged", summary]], summary };
  }
  if (!KitError.is(error) || (error.code !== "KIT_KEY_TYPE" && error.code !== "KIT_LAYOUT")) throw error;
  return { data: { error: error.code }, facts: [["damaged", error.message]], summary: `damaged: ${error.message}` };
};

/** Inspects one thing of a kind. */
export type Look = (kind: Kind, thing: Thing) => Promise<Report>;

/** A row for each existing thing of one kind: the facts of its inspector, in the requested columns. */
export const listOf = async (redis: Connection, prefix: string, kind: Kind, look: Look): Promise<Report> => {
  const { things: plural, columns } = kind.listed;
  const [{ things, isWhole } = { things: [], isWhole: true }] = await find(redis, prefix, [kind]);
  const rows: string[][] = [];
  const data: object[] = [];
  for (const thing of things) {
    const { name } = thing;
    const report = await look(kind, thing).catch(damage);
    data.push("error" in report.data ? { name, ...report.data } : report.data);
    const textOf = (column: string): string =>
      (report.facts ?? []).flatMap(([fact, text]) => (fact === column ? [text] : [])).join("; ");
    // The last column has the most room.
    const last = columns.length - 1;
    rows.push([name, ...columns.map((column, at) => textOf(column) || (at === last ? textOf("damaged") : ""))]);
  }
  const count = `${String(things.length)}${isWhole ? "" : ", maybe more: the scan stopped early"}`;
  return {
    data: { [plural]: data, isWhole },
    facts: [[plural, things.length === 0 && isWhole ? "none" : count]],
    table: things.length === 0 ? undefined : { columns: ["name", ...columns], rows },
  };
};

/** The overview of a prefix: a row for each thing of every kind. */
export const overviewOf = async (
  redis: Connection,
  prefix: string,
  kinds: readonly Kind[],
  look: Look,
): Promise<Report> => {
  const found = await find(redis, prefix, kinds);
  const rows: string[][] = [];
  const data: object[] = [];
  for (const [at, kind] of kinds.entries()) {
    const { things = [], isWhole = true } = found[at] ?? {};
    const shown = things.slice(0, maxRows);
    for (const thing of shown) {
      const { summary = "" } = await look(kind, thing).catch(damage);
      rows.push([kind.inspector.thing, thing.name, summary]);
      data.push({ thing: kind.inspector.thing, name: thing.name, summary });
    }
    const left = things.length - shown.length;
    const more = left === 0 ? "maybe more" : `${isWhole ? "" : "at least "}${String(left)} more`;
    if (left > 0 || !isWhole) rows.push([kind.inspector.thing, "…", `and ${more}: kit list ${kind.listed.things}`]);
  }
  return {
    data: { things: data, isWhole: found.every(({ things, isWhole }) => isWhole && things.length <= maxRows) },
    facts: rows.length === 0 ? [["found", `nothing under the prefix ${prefix}`]] : [],
    table: rows.length === 0 ? undefined : { columns: ["kind", "name", "state"], rows },
  };
};
