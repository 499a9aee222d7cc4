import { now } from "@tooling/lab";
import type { Lab, Team, Worker } from "../../lab.js";
import { percentile } from "../../statistics.js";
import type { Case, Entry, Measurement, Suite } from "../../suite.js";
import { autocompleteImplementation, type AutocompleteSetup } from "./implementations.js";
import type { NamesTask, SearchResult, SearchTask, TypeTask } from "./jobs.js";

const firstOf = ({ workers }: Team): Worker => {
  const [worker] = workers;
  if (!worker) throw new Error("no process");
  return worker;
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** The commands with which an implementation could write. */
const writing = /^cmdstat_(?:z(?:add|rem)\S*|h(?:set|del)\S*|s(?:add|rem)|p?expire|persist|unlink|del):calls=(\d+)/gm;

const writes = async ({ server }: Lab): Promise<number> =>
  sum([...String(await server.call("INFO", "commandstats")).matchAll(writing)].map(([, calls]) => Number(calls)));

const usedBytes = async ({ server }: Lab): Promise<number> =>
  Number(/^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);

/** Two entries: `name`, the suggestions per second, and `name: writes`, the writes per suggestion. */
const searchCase = (
  entry: Omit<Entry, "unit" | "better">,
  implementations: readonly string[],
  setup: AutocompleteSetup,
  { processes, ...task }: Omit<SearchTask, "ms"> & { readonly processes: number },
  countsWrites = false,
): Case => {
  const writesName = `${entry.name}: writes`;
  const search = (team: Team, ms: number): Promise<SearchResult[]> =>
    team.all<SearchResult>("search", { ...task, ms } satisfies SearchTask);
  return {
    entries: [
      { ...entry, unit: "suggestions/s", better: "higher" },
      ...(countsWrites
        ? [
            {
              name: writesName,
              unit: "writes per suggestion",
              better: "lower",
              about: "commands that write, those inside scripts too",
              goal: { text: "0 writes", checks: [{ atMost: 0, of: "max" }] },
            } as const,
          ]
        : []),
    ],
    implementations: implementations.map(autocompleteImplementation),
    rounds: Infinity,
    processes,
    setup,
    warmUp: async (team, scale) => {
      await firstOf(team).ask("load", task);
      await search(team, 800 * scale);
    },
    measure: {
      alone: async (team, lab, scale): Promise<Measurement> => {
        await firstOf(team).ask("load", task satisfies NamesTask);
        await search(team, 100 * scale);
        const before = await writes(lab);
        const results = await search(team, 900 * scale);
        const suggestions = sum(results.map((result) => result.suggestions));
        const seconds = Math.max(...results.map(({ elapsedMs }) => elapsedMs)) / 1_000;
        const values = {
          [entry.name]: suggestions / seconds,
          ...(countsWrites && { [writesName]: ((await writes(lab)) - before) / suggestions }),
        };
        const waits = results.flatMap((result) => [...result.waits]);
        const commandsPerSuggestion = sum(results.map((result) => result.sent)) / suggestions;
        // The latencies are the client's, since the server's also count the loading.
        return { values, operations: 0, details: { commandsPerSuggestion, p99Ms: percentile(waits, 0.99) } };
      },
    },
  };
};

const members: NamesTask = { names: 10_000, words: 1 };
const products: NamesTask = { names: 20_000, words: 2 };
const alphabetical: AutocompleteSetup = { order: "alphabetical", match: "phrase" };
const weighted: AutocompleteSetup = { order: "weight", match: "phrase" };

const keystrokesName = "six keystrokes";
const keystrokes: Case = {
  entries: [
    {
      name: keystrokesName,
      unit: "round trips",
      better: "lower",
      about: "the first six characters of one of 20,000 names, typed one after the other; mean over 200 search boxes",
      goal: { text: "≤ 3 round trips", checks: [{ atMost: 3, of: "max" }] },
    },
  ],
  implementations: ["kit", "ZRANGEBYLEX and HMGET", "raw ZRANGEBYLEX"].map(autocompleteImplementation),
  rounds: 1,
  processes: 1,
  setup: alphabetical,
  measure: {
    alone: async (team): Promise<Measurement> => {
      const worker = firstOf(team);
      await worker.ask("load", products);
      const each = await worker.ask<readonly number[]>("type", {
        ...products,
        boxes: 200,
        keystrokes: 6,
      } satisfies TypeTask);
      const details = { most: Math.max(...each) };
      return { values: { [keystrokesName]: sum(each) / each.length }, operations: 0, details };
    },
  },
};

const memoryCase = (name: string, about: string, match: AutocompleteSetup["match"], words: number): Case => ({
  entries: [
    {
      name,
      unit: "bytes per name",
      better: "lower",
      about: `20,000 names with weights, ${about}; used_memory of the server`,
      goal: { text: "≤ 0.5 × full prefix expansion", checks: [{ than: "full prefix expansion", atLeast: 2 }] },
    },
  ],
  implementations: ["kit", "full prefix expansion", "expansion of single words"].map(autocompleteImplementation),
  rounds: 1,
  processes: 1,
  setup: { order: "weight", match } satisfies AutocompleteSetup,
  measure: {
    alone: async (team, lab): Promise<Measurement> => {
      const before = await usedBytes(lab);
      await firstOf(team).ask("load", { names: 20_000, words } satisfies NamesTask);
      return { values: { [name]: ((await usedBytes(lab)) - before) / 20_000 }, operations: 0 };
    },
  },
});

const loadingName = "suggest p99 while loading";
const loading: Case = {
  entries: [
    {
      name: loadingName,
      unit: "× idle",
      better: "lower",
      about: "p99 of one caller of 20,000 names by weight during a rebuild, divided by that before it",
      goal: { text: "≤ 5 × idle", checks: [{ atMost: 5 }] },
    },
    {
      name: "load",
      unit: "names/s",
      better: "higher",
      about: "a rebuild of names of two words by weight, while a caller searches",
    },
  ],
  implementations: [autocompleteImplementation("kit")],
  rounds: 3,
  processes: 2,
  setup: { order: "weight", match: "word-start" } satisfies AutocompleteSetup,
  measure: {
    alone: async (team, _lab, scale): Promise<Measurement> => {
      const [reader, writer] = team.workers as readonly [Worker, Worker];
      await writer.ask("load", products);
      const task: SearchTask = { ...products, callers: 1, shortest: 1, longest: 6, ms: 3_000 * scale };
      await reader.ask("search", { ...task, ms: 500 * scale });
      const p99 = async (): Promise<number> =>
        percentile([...(await reader.ask<SearchResult>("search", task)).waits], 0.99);
      const idle = await p99();
      // Enough names for the rebuild to outlast the search.
      const rebuilt = writer.ask<number>("rebuild", { ...products, names: Math.ceil(60_000 * scale) });
      const busy = await p99();
      return { values: { [loadingName]: busy / idle, load: await rebuilt }, operations: 0, details: { idle, busy } };
    },
  },
};

const million: NamesTask = { names: 1_000_000, words: 2 };
const millionName = "one million names";
const millionEntry = (what: string, unit: string, about: string): Entry => ({
  name: `${millionName}: ${what}`,
  unit,
  better: unit === "names/s" ? "higher" : "lower",
  about,
});
const oneMillion: Case = {
  entries: [
    millionEntry("load", "names/s", "putMany of a million names of two words, phrases by weight, into an empty index"),
    millionEntry("memory", "bytes per name", "used_memory of the server"),
    millionEntry("suggest p99", "ms", "10 by their first 1 to 6 characters, one caller"),
    millionEntry("one character p99", "ms", "10 by their first character, one caller"),
    {
      ...millionEntry(
        "suggest p99 while loading",
        "× idle",
        "the p99 above while 50,000 names are put again, divided by that before",
      ),
      goal: { text: "≤ 5 × idle", checks: [{ atMost: 5 }] },
    },
  ],
  implementations: [autocompleteImplementation("kit")],
  rounds: 1,
  processes: 2,
  setup: weighted,
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const [reader, writer] = team.workers as readonly [Worker, Worker];
      const before = await usedBytes(lab);
      const startedAt = now();
      // In parts, since the parent waits at most two minutes for a reply.
      for (let from = 0; from < million.names; from += 100_000)
        await writer.ask("load", { ...million, from, names: from + 100_000 } satisfies NamesTask);
      const load = (million.names * 1_000) / (now() - startedAt);
      const memory = ((await usedBytes(lab)) - before) / million.names;
      // The first names are the same for every number of names.
      const task: SearchTask = { ...products, callers: 1, shortest: 1, longest: 6, ms: 3_000 * scale };
      const p99 = async (own: Partial<SearchTask>): Promise<number> =>
        percentile([...(await reader.ask<SearchResult>("search", { ...task, ...own })).waits], 0.99);
      await p99({ ms: 500 * scale });
      const idle = await p99({});
      const shortest = await p99({ longest: 1 });
      const loaded = writer.ask("load", { ...million, names: 50_000 } satisfies NamesTask);
      const busy = await p99({});
      await loaded;
      const figures = [load, memory, idle, shortest, busy / idle];
      const values = Object.fromEntries(oneMillion.entries.map(({ name }, at) => [name, figures[at] as number]));
      return { values, operations: 0, details: { idle, busy } };
    },
  },
};

export const suite: Suite = {
  package: "autocomplete",
  cases: [
    searchCase(
      {
        name: "suggest 1 caller",
        about: "10 of 10,000 names of one word, by their first 1 to 6 characters, one after the other",
        goal: { text: "≥ 4 × classic", checks: [{ than: "classic", atLeast: 4 }] },
      },
      ["kit", "classic", "raw ZRANGEBYLEX"],
      alphabetical,
      { ...members, processes: 1, callers: 1, shortest: 1, longest: 6 },
    ),
    searchCase(
      {
        name: "suggest 8 callers one index",
        about: "the same by 4 callers in each of 2 processes",
        goal: { text: "≥ 25 × classic with 0 writes", checks: [{ than: "classic", atLeast: 25 }] },
      },
      ["kit", "classic", "raw ZRANGEBYLEX"],
      alphabetical,
      { ...members, processes: 2, callers: 4, shortest: 1, longest: 6 },
      true,
    ),
    searchCase(
      {
        name: "unranked",
        about: "10 of 20,000 names of two words in alphabetical order, by their first 1 to 6 characters, by 8 callers",
        goal: { text: "≥ 0.8 × raw ZRANGEBYLEX LIMIT", checks: [{ than: "floor", atLeast: 0.8 }] },
      },
      ["kit", "ZRANGEBYLEX and HMGET", "ZRANGEBYLEX of records", "raw ZRANGEBYLEX"],
      alphabetical,
      { ...products, processes: 1, callers: 8, shortest: 1, longest: 6 },
    ),
    searchCase(
      {
        name: "ranked prefix<=3",
        about: "10 of 20,000 names of two words by weight, by their first 1 to 3 characters, by 8 callers",
        goal: { text: "≥ 0.6 × raw ZREVRANGE", checks: [{ than: "floor", atLeast: 0.6 }] },
      },
      ["kit", "full prefix expansion", "ZREVRANGE and HMGET in a script", "raw ZREVRANGE"],
      weighted,
      { ...products, processes: 1, callers: 8, shortest: 1, longest: 3 },
    ),
    keystrokes,
    memoryCase("memory", "three words, found by each", "word-start", 3),
    memoryCase("memory of phrases", "three words, found by their beginning", "phrase", 3),
    loading,
    oneMillion,
  ],
};
