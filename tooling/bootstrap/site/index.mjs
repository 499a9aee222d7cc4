import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  unwatchFile,
  watchFile,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { brokenLinks, markdownFiles } from "../checks/links.mjs";
import { npmCommand } from "../pnpm.mjs";
import { root, SetupError } from "../repo.mjs";
import { capture, show } from "../run.mjs";
import { alone, seconds, step } from "../steps.mjs";
import { pageProblems } from "./built.mjs";
import { machineReadable } from "./llms.mjs";
import { look } from "./look.mjs";
import { linkOf } from "./outline.mjs";
import { searchProblems } from "./search.mjs";
import { site } from "./site.mjs";
import { weightReport } from "./weight.mjs";

/** The site is no workspace: it has a lockfile of its own, so that neither the demo nor the tests install what it needs. */
const folder = join(root, "apps", "site");
const pagesFolder = join(folder, "dist", "pages");
const builtFolder = join(folder, "dist", "www");

/** How often a document is looked at while the site is shown. */
const LOOK_MS = 300;

/**
 * `npm run docs`: writes the site to `apps/site/dist/www`. With `--serve` it shows the site while its documents are edited, with
 * `--base /path/` it is made for a place below a host's root. With `--look` a browser opens the first pages of all parts.
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} args
 */
export async function docs(env, args) {
  await install(env);
  const start = performance.now();
  // It needs the compiler, which is not there before the set-up.
  const { apiPages } = await import("./api.mjs");
  const api = apiPages();
  const made = site(root, api);
  const faults = [...brokenLinks(root), ...made.problems];
  if (faults.length > 0) throw new SetupError(faults.join("\n"));
  rmSync(pagesFolder, { recursive: true, force: true });
  write(made);
  const vitepress = join(folder, "node_modules", "vitepress", "bin", "vitepress.js");
  if (args.includes("--serve")) {
    return serve(() => write(site(root, api)), [vitepress, "dev", folder, ...forVitePress(args)], env);
  }
  const { code, output } = await capture(process.execPath, [vitepress, "build", folder, ...forVitePress(args)], {
    env,
  });
  if (code !== 0) throw new SetupError(`The site cannot be built:\n${output.trim()}`);
  for (const [path, text] of machineReadable(made)) writeText(join(builtFolder, path), text);
  copyFigures(made.figures, builtFolder); // for the pages as Markdown: those in HTML have copies of their own
  const files = made.pages.map(({ address }) => `${address}.html`);
  const weight = weightReport(builtFolder, files, baseOf(args));
  const problems = [
    ...pageProblems(builtFolder, baseOf(args)),
    ...brokenLinks(builtFolder),
    ...weight.problems,
    ...(await searchProblems(builtFolder)),
  ];
  if (problems.length > 0) throw new SetupError(problems.join("\n"));
  process.stdout.write(`${made.pages.length} pages in ${seconds(start)}: apps/site/dist/www\n${weight.fact}\n`);
  return args.includes("--look") ? lookAt(made.pages, env) : 0;
}

/** @param {readonly import("./documents.mjs").Page[]} pages @param {NodeJS.ProcessEnv} env */
async function lookAt(pages, env) {
  const start = performance.now();
  const first = pages.map(({ address }) => address).filter((address) => /^[^/]+(?:\/index)?$/.test(address));
  const problems = await look(builtFolder, first.map(linkOf), env);
  if (problems.length > 0) throw new SetupError(problems.join("\n"));
  process.stdout.write(`${first.length} pages looked at in a browser, in ${seconds(start)}\n`);
  return 0;
}

/**
 * Shows the site until it is stopped. When a document is saved, its page is written again, and VitePress shows that.
 * @param {() => void} writeAll @param {readonly string[]} command @param {NodeJS.ProcessEnv} env
 */
async function serve(writeAll, command, env) {
  const files = markdownFiles(root);
  for (const path of files) watchFile(path, { interval: LOOK_MS }, writeAll);
  try {
    return await show(process.execPath, command, { env });
  } finally {
    for (const path of files) unwatchFile(path);
  }
}

/** @param {readonly string[]} args */
const forVitePress = (args) => args.filter((arg) => arg !== "--serve" && arg !== "--look");

/** @param {readonly string[]} args */
const baseOf = (args) => (args.includes("--base") ? (args[args.indexOf("--base") + 1] ?? "/") : "/");

/** Installs what builds the site, once for each lockfile. @param {NodeJS.ProcessEnv} env */
async function install(env) {
  const stamp = join(folder, "node_modules", ".kit-install");
  const wanted = createHash("sha256")
    .update(process.version)
    .update(readFileSync(join(folder, "package-lock.json")))
    .digest("hex");
  const isThere = () => existsSync(stamp) && readFileSync(stamp, "utf8") === wanted;
  if (isThere()) return;
  await alone(async () => {
    if (isThere()) return;
    await step("packages of the site", async () => {
      const [command, ...args] = npmCommand(env);
      const flags = ["ci", "--ignore-scripts", "--include=dev", "--include=optional", "--no-audit", "--no-fund"];
      const { code, output } = await capture(command, [...args, ...flags], { cwd: folder, env });
      if (code !== 0) throw new SetupError(`npm could not install what builds the site:\n${output.trim()}`);
      writeFileSync(stamp, wanted);
    });
  });
}

/** @param {ReturnType<typeof site>} made */
function write({ pages, figures, sidebar, repository }) {
  for (const { address, text, file, title, summary } of pages) {
    const isHome = address === "index";
    const facts = {
      title,
      description: summary,
      source: file,
      ...(isMade(file) && { editLink: false }),
      ...(address.endsWith("/api") && { outline: [2, 4] }),
    };
    const head = `---\n${Object.entries(facts)
      .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
      .join("")}---\n\n`;
    writeText(join(pagesFolder, `${address}.md`), isHome ? text : head + text);
  }
  copyFigures(figures, pagesFolder);
  writeText(join(folder, "dist", "site.json"), JSON.stringify({ sidebar, repository }));
}

/** Whether a page is made from the code or from other files, so that nobody edits it. @param {string} file */
const isMade = (file) =>
  /(?:^CHANGES|\/docs\/(?:reference|api)|^apps\/docs\/(?:errors|defaults|fault-runs))\.md$/.test(file);

/** @param {readonly string[]} figures @param {string} target */
function copyFigures(figures, target) {
  for (const figure of figures) {
    const path = join(target, "figures", figure);
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(join(root, figure), path);
  }
}

/** @param {string} path @param {string} text */
function writeText(path, text) {
  if (existsSync(path) && readFileSync(path, "utf8") === text) return;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
