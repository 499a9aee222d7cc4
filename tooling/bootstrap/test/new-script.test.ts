// Follows the steps of CONTRIBUTING.md, "Adding a script", for the lock in a copy of the repository.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../repo.mjs";
import { tempFolder, writeFiles } from "./temp.js";

/** Copies the lock. The other packages and the tools are those of the repository. */
const copyOfLock = (): string => {
  const tree = tempFolder();
  const lock = join(tree, "packages/lock");
  mkdirSync(join(tree, "packages"));
  for (const name of ["node_modules", "tooling", "packages/core", "packages/testing"])
    symlinkSync(join(root, name), join(tree, name));
  const left = new Set([".vite", ".vite-temp", ".test", ".turbo"]);
  const filter = (path: string): boolean => !left.has(basename(path));
  cpSync(join(root, "packages/lock"), lock, { recursive: true, verbatimSymlinks: true, filter });
  return lock;
};

const append = (folder: string, name: string, text: string): void =>
  writeFileSync(join(folder, name), readFileSync(join(folder, name), "utf8") + text);

const run = (folder: string, file: string, ...args: string[]): Promise<{ code: number; output: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [file, ...args], { cwd: folder }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === "number" ? error.code : error ? -1 : 0, output: stdout + stderr }),
    );
  });

it("a script that is added by the steps of CONTRIBUTING.md compiles, keeps its contract, and runs", async () => {
  const lock = copyOfLock();
  // 1. The script.
  writeFiles(lock, {
    "src/scripts/crowd.lua": `-- crowd.lua - how many want a lock; changes nothing.
--
-- KEYS[1]  lease  string   who holds it: \`token|holder\`
-- KEYS[2]  queue  zset     token to ticket, in order of arrival
-- ARGV[1]  most   integer  no reply is larger
--
-- Reply     the holder and the waiters, counted
local lease = KEYS[1]
local queue = KEYS[2]
local most = tonumber(ARGV[1])

local count = redis.call('ZCARD', queue)
if redis.call('GET', lease) then count = count + 1 end
return math.min(most, count)
`,
  });
  // 2. Its constant: nothing else has a list of scripts.
  append(
    lock,
    "src/scripts/index.ts",
    `import crowdSource from "./crowd.lua";
export const crowd = defineScript({
  name: "lock.crowd",
  source: crowdSource,
  keys: ["lease", "queue"],
  args: ["most"],
  readonly: true,
  reply: (raw): number => Number(raw),
});
`,
  );
  // 3. The method that runs it.
  const commands = join(lock, "src/commands.ts");
  const method = `  crowd(name: string, most: number): Promise<number> {
    return scripts.crowd.run(this.#context, this.#keysOf(name), { most }, this.#settings);
  }

`;
  writeFileSync(commands, readFileSync(commands, "utf8").replace("  timeoutError(", `${method}  timeoutError(`));
  // 4. A test of each reply.
  append(
    lock,
    "test/scripts.test.ts",
    `
it("counts the crowd", async () => {
  expect(await scripts.crowd.run(db, keys, { most: 9 })).toBe(0);
  await acquire("a");
  await queue("b");
  expect(await scripts.crowd.run(db, keys, { most: 9 })).toBe(2);
  expect(await scripts.crowd.run(db, keys, { most: 1 })).toBe(1);
});
`,
  );

  const [types, tests] = await Promise.all([
    run(lock, "node_modules/typescript7/bin/tsc", "--noEmit", "-p", "."),
    run(
      lock,
      "node_modules/vitest/vitest.mjs",
      "run",
      "--reporter=verbose",
      "test/scripts.test.ts",
      "-t",
      "counts the crowd|keeps the contract",
    ),
  ]);
  expect(types).toEqual({ code: 0, output: "" });
  expect(tests).toMatchObject({ code: 0, output: expect.stringMatching(/2 passed/) as string });
});
