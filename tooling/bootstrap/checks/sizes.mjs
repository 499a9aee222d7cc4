import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { root } from "../repo.mjs";

/**
 * The size that an entry of a published library may add to its user's program: its ESM build and its third-party
 * dependencies, bundled, minified and gzipped. Peers and the other packages of kit are left out. So are the entries `.`
 * and `./toolkit` when another entry is measured, and files of ours that are loaded only when they are used, by `import()`. Programs have no budget.
 */
const libraryKiB = 15;

/** Entries with a budget of their own. `null`: no budget, since the entry is only used in tests. @type {Record<string, number | null>} */
const exceptionsKiB = {
  // Says of a weight whether its change can be made again, also when some shards have it; folds what keyboards of eleven scripts
  // exchange, and finds names without their hyphens.
  "@kit/autocomplete": 20,
  // Runs in a server, and carries the files that browsers load: htmx, a style sheet.
  "@kit/board": 31,
  // Positions that reach other devices, and one's own messages that are never unread, also after joining again; reads and begins
  // while a node of a Cluster is lost.
  "@kit/chat": 24.5,
  // Connections that follow the client behind one address, and on a Cluster whose nodes come and go; outcomes that stay true
  // when a client sends again by itself, or the event loop stands still; pushes that are tried again where they were forbidden;
  // errors that name the remedy, also for a reply over HTTP that no script made.
  "@kit/core": 19.25,
  // One request for each command, and nothing else.
  "@kit/core/http": 2.25,
  // The life of an object and the rules of options, which each package had for itself; clients without connections.
  "@kit/core/toolkit": 18,
  // Reads public files with their faults: policies, counts, numeric addresses; streams without a name; lets go of abandoned versions.
  "@kit/geoip": 16.25,
  // Three algorithms, each with waits, penalties and blocks; decides the usual call without them; local shares in an outage.
  "@kit/limiter": 8,
  // Recognises contents in another container, by comparing them: jobs and shippers each with their records; and contents that it cannot read;
  // tells hundreds of files apart whose first KiB is one header.
  "@kit/logship": 37,
  // Checks its server again after each lost connection; records each take, and looks for idle workers; says whether an add
  // added, also when it is repeated; lets a handler snooze its job; learns that a job was cancelled; adds one job of a key, or
  // the last, also in place of one that has expired; keeps to the limits of the queue and of names of jobs, and wakes when a rate lets the next job begin; records events for
  // listeners; carries a trace from the producer to the handler; pauses one worker; learns of cancellations by push; finds out whether a
  // thread can connect as the client does, which then renews leases; says whether the same add would add a second job;
  // takes as many bytes as its connection carries; hands jobs back when none may begin; charges no crash for an outage; has a handler for any
  // name, and heartbeats that show their worker; settles the parents of a job in the step that ends it.
  "@kit/queue": 36.75,
  // Adds jobs and schedules as a queue does, and carries what that needs; gives jobs back that the server refuses; computes runs
  // at the changes of summer time; finds what BullMQ 5 wrote only into the next job of a job scheduler, and moves the two together.
  "@kit/queue/adopt": 31.5,
  // Reads, changes and repairs queues for the command line, lists schedules, shows logs of handlers and ended jobs; says what is
  // unknown, and which instant a list shows; cleans and purges queues; lists workers, and finds jobs that hang or have no
  // handler; lists groups, and finds those that are halted; sets limits, edits and reschedules jobs, and manages schedules, so that a
  // browser can do what a program can; says why no job of a queue starts; cancels groups.
  "@kit/queue/descriptor": 43.25,
  // Reads, changes, repairs, limits, cleans and purges queues, and reads who runs their jobs; lets jobs leave and join their groups,
  // and lists, limits, pauses and cancels groups, whose scores and places a call reads at once; metrics read both. Looks at a job among a million without a search.
  "@kit/queue/manage": 25.5,
  "@kit/queue/metrics": 23.5,
  // Opens its queue as a queue does, and carries what that needs.
  "@kit/queue/schedules": 25.25,
  // Keeps the bounds of frequent messages in a full list; knows ids of letters and digits.
  "@kit/stats": 24.75,
  "@kit/testing": null,
};

/** @type {(entry: string) => number | null} */
const usualBudget = (entry) => (entry in exceptionsKiB ? (exceptionsKiB[entry] ?? null) : libraryKiB);

/**
 * @param {readonly { folder: string, manifest: import("../repo.mjs").Manifest }[]} packages
 * @returns {Promise<{ facts: string[], problems: string[] }>}
 */
export async function measureSizes(packages, budgetOf = usualBudget) {
  const facts = [];
  const problems = [];
  const front = readFileSync(join(root, "README.md"), "utf8");
  for (const { folder, manifest } of packages)
    for (const [name, file] of entriesOf(manifest)) {
      const budget = budgetOf(name);
      if (budget === null) continue;
      const size = (await bundledBytes(folder, file, manifest)) / 1024;
      const fact = `${name} ${size.toFixed(1)} of ${budget} KiB`;
      facts.push(fact);
      if (size > budget) problems.push(`${fact}: over budget`);
      if (name !== manifest.name) continue;
      problems.push(...statedWrongly(name, readFileSync(join(folder, "README.md"), "utf8"), size));
      problems.push(
        ...statedWrongly(name, front, size, new RegExp(`^\\| \\[\`${name}\`\\].*\\| +([\\d.]+) \\|$`, "m")),
      );
    }
  return { facts, problems };
}

/** The size of a package in its own README. */
const costLine = /Cost:\*{0,2}\s+([\d.]+)\s+KiB\s+min\+gzip/;

/**
 * The problem of the size that a README gives, if there is one: it should be that of the main entry, or at most 2 KiB more.
 * @param {string} name
 * @param {string} readme
 * @param {number} size
 * @param {RegExp} [stating]
 */
export function statedWrongly(name, readme, size, stating = costLine) {
  const [, stated] = stating.exec(readme) ?? [];
  if (stated === undefined || (size <= Number(stated) && Number(stated) < size + 2)) return [];
  return [`${name} has ${size.toFixed(1)} KiB, and a README says ${stated} KiB`];
}

/**
 * The paths that can be imported, each with its file.
 * @param {import("../repo.mjs").Manifest} manifest
 * @returns {[name: string, file: string][]}
 */
const entriesOf = ({ name, exports = {} }) =>
  Object.keys(exports)
    .filter((path) => path !== "./package.json")
    .map((path) => [name + path.slice(1), `${path === "." ? "index" : path.slice(2)}.js`]);

const loadedLater = {
  name: "loaded-later",
  /** @param {{ onResolve(options: { filter: RegExp }, callback: (found: { kind: string, path: string }) => object | undefined): void }} build */
  setup: (build) =>
    build.onResolve({ filter: /^\./ }, ({ kind, path }) =>
      kind === "dynamic-import" ? { path, external: true } : undefined,
    ),
};

/**
 * @param {string} folder
 * @param {string} file
 * @param {import("../repo.mjs").Manifest} manifest
 */
async function bundledBytes(folder, file, manifest) {
  // esbuild comes with tsup, which does the builds.
  const fromBuild = createRequire(join(root, "tooling", "build", "package.json"));
  const esbuild = createRequire(fromBuild.resolve("tsup"))("esbuild");
  // These two entries contain the code that all entries share.
  const isDoor = file === "index.js" || file === "toolkit.js";
  const peers = Object.keys(manifest.peerDependencies ?? {});
  const { outputFiles } = await esbuild.build({
    entryPoints: [join(folder, "dist", file)],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "node20",
    external: [...peers, "@kit/*", ...(isDoor ? [] : ["./index.js", "./kernel.js", "./toolkit.js"])],
    logLevel: "silent",
    plugins: [loadedLater],
  });
  return gzipSync(outputFiles[0].contents).length;
}
