import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

/**
 * Adds up the results that each workspace's test runs wrote into `test-results/` (see tooling/vitest/tally-reporter.mjs).
 * @typedef {{ passed: number, failed: number, skipped: number, failures: string[] }} Tally
 */

/** @param {readonly string[]} folders */
export function removeResults(folders) {
  for (const folder of folders) rmSync(join(folder, "test-results"), { recursive: true, force: true });
}

/**
 * The sum of a workspace's runs. A missing or unreadable result counts as a failure, since the runner crashed or never
 * ran.
 * @param {string} folder
 * @returns {Tally}
 */
export function tallyOf(folder) {
  const results = join(folder, "test-results");
  const files = existsSync(results) ? readdirSync(results).filter((name) => /^result.*\.json$/.test(name)) : [];
  if (files.length === 0) return { passed: 0, failed: 1, skipped: 0, failures: ["the tests did not run to their end"] };
  return sum(files.sort().map((name) => readTally(join(results, name))));
}

/**
 * @param {string} file
 * @returns {Tally}
 */
function readTally(file) {
  try {
    const { passed, failed, skipped, failures } = JSON.parse(readFileSync(file, "utf8"));
    if ([passed, failed, skipped].every(Number.isInteger)) return { passed, failed, skipped, failures };
  } catch {
    // The runner died while it wrote the file.
  }
  return { passed: 0, failed: 1, skipped: 0, failures: [`${file} is not a test result`] };
}

/**
 * @param {readonly Tally[]} tallies
 * @returns {Tally}
 */
export const sum = (tallies) => ({
  passed: tallies.reduce((total, { passed }) => total + passed, 0),
  failed: tallies.reduce((total, { failed }) => total + failed, 0),
  skipped: tallies.reduce((total, { skipped }) => total + skipped, 0),
  failures: tallies.flatMap(({ failures }) => failures),
});

/**
 * The closing line of `npm test`.
 * @param {Tally} tally
 */
export const tallyLine = ({ passed, failed, skipped }) =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
