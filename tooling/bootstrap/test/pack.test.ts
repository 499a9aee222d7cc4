import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { absoluteLinks, linksOf } from "../checks/links.mjs";
import { removePreviews, unpublishedPages } from "../checks/pages.mjs";
import { packPackage, publicPackages, publishedManifest, repositoryAddress, withNeeds } from "../pack.mjs";
import { findPnpm } from "../pnpm.mjs";
import { release } from "../release/index.mjs";
import { root } from "../repo.mjs";
import { makeTarball, readTarball, type TarEntry } from "../tarball.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const repository = "https://code.example/somebody/kit";

describe("the addresses derived from the repository's", () => {
  it("are missing without one, and then no package can be released", async () => {
    expect(repositoryAddress({ repository: "" })).toBeUndefined();
    if (repositoryAddress() !== undefined) return;
    await expect(release({})).rejects.toThrow("Not to be published yet. `repository`");
  });

  it.each(["kit", "git@code.example:somebody/kit.git", `${repository}.git`, `${repository}/`, 7])(
    "refuse the address %j",
    (address) => {
      expect(() => repositoryAddress({ repository: address })).toThrow("expected repository to be like https://");
    },
  );

  it("are repository, homepage and bugs of each package", () => {
    expect(repositoryAddress({ repository })).toBe(repository);
    const text = '{"name":"@kit/lock","scripts":{"build":"tsup"},"devDependencies":{"tsup":"8"}}';
    expect(JSON.parse(publishedManifest(text, "packages/lock", undefined))).toEqual({ name: "@kit/lock" });
    expect(JSON.parse(publishedManifest(text, "packages/lock", repository))).toEqual({
      name: "@kit/lock",
      repository: { type: "git", url: `git+${repository}.git`, directory: "packages/lock" },
      homepage: `${repository}/tree/main/packages/lock#readme`,
      bugs: `${repository}/issues`,
    });
  });

  it("come with the author and the funding of the root's manifest", () => {
    const owner = { author: "Ann <ann@example.org>", funding: "https://fund.example/kit" };
    const text = '{"name":"@kit/lock"}';
    expect(JSON.parse(publishedManifest(text, "packages/lock", undefined, owner))).toEqual({
      name: "@kit/lock",
      ...owner,
    });
  });

  it("replace the relative links of a README", () => {
    const file = join(root, "packages/lock/README.md");
    const text =
      "[a](DESIGN.md), [b](../core/README.md#errors), [c](../queue), [d](#keys), [e](https://x.example), `[f](g)` " +
      "![h](../../apps/docs/pictures/shop.png)";
    expect(absoluteLinks(text, file, repository, "@kit/lock@1.2.3")).toBe(
      `[a](${repository}/blob/@kit/lock@1.2.3/packages/lock/DESIGN.md), [b](${repository}/blob/@kit/lock@1.2.3/packages/core/README.md#errors), ` +
        `[c](${repository}/tree/@kit/lock@1.2.3/packages/queue), [d](#keys), [e](https://x.example), \`[f](g)\` ` +
        // The picture itself: another site cannot show the page about it.
        `![h](${repository}/raw/@kit/lock@1.2.3/apps/docs/pictures/shop.png)`,
    );
  });
});

it("finds the pages that say that nothing is published yet, and deletes what is marked as a preview", () => {
  const folder = tempFolder();
  writeFiles(folder, {
    "README.md": "# kit\n\n<!-- preview -->\n\nNot on npm yet: pack it.\n\n<!-- /preview -->\n\nIt is on npm.\n",
    "docs/first.md": "## Before it is on npm\n",
    "docs/other.md": "Published. Use `<!-- preview -->`.\n",
  });
  expect(unpublishedPages(folder)).toEqual([
    "README.md:3: <!-- preview -->",
    "README.md:5: Not on npm yet: pack it.",
    "docs/first.md:1: ## Before it is on npm",
  ]);
  expect(unpublishedPages(folder, { outsidePreview: true })).toEqual(["docs/first.md:1: ## Before it is on npm"]);
  removePreviews(folder);
  expect(readFileSync(join(folder, "README.md"), "utf8")).toBe("# kit\n\nIt is on npm.\n");
  expect(unpublishedPages(folder)).toEqual(["docs/first.md:1: ## Before it is on npm"]);
});

const entry = (path: string, text: string): TarEntry => ({ path, content: Buffer.from(text), isProgram: false });

it("makes tarballs that tar reads, in the order of the names, and that depend on contents alone", () => {
  const folder = tempFolder();
  const deep = `dist/${"folder/".repeat(15)}index.js`;
  const files = [
    entry("README.md", "short"),
    entry(deep, "x".repeat(700)),
    { ...entry("dist/main.js", ""), isProgram: true },
  ];
  const tarball = join(folder, "one.tgz");
  writeFileSync(tarball, makeTarball(files));
  const tar = (...args: string[]): string => execFileSync("tar", args, { cwd: folder, encoding: "utf8" });
  expect(tar("-tzf", tarball).trim().split("\n")).toEqual([
    `package/README.md`,
    `package/${deep}`,
    "package/dist/main.js",
  ]);
  expect(tar("-xzOf", tarball, `package/${deep}`)).toBe("x".repeat(700));
  expect(tar("-tvzf", tarball)).toMatch(/^-rw-r--r-- .*README\.md\n-rw-r--r-- .*\n-rwxr-xr-x .*main\.js$/m);
  expect(makeTarball(files.toReversed()).equals(readFileSync(tarball))).toBe(true);
  expect(readTarball(readFileSync(tarball)).map(({ path, content }) => `${path} ${content.length}`)).toEqual([
    "README.md 5",
    `${deep} 700`,
    "dist/main.js 0",
  ]);
  expect(() => makeTarball([entry("x".repeat(101), "")])).toThrow(RangeError);
});

describe("the packages as they are published", () => {
  const packed = new Map<string, TarEntry[]>();
  const env = { ...process.env, PATH: [findPnpm(), process.env["PATH"]].join(delimiter) };
  const textOf = (name: string, path: string): string =>
    packed
      .get(name)
      ?.find((file) => file.path === path)
      ?.content.toString("utf8") ?? "";
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
    for (const one of publicPackages())
      packed.set(one.manifest.name, readTarball(readFileSync(await packPackage(one, folder, env, { repository }))));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("have these files and no others", async () => {
    // Types that entries share are in files of any number, whose names have a hash; a changelog is there from the first version on.
    const lines = [...packed].flatMap(([name, files]) => {
      const paths = files.map(({ path }) => path.replace(/[\w.-]+-[\w-]{8}(?=\.d\.c?ts$)/, "SHARED"));
      return [...new Set(paths)]
        .filter((path) => path !== "CHANGELOG.md")
        .toSorted()
        .map((path) => `${name} ${path}`);
    });
    await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("golden/published-files.txt");
  });

  it("tell nothing that is of use in this repository only", () => {
    for (const name of packed.keys()) {
      const manifest = JSON.parse(textOf(name, "package.json")) as Record<string, unknown>;
      expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(["devDependencies"]));
      expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(["scripts"]));
      expect(JSON.stringify(manifest)).not.toMatch(/workspace:|catalog:|@tooling\//);
      expect(manifest).toMatchObject({ bugs: `${repository}/issues`, publishConfig: { access: "public" } });
    }
  });

  it("have READMEs whose links lead to the tag of their version", () => {
    for (const { manifest } of publicPackages()) {
      const { name, version } = manifest;
      const targets = linksOf(textOf(name, "README.md")).map(({ target }) => target);
      const ours = targets.filter((target) => target.startsWith(repository));
      expect(targets.filter((target) => !/^(?:https:|#)/.test(target))).toEqual([]);
      expect(ours).not.toEqual([]);
      expect(ours.filter((target) => !target.includes(`/${name}@${version}/`))).toEqual([]);
    }
  });

  it("have code without references to source maps that are not there", () => {
    const code = [...packed.values()].flat().filter(({ path }) => /\.c?js$/.test(path));
    expect(code.length).toBeGreaterThan(50);
    expect(code.filter(({ content }) => content.includes("sourceMappingURL")).map(({ path }) => path)).toEqual([]);
  });
});

it("packs the packages of kit that a package needs before it, once", () => {
  const names = (...wanted: string[]): string[] =>
    withNeeds(publicPackages(), wanted).map(({ manifest }) => manifest.name);
  expect(names("@kit/lock", "@kit/semaphore")).toEqual(["@kit/core", "@kit/lock", "@kit/semaphore"]);
  expect(names().length).toBe(publicPackages().length);
  expect(() => names("@kit/look")).toThrow("No package is named @kit/look. There are:\n  @kit/");
});
