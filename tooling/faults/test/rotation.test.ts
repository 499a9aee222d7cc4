import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { workspaceFolder } from "../src/lab/paths.js";
import { verdictOn } from "../src/rotation/verdict.js";

const run = async (...args: readonly string[]): Promise<{ code: number | null; printed: string }> => {
  const program = join(workspaceFolder, "dist/main.js");
  const writer = ["--writer", "log4js, header"];
  // One file system, so each configuration runs once.
  const env = existsSync("/dev/shm") ? { ...process.env, TMPDIR: "/dev/shm" } : process.env;
  const own = ["logship", "--lines", "1200", "--seed", "1", ...writer, ...args];
  const child = spawn(process.execPath, [program, ...own], { env });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (printed += String(text)));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, printed };
};

describe("a log that a logger rotates", () => {
  it.concurrent("is counted once by a job, by `add()` and by `follow()`", async () => {
    const { code, printed } = await run();
    expect(code, printed).toBe(0);
    expect(printed.match(/1200 counted, 0 lost, 0 doubled, 0 odd/g)).toHaveLength(3);
  });

  it.concurrent("is not, where a position is reset", async () => {
    const { code, printed } = await run("--control", "position-reset");
    expect(code, printed).toBe(1);
    expect(printed).toMatch(/job .*, 0 lost, [1-9]\d* doubled/);
  });
});

it("a difference needs an event that covers its line", () => {
  const truth = new Set(["1", "2"]);
  const judge = (counts: Record<string, string>, event?: string, facts: object = {}): boolean => {
    const noted = event === undefined ? [] : [{ way: "job", event, ...facts }];
    return verdictOn("job", truth, new Map(Object.entries(counts)), noted).isRight;
  };
  const [first, second] = [
    { first: 1, last: 1 },
    { first: 2, last: 5 },
  ];
  expect([judge({ 1: "1", 2: "1" }), judge({ 1: "1" })]).toEqual([true, false]);
  const gap = (to: number): boolean => judge({ 1: "1" }, "gap", { from: 100, to });
  expect([gap(100), gap(110), gap(160)]).toEqual([false, false, true]);
  for (const event of ["moved", "skipped", "damaged"])
    expect([judge({ 1: "1" }, event), judge({ 1: "1" }, event, first), judge({ 1: "1" }, event, second)]).toEqual([
      false,
      false,
      true,
    ]);
  const twice = { 1: "2", 2: "1" };
  for (const event of ["copy", "again"])
    expect([judge(twice), judge(twice, event), judge(twice, event, second), judge(twice, event, first)]).toEqual([
      false,
      false,
      false,
      true,
    ]);
  expect(judge({ 1: "1", 2: "1", part: "1" }, "copy", first)).toBe(false);
});
