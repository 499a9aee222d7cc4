// The ways to sell under contention, for `npm run bench -- marketplace`.
import { atLeast, type Case, type Check, percentile, type Suite, type Team } from "@tooling/bench";
import { now } from "@tooling/lab";
import { implementations, type Way } from "./implementations.js";
import type { BuyResult, BuyTask, OpenTask } from "./jobs.js";

const buyers = 50;
/** Items that each buyer buys, one after the other. No two buyers want the same item at the same moment. */
const usualTurns = 10;
const headStartMs = 40;

let markets = 0;

interface Rush {
  readonly ms: number;
  readonly waits: readonly number[];
  readonly retries: number;
}

/** 50 buyers of a new market begin at the same instant. */
const rush = async (team: Team, turns: number): Promise<Rush> => {
  const market = `rush-${String(++markets)}`;
  await team.ask("open", { market, buyers, items: buyers * turns } satisfies OpenTask);
  const startAt = now() + headStartMs;
  const processes = team.workers.length;
  const task = (index: number): BuyTask => ({
    market,
    buyers: Array.from({ length: buyers }, (_, buyer) => buyer).filter((buyer) => buyer % processes === index),
    ofBuyers: buyers,
    turns,
    startAt,
  });
  const results = await team.all<BuyResult>("buy", task);
  return {
    ms: Math.max(...results.map(({ doneAt }) => doneAt)) - startAt,
    waits: results.flatMap(({ waits }) => waits),
    retries: results.reduce((sum, { retries }) => sum + retries, 0),
  };
};

const about = "50 buyers in 4 processes, at any moment on 50 items, each on another; each buys 10 one after the other";

const marketCase = (way: Way, peers: readonly string[], goal?: readonly Check[]): Case => ({
  entries: [
    { name: way, unit: "sales/s", about, goal },
    {
      name: `${way} retries per sale`,
      unit: "tries beyond the first",
      about: `${about}; an aborted transaction, or a try for a held lock`,
    },
    { name: `${way} wait p99`, unit: "ms", about: `${about}; from the call to the sale` },
  ],
  ...implementations.pick([`kit ${way}`, ...peers]),
  processes: 4,
  warmUp: (team) => rush(team, 1),
  measure: async (team, _lab, scale) => {
    const { ms, waits, retries } = await rush(team, Math.ceil(usualTurns * scale));
    const sales = waits.length;
    return { values: [(sales / ms) * 1_000, retries / sales, percentile(waits, 0.99)], operations: sales };
  },
});

export const suite: Suite = {
  needsIoredis: true,
  package: "marketplace",
  cases: [
    marketCase("WATCH", ["classic WATCH"]),
    marketCase("market lock", ["classic market lock"]),
    marketCase("item lock", ["classic item lock", "classic market lock"], atLeast({ "classic market lock": 5 })),
  ],
};
