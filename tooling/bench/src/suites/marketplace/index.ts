import { now } from "@tooling/lab";
import { marketImplementation, type Way } from "./implementations.js";
import type { Team } from "../../lab.js";
import { percentile } from "../../statistics.js";
import type { Case, Goal, Measurement, Suite } from "../../suite.js";
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
  await team.workers[0]?.ask("open", { market, buyers, items: buyers * turns } satisfies OpenTask);
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

const marketCase = (way: Way, peers: readonly string[], goal?: Goal): Case => {
  const about =
    "50 buyers in 4 processes, at any moment on 50 items, each on another; each buys 10 one after the other";
  return {
    entries: [
      { name: way, unit: "sales/s", better: "higher", about, ...(goal ? { goal } : {}) },
      {
        name: `${way} retries per sale`,
        unit: "tries beyond the first",
        better: "lower",
        about: `${about}; an aborted transaction, or a try for a held lock`,
      },
      { name: `${way} wait p99`, unit: "ms", better: "lower", about: `${about}; from the call to the sale` },
    ],
    implementations: [`kit ${way}`, ...peers].map(marketImplementation),
    rounds: Infinity,
    processes: 4,
    setup: undefined,
    warmUp: async (team) => {
      await rush(team, 1);
    },
    measure: {
      alone: async (team, _lab, scale): Promise<Measurement> => {
        const { ms, waits, retries } = await rush(team, Math.ceil(usualTurns * scale));
        const sales = waits.length;
        const values = {
          [way]: (sales / ms) * 1_000,
          [`${way} retries per sale`]: retries / sales,
          [`${way} wait p99`]: percentile(waits, 0.99),
        };
        return { values, operations: sales };
      },
    },
  };
};

export const suite: Suite = {
  package: "marketplace",
  cases: [
    marketCase("WATCH", ["classic WATCH"]),
    marketCase("market lock", ["classic market lock"]),
    marketCase("item lock", ["classic item lock", "classic market lock"], {
      text: "≥ 5 × the classic market lock",
      checks: [{ than: "classic market lock", atLeast: 5 }],
    }),
  ],
};
