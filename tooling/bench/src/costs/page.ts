// The tables of the page "At scale", as Markdown, and the page with them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "../keep.js";
import { type Costs, fullName, loadOf, type Mix } from "./costs.js";

/** A server is full at half a core: the other half is for peaks, snapshots and a failover. */
const fullAt = 0.5;
const hoursPerMonth = 720;
/** Of the example in the page, which says so. */
const assumedPrice = 0.2;
const pricedCommands = 100_000;

// ── the worked examples ─────────────────────────────────────────────────────────────────────────────────────────────

export const rates = [10, 1_000, 10_000, 100_000] as const;
type Rate = (typeof rates)[number];

/** How many processes share the work. Each flushes its counters four times a second. */
const processesAt: Readonly<Record<Rate, number>> = { 10: 2, 1_000: 4, 10_000: 10, 100_000: 100 };
const flushesPerSecond = 4;

/** In queues of at most 10,000 jobs a second. Between two measured rates a job costs as at the lower one, which is higher. */
const jobsAt = (perSecond: number): string => {
  if (perSecond >= 10_000) return "queue: a job, of busy producers";
  return perSecond < 1_000 ? "queue: a job, 10 a second" : "queue: a job, 1,000 a second";
};

/** Parts of a hundred, and the operation of each. */
const shop = {
  suggestions: [30, "autocomplete: suggest"],
  "empty fetches of chats": [25, "chat: fetch, nothing new"],
  "look-ups of an address": [10, "geoip: look-up, not cached"],
  locks: [10, "lock: acquire and release, free"],
  jobs: [10, jobsAt],
  permits: [5, "semaphore: acquire and release, room"],
  "messages with one reader": [5, "chat: send, fetch and ack"],
  transactions: [5, "core: transaction (`optimistic`)"],
} as const;

/** The operations of each example at a rate, by the name of its table in the page. */
export const examples: Readonly<Record<string, (rate: Rate) => Mix>> = {
  shop: (rate) => ({
    "stats: flush of 64 counters": flushesPerSecond * processesAt[rate],
    ...Object.fromEntries(
      Object.values(shop).map(([share, name]): [string, number] => {
        const perSecond = (rate * share) / 100;
        return [typeof name === "string" ? name : name(perSecond), perSecond];
      }),
    ),
  }),
  jobs: (rate) => ({ [jobsAt(rate)]: rate }),
};

/** The data that the shop keeps, and for how long, in seconds. */
const kept: readonly (readonly [what: string, object: string, part: keyof typeof shop, seconds: number])[] = [
  ["jobs of a minute without workers", "queue: a waiting job", "jobs", 60],
  ["messages of an hour, unread", "chat: a message", "messages with one reader", 3_600],
  ["lock names used once: `keepMs` of a minute", "lock: a name that was released", "locks", 60],
  ["the same by default: a week", "lock: a name that was released", "locks", 604_800],
];

// ── the tables ──────────────────────────────────────────────────────────────────────────────────────────────────────

const grouped = (value: number): string => value.toLocaleString("en-US");

/** Three digits, and thousands grouped. */
const short = (value: number): string => {
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  const unit = 10 ** (magnitude - 2);
  const rounded = value >= 1_000 ? Math.round(value / unit) * unit : value;
  return rounded.toLocaleString("en-US", { maximumFractionDigits: Math.min(4, Math.max(0, 2 - magnitude)) });
};

const bytes = (value: number): string => {
  const units = ["B", "KB", "MB", "GB", "TB"];
  const step = value < 1_000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${short(value / 1_000 ** step)} ${units[step] ?? ""}`;
};

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map((_, column) => (column === 0 ? "---" : "---:")), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");

type Named = { readonly package: string; readonly name: string; readonly about: string };
const named = ({ package: from, name, about }: Named): string =>
  `${from}: **${name}**${about === "" ? "" : `: ${about}`}`;

const loadRow = (costs: Costs, mixAt: (rate: Rate) => Mix, rate: Rate): readonly string[] => {
  const load = loadOf(costs, mixAt(rate));
  const masters = Math.max(1, Math.ceil(load.cpuMicros / 1e6 / fullAt));
  const cpu = `${short(load.cpuMicros / 1e4)} %`;
  const moved = [bytes(load.bytesIn), bytes(load.bytesOut)];
  return [grouped(rate), short(load.commands), short(load.commandsOnCluster), cpu, ...moved, String(masters)];
};

const memoryRow = ({ stored }: Costs, [what, object, part, seconds]: (typeof kept)[number]): readonly string[] => {
  const found = stored.find((one) => fullName(one) === object);
  if (!found) throw new RangeError(`No stored object is named "${object}"`);
  return [what, ...rates.map((rate) => bytes(((rate * shop[part][0]) / 100) * seconds * found.bytes))];
};

/** `a, b and c` */
const listed = (parts: readonly string[]): string => `${parts.slice(0, -1).join(", ")} and ${parts.at(-1) ?? ""}`;

/** The tables, by the names of their places in the page. The page says in a sentence what sends nothing. */
export const tablesOf = (costs: Costs): ReadonlyMap<string, string> => {
  const { date, redis, node, machine, operations, stored, idle } = costs;
  const parts = Object.entries(shop).map(([about, [share]]) => `${String(share)} ${about}`);
  const processes = rates.map((rate) => grouped(processesAt[rate]));
  const loads = ["Operations/s", "Commands/s", "on a Cluster", "CPU of one core", "In, a second", "Out, a second"];
  return new Map([
    [
      "conditions",
      `Measured on ${date.slice(0, 10)}: ${redis.replace(/^./, (first) => first.toUpperCase())}, Node ${node.slice(1)}, ${machine}, one machine for all.`,
    ],
    [
      "operations",
      table(
        ["Operation", "Commands", "on a Cluster", "Inside scripts", "Bytes in", "Bytes out", "CPU, µs"],
        operations
          .filter(({ commands }) => commands > 0)
          .map((one) => [
            named(one),
            short(one.commands),
            one.commandsOnCluster === undefined ? "" : short(one.commandsOnCluster),
            short(Math.max(0, one.innerCommands)),
            ...[one.bytesIn, one.bytesOut, one.cpuMicros].map(short),
          ]),
      ),
    ],
    [
      "stored",
      table(
        ["Object", "Bytes", "Keys"],
        stored.map((one) => [named(one), short(one.bytes), short(Number(one.keys.toFixed(2)))]),
      ),
    ],
    [
      "idle",
      table(
        ["Left alone", "Commands an hour", "on a Cluster", `A month at ${assumedPrice.toFixed(2)}`],
        idle
          .filter(({ commandsPerHour }) => commandsPerHour > 0)
          .map((one) => [
            named(one),
            short(one.commandsPerHour),
            short(one.commandsPerHourOnCluster),
            ((one.commandsPerHour * hoursPerMonth * assumedPrice) / pricedCommands).toFixed(2),
          ]),
      ),
    ],
    [
      "mix",
      `Of a hundred operations: ${listed(parts)}. ${listed(processes)} processes share the work. Each flushes 64 series four times a second.`,
    ],
    [
      "memory",
      table(
        ["In memory", ...rates.map((rate) => `${grouped(rate)}/s`)],
        kept.map((one) => memoryRow(costs, one)),
      ),
    ],
    ...Object.entries(examples).map(([name, mixAt]): [string, string] => [
      name,
      table(
        [...loads, "Masters"],
        rates.map((rate) => loadRow(costs, mixAt, rate)),
      ),
    ]),
  ]);
};

// ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────

export const pageFile = join(root, "apps", "docs", "at-scale.md");

interface Prettier {
  resolveConfig(path: string): Promise<object | null>;
  format(text: string, options: object): Promise<string>;
}

/** A part that is made: all between its two comments. */
const part = /<!-- costs: (\w+) -->\n[^]*?<!-- end -->/g;

/**
 * The page with the tables of `costs`.
 *
 * @throws {RangeError} the page has a part that no table is for, or a table has no part.
 */
export const pageOf = async (costs: Costs, page: string = readFileSync(pageFile, "utf8")): Promise<string> => {
  const tables = tablesOf(costs);
  const left = new Set(tables.keys());
  const text = page.replaceAll(part, (_, name: string) => {
    const made = tables.get(name);
    if (made === undefined) throw new RangeError(`No table is named "${name}"`);
    left.delete(name);
    return `<!-- costs: ${name} -->\n\n${made}\n\n<!-- end -->`;
  });
  if (left.size > 0) throw new RangeError(`The page has no part for ${[...left].join(", ")}`);
  const prettier = createRequire(join(root, "package.json"))("prettier") as Prettier;
  const style = await prettier.resolveConfig(pageFile);
  return await prettier.format(text, { ...style, parser: "markdown" });
};
