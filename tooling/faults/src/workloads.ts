import { readdirSync } from "node:fs";
import type { Workload } from "./workload.js";

// Each folder in `src/workloads` is built into `<package>.workload.js` beside this program. Only the requested workload is
// loaded.
const workloadFile = /^(.+)\.workload\.js$/;

/** The packages that have a workload. */
export const workloadNames = (): readonly string[] =>
  readdirSync(new URL("./", import.meta.url))
    .flatMap((file) => workloadFile.exec(file)?.[1] ?? [])
    .toSorted();

export const loadWorkload = async (name: string): Promise<Workload> => {
  const { href } = new URL(`./${name}.workload.js`, import.meta.url);
  return ((await import(href)) as { readonly workload: Workload }).workload;
};
