// The tables of the page "At scale", as Markdown.
import { type Costs, fullName } from "./costs.js";
import { type Example, examples, processesAt, type Rate, rates, shop, shopOperations } from "./examples.js";
import { type Load, loadOf } from "./load.js";

/** A server is full at half a core: the other half is for peaks, snapshots and a failover. */
const fullAt = 0.5;
const hoursPerMonth = 720;
/** Of the example in the page, which says so. */
const assumedPrice = 0.2;
const pricedCommands = 100_000;

/** Three digits, and thousands grouped. */
const short = (value: number): string => {
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  const rounded = value >= 1_000 ? Math.round(value / unit) * unit : value;
  return rounded.toLocaleString("en-US", { maximumFractionDigits: Math.min(4, digits) });
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

/** The first cell names the object, and what is measured. */
const named = ({ name, about }: { readonly name: string; readonly about: string }): string =>
  about === "" ? `**${name}**` : `**${name}**: ${about}`;

/** The page says in a sentence what sends nothing. */
const sends = ({ commands }: { readonly commands: number }): boolean => commands > 0;

const operationsTable = ({ operations }: Costs): string =>
  table(
    ["Operation", "Commands", "on a Cluster", "Inside scripts", "Bytes in", "Bytes out", "CPU, µs"],
    operations
      .filter(sends)
      .map((one) => [
        `${one.package}: ${named(one)}`,
        short(one.commands),
        one.commandsOnCluster === undefined ? "" : short(one.commandsOnCluster),
        short(Math.max(0, one.innerCommands)),
        short(one.bytesIn),
        short(one.bytesOut),
        short(one.cpuMicros),
      ]),
  );

const storedTable = ({ stored }: Costs): string =>
  table(
    ["Object", "Bytes", "Keys"],
    stored.map((one) => [`${one.package}: ${named(one)}`, short(one.bytes), short(Number(one.keys.toFixed(2)))]),
  );

const idleTable = ({ idle }: Costs): string =>
  table(
    ["Left alone", "Commands an hour", "on a Cluster", `A month at ${assumedPrice.toFixed(2)}`],
    idle
      .filter((one) => sends({ commands: one.commandsPerHour }))
      .map((one) => [
        `${one.package}: ${named(one)}`,
        short(one.commandsPerHour),
        short(one.commandsPerHourOnCluster),
        ((one.commandsPerHour * hoursPerMonth * assumedPrice) / pricedCommands).toFixed(2),
      ]),
  );

const serversFor = ({ cpuMicros }: Load): number => Math.max(1, Math.ceil(cpuMicros / 1e6 / fullAt));

const loadRow = (costs: Costs, { mixAt }: Example, rate: Rate): readonly string[] => {
  const load = loadOf(costs, mixAt(rate));
  return [
    rate.toLocaleString("en-US"),
    short(load.commands),
    short(load.commandsOnCluster),
    `${short(load.cpuMicros / 1e4)} %`,
    `${bytes(load.bytesIn)}`,
    `${bytes(load.bytesOut)}`,
    String(serversFor(load)),
  ];
};

const loadTable = (costs: Costs, example: Example): string =>
  table(
    ["Operations/s", "Commands/s", "on a Cluster", "CPU of one core", "In, a second", "Out, a second", "Masters"],
    rates.map((rate) => loadRow(costs, example, rate)),
  );

/** The data that the shop keeps, and for how long, in seconds. */
const kept: readonly (readonly [what: string, object: string, part: keyof typeof shop, seconds: number])[] = [
  ["jobs of a minute without workers", "queue: a waiting job", "jobs", 60],
  ["messages of an hour, unread", "chat: a message", "messages", 3_600],
  ["lock names used once: `keepMs` of a minute", "lock: a name that was released", "locks", 60],
  ["the same by default: a week", "lock: a name that was released", "locks", 604_800],
];

const memoryTable = ({ stored }: Costs): string => {
  const bytesOf = (object: string): number => {
    const found = stored.find((one) => fullName(one) === object);
    if (!found) throw new RangeError(`No stored object is named "${object}"`);
    return found.bytes;
  };
  return table(
    ["In memory", ...rates.map((rate) => `${rate.toLocaleString("en-US")}/s`)],
    kept.map(([what, object, part, seconds]) => [
      what,
      ...rates.map((rate) => bytes(((rate * shop[part]) / 100) * seconds * bytesOf(object))),
    ]),
  );
};

/** `a, b and c` */
const listed = (parts: readonly string[]): string => `${parts.slice(0, -1).join(", ")} and ${parts.at(-1) ?? ""}`;

const mixText = (): string => {
  const parts = Object.entries(shop).map(
    ([name, share]) => `${String(share)} ${shopOperations[name as keyof typeof shop].about}`,
  );
  const processes = rates.map((rate) => processesAt[rate].toLocaleString("en-US"));
  return `Of a hundred operations: ${listed(parts)}. ${listed(processes)} processes share the work. Each flushes 64 series four times a second.`;
};

const conditions = ({ date, redis, node, machine }: Costs): string =>
  `Measured on ${date.slice(0, 10)}: ${redis.replace(/^./, (first) => first.toUpperCase())}, Node ${node.slice(1)}, ${machine}, one machine for all.`;

/** The tables, by the names between which they stand in the page. */
export const tablesOf = (costs: Costs): ReadonlyMap<string, string> =>
  new Map([
    ["conditions", conditions(costs)],
    ["operations", operationsTable(costs)],
    ["stored", storedTable(costs)],
    ["idle", idleTable(costs)],
    ["mix", mixText()],
    ["memory", memoryTable(costs)],
    ...examples.map((example): [string, string] => [example.id, loadTable(costs, example)]),
  ]);
