import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { foreignNumbers } from "../../../tooling/bootstrap/checks/figures.mjs";
import { Page } from "./page.js";

interface Figure {
  readonly median?: number;
  readonly error?: string;
}

interface Case {
  readonly case: string;
  readonly about: string;
  readonly unit: string;
  readonly better: "higher" | "lower";
  readonly kit: Figure;
  readonly peers: Readonly<Record<string, Figure>>;
  readonly floor: Figure | null;
}

/** A table of figures on a page of comparisons. */
interface Table {
  readonly page: string;
  /** The name of the table, and the columns: a peer of the bench, or its floor, and the label on the page. */
  readonly name: string;
  readonly figures: string;
  readonly columns: readonly (readonly [peer: string, label: string])[];
  /** The text of a cell where a peer has no figure in a case. */
  readonly none?: string;
  /** The cases of the bench, each with its name on the page. */
  readonly rows: readonly (readonly [name: string, label: string])[];
}

/** Pairs of acquire and release at even rates. */
const steadyRows = ["10", "100", "1,000"].flatMap((rate): (readonly [string, string])[] => [
  [`steady ${rate}/s: server`, `${rate} pairs a second: server time of a pair`],
  [`steady ${rate}/s: p50`, "the same: acquire and release, p50"],
  [`steady ${rate}/s: p99`, "the same, p99"],
  [`steady ${rate}/s: client`, "the same: time of the client's process"],
]);

/** Hits of one counter at even rates. */
const steadyHits = ["10", "100", "1,000"].flatMap((rate): (readonly [string, string])[] => [
  [`steady ${rate}/s: server`, `${rate} hits a second: server time of a hit`],
  [`steady ${rate}/s: p50`, "the same: a hit, p50"],
]);

const locks: Table["columns"] = [
  ["kit", "@kit/lock"],
  ["redlock@4.2.0", "redlock 4"],
  ["redlock@5.0.0-beta.2", "redlock 5"],
  ["redis-semaphore@5.8.0", "redis-semaphore"],
  ["redlock-universal@0.8.5", "redlock-universal"],
];

const tables: readonly Table[] = [
  {
    page: "locks.md",
    name: "lock",
    figures: "lock",
    columns: locks,
    none: "no renewal",
    rows: [
      ["uncontended c=1", "acquire and release, 1 caller"],
      ["uncontended c=64", "acquire and release, 64 callers"],
      ["contended 16x4 hold=5ms gap p50", "gap between two holders, 16 callers, p50"],
      ["contended 16x4 hold=5ms gap p99", "the same, p99"],
      ["contended 16x4 hold=5ms wait p50", "wait, 16 callers that hold for 5 ms, p50"],
      ["contended 16x4 hold=5ms wait p99", "the same, p99"],
      ["fairness 64 loops", "most to fewest acquisitions of one caller"],
      ["burst 50 hold=1ms makespan", "50 callers at the same time, 1 ms each: until the last is done"],
      ["contended commands per hand-off 200 waiters", "one hand-off, 200 callers wait"],
      ["1000 idle waiters 10s commands", "1,000 callers wait for 10 s, no hand-off"],
      ["1000 held leases renewal commands", "renewing 1,000 leases, for one lease length"],
      ["holder SIGKILL → next running p99", "killed holder: from the end of its lease to the next, p99"],
      ["loss detection silent server ttl=1s", "silent server: holder is told after (must be < 1,000)"],
    ],
  },
  {
    page: "locks.md",
    name: "steady",
    figures: "lock",
    columns: [...locks, ["floor", "bare commands"]],
    rows: steadyRows,
  },
  {
    page: "queues.md",
    name: "queue",
    figures: "queue",
    columns: [
      ["kit", "@kit/queue"],
      ["bullmq@6.7.0", "BullMQ"],
      ["bee-queue@2.0.0", "bee-queue"],
      ["groupmq@1.1.0", "groupmq"],
      ["classic", "plain lists"],
    ],
    rows: [
      ["add serial", "adding, one after another"],
      ["add 1000 concurrent", "1,000 adds in one turn of the event loop"],
      ["add bulk 1000", "1,000 adds in one call"],
      ["add 1000 concurrent at 400k prioritised backlog", "1,000 adds with priorities, 400,000 waiting"],
      ["process c=1 strict", "empty jobs, one at a time, none taken ahead"],
      ["process c=100 strict but coalesced", "empty jobs, 100 at a time, none taken ahead"],
      ["process c=100 handler 20 ms", "jobs of 20 ms, 100 at a time"],
      ["AOF everysec: process c=100", "empty jobs, 100 at a time, append-only file"],
      ["1 ms round trip: process c=100", "empty jobs, 100 at a time, 1 ms round trip"],
      ["idle latency p50", "idle worker: from the add to the start, p50"],
      ["idle latency p99", "the same, p99"],
      ["delayed lateness p50", "lateness of a delayed job, p50"],
      ["delayed lateness p99", "the same, p99"],
      ["recovery after kill -9", "a killed worker's job runs again after (defaults)"],
      ["redis µs per lifecycle c=100", "server time for one job, with a backlog"],
      ["commands per job c=100", "commands to process a job, including those in scripts"],
      ["bytes per waiting job", "memory of a waiting job of 200 bytes"],
      ["idle worker commands per minute", "commands of an idle worker in a minute"],
    ],
  },
  {
    page: "queues.md",
    name: "steady",
    figures: "steady",
    columns: [
      ["kit", "@kit/queue"],
      ["bullmq@6.7.0", "BullMQ"],
      ["bee-queue@2.0.0", "bee-queue"],
      ["groupmq@1.1.0", "groupmq"],
      ["floor", "bare commands"],
    ],
    rows: [
      ["steady 10/s: server", "10 jobs a second: server time of a job"],
      ["steady 10/s: start p50", "the same: from the add to the start, p50"],
      ["steady 10/s: start p99", "the same, p99"],
      ["steady 10/s: client", "the same: time of producer and worker"],
      ["steady 100/s: server", "100 jobs a second: server time of a job"],
      ["steady 100/s: start p50", "the same: from the add to the start, p50"],
      ["steady 100/s: start p99", "the same, p99"],
      ["steady 100/s: client", "the same: time of producer and worker"],
      ["steady 1,000/s: server", "1,000 jobs a second: server time of a job"],
      ["steady 1,000/s: start p50", "the same: from the add to the start, p50"],
      ["steady 1,000/s: start p99", "the same, p99"],
      ["steady 1,000/s: client", "the same: time of producer and worker"],
      ["steady 4,000/s: server", "4,000 jobs a second: server time of a job"],
      ["steady 4,000/s: start p50", "the same: from the add to the start, p50"],
      ["steady 4,000/s: start p99", "the same, p99"],
      ["steady 4,000/s: client", "the same: time of producer and worker"],
    ],
  },
  {
    page: "queues.md",
    name: "groups",
    figures: "groups",
    columns: [
      ["kit", "@kit/queue"],
      ["groupmq@1.1.0", "groupmq"],
    ],
    rows: [
      ["200 groups: process", "empty jobs of 200 groups, 100 at a time"],
      ["200 groups: server", "the same: server time of a job"],
      ["200 groups: bytes", "the same: memory of a waiting job of 200 bytes"],
      ["a group for each job: process", "a group for each job, 100 at a time"],
      ["a group for each job: server", "the same: server time of a job"],
      ["a group for each job: bytes", "the same: memory of a waiting job of 200 bytes"],
      ["no groups: server", "no groups: server time of a job"],
      ["no groups: bytes", "the same: memory of a waiting job of 200 bytes"],
    ],
  },
  {
    page: "queues.md",
    name: "outage",
    figures: "outage",
    columns: [
      ["kit", "@kit/queue"],
      ["bullmq@6.7.0", "BullMQ 6.7"],
      ["bullmq@6.0.11", "BullMQ 6.0"],
      ["bee-queue@2.0.0", "bee-queue"],
    ],
    rows: [
      ["outage of 60 s: first job after", "server stopped for 60 s: the first job runs after"],
      ["outage of 60 s: jobs lost", "the same: jobs lost"],
      ["outage of 60 s: jobs run twice", "the same: jobs run twice"],
      ["outage by killed connections: first job after", "all connections killed ten times: the first job runs after"],
      ["outage by killed connections: jobs lost", "the same: jobs lost"],
      ["outage by killed connections: jobs run twice", "the same: jobs run twice"],
      ["outage by SIGKILL: first job after", "server killed, back after 5 s with its file: the first job runs after"],
      ["outage by SIGKILL: jobs lost", "the same: jobs lost"],
      ["outage by SIGKILL: jobs run twice", "the same: jobs run twice"],
      ["outage by failover: first job after", "master killed, a replica promoted: the first job runs after"],
      ["outage by failover: jobs lost", "the same: jobs lost"],
      ["outage by failover: jobs run twice", "the same: jobs run twice"],
    ],
  },
  {
    page: "semaphores.md",
    name: "semaphore",
    figures: "semaphore",
    columns: [
      ["kit", "@kit/semaphore"],
      ["redis-semaphore@5.8.0", "redis-semaphore"],
      ["classic race-free", "Redis in Action, under a lock"],
      ["classic fair", "Redis in Action, fair"],
    ],
    rows: [
      ["over-admission under ±1 h client clock skew", "clients' clocks one hour off: permits above the limit of 10"],
      ["limit 10, 64 callers, hold 5 ms: wait p50", "wait, p50"],
      ["limit 10, 64 callers, hold 5 ms: wait p99", "the same, p99"],
      ["fairness limit 10, 64 callers", "most to fewest permits of one caller"],
      ["throughput limit 10, 64 callers", "all permits"],
      ["uncontended c=1", "acquire and release, one caller, no waiters"],
    ],
  },
  {
    page: "semaphores.md",
    name: "steady",
    figures: "semaphore",
    columns: [
      ["kit", "@kit/semaphore"],
      ["redis-semaphore@5.8.0", "redis-semaphore"],
      ["floor", "bare commands"],
    ],
    rows: steadyRows,
  },
  {
    page: "rate-limits.md",
    name: "limiter",
    figures: "limiter",
    columns: [
      ["kit", "@kit/limiter"],
      ["rate-limiter-flexible@11.4.0", "rate-limiter-flexible"],
      ["@upstash/ratelimit@2.2.0", "@upstash/ratelimit"],
      ["floor", "bare script"],
    ],
    rows: [
      ["consume c=1", "one call after the other"],
      ["consume c=64", "64 callers of one process"],
      ["refused hot key", "64 callers of a key that is refused"],
      ["refused hot key: commands", "the same: commands"],
      ["64 waiters at 100/s: p99", "64 callers wait, 100 start in a second: wait, p99"],
      ["64 waiters at 100/s: p50", "the same, p50"],
      ["64 waiters at 100/s: burst", "the same: most starts in 100 ms"],
      ["fairness 64 loops", "most to fewest starts of one caller, 4 processes"],
      ["memory", "memory of a key"],
    ],
  },
  {
    page: "stats.md",
    name: "stats",
    figures: "stats",
    columns: [
      ["kit", "@kit/stats"],
      ["prom-client@15.1.3", "prom-client, in one process"],
      ["raw HINCRBY", "plain `HINCRBY`"],
      ["classic", "Redis in Action"],
    ],
    rows: [
      ["count buffered without labels", "counting, buffered, no labels"],
      ["count buffered 1000 series", "counting, buffered, 1,000 series"],
      ["local observe+sketch", "values with quantiles, buffered"],
      ["count 7 precisions c=1", "counting at 7 precisions, one after another"],
      ["count 7 precisions c=64", "the same, 64 callers"],
      ["observe c=1", "values, one after another"],
      ["observe c=64", "the same, 64 callers"],
      ["memory 7 precisions", "memory of a counter with 7 precisions"],
      ["memory growth without a cleaner", "memory after twice the time, without a cleaner"],
    ],
  },
  {
    page: "stats.md",
    name: "steady",
    figures: "stats",
    columns: [
      ["kit", "@kit/stats"],
      ["raw HINCRBY", "plain `HINCRBY`"],
      ["classic", "Redis in Action"],
      ["floor", "total only"],
    ],
    rows: steadyHits,
  },
  {
    page: "suggestions.md",
    name: "alphabetical",
    figures: "autocomplete",
    columns: [
      ["kit", "@kit/autocomplete"],
      ["floor", "ranges of bare text"],
      ["ZRANGEBYLEX of records", "ranges of records"],
      ["ZRANGEBYLEX and HMGET", "ranges, then `HMGET`"],
      ["classic", "Redis in Action"],
    ],
    rows: [
      ["suggest 1 caller", "10 of 10,000 names, 1 caller"],
      ["suggest 8 callers one index", "the same, 8 callers"],
      ["suggest 8 callers one index: writes", "the same: writes"],
      ["unranked", "10 of 20,000 names of two words, 8 callers"],
      ["six keystrokes", "six keystrokes"],
    ],
  },
  {
    page: "suggestions.md",
    name: "by weight",
    figures: "autocomplete",
    columns: [
      ["kit", "@kit/autocomplete"],
      ["floor", "bare `ZREVRANGE`"],
      ["ZREVRANGE and HMGET in a script", "the same, and records"],
      ["full prefix expansion", "a set for each prefix"],
      ["expansion of single words", "the same, of single words"],
    ],
    rows: [
      ["ranked prefix<=3", "10 of 20,000 names of two words, 8 callers"],
      ["memory", "memory of a name of three words, found by each word"],
      ["memory of phrases", "the same, found by its first characters only"],
    ],
  },
];

const withoutFigure: readonly (readonly [error: RegExp, said: string])[] = [
  [/ 6000 ms/, "not in 6 s"],
  [/ 120000 ms/, "not in 2 minutes"],
  [/held at once/, "breaks the limit"],
];

/** Three digits, rounded against us, as the charts and all texts have it. */
const rounded = (value: number, isUp: boolean): string => {
  if (value === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  // Without the noise of binary fractions, which would be rounded up.
  const steps = Number((value / unit).toFixed(6));
  const three = (isUp ? Math.ceil(steps) : Math.floor(steps)) * unit;
  const isMillions = three >= 1_000_000;
  const shown = (isMillions ? three / 1_000_000 : three).toLocaleString("en", { maximumSignificantDigits: 3 });
  return isMillions ? `${shown} million` : shown;
};

const figureOf = ({ kit, peers, floor }: Case, peer: string): Figure =>
  (peer === "kit" ? kit : peer === "floor" ? floor : peers[peer]) ?? {};

const cellsOf = (found: Case, { columns, none = "–" }: Table): string[] => {
  const all = columns.map(([peer]) => figureOf(found, peer));
  const values = all.map(({ median }) => median).filter((value) => value !== undefined);
  const best = found.better === "higher" ? Math.max(...values) : Math.min(...values);
  return all.map(({ median, error = "" }, index) => {
    if (median === undefined) return withoutFigure.find(([pattern]) => pattern.test(error))?.[1] ?? none;
    const isUp = (found.better === "higher") === (columns[index]?.[0] !== "kit");
    // Figures that differ only beyond three digits are equal.
    const isBest = rounded(median, isUp) === rounded(best, isUp);
    const text = isBest ? `**${rounded(median, isUp)}**` : rounded(median, isUp);
    const defaults = found.peers[`${columns[index]?.[0] ?? ""} defaults`]?.median;
    return defaults === undefined || defaults === median ? text : `${text} (${rounded(defaults, isUp)})`;
  });
};

describe("the tables of figures", () => {
  it.each(tables)("$page shows those of $figures.json: $name", (table) => {
    const file = new URL(`../bench/${table.figures}.json`, import.meta.url);
    const { cases } = JSON.parse(readFileSync(file, "utf8")) as { readonly cases: readonly Case[] };
    const lines = table.rows.map(([name, label]) => {
      const found = cases.find((one) => one.case === name);
      if (!found) throw new Error(`The bench has no case "${name}"`);
      return [label, found.unit, ...cellsOf(found, table)];
    });
    for (const [name, label] of table.rows) {
      const found = cases.find((one) => one.case === name);
      expect(found && foreignNumbers(label, found), label).toEqual([]);
    }
    const shown = [["Case", "Unit", ...table.columns.map(([, label]) => label)], ...lines];
    expect(new Page(`../comparisons/${table.page}`).figures(table.name, shown)).toEqual(shown);
  });
});

describe("the versions", () => {
  const textOf = (page: string): string => readFileSync(new URL(`../comparisons/${page}`, import.meta.url), "utf8");
  const versionOf = (peer: string): string[] => /(?<=@)\d.*$/.exec(peer) ?? [];

  it.each(tables)("$page names those of its table $name", ({ page, columns }) => {
    const missing = columns.flatMap(([peer]) => versionOf(peer)).filter((version) => !textOf(page).includes(version));
    expect(missing).toEqual([]);
  });

  it("geoip.md names that of the bench", () => {
    const manifest = readFileSync(new URL("../../../tooling/bench/package.json", import.meta.url), "utf8");
    const { dependencies } = JSON.parse(manifest) as { readonly dependencies: Readonly<Record<string, string>> };
    expect(textOf("geoip.md")).toContain(`maxmind) ${dependencies["maxmind"] ?? ""}`);
  });
});
