import { made } from "../../lab/lies.mjs";

export const lies = {
  /** Replies to a repeated query with its earlier result. */
  "answers-of-before": ({ createPrefixIndex }) => ({
    createPrefixIndex: made(createPrefixIndex, (index) => {
      const before = new Map();
      const suggest = async (query, options) => {
        const answer = await index.suggest(query, options);
        const shown = before.get(query) ?? answer;
        before.set(query, answer);
        return shown;
      };
      return { suggest };
    }),
  }),
};
