import { readdirSync } from "node:fs";
import type { OpenJobs, Suite } from "./suite.js";

// Each folder in `src/suites` is built into `<package>.suite.js` and `<package>.jobs.js` beside this program, and only
// what is asked for is loaded.
const suiteFile = /^(.+)\.suite\.js$/;

/** The packages that have benchmarks. */
export const suiteNames = (): readonly string[] =>
  readdirSync(new URL("./", import.meta.url))
    .flatMap((file) => suiteFile.exec(file)?.[1] ?? [])
    .toSorted();

const load = async (file: string): Promise<unknown> => (await import(new URL(file, import.meta.url).href)) as unknown;

export const loadSuite = async (name: string): Promise<Suite> =>
  ((await load(`./${name}.suite.js`)) as { readonly suite: Suite }).suite;

export const loadJobs = async (name: string): Promise<OpenJobs> =>
  ((await load(`./${name}.jobs.js`)) as { readonly jobs: OpenJobs }).jobs;
