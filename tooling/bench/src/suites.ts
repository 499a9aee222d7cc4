import { existsSync, readdirSync } from "node:fs";
import type { OpenJobs, Suite } from "./suite.js";

// Each folder in `src/suites` is built into `<package>.suite.js` and `<package>.jobs.js` beside this program. An
// application has its own among its programs. Only what is asked for is loaded.
const suiteFile = /^(.+)\.suite\.js$/;
const root = new URL("../../../", import.meta.url);

const folders = (): readonly URL[] => [
  new URL("./", import.meta.url),
  ...readdirSync(new URL("apps/", root))
    .map((app) => new URL(`apps/${app}/dist/`, root))
    .filter((folder) => existsSync(folder)),
];

/** The folders of the packages that have benchmarks. */
const found = (): ReadonlyMap<string, URL> =>
  new Map(
    folders().flatMap((folder) =>
      readdirSync(folder).flatMap((file) => {
        const name = suiteFile.exec(file)?.[1];
        return name === undefined ? [] : [[name, folder] as const];
      }),
    ),
  );

export const suiteNames = (): readonly string[] => [...found().keys()].toSorted();

const load = async (name: string, file: string): Promise<unknown> =>
  (await import(new URL(file, found().get(name)).href)) as unknown;

export const loadSuite = async (name: string): Promise<Suite> =>
  ((await load(name, `${name}.suite.js`)) as { readonly suite: Suite }).suite;

/** `checkout`: the checkout whose builds of our packages they use, if not this one. */
export const loadJobs = async (name: string, checkout?: string): Promise<OpenJobs> => {
  const query = checkout === undefined ? "" : `?${new URLSearchParams({ checkout }).toString()}`;
  return ((await load(name, `${name}.jobs.js${query}`)) as { readonly jobs: OpenJobs }).jobs;
};
