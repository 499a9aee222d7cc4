import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { Page } from "./page.js";

interface Figure {
  readonly median?: number;
  readonly error?: string;
}

interface Case {
  readonly case: string;
  readonly unit: string;
  readonly better: "higher" | "lower";
  readonly kit: Figure;
  readonly peers: Readonly<Record<string, Figure>>;
}

const peers = ["redlock@4.2.0", "redlock@5.0.0-beta.2", "redis-semaphore@5.8.0"];

/** The cases of the bench, each with its name on the page. */
const rows: readonly (readonly [name: string, label: string])[] = [
  ["uncontended c=1", "acquire and release, 1 caller"],
  ["uncontended c=64", "acquire and release, 64 callers"],
  ["contended 16x4 hold=5ms gap p50", "gap between two holders, 64 callers, p50"],
  ["contended 16x4 hold=5ms gap p99", "the same, p99"],
  ["contended 16x4 hold=5ms wait p50", "waiting, 64 callers that hold for 5 ms, p50"],
  ["contended 16x4 hold=5ms wait p99", "the same, p99"],
  ["fairness 64 loops", "sections of the luckiest to the unluckiest caller"],
  ["burst 50 hold=1ms makespan", "50 at once that hold for 1 ms, until the last is done"],
  ["contended commands per hand-off 200 waiters", "one hand-off, 200 wait"],
  ["1000 idle waiters 10s commands", "1,000 wait, nothing happens"],
  ["1000 held leases renewal commands", "renewing 1,000 leases, a lease length"],
  ["holder SIGKILL → next running p99", "a killed holder, from its lease's end to the next, p99"],
  ["loss detection silent server ttl=1s", "the server is silent: holder told (must be < 1,000)"],
];

const { cases } = JSON.parse(readFileSync(new URL("../bench/lock.json", import.meta.url), "utf8")) as {
  cases: readonly Case[];
};

const rounded = (value: number): string =>
  (value < 100 ? Number(value.toPrecision(2)) : Math.round(value)).toLocaleString("en");

const cellsOf = ({ better, kit, peers: measured }: Case): string[] => {
  const all = [kit, ...peers.map((peer) => measured[peer] ?? {})];
  const values = all.map(({ median }) => median).filter((value) => value !== undefined);
  const best = better === "higher" ? Math.max(...values) : Math.min(...values);
  return all.map(({ median, error = "" }, index) => {
    if (median === undefined) return error.includes("6000 ms") ? "not in 6 s" : "no renewal";
    const text = median === best ? `**${rounded(median)}**` : rounded(median);
    const asItComes = measured[`${peers[index - 1] ?? ""} defaults`]?.median;
    return asItComes === undefined || asItComes === median ? text : `${text} (${rounded(asItComes)})`;
  });
};

it("shows the figures of lock.json", () => {
  const lines = rows.map(([name, label]) => {
    const found = cases.find((one) => one.case === name);
    if (!found) throw new Error(`The bench has no case "${name}"`);
    return [label, found.unit, ...cellsOf(found)];
  });
  const table = [["Case", "Unit", "@kit/lock", "redlock 4", "redlock 5", "redis-semaphore"], ...lines];
  expect(new Page("../comparisons/locks.md").figures("lock", table)).toEqual(table);
});
