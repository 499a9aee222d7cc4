import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eventually } from "@kit/testing";
import { end, outputOf } from "@tooling/lab";
import { describe, expect, it } from "vitest";
import { usage } from "../src/options.js";
import type { Figure, Report } from "../src/report.js";

const program = fileURLToPath(new URL("../dist/main.js", import.meta.url));

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const bench = async (...args: string[]): Promise<Outcome> => {
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const output = outputOf(child);
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...output };
};

const cut = ["--rounds", "1", "--scale", "0.1"];

const isFigure = (figure: Figure | undefined): boolean =>
  figure !== undefined && "median" in figure && figure.min <= figure.median && figure.median <= figure.max;

/** In windows of a tenth of the usual length; where other tests have the machine, and too little is done in one, of the usual. */
const measured = async (
  args: readonly string[],
  isEnough: (report: Report) => boolean = () => true,
): Promise<Report> => {
  const run = async (scale: string): Promise<Report> =>
    JSON.parse((await bench(...args, "--json", "--rounds", "1", "--scale", scale)).stdout) as Report;
  const report = await run("0.1");
  return report.cases.every(({ kit }) => "median" in kit) && isEnough(report) ? report : await run("1");
};

// Other tests may have the machine as well.
describe("npm run bench", { timeout: 300_000 }, () => {
  it("gives one object of the agreed shape for --json, and nothing else", async () => {
    const { code, stdout, stderr } = await bench("lock", "--case", "uncontended c=1", "--json", ...cut);
    expect(stderr).toBe("");
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as Report;
    expect(report).toMatchObject({ package: "lock", node: process.version, rounds: 1, scale: 0.1 });
    expect(report.redis).toMatch(/^(redis|valkey) \d/);
    const [entry, ...more] = report.cases;
    expect(more).toEqual([]);
    expect(entry).toMatchObject({ case: "uncontended c=1", unit: "pairs/s", better: "higher" });
    expect(isFigure(entry?.kit)).toBe(true);
    expect(isFigure(entry?.floor ?? undefined)).toBe(true);
    const peers = [
      "redlock@4.2.0",
      "redlock@5.0.0-beta.2",
      "redis-semaphore@5.8.0",
      "redlock-universal@0.8.5",
      "classic",
    ];
    for (const peer of peers) {
      expect(isFigure(entry?.peers[peer]), peer).toBe(true);
      expect(entry?.ratio[peer], peer).toBeGreaterThan(0);
      expect(entry?.settings[peer], peer).toBeTruthy();
    }
    expect(entry?.ratio["redlock"]).toBe(
      Math.min(entry?.ratio["redlock@4.2.0"] ?? NaN, entry?.ratio["redlock@5.0.0-beta.2"] ?? NaN),
    );
    expect(entry?.serverCpuMicros["kit"]).toBeGreaterThan(0);
  });

  it("hands one lock from process to process, with every implementation, and never to two at once", async () => {
    const of = ({ cases }: Report, name: string) => cases.find((entry) => entry.case === name);
    const commandsOf = (report: Report) => of(report, "contended commands per hand-off");
    // Of a window with three hand-offs the commands at its edges are a large part.
    const isEnough = (report: Report) => Math.abs((commandsOf(report)?.floor?.median ?? NaN) - 2) < 0.5;
    const report = await measured(["lock", "--case", "contended 16x4"], isEnough);
    const commands = commandsOf(report);
    expect(commands?.kit).toHaveProperty("median");
    // Where others have the machine as well, a peer's figure may be its error.
    for (const peer of ["redlock@4.2.0", "redis-semaphore@5.8.0", "classic"])
      expect(commands?.peers, peer).toHaveProperty([peer]);
    // Two commands per hand-off go over the wire; those that the scripts call are counted apart.
    expect(commands?.floor?.median).toBeCloseTo(2, 0);
    expect(commands?.innerCommands["floor"]).toBeGreaterThan(2);
    expect(of(report, "contended 16x4 hold=5ms gap p99")?.kit).toHaveProperty("median");
  });

  it("sees who lets in too many when clocks differ", async () => {
    const { stdout } = await bench("semaphore", "--case", "over-admission", "--json", ...cut);
    const [skewed, ...more] = (JSON.parse(stdout) as Report).cases;
    expect(more).toEqual([]);
    expect(skewed?.case).toBe("over-admission under ±1 h client clock skew");
    expect(skewed?.kit).toEqual({ median: 0, min: 0, max: 0 });
    const least = ["redis-semaphore@5.8.0", "classic basic"].map((peer) => {
      const figure = skewed?.peers[peer];
      return figure && "min" in figure ? figure.min : 0;
    });
    expect(Math.max(...least)).toBeGreaterThan(0);
  });

  it("kills a master behind one address, and sees jobs run on the replica that the Sentinels promoted", async () => {
    const { stdout } = await bench("outage", "--case", "failover", "--json", ...cut);
    const [entry] = (JSON.parse(stdout) as Report).cases;
    expect(isFigure(entry?.kit)).toBe(true);
    expect(Object.keys(entry?.peers ?? {})).toEqual(expect.arrayContaining(["bullmq@6.7.0", "bullmq@6.0.11"]));
    expect(entry?.details["kit"]?.["ms until the last job"]).toBeGreaterThan(0);
  });

  it("measures the build of another checkout next to ours for --before, and nothing else", async () => {
    const checkout = await mkdtemp(join(tmpdir(), "kit-before-"));
    const lock = join(checkout, "tooling/bench/node_modules/@kit/lock");
    await Promise.all([lock, join(checkout, "packages/core/dist")].map((folder) => mkdir(folder, { recursive: true })));
    await writeFile(join(lock, "index.js"), `throw new Error("the other build")`);
    const { stdout } = await bench("lock", "--case", "uncontended c=1", "--before", checkout, "--json", ...cut);
    await rm(checkout, { recursive: true });
    const [entry] = (JSON.parse(stdout) as Report).cases;
    expect(isFigure(entry?.kit)).toBe(true);
    expect(entry?.peers).toEqual({ before: { error: "the other build" } });
  });

  it("lets two builds take turns in slices, in one process", async () => {
    const root = fileURLToPath(new URL("../../../", import.meta.url));
    const { stdout } = await bench("lock", "--case", "uncontended c=1", "--before", root, "--json", ...cut);
    const [entry] = (JSON.parse(stdout) as Report).cases;
    expect(entry?.turns).toMatchObject({ of: "slices", pairs: 12 });
    const { lower = NaN, median = NaN, upper = NaN } = entry?.turns ?? {};
    expect([lower <= median, median <= upper]).toEqual([true, true]);
    expect(entry?.ratio).toEqual({ before: median, "best peer": median });
    expect([isFigure(entry?.kit), isFigure(entry?.peers["before"])]).toEqual([true, true]);
  });

  it("compares two builds in rounds where a case is more than one operation", async () => {
    const root = fileURLToPath(new URL("../../../", import.meta.url));
    const { stdout } = await bench("lock", "--case", "burst", "--before", root, "--json", ...cut);
    expect((JSON.parse(stdout) as Report).cases[0]?.turns).toMatchObject({ of: "rounds", pairs: 1 });
  });

  it("measures ours on another client next to ours on ioredis, and counts the commands of both", async () => {
    const { stdout } = await bench("lock", "--case", "uncontended c=1", "--client", "node-redis", "--json", ...cut);
    const [entry] = (JSON.parse(stdout) as Report).cases;
    expect(Object.keys(entry?.peers ?? {})).toEqual(["ioredis"]);
    expect(entry?.settings["kit"]).toMatch(/^on node-redis; /);
    expect(entry?.turns).toMatchObject({ of: "slices", pairs: 12 });
    expect(entry?.ratio["ioredis"]).toBe(entry?.turns?.median);
    const commandsOf = ({ cases }: Report): number[] => {
      const found = cases.find(({ case: name }) => name === "contended commands per hand-off");
      const figures = [found?.kit, found?.peers["ioredis"]];
      return figures.map((figure) => (figure && "median" in figure ? figure.median : 0));
    };
    const rounds = await measured(["lock", "--case", "contended 16x4", "--client", "node-redis"], (report) =>
      commandsOf(report).every((median) => median > 1),
    );
    for (const median of commandsOf(rounds)) expect(median).toBeGreaterThan(1);
    const { code, stderr } = await bench("core", "--client", "node-redis");
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("core need ioredis") });
  });

  it("prints its usage for --help", async () => {
    expect(await bench("--help")).toEqual({ code: 0, stdout: usage, stderr: "" });
  });

  it("names the packages there are for one that is not", async () => {
    const { code, stdout, stderr } = await bench("no-such");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(
      /^There are no benchmarks of "no-such"\. There are: (.*, )?core, (.*, )?lock, (.*, )?semaphore/,
    );
  });

  it("names the cases there are for a pattern that fits none", async () => {
    const { code, stderr } = await bench("lock", "--case", "no such thing");
    expect(code).toBe(2);
    expect(stderr).toContain("1000 idle waiters 10s commands");
  });

  it("leaves no process behind when it is interrupted", async () => {
    const child = spawn(process.execPath, [program, "lock", "--case", "contended 16x4"], {
      stdio: "ignore",
      detached: true,
    });
    const group = child.pid ?? NaN;
    // The program itself, and clients of at least one implementation.
    await eventually(() => expect(processesOf(group)).toBeGreaterThanOrEqual(5), { timeoutMs: 20_000 });
    await end(child, "SIGINT");
    await eventually(() => expect(processesOf(group)).toBe(0), { timeoutMs: 20_000 });
  });
});

/** How many processes of the group live. */
const processesOf = (group: number): number => {
  const groups = execFileSync("ps", ["-A", "-o", "pgid="], { encoding: "utf8" }).split("\n");
  return groups.filter((one) => Number(one) === group).length;
};
