// The files that GitHub reads. There is no run of them here: this compares them with what GitHub accepts, and with this
// repository.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { publicPackages, repositoryAddress } from "../pack.mjs";
import { readManifest, root } from "../repo.mjs";
import { codeownersProblems, formProblems, updateProblems, workflowProblems } from "../checks/github.mjs";

const folder = join(root, ".github");
const read = (...path: string[]): string => readFileSync(join(folder, ...path), "utf8");
const workflows = readdirSync(join(folder, "workflows"));
const forms = readdirSync(join(folder, "ISSUE_TEMPLATE")).filter((name) => name !== "config.yml");
const scripts = readManifest(root).scripts ?? {};

/** Replaces one part of a text, which must contain it. */
const spoil = (text: string, what: string | RegExp, by: string): string => {
  const spoilt = text.replace(what, by);
  if (spoilt === text) throw new Error(`there is no ${String(what)} to spoil`);
  return spoilt;
};

it.each(workflows)("the workflow %s is sound", (name) => {
  expect(workflowProblems(read("workflows", name), scripts)).toEqual([]);
});

describe("a workflow is refused", () => {
  it.each([
    ["with an action by a tag", /checkout@\w+ # v[\d.]+/, "checkout@v6", "actions/checkout@v6 is not pinned by commit"],
    [
      "without the version of a pinned action",
      /( *- uses: actions\/checkout@\w+) # v[\d.]+/,
      "$1",
      "has no version beside it",
    ],
    ["with an input of another major", "publish: npm", "publish-script: npm", "action@v1 has no input publish-script"],
    ["with another major of an action", /# v1\.7\.0/g, "# v2.1.2", "the inputs of changesets/action@v2 are not known"],
    ["with rights for every job", "permissions: {}", "permissions: write-all", "permissions of the workflow"],
    ["without rights that are named", /^permissions: \{\}$/m, "", "permissions of the workflow"],
    ["with a right that no job needs", "id-token: write", "packages: write", "publish: may not have packages: write"],
    [
      "that runs a script that is not there",
      "publish: npm run release",
      "publish: npm run publish",
      "there is no script publish",
    ],
    ["without an end", /^ +timeout-minutes: .*$/m, "", "versions: has no timeout-minutes"],
    ["that a foreign pull request runs with rights", "push:", "pull_request_target:", "pull_request_target"],
    [
      "that puts foreign text into a command",
      "run: npm run setup",
      "run: echo ${{ github.head_ref }}",
      "an expression in a command",
    ],
    ["with a key that GitHub does not know", "runs-on:", "run-on:", "versions: unknown key run-on"],
    ["with a step that does nothing", "- run: npm run setup", "- name: nothing", "neither uses nor run"],
    ["that is no YAML", "jobs:", "jobs: [", "is no YAML"],
  ])("%s", (_, what, by, problem) => {
    expect(workflowProblems(spoil(read("workflows", "release.yml"), what, by), scripts).join("\n")).toContain(problem);
  });

  it("that leaves its token on the disk of a job that only reads", () => {
    const text = spoil(read("workflows", "checks.yml"), /persist-credentials: false/, "fetch-depth: 1");
    expect(workflowProblems(text, scripts)).toEqual([
      "test: checkout keeps the token, which only a job that writes needs",
    ]);
  });
});

type Jobs = Record<
  string,
  {
    needs?: string[];
    uses?: string;
    environment?: string;
    permissions?: object;
    strategy?: { matrix: { node: number[] } };
  }
>;
const jobsOf = (name: string): Jobs => (parse(read("workflows", name)) as { jobs: Jobs }).jobs;

it("tests on every line of Node that the pages name", () => {
  expect(jobsOf("checks.yml")["test"]?.strategy?.matrix.node).toEqual([20, 22, 24, 26]);
  expect(readManifest(root).engines?.["node"]).toBe(">=20.19");
});

it("publishes only what passed the checks, in a job that alone may publish", () => {
  const { checks, versions, publish } = jobsOf("release.yml");
  expect(checks?.uses).toBe("./.github/workflows/checks.yml");
  expect(jobsOf("pull-request.yml")["checks"]?.uses).toBe(checks?.uses);
  expect(publish?.needs).toEqual(["checks", "versions"]);
  expect([publish?.environment, publish?.permissions]).toEqual(["npm", { contents: "write", "id-token": "write" }]);
  expect([versions?.environment, versions?.permissions]).toEqual([
    undefined,
    { contents: "write", "pull-requests": "write" },
  ]);
});

it.each(forms)("the issue form %s is sound", (name) => {
  expect(formProblems(read("ISSUE_TEMPLATE", name))).toEqual([]);
});

it("names every package in the form for faults", () => {
  const text = read("ISSUE_TEMPLATE", "bug.yml");
  expect([...text.matchAll(/"(@kit\/\w+)"/g)].map(([, name]) => name)).toEqual(
    publicPackages().map(({ manifest }) => manifest.name),
  );
});

it("refuses a form that GitHub would not show", () => {
  const text = read("ISSUE_TEMPLATE", "bug.yml");
  expect(formProblems(spoil(text, "id: seen", "id: package"))).toEqual(["two fields have the id package"]);
  expect(formProblems(spoil(text, "type: dropdown", "type: select"))).toEqual(["there is no field of type select"]);
  expect(formProblems(spoil(text, /^ +label: Package\n/m, ""))).toEqual(["package: has no label"]);
  expect(formProblems(spoil(text, /^description: .*\n/m, ""))).toEqual(["has no description"]);
});

it("keeps actions and packages up to date", () => {
  expect(updateProblems(read("dependabot.yml"))).toEqual([]);
  expect(updateProblems(spoil(read("dependabot.yml"), "github-actions", "actions"))).toEqual([
    "there are no updates of github-actions",
    "there is no ecosystem actions",
  ]);
  expect(updateProblems(spoil(read("dependabot.yml"), "interval: monthly", "interval: hourly"))).toEqual([
    "there is no interval hourly",
  ]);
});

it("asks the owner of the repository for reviews, once there is one", () => {
  expect(codeownersProblems(read("CODEOWNERS"), repositoryAddress())).toEqual([]);
  const address = "https://code.example/somebody/kit";
  expect(codeownersProblems("# nobody\n", address)).toEqual(["CODEOWNERS: expected the line `* @somebody`"]);
  expect(codeownersProblems("* @somebody\n", address)).toEqual([]);
  expect(codeownersProblems("* @somebody\n", undefined)).toEqual([
    "CODEOWNERS: names an owner that package.json does not",
  ]);
});

it("has no address of its own", () => {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    /\.(?:ya?ml|md)$|OWNERS/.test(name),
  );
  expect(files.length).toBeGreaterThan(6);
  expect(files.filter((name) => /https?:|@[\w-]+\.\w/.test(read(name)))).toEqual([]);
});
