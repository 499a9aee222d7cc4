import { randomInt } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { campaign, type CampaignOptions, type CampaignReport } from "./lab.js";
import type { Law } from "./checker.js";

/** `SEED=<the one that a failure names>` plays the same strikes again. */
const seedOf = (): number => Number(process.env["SEED"] ?? randomInt(2 ** 31));

/** How long one run may take on a machine that is busy with others. */
export const runTimeoutMs = 120_000;

/** Writes down what is known of a run that broke a law; returns where. */
const keep = (report: CampaignReport, seed: number): string => {
  const file = fileURLToPath(new URL(`../../test-results/faults-${String(seed)}.json`, import.meta.url));
  const plain = (_: string, value: unknown): unknown =>
    typeof value === "bigint" ? String(value) : value instanceof Map ? Object.fromEntries(value) : value;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(report, plain, 1));
  return file;
};

/** Runs twenty strikes that bite, and expects that every law was kept and that the contenders got somewhere. */
export const expectLawful = async (options: Omit<CampaignOptions, "seed">): Promise<CampaignReport> => {
  const seed = seedOf();
  const report = await campaign({ ...options, seed });
  const told = `SEED=${String(seed)}${report.violations.length === 0 ? "" : `, see ${keep(report, seed)}`}`;
  expect(report.violations.slice(0, 20), told).toEqual([]);
  expect(report.strikes, told).toBeGreaterThanOrEqual(20);
  expect(report.writes, told).toBeGreaterThanOrEqual(40);
  return report;
};

/** How many runs a control may take: whether a bug shows depends on where the strikes fall. */
const mostControlRuns = 4;

/** Runs a control that is known to break laws until the checker says so, and expects that it does. */
export const expectUnlawful = async (
  laws: readonly Law[],
  options: Omit<CampaignOptions, "seed">,
): Promise<CampaignReport> => {
  const seed = seedOf();
  for (let run = 0; ; run++) {
    const report = await campaign({ ...options, seed: seed + run });
    const broken = new Set(report.violations.map(({ law }) => law));
    const caught = laws.filter((law) => broken.has(law));
    if (caught.length === 0 && run + 1 < mostControlRuns) continue;
    expect(caught, `SEED=${String(seed)}, broken: ${[...broken].join()}`).not.toEqual([]);
    return report;
  }
};
