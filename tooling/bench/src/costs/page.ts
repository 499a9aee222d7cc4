// The tables of the page "At scale", as Markdown, and the page with them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "../keep.js";
import { costNamed, type Costs, loadOf, type Mix } from "./costs.js";

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
  shop: (rate) => {
    const mix: Record<string, number> = { "stats: flush of 64 counters": flushesPerSecond * processesAt[rate] };
    for (const [share, name] of Object.values(shop)) {
      const perSecond = (rate * share) / 100;
      mix[typeof name === "string" ? name : name(perSecond)] = perSecond;
    }
    return mix;
  },
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

type Named = { readonly package: string; readonly name: string; readonly about: string };
const named = ({ package: from, name, about }: Named): string =>
  `${from}: **${name}**${about === "" ? "" : `: ${about}`}`;

/** A row for each of `all`: a cell for each column. */
const table = <One>(all: readonly One[], columns: Readonly<Record<string, (one: One) => string>>): string =>
  [
    Object.keys(columns),
    Object.keys(columns).map((_, column) => (column === 0 ? "---" : "---:")),
    ...all.map((one) => Object.values(columns).map((cell) => cell(one))),
  ]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");

/** `a, b and c` */
const listed = (parts: readonly string[]): string => `${parts.slice(0, -1).join(", ")} and ${parts.at(-1) ?? ""}`;

/** What these commands a second cost in a month. */
const monthly = (perSecond: number): number => (perSecond * 3_600 * hoursPerMonth * assumedPrice) / pricedCommands;

/** The sentences with figures, by the names of their places in the page. */
const sentencesOf = (costs: Costs): Readonly<Record<string, string>> => {
  const { cpuMicros } = loadOf(costs, examples["shop"]?.(1_000) ?? {});
  const commandsOf = (name: string, perSecond: number): number => loadOf(costs, { [name]: perSecond }).commands;
  const [few, one, many] = [
    commandsOf("queue: a job, 10 a second", 10),
    commandsOf("queue: a job, 1,000 a second", 1_000),
    commandsOf("queue: a job, of busy producers", 1_000),
  ];
  const product = `${short(one)} × 3,600 × ${String(hoursPerMonth)} × ${assumedPrice.toFixed(2)} / ${grouped(pricedCommands)}`;
  return {
    enough: `- **One server is usually enough:** [a shop](#a-shop) with 1,000 operations a second uses ${short(cpuMicros / 1e4)} % of one core.`,
    bill: `- **Commands:** ${short(one)}/s if one process adds evenly spaced jobs, ${short(many)}/s if many processes add. On a busy machine, calls share more commands.
- **Bill:** \`${product}\` = ${short(monthly(one))} a month. At 10 jobs/s: ${short(monthly(few))}.`,
  };
};

/** The tables, by the names of their places in the page. The page says in a sentence what sends nothing. */
export const tablesOf = (costs: Costs): Readonly<Record<string, string>> => {
  const { date, redis, node, machine, operations, stored, idle } = costs;
  const parts = Object.entries(shop).map(([about, [share]]) => `${String(share)} ${about}`);
  const processes = rates.map((rate) => grouped(processesAt[rate]));
  const loads = (mixAt: (rate: Rate) => Mix): string =>
    table(
      rates.map((rate) => ({ rate, ...loadOf(costs, mixAt(rate)) })),
      {
        "Operations/s": ({ rate }) => grouped(rate),
        "Commands/s": ({ commands }) => short(commands),
        "on a Cluster": ({ commandsOnCluster }) => short(commandsOnCluster),
        "CPU of one core": ({ cpuMicros }) => `${short(cpuMicros / 1e4)} %`,
        "In, a second": ({ bytesIn }) => bytes(bytesIn),
        "Out, a second": ({ bytesOut }) => bytes(bytesOut),
        Masters: ({ cpuMicros }) => String(Math.max(1, Math.ceil(cpuMicros / 1e6 / fullAt))),
      },
    );
  const inMemory = rates.map((rate) => [
    `${grouped(rate)}/s`,
    ([, object, part, seconds]: (typeof kept)[number]) =>
      bytes(((rate * shop[part][0]) / 100) * seconds * costNamed(stored, object).bytes),
  ]);
  return {
    conditions: `Measured on ${date.slice(0, 10)}: ${redis.replace(/^./, (first) => first.toUpperCase())}, Node ${node.slice(1)}, ${machine}, one machine for all.`,
    operations: table(
      operations.filter(({ commands }) => commands > 0),
      {
        Operation: named,
        Commands: ({ commands }) => short(commands),
        "on a Cluster": ({ commandsOnCluster }) => (commandsOnCluster === undefined ? "" : short(commandsOnCluster)),
        "Inside scripts": ({ innerCommands }) => short(Math.max(0, innerCommands)),
        "Bytes in": ({ bytesIn }) => short(bytesIn),
        "Bytes out": ({ bytesOut }) => short(bytesOut),
        "CPU, µs": ({ cpuMicros }) => short(cpuMicros),
      },
    ),
    stored: table(stored, {
      Object: named,
      Bytes: (one) => short(one.bytes),
      Keys: ({ keys }) => short(Number(keys.toFixed(2))),
    }),
    idle: table(
      idle.filter(({ commandsPerHour }) => commandsPerHour > 0),
      {
        "Left alone": named,
        "Commands an hour": ({ commandsPerHour }) => short(commandsPerHour),
        "on a Cluster": ({ commandsPerHourOnCluster }) => short(commandsPerHourOnCluster),
        [`A month at ${assumedPrice.toFixed(2)}`]: ({ commandsPerHour }) => monthly(commandsPerHour / 3_600).toFixed(2),
      },
    ),
    mix: `Of a hundred operations: ${listed(parts)}. ${listed(processes)} processes share the work. Each flushes 64 series four times a second.`,
    memory: table(kept, { "In memory": ([what]) => what, ...Object.fromEntries(inMemory) }),
    ...Object.fromEntries(Object.entries(examples).map(([name, mixAt]) => [name, loads(mixAt)])),
  };
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
  const left = new Map(Object.entries({ ...tablesOf(costs), ...sentencesOf(costs) }));
  const text = page.replaceAll(part, (_, name: string) => {
    const made = left.get(name);
    if (made === undefined) throw new RangeError(`No table is named "${name}"`);
    left.delete(name);
    return `<!-- costs: ${name} -->\n\n${made}\n\n<!-- end -->`;
  });
  if (left.size > 0) throw new RangeError(`The page has no part for ${[...left.keys()].join(", ")}`);
  const prettier = createRequire(join(root, "package.json"))("prettier") as Prettier;
  const style = await prettier.resolveConfig(pageFile);
  return await prettier.format(text, { ...style, parser: "markdown" });
};
