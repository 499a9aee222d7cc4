// Controls: the API of stats with one lie. The query of the import's URL names the lie.
import { createStats as createTrueStats } from "@kit/stats";
import { lying } from "../../lab/lies.mjs";

const lie = new URL(import.meta.url).search.slice(1);

/** Uses the way of delivery `to` where the caller requested `from`. */
const delivering = (from, to) => (stats) => ({
  counter: (name, options) => stats.counter(name, options.delivery === from ? { ...options, delivery: to } : options),
});

const lies = {
  "sends-again": delivering("at-most-once", "at-least-once"),
  "gives-up": delivering("at-least-once", "at-most-once"),
  /** Drops of unknown outcome are not reported. */
  "drops-in-silence": (stats) => ({
    on: (event, listener) =>
      stats.on(event, event === "dropped" ? (drop) => drop.reason === "unknown" || listener(drop) : listener),
  }),
  /** The call for a refused amount resolves as if it was counted. */
  "refused-is-counted": (stats) => ({
    counter: (name, options) => {
      const counter = stats.counter(name, options);
      return lying(counter, {
        series: (labels) => {
          const one = counter.series(labels);
          return lying(one, { add: (amount, { op }) => one.add(amount, { op }).catch(() => 1e15) });
        },
      });
    },
  }),
};

export const createStats = (...args) => {
  const stats = createTrueStats(...args);
  return lying(stats, lies[lie](stats));
};
