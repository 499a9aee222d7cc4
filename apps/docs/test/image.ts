import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

/**
 * Makes a project whose lockfile has these packages, each with what it needs, as tarballs of this disk instead of a registry's. A
 * development dependency is in it that cannot be had.
 */
export const writeProject = (folder: string, files: URL, names: readonly string[]): void => {
  const tarballs = mkdtempSync(join(dirname(folder), "tarballs-"));
  const locked: Record<string, object> = {};
  const add = (name: string, from: string): void => {
    const path = `node_modules/${name}`;
    if (path in locked) return;
    const source = sourceOf(name, from);
    const { version, dependencies = {} } = manifestOf(source);
    const needs = Object.keys(dependencies);
    const anyVersion = Object.fromEntries(needs.map((need) => [need, "*"]));
    locked[path] = { version, resolved: `file:${tarballOf(source, tarballs)}`, dependencies: anyVersion };
    for (const need of needs) add(need, source);
  };
  for (const name of names) add(name, import.meta.dirname);
  const root = {
    name: "shop",
    dependencies: Object.fromEntries(names.map((name) => [name, "*"])),
    devDependencies: { unneeded: "*" },
  };
  locked["node_modules/unneeded"] = { version: "1.0.0", resolved: `file:${tarballs}/there-is-none.tgz`, dev: true };
  const lockfile = { name: "shop", lockfileVersion: 3, requires: true, packages: { "": root, ...locked } };
  writeFileSync(join(folder, "package.json"), JSON.stringify({ ...root, type: "module", private: true }));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify(lockfile));
  cpSync(files, folder, { recursive: true });
};

/** The folder of an installed package, as a file in another folder would import it. */
const sourceOf = (name: string, from: string): string => {
  const folders = createRequire(join(from, "package.json")).resolve.paths(name) ?? [];
  const found = folders.map((folder) => join(folder, name)).find((folder) => existsSync(folder));
  if (found === undefined) throw new Error(`${from} has no ${name}`);
  return realpathSync(found);
};

const tarballOf = (source: string, target: string): string => {
  const stage = mkdtempSync(join(target, "stage-"));
  const parts = existsSync(join(source, "src/index.ts")) ? ["package.json", "dist"] : ["."];
  const isWanted = (path: string): boolean => basename(path) !== "node_modules" && !path.endsWith(".map");
  for (const part of parts)
    cpSync(join(source, part), join(stage, "package", part), { recursive: true, filter: isWanted });
  const tarball = `${stage}.tgz`;
  execFileSync("tar", ["-czf", tarball, "-C", stage, "package"]);
  return tarball;
};

/** What a Dockerfile says, run without an engine. */
export interface Image {
  readonly base: string;
  readonly user: string | undefined;
  readonly command: readonly string[];
  /** Where its files are. */
  readonly folder: string;
}

/** Runs the lines of a Dockerfile, with `root` in place of the image's root and the files of `context`. */
export const buildImage = (dockerfile: string, context: string, ignored: readonly string[], root: string): Image => {
  let image = { base: "", user: undefined as string | undefined, command: [] as readonly string[], folder: root };
  for (const line of dockerfile.trim().split("\n")) {
    const [, instruction = "", rest = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    const run: Record<string, () => Partial<Image>> = {
      FROM: () => ({ base: rest }),
      WORKDIR: () => {
        mkdirSync(join(root, rest), { recursive: true });
        return { folder: join(root, rest) };
      },
      COPY: () => {
        const words = rest.split(" ");
        copy(words.slice(0, -1), context, ignored, join(image.folder, words.at(-1) ?? ""));
        return {};
      },
      RUN: () => {
        const env = { ...process.env, npm_config_offline: "true", npm_config_update_notifier: "false" };
        execFileSync("sh", ["-c", rest], { cwd: image.folder, env, stdio: "pipe" });
        return {};
      },
      USER: () => ({ user: rest }),
      // Another form than JSON runs in a shell, as process 1.
      CMD: () => ({ command: JSON.parse(rest) as string[] }),
    };
    const step = run[instruction];
    if (step === undefined) throw new Error(`A test of the page cannot run this line: ${line}`);
    image = { ...image, ...step() };
  }
  return image;
};

const copy = (patterns: readonly string[], context: string, ignored: readonly string[], target: string): void => {
  const forms = patterns.map(
    (one) => new RegExp(`^${one.replace(/^\.$/, "*").replaceAll(".", "\\.").replaceAll("*", ".*")}$`),
  );
  for (const name of readdirSync(context).filter((one) => !ignored.includes(one)))
    if (forms.some((form) => form.test(name))) cpSync(join(context, name), join(target, name), { recursive: true });
};
