import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { spawnSync } from "node:child_process";
import { afterAll, describe, expect, it } from "vitest";
import { workspaceFolder } from "../src/lab/paths.js";
import { parseLog, unhandledIn, type CommonRecord } from "../src/records.js";

const folder = mkdtempSync(join(tmpdir(), "kit-contender-"));
afterAll(() => rmSync(folder, { recursive: true }));

const contender = pathToFileURL(join(workspaceFolder, "src/lab/contender.mjs")).href;

/** Runs a worker that does one thing; returns what it logged, as the worker `w1`. */
const worker = (what: string): { id: string; printed: string; end: string; records: CommonRecord[] } => {
  const logFile = join(folder, `${String(what.length)}.ndjson`);
  const program = `import { log } from ${JSON.stringify(contender)}; log("started", { pid: 1 }); ${what};`;
  // The arguments of a program on the command line begin one place earlier than those of a file.
  const args = ["--input-type=module", "--eval", program, "--", "worker", JSON.stringify({ logFile })];
  const { stderr, status } = spawnSync(process.execPath, args, { encoding: "utf8", cwd: workspaceFolder });
  return { id: "w1", printed: stderr, end: `exit ${String(status)}`, records: parseLog(readFileSync(logFile, "utf8")) };
};

describe("A worker", () => {
  it("continues after a rejection that nobody handles, and has it counted", () => {
    const found = worker('Promise.reject(new Error("nobody"))');
    expect(found).toMatchObject({ printed: "", end: "exit 1" });
    expect(unhandledIn([found])).toEqual([expect.stringMatching(/^w1: Error: nobody\n/)]);
  });

  it("tells other crashes apart", () => {
    const found = worker('process.emitWarning("odd")');
    expect(found.records.map(({ kind }) => kind)).toContain("crash");
    expect(unhandledIn([found])).toEqual([]);
  });
});
