import { lying, made } from "../../lab/lies.mjs";

const some =
  (lie) =>
  ({ createStats }) => ({ createStats: made(createStats, lie) });

/** Uses the way of delivery `to` where the caller requested `from`. */
const delivering = (from, to) =>
  some((stats) => ({
    counter: (name, options) => stats.counter(name, options.delivery === from ? { ...options, delivery: to } : options),
  }));

export const lies = {
  "sends-again": delivering("at-most-once", "at-least-once"),
  "gives-up": delivering("at-least-once", "at-most-once"),
  /** Drops of unknown outcome are not reported. */
  "drops-in-silence": some((stats) => ({
    on: (event, listener) =>
      stats.on(event, event === "dropped" ? (drop) => drop.reason === "unknown" || listener(drop) : listener),
  })),
  /** The call for a refused amount resolves as if it was counted. */
  "refused-is-counted": some((stats) => ({
    counter: (name, options) => {
      const counter = stats.counter(name, options);
      const series = made(counter.series.bind(counter), (one) => ({
        add: (amount, { op }) => one.add(amount, { op }).catch(() => 1e15),
      }));
      return lying(counter, { series });
    },
  })),
};
