import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { CampaignReport } from "./campaign.js";

/** The latest kept run of each package, from which `npm run reference` makes the page of faults. */
const file = new URL("../../../apps/docs/faults.json", import.meta.url);

/** What the page shows of a run. A run that failed is kept as well. */
export const keep = (report: CampaignReport, budgetSeconds: number): void => {
  const { package: name, redis, client, seed, operations, faults, invariants, violations, controls } = report;
  const kept: Record<string, unknown> = existsSync(file)
    ? (JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>)
    : {};
  kept[name] = {
    date: new Date().toISOString().slice(0, 10),
    command: `npm run faults -- ${name} --seconds ${String(budgetSeconds)} --seed ${String(seed)}`,
    redis,
    client,
    operations,
    faults,
    invariants: invariants.map(({ name: invariant, checked }) => ({ name: invariant, checked })),
    violations,
    controls,
    failures: report.failures,
  };
  const sorted = Object.fromEntries(Object.entries(kept).toSorted(([a], [b]) => a.localeCompare(b)));
  writeFileSync(file, `${JSON.stringify(sorted, undefined, 2)}\n`);
};
