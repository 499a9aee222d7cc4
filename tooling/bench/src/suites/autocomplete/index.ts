import { now } from "@tooling/lab";
import type { Lab, Worker } from "../../lab.js";
import type { RunResult } from "../../operation.js";
import { rateCase } from "../../rates.js";
import { percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Entry, type Suite } from "../../suite.js";
import { type AutocompleteSetup, implementations } from "./implementations.js";
import type { NamesTask, SearchTask, TypeTask } from "./jobs.js";

/** The commands with which an implementation could write. */
const writing = /^cmdstat_(?:z(?:add|rem)\S*|h(?:set|del)\S*|s(?:add|rem)|p?expire|persist|unlink|del):calls=(\d+)/gm;

const writes = async ({ server }: Lab): Promise<number> =>
  [...String(await server.call("INFO", "commandstats")).matchAll(writing)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  );

const searchCase = (
  entry: Omit<Entry, "unit">,
  ids: readonly string[],
  setup: AutocompleteSetup,
  { processes, ...task }: SearchTask & { readonly processes: number },
): Case =>
  rateCase(
    { ...entry, unit: "suggestions/s" },
    { ...implementations.pick(ids, setup), processes, task, prepare: (team) => team.ask("load", task) },
  );

/** A second entry, `name: writes`: the writes per suggestion. */
const withWrites = (one: Case): Case => {
  const [entry] = one.entries;
  if (!entry || "together" in one) throw new Error("not a case of searches");
  const writesEntry: Entry = {
    name: `${entry.name}: writes`,
    unit: "writes per suggestion",
    about: "commands that write, those inside scripts too",
    goal: atMost(0, "max"),
  };
  return {
    ...one,
    entries: [entry, writesEntry],
    measure: async (team, lab, scale) => {
      const before = await writes(lab);
      const measurement = await one.measure(team, lab, scale);
      const perSuggestion = ((await writes(lab)) - before) / (measurement.operations ?? NaN);
      return { ...measurement, values: [...measurement.values, perSuggestion] };
    },
  };
};

const members: NamesTask = { names: 10_000, words: 1 };
const products: NamesTask = { names: 20_000, words: 2 };
const alphabetical: AutocompleteSetup = { order: "alphabetical", match: "phrase" };
const weighted: AutocompleteSetup = { order: "weight", match: "phrase" };

const keystrokes: Case = {
  entries: [
    {
      name: "six keystrokes",
      unit: "round trips",
      about: "the first six characters of one of 20,000 names, typed one after the other; mean over 200 search boxes",
      goal: atMost(3, "max"),
    },
  ],
  ...implementations.pick(["kit", "ZRANGEBYLEX and HMGET", "raw ZRANGEBYLEX"], alphabetical),
  rounds: 1,
  measure: async (team) => {
    await team.ask("load", products);
    const task: TypeTask = { ...products, boxes: 200, keystrokes: 6 };
    const each = await team.ask<readonly number[]>("type", task);
    const mean = each.reduce((sum, sent) => sum + sent, 0) / each.length;
    return { values: [mean], details: { most: Math.max(...each) } };
  },
};

const memoryCase = (name: string, about: string, match: AutocompleteSetup["match"], words: number): Case => ({
  entries: [
    {
      name,
      unit: "bytes per name",
      about: `20,000 names with weights, ${about}; used_memory of the server`,
      goal: atLeast({ "full prefix expansion": 2 }),
    },
  ],
  ...implementations.pick(["kit", "full prefix expansion", "expansion of single words"], { order: "weight", match }),
  rounds: 1,
  measure: async (team, lab) => {
    const before = await lab.usedBytes();
    await team.ask("load", { names: 20_000, words } satisfies NamesTask);
    return { values: [((await lab.usedBytes()) - before) / 20_000] };
  },
});

const oneCaller: SearchTask = { ...products, callers: 1, shortest: 1, longest: 6 };

/** The 99th percentile of the milliseconds of a suggestion. */
const p99 = async (reader: Worker, ms: number, own: Partial<SearchTask> = {}): Promise<number> => {
  const { waits } = await reader.ask<RunResult>("run", { task: { ...oneCaller, ...own }, ms });
  return percentile([...waits], 0.99);
};

const loading: Case = {
  entries: [
    {
      name: "suggest p99 while loading",
      unit: "× idle",
      about: "p99 of one caller of 20,000 names by weight during a rebuild, divided by that before it",
      goal: atMost(5),
    },
    {
      name: "load",
      unit: "names/s",
      about: "a rebuild of names of two words by weight, while a caller searches",
    },
  ],
  ...implementations.pick(["kit"], { order: "weight", match: "word-start" }),
  rounds: 3,
  processes: 2,
  measure: async (team, _lab, scale) => {
    const [reader, writer] = [team.worker(0), team.worker(1)];
    await writer.ask("load", products);
    await p99(reader, 500 * scale);
    const idle = await p99(reader, 3_000 * scale);
    // Enough names for the rebuild to outlast the search.
    const rebuilt = writer.ask<number>("rebuild", { ...products, names: Math.ceil(60_000 * scale) });
    const busy = await p99(reader, 3_000 * scale);
    return { values: [busy / idle, await rebuilt], details: { idle, busy } };
  },
};

const million: NamesTask = { names: 1_000_000, words: 2 };
const oneMillion: Case = {
  entries: [
    {
      name: "one million names: load",
      unit: "names/s",
      about: "putMany of a million names of two words, phrases by weight, into an empty index",
    },
    { name: "one million names: memory", unit: "bytes per name", about: "used_memory of the server" },
    {
      name: "one million names: suggest p99",
      unit: "ms",
      about: "10 by their first 1 to 6 characters, one caller",
    },
    {
      name: "one million names: one character p99",
      unit: "ms",
      about: "10 by their first character, one caller",
    },
    {
      name: "one million names: suggest p99 while loading",
      unit: "× idle",
      about: "the p99 above while 50,000 names are put again, divided by that before",
      goal: atMost(5),
    },
  ],
  ...implementations.pick(["kit"], weighted),
  rounds: 1,
  processes: 2,
  measure: async (team, lab, scale) => {
    const [reader, writer] = [team.worker(0), team.worker(1)];
    const before = await lab.usedBytes();
    const startedAt = now();
    // In parts, since the parent waits at most two minutes for a reply.
    for (let from = 0; from < million.names; from += 100_000)
      await writer.ask("load", { ...million, from, names: from + 100_000 } satisfies NamesTask);
    const load = (million.names * 1_000) / (now() - startedAt);
    const memory = ((await lab.usedBytes()) - before) / million.names;
    // The first names are the same for every number of names.
    await p99(reader, 500 * scale);
    const idle = await p99(reader, 3_000 * scale);
    const shortest = await p99(reader, 3_000 * scale, { longest: 1 });
    const loaded = writer.ask("load", { ...million, names: 50_000 } satisfies NamesTask);
    const busy = await p99(reader, 3_000 * scale);
    await loaded;
    return { values: [load, memory, idle, shortest, busy / idle], details: { idle, busy } };
  },
};

export const suite: Suite = {
  package: "autocomplete",
  cases: [
    searchCase(
      {
        name: "suggest 1 caller",
        about: "10 of 10,000 names of one word, by their first 1 to 6 characters, one after the other",
        goal: atLeast({ classic: 4 }),
      },
      ["kit", "classic", "raw ZRANGEBYLEX"],
      alphabetical,
      { ...members, processes: 1, callers: 1, shortest: 1, longest: 6 },
    ),
    withWrites(
      searchCase(
        {
          name: "suggest 8 callers one index",
          about: "the same by 4 callers in each of 2 processes",
          goal: atLeast({ classic: 25 }),
        },
        ["kit", "classic", "raw ZRANGEBYLEX"],
        alphabetical,
        { ...members, processes: 2, callers: 4, shortest: 1, longest: 6 },
      ),
    ),
    searchCase(
      {
        name: "unranked",
        about: "10 of 20,000 names of two words in alphabetical order, by their first 1 to 6 characters, by 8 callers",
        goal: atLeast({ floor: 0.8 }),
      },
      ["kit", "ZRANGEBYLEX and HMGET", "ZRANGEBYLEX of records", "raw ZRANGEBYLEX"],
      alphabetical,
      { ...products, processes: 1, callers: 8, shortest: 1, longest: 6 },
    ),
    searchCase(
      {
        name: "ranked prefix<=3",
        about: "10 of 20,000 names of two words by weight, by their first 1 to 3 characters, by 8 callers",
        goal: atLeast({ floor: 0.6 }),
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
