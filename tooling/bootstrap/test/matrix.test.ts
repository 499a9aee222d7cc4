import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { about, columns, newest, type ServerColumn } from "../matrix/columns.mjs";
import { matrix } from "../matrix/index.mjs";
import { serverOf } from "../matrix/servers.mjs";
import { smoke } from "../matrix/smoke.mjs";
import { publicPackages } from "../pack.mjs";
import { findPnpm } from "../pnpm.mjs";
import { tempFolder, writeProgram } from "./temp.js";

const noTasks = { build: () => unwanted("build"), redis: () => unwanted("redis"), test: () => unwanted("test") };
const unwanted = (task: string): never => {
  throw new Error(`${task} was not to be run`);
};

describe("the matrix", () => {
  it("says without a column which there are and what each does", async () => {
    const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
    try {
      expect(await matrix({}, [], noTasks)).toBe(0);
      const text = written.mock.calls.join("");
      for (const column of columns) expect(text).toMatch(new RegExp(`^ +${column.name} +${about(column)}$`, "m"));
    } finally {
      written.mockRestore();
    }
  });

  it.each([[["valkey-1"]], [["valkey-9", "locks"]], [["lock"]]])(
    "refuses %j before it runs anything",
    async (words) => {
      await expect(matrix({}, words, noTasks)).rejects.toThrow(
        /^Expected columns \(redis-8\.0, .*\) and names of packages/,
      );
    },
  );
});

it("the short run has a file of each package's tests", () => {
  const without = publicPackages().filter(
    ({ folder }) => !newest.files.some((file) => existsSync(join(folder, "test", file))),
  );
  expect(without.map(({ manifest }) => manifest.name)).toEqual([]);
  expect(columns.map(({ name }) => name)).toContain(newest.column);
});

describe("the server of a column", () => {
  const column: ServerColumn = { kind: "server", name: "valkey-9", product: "valkey", suites: ["sid"] };
  const cached = (line: string): string => {
    const cache = tempFolder();
    writeProgram(cache, "matrix/valkey-9/bin/redis-server", line);
    return cache;
  };

  it("is fetched once", async () => {
    const cache = cached("Valkey server v=9.4.0 sha=00000000:0");
    const bin = join(cache, "matrix/valkey-9/bin/redis-server");
    expect(await serverOf(column, process.env, cache)).toEqual({ bin, product: "valkey", version: "9.4.0" });
  });

  it.each(["Valkey server v=10.0.0 sha=00000000:0", "Redis server v=9.0.0 sha=00000000:0"])(
    "is refused under a name that no longer fits: %s",
    async (line) => {
      await expect(serverOf(column, process.env, cached(line))).rejects.toThrow(
        /^sid has .* rename the column valkey-9/,
      );
    },
  );
});

it("the smoke sees a program that a runtime does not run", async () => {
  const runtime = [writeProgram(tempFolder(), "runtime", "no program")] as [string];
  const [one] = publicPackages();
  const env = { ...process.env, PATH: [findPnpm(), process.env["PATH"]].join(delimiter) };
  expect(await smoke(env, { names: [one?.manifest.name ?? ""], runtime })).toEqual({
    passed: 0,
    failed: 1,
    skipped: 0,
    failures: [one?.manifest.name],
  });
});
