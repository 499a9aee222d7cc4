import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { capture } from "../run.mjs";
import { removeResults, sum, tallyLine, tallyOf } from "../tally.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const result = (passed: number, failed: number, skipped: number) =>
  JSON.stringify({ passed, failed, skipped, failures: Array.from({ length: failed }, (_, i) => `test ${i}`) });

describe("the tally", () => {
  it("adds up every result of a workspace", () => {
    const folder = tempFolder();
    writeFiles(folder, {
      "test-results/result.json": result(5, 1, 0),
      "test-results/result-browser.json": result(3, 0, 2),
      "test-results/other.json": "not a result",
    });
    expect(tallyOf(folder)).toEqual({ passed: 8, failed: 1, skipped: 2, failures: ["test 0"] });
  });

  it.each([
    ["left no result", {}],
    ["left half a result", { "test-results/result.json": '{"passed": 5,' }],
    ["left a result without numbers", { "test-results/result.json": "{}" }],
  ])("counts a workspace that %s as one failure", (_, files) => {
    const folder = tempFolder();
    writeFiles(folder, files);
    expect(tallyOf(folder)).toMatchObject({ passed: 0, failed: 1, skipped: 0 });
  });

  it("forgets the results of an earlier run", () => {
    const folder = tempFolder();
    writeFiles(folder, { "test-results/result.json": result(5, 0, 0) });
    removeResults([folder]);
    expect(existsSync(join(folder, "test-results"))).toBe(false);
  });

  it("closes with passed and failed, and with skipped only if there are skipped tests", () => {
    const one = { passed: 2, failed: 0, skipped: 0, failures: [] };
    expect(tallyLine(sum([one, one]))).toBe("4 passed, 0 failed");
    expect(tallyLine({ ...one, failed: 3, skipped: 1 })).toBe("2 passed, 3 failed, 1 skipped");
  });
});

const fixtures = join(import.meta.dirname, "fixtures");

async function runFixture(name: string) {
  const folder = join(fixtures, name);
  const args = ["run", "--root", folder, "--config", join(folder, "vitest.config.ts")];
  return capture("vitest", args, { cwd: join(fixtures, "../.."), env: process.env });
}

describe("the reporter", () => {
  it("counts failing tests, hooks, files and stray errors, and skipped tests apart", async () => {
    const { code } = await runFixture("reporter");
    const written = JSON.parse(readFileSync(join(fixtures, "reporter", "test-results", "result.json"), "utf8"));
    expect(written).toEqual({
      passed: 2,
      failed: 5,
      skipped: 3,
      failures: [
        expect.stringMatching(/cases\.fixture\.ts > fails\n {4}expected .+ \(cases\.fixture\.ts:\d+\)$/),
        expect.stringContaining("cases.fixture.ts > asserts nothing"),
        expect.stringContaining("broken.fixture.ts"),
        expect.stringMatching(/cases\.fixture\.ts > a suite: a hook failed\n {4}hook \(cases\.fixture\.ts:\d+\)$/),
        "unhandled: stray",
      ],
    });
    expect(code).toBe(1);
  });
});

describe("the two ioredis majors", () => {
  it("are used by tests, @kit/testing and the built @kit/core alike, each in its own run", async () => {
    const { code, output } = await runFixture("majors");
    expect(output).toContain("2 passed");
    expect(code).toBe(0);
  });
});
