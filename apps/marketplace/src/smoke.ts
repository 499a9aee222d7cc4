// The summary of a smoke run, and its verdict.
import type { PackageCheck } from "./package-checks.js";
import type { RaceResult } from "./race/race.js";
import type { Recount } from "./race/recount.js";
import type { VisitorsReport } from "./visitors.js";

interface SetupTimes {
  readonly redisMs: number;
  readonly seededMs: number;
  readonly readyMs: number;
}

const rounded = (value: number): number => Math.round(value * 10) / 10;

const spread = (values: readonly number[]): { count: number; p50: number; p95: number; max: number } => {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number =>
    rounded(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), max: at(1) };
};

const mapped = <A, B>(record: Readonly<Record<string, A>>, change: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));

const moneyAndItemsHold = ({ money, openingMoney, itemsLost, itemsTwice, inDebt, disagreements }: Recount): boolean =>
  money === openingMoney && itemsLost === 0 && itemsTwice === 0 && inDebt === 0 && disagreements.length === 0;

/** The required result of each race. `SETNX` is only reported. */
const raceIsRight = ({ way, answered, buyers, sold, recount }: RaceResult): boolean => {
  if (answered !== buyers.length) return false;
  if (way === "none") return sold > 1;
  if (way === "setnx") return true;
  return sold === 1 && recount.owned === 1 && recount.sales === 1 && moneyAndItemsHold(recount);
};

export const smokeSummary = (
  visitors: VisitorsReport,
  recount: Recount,
  packages: readonly PackageCheck[],
  setup: SetupTimes,
): { summary: object; ok: boolean } => {
  const { latencies, outcomes, races, complaints, cspReports, invariantsBefore, invariantsAfter } = visitors;
  const soldByVisitors = (outcomes["lock"]?.["sold"] ?? 0) + (outcomes["optimistic"]?.["sold"] ?? 0);
  const failures = [
    ...complaints,
    ...races.filter((race) => !raceIsRight(race)).map(({ way, sold }) => `race ${way}: sold ${sold}`),
    ...(moneyAndItemsHold(recount) ? [] : ["the shop: money or items do not add up"]),
    ...(recount.sales === soldByVisitors
      ? []
      : [`the shop: ${soldByVisitors} confirmed, ${recount.sales} in the ledger`]),
    ...(outcomes["lock"]?.["sold"] ? [] : ["no visitor bought with the lock"]),
    ...(outcomes["optimistic"]?.["sold"] ? [] : ["no visitor bought optimistically"]),
    ...packages.filter((check) => !check.ok).map((check) => `@kit/${check.package}: ${check.what}`),
    ...(cspReports === 0 ? [] : [`${cspReports} content security policy reports`]),
  ];
  const ok = failures.length === 0;
  const summary = {
    ok,
    failures,
    packages: Object.fromEntries(packages.map(({ package: name, ...check }) => [name, check])),
    sold: soldByVisitors,
    visitors: outcomes,
    races: Object.fromEntries(
      races.map(({ way, answered, sold, refused, recount: found, rounds, raceMs, setupMs }) => [
        way,
        {
          answered,
          sold,
          recounted: found.owned,
          refused,
          rounds,
          invariants: {
            money: found.money === found.openingMoney,
            itemsTwice: found.itemsTwice,
            itemsLost: found.itemsLost,
            inDebt: found.inDebt,
          },
          setupMs: rounded(setupMs),
          raceMs: rounded(raceMs),
        },
      ]),
    ),
    invariants: {
      money: recount.money,
      openingMoney: recount.openingMoney,
      items: recount.items,
      itemsLost: recount.itemsLost,
      itemsTwice: recount.itemsTwice,
      inDebt: recount.inDebt,
      ledger: recount.sales,
      disagreements: recount.disagreements,
      before: invariantsBefore,
      after: invariantsAfter,
    },
    latenciesMs: mapped(latencies, spread),
    setupMs: mapped({ ...setup }, rounded),
  };
  return { summary, ok };
};
