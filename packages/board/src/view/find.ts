import type { Connection } from "@kit/core";
import { type Inspector, nameIn, type PackageDescriptor } from "@kit/core/toolkit";

/** Keys per step. One step takes the server less than a millisecond. */
const batch = 1_000;
/** The steps of one page. */
export const scanSteps = 4;
/** The keys of each package whose memory is measured. */
const sampledKeys = 8;
/** The names of one kind that a board keeps in memory. */
export const maxNames = 10_000;

type Listed = NonNullable<Inspector["listed"]>;

/** A thing that was found, and the options that its inspector needs. */
export interface Found {
  readonly name: string;
  readonly options: Readonly<Record<string, number>>;
}

/** A kind of thing that can be found. */
export interface Kind {
  readonly inspector: Inspector;
  readonly listed: Listed;
  /** Reads the thing from a key, if it is one of this kind. */
  readonly read: (key: string) => Found | undefined;
  /** The things by name, each with the number of the scan that has seen it. */
  readonly things: Map<string, Found & { readonly scan: number }>;
}

/** The number of keys of a package, and a few of them. */
interface Keys {
  keys: number;
  readonly some: string[];
}

const readerOf = ({ keys, thingOf }: Listed, head: string): Kind["read"] => {
  const forms = keys.map((key) => {
    const source = key.replace(/[{}]/g, "\\$&").replace("*", "[^{}]*").replace("NAME", "([^{}]+)");
    return new RegExp(`^${source}$`, "s");
  });
  return (key) => {
    if (!key.startsWith(head)) return undefined;
    const text = forms.map((form) => form.exec(key.slice(head.length))?.[1]).find((one) => one !== undefined);
    if (text === undefined) return undefined;
    const { name, options = {} } = thingOf?.(text) ?? { name: text };
    return { name: nameIn(`{${name}}`) ?? name, options };
  };
};

const mastersOf = (redis: Connection): readonly Pick<Connection, "call">[] => {
  const { nodes } = redis as unknown as { nodes?: (role: "master") => ReturnType<typeof mastersOf> };
  return nodes ? nodes.call(redis, "master") : [redis];
};

const globOf = (text: string): string => text.replace(/[\\*?[\]]/g, "\\$&");

/** The things of a kind whose name has this text, in the order of their names. */
export const thingsOf = ({ things }: Kind, text = ""): readonly Found[] =>
  [...things.values()].filter(({ name }) => name.includes(text)).toSorted((a, b) => (a.name < b.name ? -1 : 1));

/**
 * Finds the things of all kinds by a scan of the server's keys. Each page reads up to 4,000 keys. The next page continues there, and after
 * the last key from the start. A name is kept in memory until a whole scan has not seen it.
 */
export class Finder {
  readonly kinds: readonly Kind[];
  readonly #prefix: string;
  readonly #known: ReadonlySet<string>;
  #whole: ReadonlyMap<string, Keys> | undefined;
  #packages = new Map<string, Keys>();
  #scan = 0;
  #node = 0;
  #cursor = "0";
  #running: Promise<void> | undefined;

  constructor(packages: readonly PackageDescriptor[], prefix: string) {
    this.#prefix = prefix;
    this.#known = new Set(packages.map(({ name }) => name));
    this.kinds = packages.flatMap(({ name, inspectors = [] }) =>
      inspectors.flatMap((inspector) => {
        const { listed } = inspector;
        return listed ? [{ inspector, listed, read: readerOf(listed, `${prefix}:${name}:`), things: new Map() }] : [];
      }),
    );
  }

  /** Whether all keys were read once. */
  get isWhole(): boolean {
    return this.#whole !== undefined;
  }

  /** The keys by package, of the last whole scan if there is one. */
  get packages(): ReadonlyMap<string, Keys> {
    return this.#whole ?? this.#packages;
  }

  /** Reads the next keys. Pages that ask at the same time share this. */
  async next(redis: Connection): Promise<void> {
    this.#running ??= this.#read(redis).finally(() => (this.#running = undefined));
    await this.#running;
  }

  async #read(redis: Connection): Promise<void> {
    const nodes = mastersOf(redis);
    // A Cluster client that is connecting knows no node yet. With few keys, one page shows all nodes.
    const steps = nodes.length === 0 ? 0 : Math.max(scanSteps, nodes.length);
    for (let step = 0; step < steps; step++) {
      const node = nodes[this.#node] ?? redis;
      const reply = await node.call("SCAN", this.#cursor, "MATCH", `${globOf(this.#prefix)}:*`, "COUNT", batch);
      const [cursor, keys] = reply as [string | number, string[]];
      for (const key of keys) this.#take(key);
      this.#cursor = String(cursor);
      if (this.#cursor === "0" && ++this.#node >= nodes.length) return this.#end();
    }
  }

  #take(key: string): void {
    const [first = ""] = key.slice(this.#prefix.length + 1).split(":", 1);
    // Another program may have any number of names under the prefix.
    const name = this.#known.has(first) ? first : "other";
    const seen = this.#packages.get(name) ?? { keys: 0, some: [] };
    this.#packages.set(name, seen);
    seen.keys++;
    // Each key has the same chance to be among them.
    if (seen.some.length < sampledKeys) seen.some.push(key);
    else if (Math.random() < sampledKeys / seen.keys) seen.some[Math.floor(Math.random() * sampledKeys)] = key;
    for (const { read, things } of this.kinds) {
      const thing = read(key);
      if (thing && (things.size < maxNames || things.has(thing.name)))
        things.set(thing.name, { ...thing, scan: this.#scan });
    }
  }

  #end(): void {
    for (const { things } of this.kinds)
      for (const [name, { scan }] of things) if (scan < this.#scan) things.delete(name);
    [this.#whole, this.#packages] = [this.#packages, new Map()];
    this.#scan++;
    this.#node = 0;
  }
}
