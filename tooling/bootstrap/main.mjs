import { availableParallelism } from "node:os";
import { delimiter, join } from "node:path";
import { browserAdvice, canInstallBrowser, findBrowser, installBrowser } from "./browser.mjs";
import { canInstallLab, installLab, missingLabTools } from "./lab.mjs";
import { matrix } from "./matrix/index.mjs";
import { pack } from "./pack.mjs";
import { findPnpm, installPackages, installPnpm, isInstalled, pnpmVersion } from "./pnpm.mjs";
import { chosenServer, fetchRoutes, firstServer, lookRoutes, noServer } from "./redis.mjs";
import { cacheDir, childEnv, readManifest, root, SetupError } from "./repo.mjs";
import { one } from "./one.mjs";
import { capture, host, Interrupted, listenForSignals, show, throwIfStopped } from "./run.mjs";
import { alone, say, step } from "./steps.mjs";
import { removeResults, sum, tallyLine, tallyOf } from "./tally.mjs";
import { rehearse } from "./release/rehearse.mjs";
import { release } from "./release/index.mjs";
import { version } from "./release/version.mjs";
import { pictures } from "./pictures/index.mjs";
import { docs } from "./site/index.mjs";
import { verify } from "./verify.mjs";

/** @typedef {(env: NodeJS.ProcessEnv, args: string[]) => Promise<number>} Task */

/** @type {Record<string, { redis: boolean, run: Task }>} */
const tasks = {
  setup: { redis: true, run: (env) => build(env) },
  build: { redis: false, run: build },
  typecheck: { redis: false, run: (env, args) => turbo(env, ["typecheck", ...args]) },
  lint: { redis: false, run: lint },
  format: { redis: false, run: (env) => show("prettier", ["--write", "--log-level=warn", "."], { cwd: root, env }) },
  test: { redis: true, run: test },
  one: { redis: true, run: async (env, args) => (await build(env)) || (await one(env, args)) },
  verify: { redis: false, run: async (env, args) => (await build(env)) || (await verify(env, args)) },
  reference: { redis: false, run: reference },
  docs: { redis: false, run: docs },
  pictures: { redis: true, run: async (env, args) => (await build(env)) || (await pictures(env, args)) },
  version: { redis: false, run: newVersions },
  release: { redis: false, run: releaseOrRehearse },
  matrix: {
    redis: false,
    run: (env, args) => matrix(env, args, { build: () => build(env), redis: () => prepareRedis(env), test }),
  },
  pack: { redis: false, run: async (env, args) => (await build(env)) || (await pack(env, args)) },
  demo: { redis: true, run: demo },
  bench: { redis: true, run: bench },
  faults: { redis: true, run: faults },
  pnpm: { redis: false, run: (env, args) => show("pnpm", args, { cwd: root, env }) },
};

/** @param {string[]} argv */
export async function main([name = "", ...args]) {
  const task = Object.hasOwn(tasks, name) ? tasks[name] : undefined;
  if (task === undefined) {
    say(`Unknown task "${name}". There are: ${Object.keys(tasks).join(", ")}.\n`);
    process.exitCode = 1;
    return;
  }
  listenForSignals();
  try {
    // `pnpm install` writes the lockfile of a changed manifest, so it must not depend on a frozen install.
    const env = name === "pnpm" ? await preparePnpm(childEnv()) : await prepare(task.redis);
    process.exitCode = await task.run(env, args);
  } catch (error) {
    process.exitCode = report(error, name, args);
  }
}

/**
 * @param {unknown} error
 * @param {string} name
 * @param {string[]} args
 */
function report(error, name, args) {
  if (error instanceof Interrupted) return name === "demo" && !args.includes("--smoke") ? 0 : error.exitCode;
  say(`\n${error instanceof SetupError ? error.message : error instanceof Error ? error.stack : String(error)}\n`);
  return 1;
}

/**
 * Sets up everything that a task needs. Returns the environment for its programs.
 * @param {boolean} wantsRedis
 */
async function prepare(wantsRedis) {
  let env = await preparePnpm(childEnv());
  if (!isInstalled()) {
    await alone(async () => {
      if (!isInstalled()) await step("packages by the lockfile", () => installPackages(env));
    });
  }
  if (wantsRedis) env = await prepareRedis(env);
  throwIfStopped();
  return env;
}

/** @param {NodeJS.ProcessEnv} env */
async function preparePnpm(env) {
  if (findPnpm() === undefined) {
    await alone(async () => {
      if (findPnpm() === undefined) await step(`pnpm ${pnpmVersion()}`, () => installPnpm(env));
    });
  }
  return withPath(env, findPnpm() ?? "", join(root, "node_modules", ".bin"));
}

/** @param {NodeJS.ProcessEnv} env */
async function prepareRedis(env) {
  /** @type {string[]} */
  const tried = ["REDIS_SERVER_BIN: not set"];
  const place = { env, cacheDir };
  let server = (await chosenServer(env)) ?? (await firstServer(place, lookRoutes, tried));
  server ??= await alone(() =>
    step(
      "a Redis server",
      () => firstServer(place, fetchRoutes, tried),
      (found) => (found === undefined ? "none" : `${found.product} ${found.version}`),
    ),
  );
  if (server === undefined) throw noServer(tried);
  say(`set-up: ${server.product} ${server.version} at ${server.bin}\n`);
  return { ...env, REDIS_SERVER_BIN: server.bin };
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} folders
 * @returns {NodeJS.ProcessEnv}
 */
const withPath = (env, ...folders) => ({ ...env, PATH: [...folders, env["PATH"]].join(delimiter) });

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
const turbo = (env, args) => show("turbo", ["run", ...args], { cwd: root, env });

/**
 * Builds, and prints only failures. If all is built, turbo only checks the files.
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} [args]
 */
async function build(env, args = []) {
  const work = async () => {
    const done = await capture("turbo", ["run", "build", "--output-logs=errors-only", ...args], { cwd: root, env });
    if (done.code !== 0) throw new SetupError(`The build failed:\n${done.output.trim()}`);
    return /(\d+) cached, (\d+) total/.exec(done.output);
  };
  await alone(() => step("build", work, (counts) => (counts && counts[1] === counts[2] ? "up to date" : "done")));
  return 0;
}

/** @type {Task} */
async function reference(env) {
  await build(env); // the comments of options that a package shares with core are in core's types
  // It needs the compiler, which is not there before the set-up.
  const { writeReference } = await import("./reference/index.mjs");
  const problems = await writeReference();
  say(problems.map((problem) => `${problem}\n`).join(""));
  return problems.length === 0 ? 0 : 1;
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function lint(env, args) {
  await build(env); // type-aware rules read the packages' built types
  return show("oxlint", ["--type-aware", "--deny-warnings", ...args], { cwd: root, env });
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args Passed to turbo: `--filter @kit/lock`, and after a `--` to vitest.
 */
async function test(env, args) {
  const testEnv = await prepareBrowser(env, args);
  if (args.length === 0) await prepareLab(env);
  const chosen = await testedWorkspaces(testEnv, args);
  removeResults(chosen.map(({ folder }) => folder));
  /** @type {string[]} */
  const troubles = [];
  try {
    await build(testEnv, ["--continue", ...beforeDashes(args)]);
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    say(`\n${error.message}\n`); // the packages that did build are tested
    troubles.push("a build failed, see above");
  }
  const codes = await Promise.all(
    lanesOf(args).map(({ concurrency, chosen: some }) =>
      turbo(testEnv, [
        "test",
        "--only",
        `--concurrency=${concurrency}`,
        "--continue",
        "--log-order=grouped",
        "--output-logs=full",
        ...some,
      ]),
    ),
  );
  return summarize(chosen, Math.max(...codes), troubles);
}

/** Of the tools, the one that takes longest. */
const faultLab = "@tooling/faults";

/**
 * How turbo is asked for the tests: where all are wanted, by two that run side by side. It starts workspaces in any order, so
 * that the longest, the marketplace, could be left over at the end and keep one processor busy. With the other application
 * and the tools it takes as long as the packages and the fault lab, two at a time. So three are tested at a time on two
 * processors: the tests of each wait for a part of the time.
 * @param {string[]} args
 * @returns {{ concurrency: number, chosen: string[] }[]}
 */
function lanesOf(args) {
  const concurrency = availableParallelism();
  if (args.length > 0) return [{ concurrency, chosen: args }];
  const filters = (/** @type {string[]} */ ...names) => names.map((name) => `--filter=${name}`);
  return [
    { concurrency: Math.ceil(concurrency / 2), chosen: filters("./apps/*", "./tooling/*", `!${faultLab}`) },
    { concurrency, chosen: filters("./packages/*", faultLab) },
  ];
}

/** @param {string[]} args */
const beforeDashes = (args) => (args.includes("--") ? args.slice(0, args.indexOf("--")) : args);

/**
 * @param {readonly { name: string, folder: string }[]} chosen
 * @param {number} turboCode
 * @param {string[]} troubles
 */
function summarize(chosen, turboCode, troubles) {
  const parts = chosen.map(({ name, folder }) => ({ name, tally: tallyOf(folder) }));
  if (turboCode !== 0 && parts.every(({ tally }) => tally.failed === 0)) {
    troubles.push(`turbo ended with ${turboCode} although no test failed`);
  }
  if (troubles.length > 0) {
    parts.push({ name: "the run", tally: { passed: 0, failed: troubles.length, skipped: 0, failures: troubles } });
  }
  const total = sum(parts.map(({ tally }) => tally));
  const lines = parts.flatMap(({ name, tally }) => [
    `${name}: ${tallyLine(tally)}`,
    ...tally.failures.map((failure) => `  failed: ${failure}`),
  ]);
  const forbidden = total.skipped > 0 && isCI();
  if (forbidden) lines.push("In CI a skipped test counts as a failure of the run.");
  process.stdout.write(`\n${lines.join("\n")}\n\n${tallyLine(total)}\n`);
  return total.failed > 0 || forbidden ? 1 : 0;
}

const isCI = () => !["", "0", "false", undefined].includes(process.env["CI"]);

/**
 * The workspaces whose tests turbo would run for these arguments.
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function testedWorkspaces(env, args) {
  const plan = ["run", "test", "--dry=json", ...beforeDashes(args)];
  const { code, stdout, output } = await capture("turbo", plan, { cwd: root, env });
  if (code !== 0) throw new SetupError(`turbo cannot plan the tests:\n${output.trim()}`);
  /** @type {{ tasks: { task: string, package: string, directory: string, command: string }[] }} */
  const planned = JSON.parse(stdout);
  return planned.tasks
    .filter(({ task, command }) => task === "test" && command !== "<NONEXISTENT>")
    .map(({ package: name, directory }) => ({ name, folder: join(root, directory) }));
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function prepareBrowser(env, args) {
  let browser = findBrowser(env);
  // A filtered run is for a quick result on one package, so it does not install a browser.
  if (browser === undefined && args.length === 0 && canInstallBrowser(env)) {
    browser = await alone(() =>
      step(
        "Chromium for the browser tests",
        () => installBrowser(env),
        (path) => path ?? "none",
      ),
    );
  }
  if (browser !== undefined) return { ...env, CHROMIUM_PATH: browser };
  say(`${browserAdvice}\n`);
  return env;
}

/** @param {NodeJS.ProcessEnv} env */
async function newVersions(env) {
  const changed = await version(env);
  process.stdout.write(
    `${changed.map(({ name, version: now }) => `${name} ${now}\n`).join("") || "Nothing is due.\n"}`,
  );
  return 0;
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function releaseOrRehearse(env, args) {
  await build(env);
  if (args.length === 0) return release(env);
  if (args.join() !== "--dry-run") throw new SetupError("There are: npm run release, npm run release -- --dry-run");
  return rehearse(await prepareRedis(env));
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function demo(env, args) {
  // The shop names a command of kit to look into its Redis with.
  return hostBuilt(join(root, "apps", "marketplace"), env, args, ["@kit/cli"]);
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function bench(env, args) {
  // Some suites are an application's.
  return hostBuilt(join(root, "tooling", "bench"), env, args, ["@apps/marketplace"]);
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 */
async function faults(env, args) {
  await prepareLab(env);
  return hostBuilt(join(root, "tooling", "faults"), env, args);
}

/** @param {NodeJS.ProcessEnv} env */
async function prepareLab(env) {
  const missing = () => missingLabTools(env).join(", ");
  if (missing() === "" || !canInstallLab(env)) return;
  await alone(() =>
    step(
      `tools for the fault lab (${missing()})`,
      () => installLab(env),
      () => (missing() === "" ? "done" : `still without ${missing()}`),
    ),
  );
}

/**
 * Builds a workspace and runs its program, which ends with this process.
 * @param {string} folder
 * @param {NodeJS.ProcessEnv} env
 * @param {string[]} args
 * @param {string[]} besides workspaces that are built as well
 */
async function hostBuilt(folder, env, args, besides = []) {
  await build(
    env,
    [readManifest(folder).name, ...besides].map((name) => `--filter=${name}`),
  );
  const leash = join(root, "tooling", "bootstrap", "leash.mjs");
  return host(process.execPath, [`--import=${leash}`, join(folder, "dist", "main.js"), ...args], { cwd: root, env });
}
