// Follows the steps of CONTRIBUTING.md, "Adding a package", in a copy of the repository. Every tool must find the new
// package.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { filesOfPackage } from "../checks/packed.mjs";
import { measureSizes } from "../checks/sizes.mjs";
import { publishedProblems } from "../checks/supplies.mjs";
import { copyTree } from "../release/copy.mjs";
import { root, workspaces } from "../repo.mjs";
import { site, siteProblems } from "../site/site.mjs";
import { writeFiles } from "./temp.js";

const descriptor = `
import type { PackageDescriptor } from "@kit/core/toolkit";
import { createParrot } from "../index.js";
import { parrotKeys } from "../keys.js";

export const descriptor: PackageDescriptor = {
  name: "parrot",
  things: "parrots",
  permissions: { tried: (key) => [["GET", key], ["SET", key, "", "XX", "PX", 1]] },
  endlessKeys: [{ key: /^\\{.*\\}:cage$/s }],
  inspectors: [
    {
      thing: "parrot",
      about: "what it says",
      options: [{ name: "loud", about: "in capitals" }],
      look: async ({ redis, prefix, isSet }, name: string) => {
        const said = await createParrot(redis, name, prefix).said();
        const text = isSet("loud") ? said.toUpperCase() : said;
        return { data: { parrot: name, said: text }, facts: [["parrot", name], ["said", text]] };
      },
      keys: (prefix, name: string) => [parrotKeys(prefix, name).word],
    },
  ],
  commands: [
    {
      path: "parrot teach",
      about: "teaches it words",
      args: [{ name: "name", about: "" }, { name: "word", about: "", count: "many" }],
      options: [{ name: "ms", takes: "integer", about: "how long it remembers" }],
      run: async ({ redis, prefix, output, integer }, name: string, ...words: string[]) => {
        await createParrot(redis, name, prefix).teach(words.join(" "), integer("ms") ?? 60_000);
        await output.report({ data: { taught: words }, facts: words.map((word) => ["taught", word]) });
      },
    },
    {
      path: "listen",
      about: "waits for Ctrl-C",
      run: async ({ output, signal }) => {
        await output.line({ listens: true }, "listens");
        const timer = setInterval(() => undefined, 1_000);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        clearInterval(timer);
        await output.note("stopped");
      },
    },
  ],
  checks: [
    {
      id: "parrot-alive",
      about: "**Problem** when it is dead.",
      look: async ({ redis, prefix }) => [
        { severity: "ok", text: \`\${String(await redis.call("EXISTS", parrotKeys(prefix, "polly").word))} sits there\` },
      ],
    },
  ],
};
`;

const files = {
  "packages/parrot/src/keys.ts": `
import { keyspace } from "@kit/core";
export const parrotKeys = (prefix: string, name: string): { readonly word: string } => ({
  word: keyspace("parrot", prefix).key(name, "word"),
});
`,
  "packages/parrot/src/index.ts": `
import type { RedisLike } from "@kit/core";
import { parrotKeys } from "./keys.js";
export interface Parrot {
  said(): Promise<string>;
  teach(text: string, ms: number): Promise<void>;
}
export const createParrot = (redis: RedisLike, name: string, prefix = "kit"): Parrot => ({
  said: async () => String(await redis.call("GET", parrotKeys(prefix, name).word)),
  teach: async (text, ms) => void (await redis.call("SET", parrotKeys(prefix, name).word, text, "PX", String(ms))),
});
`,
  "packages/parrot/src/descriptor/index.ts": descriptor,
  "tooling/bench/src/suites/parrot/index.ts": `
import type { Suite } from "../../suite.js";
export const suite: Suite = { package: "parrot", cases: [] };
`,
  "tooling/bench/src/suites/parrot/jobs.ts": `
import type { OpenJobs } from "../../suite.js";
export const jobs: OpenJobs = () => Promise.resolve({});
`,
  "tooling/faults/src/workloads/parrot/index.ts": `
import type { Workload } from "../../workload.js";
export const workload: Workload = {
  name: "parrot",
  invariants: [],
  faults: [],
  shares: {},
  controls: [{ name: "mute-parrot", invariants: ["speaks"], kind: "any" }],
  run: () => Promise.reject(new Error("not in this test")),
};
`,
};

/** Steps 1 and 2: the folder, with the configuration of the semaphore, and its line in the command line's list of packages. */
const addPackage = (tree: string): void => {
  const from = join(tree, "packages/semaphore");
  const to = join(tree, "packages/parrot");
  mkdirSync(to);
  for (const name of ["tsconfig.json", "tsup.config.ts", "vitest.config.ts", "node_modules"])
    cpSync(join(from, name), join(to, name), { recursive: true, verbatimSymlinks: true });
  const manifest = readFileSync(join(from, "package.json"), "utf8").replace('"@kit/semaphore"', '"@kit/parrot"');
  writeFiles(tree, { "packages/parrot/package.json": manifest, ...files });
  const cli = join(tree, "packages/cli/package.json");
  const known = JSON.parse(readFileSync(cli, "utf8")) as Record<string, Record<string, unknown>>;
  Object.assign(known["peerDependencies"] ?? {}, { "@kit/parrot": "workspace:>=0.0.0 <2" });
  Object.assign(known["peerDependenciesMeta"] ?? {}, { "@kit/parrot": { optional: true } });
  Object.assign(known["devDependencies"] ?? {}, { "@kit/parrot": "workspace:^" });
  writeFileSync(cli, JSON.stringify(known));
  // As `npm run pnpm -- install` does.
  symlinkSync("../../../parrot", join(tree, "packages/cli/node_modules/@kit/parrot"));
};

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const run = (folder: string, file: string, ...args: string[]): Promise<Ended> =>
  new Promise((resolve) => {
    execFile(process.execPath, [file, ...args], { cwd: folder, maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === "number" ? error.code : error ? -1 : 0, stdout, stderr }),
    );
  });

describe("a package that was added by the steps of CONTRIBUTING.md", () => {
  let tree: string;
  let server: RedisServer;
  const built: Ended[] = [];

  beforeAll(async () => {
    tree = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
    await copyTree(tree, process.env);
    addPackage(tree);
    server = await startRedis();
    for (const folder of ["packages/parrot", "tooling/bench", "tooling/faults"])
      built.push(await run(join(tree, folder), "node_modules/tsup/dist/cli-default.js"));
  });
  afterAll(async () => {
    await server?.stop();
    if (tree) rmSync(tree, { recursive: true, force: true });
  });

  const kit = (...args: string[]): Promise<Ended> =>
    run(tree, join(tree, "packages/cli/dist/main.js"), ...args, ...(args[0] === "help" ? [] : ["--url", server.url]));

  it("is built, with the entries of its manifest and nothing else", () => {
    expect(built.filter(({ code }) => code !== 0)).toEqual([]);
    const folder = join(tree, "packages/parrot");
    const manifest = workspaces(tree).find((one) => one.folder === folder)!.manifest;
    const wanted = filesOfPackage(manifest).filter((file) => file.startsWith("dist/"));
    expect(
      readdirSync(join(folder, "dist"))
        .filter((file) => !file.endsWith(".map")) // not published
        .map((file) => `dist/${file}`)
        .toSorted(),
    ).toEqual(wanted.toSorted());
  });

  it("is inspected by the command line, which lists it", async () => {
    const all = await run(tree, join(tree, "packages/cli/dist/main.js"), "inspect");
    expect(all.stdout).toMatch(/^parrot NAME +@kit\/parrot +what it says$/m);
    const taught = await kit("parrot", "teach", "polly", "hello", "sailor", "--ms", "50000", "--json");
    expect(JSON.parse(taught.stdout)).toEqual({ version: 1, url: server.url, taught: ["hello", "sailor"] });
    const { code, stdout, stderr } = await kit("inspect", "parrot", "polly", "--loud", "--keys");
    expect(stdout).toMatch(
      /^parrot +polly\nsaid +HELLO SAILOR\nkey +kit:parrot:\{polly\}:word {2}string, expires in \d+ s\n$/,
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect((await kit("parrot", "teach", "polly", "x", "--ms", "soon")).code).toBe(64);
  });

  it("is examined by the doctor: its check, its permissions, and its keys that stay", async () => {
    await server.client().set("kit:parrot:{polly}:cage", "1");
    const { stdout } = await kit("doctor", "--json");
    const { checks } = JSON.parse(stdout) as {
      checks: { id: string; severity: string; findings: { text: string }[] }[];
    };
    const said = (id: string): unknown => checks.find((check) => check.id === id)?.findings.map(({ text }) => text);
    // Behind the doctor's own, among those of other packages.
    const ids = checks.map(({ id }) => id);
    expect(ids.slice(ids.indexOf("duplicate-copies") + 1)).toContain("parrot-alive");
    expect(said("parrot-alive")).toEqual(["1 sits there"]);
    expect(String(said("permissions"))).toContain("@kit/parrot");
    expect(checks.find(({ id }) => id === "keys-without-expiry")?.severity).toBe("ok");
    expect((await kit("help", "parrot-alive")).stdout).toBe("parrot-alive\n\nProblem when it is dead.\n");
    expect((await kit("help")).stdout).toMatch(/parrot-alive/);
  });

  it("ends its own command in order on a signal", async () => {
    const program = join(tree, "packages/cli/dist/main.js");
    const child = spawn(process.execPath, [program, "listen", "--url", server.url], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdout.once("data", () => child.kill("SIGTERM"));
    const [code] = (await once(child, "close")) as [number];
    expect({ code, stderr }).toEqual({ code: 143, stderr: "stopped\n" });
  });

  it("has its benchmarks and its faults found", async () => {
    const bench = await run(join(tree, "tooling/bench"), "dist/main.js");
    expect(bench.stderr).toMatch(/There are: .*lock, .*parrot/);
    const faults = await run(join(tree, "tooling/faults"), "dist/main.js", "all", "--list");
    expect(faults.stdout).toMatch(/^parrot\n+controls\n {2}mute-parrot /m);
  });

  it("has its pages on the site", () => {
    writeFiles(tree, { "packages/parrot/README.md": "# @kit/parrot\n\nIt repeats.\n" });
    expect(siteProblems(tree)).toEqual([]);
    expect(site(tree).pages.map(({ address }) => address)).toContain("parrot/index");
  });

  it("passes the checks of published and of unused code, and has a budget", async () => {
    const all = workspaces(tree);
    const { facts, problems } = await measureSizes(all.filter(({ manifest }) => manifest.name === "@kit/parrot"));
    expect(problems).toEqual([]);
    expect(facts.map((fact) => fact.replace(/[\d.]+ of/, "of"))).toEqual([
      "@kit/parrot of 15 KiB",
      "@kit/parrot/descriptor of 15 KiB",
    ]);
    expect(publishedProblems(all.map(({ manifest }) => manifest))).toEqual([]);
    const knip = await run(tree, join(root, "node_modules/knip/bin/knip.js"), "--no-config-hints");
    const told = knip.stdout.split("\n").filter((line) => line.includes("parrot"));
    // Without tests of its own, its dependencies for tests are reported as unused.
    expect(told.filter((line) => !/package\.json/.test(line))).toEqual([]);
    expect(knip.stdout).toContain("packages/parrot/package.json");
  });
});
