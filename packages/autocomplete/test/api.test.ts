import { createRequire } from "node:module";
import { expect, it } from "vitest";
import * as built from "@kit/autocomplete";
import * as builtFold from "@kit/autocomplete/fold";
import * as source from "../src/index.js";

const surface = [
  "DamagedIndexError",
  "InvalidEntryError",
  "RebuildLostError",
  "createContactBook",
  "createPrefixIndex",
  "fold",
  "foldVersion",
];

it("exports these names and no others, to import and to require", () => {
  const required = createRequire(import.meta.url)("@kit/autocomplete") as object;
  for (const one of [source, built, required]) expect(Object.keys(one).sort()).toEqual(surface);
  expect(Object.keys(builtFold).sort()).toEqual(["fold", "foldPrefix", "foldVersion"]);
});
