// A control: an index that replies to a repeated query with its earlier result.
import { createPrefixIndex as createTrueIndex } from "@kit/autocomplete";
import { lying } from "../../lab/lies.mjs";

export const createPrefixIndex = (...args) => {
  const index = createTrueIndex(...args);
  const before = new Map();
  return lying(index, {
    suggest: async (query, options) => {
      const answer = await index.suggest(query, options);
      const shown = before.get(query) ?? answer;
      before.set(query, answer);
      return shown;
    },
  });
};
