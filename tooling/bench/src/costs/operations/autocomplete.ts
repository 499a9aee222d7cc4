import { createPrefixIndex, type PrefixIndex } from "@kit/autocomplete";
import { namesOf, queriesOf } from "../../suites/autocomplete/names.js";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import { manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";

const indexOn = async (scene: Scene, name = "sellers"): Promise<PrefixIndex> =>
  scene.own(createPrefixIndex(await scene.client(), name));

const names = 10_000;

export const operations: readonly CostedOperation[] = [
  {
    package: "autocomplete",
    name: "suggest",
    about: "ten of 10,000 names of two words",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const index = await indexOn(scene);
      const all = namesOf(names, 2);
      if (scene.index === 0) await index.putMany(all);
      const queries = queriesOf(all, 2, 5);
      return {
        run: oneByOne((at) =>
          index.suggest(queries[(at * manyCallers + scene.index) % queries.length] ?? "", { limit: 10 }),
        ),
      };
    },
  },
  {
    package: "autocomplete",
    name: "put",
    about: "a new name of two words",
    count: 1_000,
    callers: manyCallers,
    open: async (scene) => {
      const index = await indexOn(scene, "new sellers");
      const all = namesOf(names, 2);
      let next = scene.index * (names / manyCallers);
      return { run: oneByOne(() => index.put(all[next++ % names]!)) };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "autocomplete",
    name: "a name of two words",
    about: "alphabetical, no payload",
    count: names,
    store: async (scene, count) => (await indexOn(scene)).putMany(namesOf(count, 2)),
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "autocomplete",
    name: "an index without queries",
    about: "",
    open: async (scene) => (await indexOn(scene)).suggest("a"),
  },
];
