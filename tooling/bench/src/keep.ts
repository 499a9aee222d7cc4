import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { plot } from "./plot.js";
import type { Report } from "./report.js";

/** Of the repository. */
export const root: string = fileURLToPath(new URL("../../../", import.meta.url));

/** A file name for a case: letters and digits, and hyphens between them. */
export const slug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");

const kept = join(root, "apps", "docs", "bench");

/** Replaces cases of the kept report, and adds those it lacks. Each names its own run. */
const within = (whole: Report, { node, redis, date, machine, cases }: Report): Report => {
  const fresh = new Map(cases.map((entry) => [entry.case, { ...entry, run: { node, redis, date, machine } }]));
  const names = new Set(whole.cases.map((entry) => entry.case));
  const added = [...fresh.values()].filter((entry) => !names.has(entry.case));
  return { ...whole, cases: [...whole.cases.map((entry) => fresh.get(entry.case) ?? entry), ...added] };
};

/**
 * Writes `<package>.json` and `<package>/<case>.svg`; plots of removed cases are deleted. `isPart`: the report has some of the cases, and
 * the others stay as they were kept. Returns the folder.
 */
export const keep = (report: Report, isPart: boolean, folder: string = kept): string => {
  const file = join(folder, `${report.package}.json`);
  const all = isPart ? within(JSON.parse(readFileSync(file, "utf8")) as Report, report) : report;
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`);
  draw(all, folder);
  return folder;
};

/** Makes the plots of everything that is kept again, without measuring. Returns the folder. */
export const redraw = (folder: string = kept): string => {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
    const report = JSON.parse(readFileSync(join(folder, file), "utf8")) as Partial<Report>;
    // The costs of operations are kept there, too, and have no plots.
    if (report.cases !== undefined) draw(report as Report, folder);
  }
  return folder;
};

const draw = (report: Report, folder: string): void => {
  const plots = join(folder, report.package);
  rmSync(plots, { recursive: true, force: true });
  mkdirSync(plots, { recursive: true });
  for (const entry of report.cases) writeFileSync(join(plots, `${slug(entry.case)}.svg`), plot(entry, report));
};

/** Writes a file for a profiler into a folder that is not committed. Resolves to the file. */
export const keepProfile = (packageName: string, caseName: string, profile: unknown): string => {
  const folder = join(root, ".cache", "bench");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${packageName}-${slug(caseName)}.cpuprofile`);
  writeFileSync(file, JSON.stringify(profile));
  return file;
};
