// Two releases of a copy of the repository to a registry on loopback, and somebody who installs the first and updates.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, join } from "node:path";
import { startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { brokenLinks } from "../checks/links.mjs";
import { packPackage, publicPackages, type Workspace } from "../pack.mjs";
import { findPnpm } from "../pnpm.mjs";
import { consumerEnv, copiesIn, install } from "../release/consumer.mjs";
import { commit, copyRepository } from "../release/copy.mjs";
import { hindrances } from "../release/index.mjs";
import { inOrderOfNeeds, npm, publish } from "../release/publish.mjs";
import { startRegistry } from "../release/registry.mjs";
import { rehearseSecondYear, type Release } from "../release/second-year.mjs";
import { rehearseSideBySide } from "../release/side-by-side.mjs";
import { version } from "../release/version.mjs";
import { childEnv, readManifest, root } from "../repo.mjs";
import { writeFiles } from "./temp.js";

const repository = "https://code.example/somebody/kit";
/** Those that the test publishes; all get their versions. */
const some = ["@kit/core", "@kit/lock", "@kit/queue", "@kit/cli"];

let folder: string;
let tree: string;
let project: string;
let env: NodeJS.ProcessEnv;
let userEnv: NodeJS.ProcessEnv;
let registry: Awaited<ReturnType<typeof startRegistry>>;
let refused = "@kit/queue";

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
  [tree, project] = [join(folder, "repository"), join(folder, "project")];
  mkdirSync(tree);
  env = { ...childEnv(), PATH: [findPnpm(), join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter) };
  registry = await startRegistry((name) => name === refused);
  userEnv = consumerEnv(env, registry.env, folder);
  await copyRepository(tree, env);
});
afterAll(async () => {
  await registry?.close();
  rmSync(folder, { recursive: true, force: true });
});

const versions = (): Record<string, string> =>
  Object.fromEntries(publicPackages(tree).map(({ manifest: { name, version: now = "" } }) => [name, now]));
const chosen = (): Workspace[] => publicPackages(tree).filter(({ manifest }) => some.includes(manifest.name));
const release = async (): Promise<Record<string, string>> => {
  const outcomes = await publish(userEnv, { from: tree, packages: chosen(), repository, folder: join(folder, "tgz") });
  return Object.fromEntries(outcomes.map(({ name, state }) => [name, state]));
};
const changelog = (name: string): string => readFileSync(join(tree, "packages", name, "CHANGELOG.md"), "utf8");

it("packs the same bytes from another copy of the repository", async () => {
  const pack = async (from: string): Promise<Buffer> => {
    const lock = publicPackages(from).find(({ manifest }) => manifest.name === "@kit/lock")!;
    return readFileSync(await packPackage(lock, join(folder, basename(from)), env, { repository, from }));
  };
  expect((await pack(tree)).equals(await pack(root))).toBe(true);
});

it("publishes nothing without an address, while pages say that nothing is on npm, or from files that differ", async () => {
  const manifest = JSON.parse(readFileSync(join(tree, "package.json"), "utf8")) as object;
  const setAddress = (address: string): void =>
    writeFiles(tree, { "package.json": `${JSON.stringify({ ...manifest, repository: address }, undefined, 2)}\n` });
  writeFiles(tree, { "note.md": "Not on npm yet.\n" });
  setAddress("");
  expect(await hindrances(env, tree)).toEqual([expect.stringContaining("is empty")]);
  setAddress(repository);
  const [pages, files] = await hindrances(env, tree);
  expect(pages).toContain("note.md:1: Not on npm yet.");
  expect(files).toContain("?? note.md");
  await commit(tree, env, "the address");
  expect(await hindrances(env, tree)).toEqual([expect.stringContaining("note.md:1")]);
});

it("publishes nothing that has no version yet", async () => {
  const packages = chosen().map((one) => ({ ...one, manifest: { ...one.manifest, version: "0.0.0" } }));
  await expect(publish(userEnv, { from: tree, packages, repository, folder })).rejects.toThrow(
    "These have no version yet: @kit/cli, @kit/core, @kit/lock, @kit/queue. First: npm run version",
  );
});

it("makes a second prerelease of the first version only of what changed", async () => {
  const run = (command: string, ...args: string[]): unknown => execFileSync(command, args, { cwd: tree, env });
  run("git", "checkout", "--quiet", "-b", "next");
  run("changeset", "pre", "enter", "next");
  await version(env, tree);
  writeFiles(tree, { ".changeset/one.md": '---\n"@kit/lock": patch\n---\n\n`acquire` did A.\n' });
  expect(await version(env, tree)).toEqual([{ name: "@kit/lock", version: "1.0.0-next.1" }]);
  await commit(tree, env, "prereleases");
  run("git", "checkout", "--quiet", "main");
});

it("gives no package a first version below 1.0.0", async () => {
  await version(env, tree);
  writeFiles(tree, { "note.md": "" });
  await commit(tree, env, "versions");
  // What users will see on npm: no line about a preview, and no link to one.
  expect(await hindrances(env, tree)).toEqual([]);
  expect(brokenLinks(tree)).toEqual([]);
  expect(Object.entries(versions()).filter(([, now]) => now.startsWith("0."))).toEqual([]);
});

it("publishes in the order of needs, stops where the registry refuses, and continues from there", async () => {
  expect(inOrderOfNeeds(publicPackages()).map(({ manifest }) => manifest.name)[0]).toBe("@kit/core");
  expect(await release()).toEqual({
    "@kit/core": "published",
    "@kit/lock": "published",
    "@kit/queue": "failed",
    "@kit/cli": "not reached",
  });
  refused = "";
  expect(await release()).toEqual({
    "@kit/core": "was there",
    "@kit/lock": "was there",
    "@kit/queue": "published",
    "@kit/cli": "published",
  });
  // As after a cut-off between a publication and its tag.
  const lost = `@kit/lock@${versions()["@kit/lock"]}`;
  execFileSync("git", ["tag", "--delete", lost], { cwd: tree });
  const outcomes = await publish(userEnv, { from: tree, packages: chosen(), repository, folder });
  expect(outcomes.flatMap(({ newTag = [] }) => newTag)).toEqual([lost]);
  const tags = execFileSync("git", ["tag"], { cwd: tree, encoding: "utf8" }).trim().split("\n");
  expect(tags).toEqual(some.map((name) => `${name}@${versions()[name]}`).toSorted());
});

it("is installed with one copy of each package, and its changelog", async () => {
  expect(await install(project, ["@kit/lock", "@kit/queue", "@kit/cli", "ioredis"], userEnv)).toBeUndefined();
  expect(copiesIn(project)).toEqual(Object.fromEntries(some.map((name) => [name, [versions()[name]]])));
  expect(readFileSync(join(project, "node_modules/@kit/lock/CHANGELOG.md"), "utf8")).toBe(changelog("lock"));
});

it("gives a patch and a minor to the packages of their changesets and to no other, and an update leaves one copy", async () => {
  const before = versions();
  const raised = (name: string, part: 1 | 2): string => {
    const numbers = (before[name] ?? "").split(".").map(Number);
    return numbers.map((number, index) => (index < part ? number : index === part ? number + 1 : 0)).join(".");
  };
  writeFiles(tree, {
    ".changeset/one.md": '---\n"@kit/lock": patch\n---\n\n`acquire` did A when B; it now does C.\n',
    ".changeset/two.md": '---\n"@kit/core": minor\n---\n\n`connect` takes a D:\n\n- an E\n- an F\n',
  });
  await version(env, tree);
  await commit(tree, env, "versions");
  const after = { ...before, "@kit/core": raised("@kit/core", 1), "@kit/lock": raised("@kit/lock", 2) };
  expect(versions()).toEqual(after);

  const today = `_${new Date().toISOString().slice(0, 10)}_`;
  expect(changelog("lock")).toContain(
    `# @kit/lock\n\n## ${after["@kit/lock"]}\n\n${today}\n\n### Patch Changes\n\n` +
      `- \`acquire\` did A when B; it now does C.\n- Works with \`@kit/core\` ${after["@kit/core"]}.\n`,
  );
  expect(changelog("core")).toContain("- `connect` takes a D:\n\n  - an E\n  - an F\n");

  expect(await release()).toEqual({
    "@kit/core": "published",
    "@kit/lock": "published",
    "@kit/queue": "was there",
    "@kit/cli": "was there",
  });
  expect((await npm(["update"], userEnv, project)).code).toBe(0);
  expect(copiesIn(project)).toEqual(
    Object.fromEntries(some.map((name) => [name, [after[name as keyof typeof after]]])),
  );
});

describe("a second year of releases", () => {
  let releases: Release[];
  /** What a user of 1.0.0 has after a release: one copy of each. */
  const oneCopy = (...given: string[]): Record<string, string[]> =>
    Object.fromEntries(some.toSorted().map((name, index) => [name, [given[index] ?? ""]]));

  beforeAll(async () => {
    const refuse = (name = ""): void => void (refused = name);
    releases = await rehearseSecondYear({ tree, env, userEnv, folder, names: some, refuse, repository });
  });

  it("publishes a version, offers it, and tags it, each by its own rule", () => {
    expect(
      releases.map(({ what, versions: published, offered, tags }) => ({ what, published, offered, tags })),
    ).toEqual([
      {
        what: "a patch of lock and a minor of core",
        published: { "@kit/core": "1.2.0", "@kit/lock": "1.0.2" },
        offered: { core: { latest: "1.2.0" }, lock: { latest: "1.0.2" } },
        tags: ["@kit/core@1.2.0", "@kit/lock@1.0.2"],
      },
      {
        what: "a major of core, refused in the middle",
        published: { "@kit/core": "2.0.0" },
        offered: { core: { latest: "2.0.0" }, lock: { latest: "1.0.2" } },
        tags: ["@kit/core@2.0.0"],
      },
      {
        what: "the same, repeated",
        published: { "@kit/lock": "2.0.0", "@kit/queue": "2.0.0", "@kit/cli": "2.0.0" },
        offered: { core: { latest: "2.0.0" }, lock: { latest: "2.0.0" } },
        tags: ["@kit/lock@2.0.0", "@kit/queue@2.0.0", "@kit/cli@2.0.0"],
      },
      {
        what: "a patch of core 1",
        published: { "@kit/core": "1.2.1" },
        offered: { core: { latest: "2.0.0", "latest-1": "1.2.1" }, lock: { latest: "2.0.0" } },
        tags: ["@kit/core@1.2.1"],
      },
      {
        what: "a prerelease of a minor of lock",
        published: { "@kit/lock": "2.1.0-next.0" },
        offered: { core: { latest: "2.0.0", "latest-1": "1.2.1" }, lock: { latest: "2.0.0", next: "2.1.0-next.0" } },
        tags: ["@kit/lock@2.1.0-next.0"],
      },
      {
        what: "its end",
        published: { "@kit/lock": "2.1.0" },
        // `next` does not go on offering the prerelease.
        offered: { core: { latest: "2.0.0", "latest-1": "1.2.1" }, lock: { latest: "2.1.0", next: "2.1.0" } },
        tags: ["@kit/lock@2.1.0"],
      },
    ]);
  });

  it("leaves a user of version 1 who updates with one copy of each package, of version 1", () => {
    const before = oneCopy("1.0.0", "1.2.0", "1.0.2", "1.0.0");
    const after = oneCopy("1.0.0", "1.2.1", "1.0.2", "1.0.0");
    expect(releases.map(({ update }) => update)).toEqual([before, before, before, after, after, after]);
  });

  it("names the major of a package in the changelogs of those that need it or load it", () => {
    expect(changelog("lock")).toMatch(/## 2\.0\.0\n\n.*\n\n### Major Changes\n\n- Needs `@kit\/core` 2\./);
    expect(changelog("cli")).toContain("- Also works with `@kit/lock` 2.");
    const { peerDependencies = {} } = readManifest(join(tree, "packages/cli"));
    expect(Object.keys(peerDependencies)).toContain("@kit/lock");
    const ours = Object.entries(peerDependencies).filter(([name]) => name.startsWith("@kit/"));
    expect(ours.filter(([, range]) => range !== "workspace:>=0.0.0 <3")).toEqual([]);
  });

  it("has processes of two versions of one major share jobs and a lock, the older ones as they were published", async () => {
    const server = await startRedis();
    try {
      const place = { versions: { "@kit/core": "1.0.0" }, kept: join(folder, "tgz"), folder: join(folder, "sides") };
      const sides = await rehearseSideBySide({ ...place, env: { ...userEnv, REDIS_URL: server.url } });
      expect(sides.map(({ copies }) => Object.values(copies).join(" "))).toEqual([
        "1.1.0 1.0.1 1.0.0",
        "1.2.1 1.0.1 1.0.0",
        "1.2.1 1.0.2 1.0.0",
      ]);
    } finally {
      await server.stop();
    }
  });

  it("says how to move a tag that the registry lets it not move, also when it is repeated", async () => {
    const version = `@kit/lock@${versions()["@kit/lock"]}`;
    await npm(["dist-tag", "add", "@kit/lock@2.1.0-next.0", "next"], userEnv);
    execFileSync("git", ["tag", "--delete", version], { cwd: tree });
    refused = "@kit/lock next";
    const outcomes = await publish(userEnv, { from: tree, packages: chosen(), repository, folder });
    refused = "";
    expect(outcomes.find(({ name }) => name === "@kit/lock")).toMatchObject({
      state: "was there",
      newTag: version,
      advice: expect.stringContaining(`npm dist-tag add ${version} next`) as string,
    });
  });

  it("tags no commit that makes another package than the one that was published", async () => {
    const tag = `@kit/lock@${versions()["@kit/lock"]}`;
    execFileSync("git", ["tag", "--delete", tag], { cwd: tree });
    writeFileSync(join(tree, "packages/lock/README.md"), "# Another\n");
    await commit(tree, env, "after the publication");
    expect(await release()).toMatchObject({ "@kit/lock": "failed" });
    expect(execFileSync("git", ["tag", "--list", tag], { cwd: tree, encoding: "utf8" })).toBe("");
  });
});
