import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { absoluteLinks, linksOf } from "../checks/links.mjs";
import { rewriteTarball } from "../checks/packed.mjs";
import { pack, publicPackages, publishedManifest, repositoryAddress, withNeeds } from "../pack.mjs";
import { root } from "../repo.mjs";
import { writeFiles } from "./temp.js";

const repository = "https://code.example/somebody/kit";

describe("the addresses derived from the repository's", () => {
  it("are missing without one, and then no package can be released", async () => {
    expect(repositoryAddress({ repository: "" })).toBeUndefined();
    if (repositoryAddress() !== undefined) return;
    await expect(pack({}, ["--release"])).rejects.toThrow("Not to be published yet: `repository`");
  });

  it.each(["kit", "git@code.example:somebody/kit.git", `${repository}.git`, `${repository}/`, 7])(
    "refuse the address %j",
    (address) => {
      expect(() => repositoryAddress({ repository: address })).toThrow("expected repository to be like https://");
    },
  );

  it("are repository, homepage and bugs of each package", () => {
    expect(repositoryAddress({ repository })).toBe(repository);
    expect(JSON.parse(publishedManifest('{"name":"@kit/lock"}', "packages/lock", repository))).toEqual({
      name: "@kit/lock",
      repository: { type: "git", url: `git+${repository}.git`, directory: "packages/lock" },
      homepage: `${repository}/tree/main/packages/lock#readme`,
      bugs: `${repository}/issues`,
    });
  });

  it("replace the relative links of a README", () => {
    const file = join(root, "packages/lock/README.md");
    const text =
      "[a](DESIGN.md), [b](../core/README.md#errors), [c](../queue), [d](#keys), [e](https://x.example), `[f](g)`";
    expect(absoluteLinks(text, file, repository)).toBe(
      `[a](${repository}/blob/main/packages/lock/DESIGN.md), [b](${repository}/blob/main/packages/core/README.md#errors), ` +
        `[c](${repository}/tree/main/packages/queue), [d](#keys), [e](https://x.example), \`[f](g)\``,
    );
  });

  it("leave no README of a package with a link that only works in the repository", () => {
    for (const { folder } of publicPackages()) {
      const file = join(folder, "README.md");
      const targets = linksOf(absoluteLinks(readFileSync(file, "utf8"), file, repository)).map(({ target }) => target);
      expect(targets.filter((target) => !/^(?:https:|#)/.test(target))).toEqual([]);
    }
  });
});

it("rewrites a file in a tarball, and leaves the others", () => {
  const folder = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFiles(folder, { "package/README.md": "short", "package/dist/index.js": "x".repeat(700), "package/LICENSE": "" });
  const tarball = join(folder, "one.tgz");
  const tar = (...args: string[]): string => execFileSync("tar", args, { cwd: folder, encoding: "utf8" });
  tar("--format=ustar", "-czf", tarball, "package/README.md", "package/dist/index.js", "package/LICENSE");
  rewriteTarball(tarball, { "README.md": (text) => `${text} – ${"long ".repeat(200)}` });
  expect(tar("-tzf", tarball).trim().split("\n")).toEqual([
    "package/README.md",
    "package/dist/index.js",
    "package/LICENSE",
  ]);
  expect(tar("-xzOf", tarball, "package/README.md")).toBe(`short – ${"long ".repeat(200)}`);
  expect(tar("-xzOf", tarball, "package/dist/index.js")).toBe("x".repeat(700));
});

it("packs the packages of kit that a package needs before it, once", () => {
  const names = (...wanted: string[]): string[] =>
    withNeeds(publicPackages(), wanted).map(({ manifest }) => manifest.name);
  expect(names("@kit/lock", "@kit/semaphore")).toEqual(["@kit/core", "@kit/lock", "@kit/semaphore"]);
  expect(names().length).toBe(publicPackages().length);
  expect(() => names("@kit/look")).toThrow("No package is named @kit/look. There are:\n  @kit/");
});
