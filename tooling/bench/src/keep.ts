import { mkdirSync, rmSync, writeFileSync } from "node:fs";
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

/** Writes `<package>.json` and `<package>/<case>.svg`; plots of removed cases are deleted. Resolves to the folder. */
export const keep = (report: Report, folder: string = join(root, "apps", "docs", "bench")): string => {
  const plots = join(folder, report.package);
  rmSync(plots, { recursive: true, force: true });
  mkdirSync(plots, { recursive: true });
  writeFileSync(join(folder, `${report.package}.json`), `${JSON.stringify(report, null, 2)}\n`);
  for (const entry of report.cases) writeFileSync(join(plots, `${slug(entry.case)}.svg`), plot(entry, report));
  return folder;
};

/** Writes a file for a profiler into a folder that is not committed. Resolves to the file. */
export const keepProfile = (packageName: string, caseName: string, profile: unknown): string => {
  const folder = join(root, ".cache", "bench");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${packageName}-${slug(caseName)}.cpuprofile`);
  writeFileSync(file, JSON.stringify(profile));
  return file;
};
