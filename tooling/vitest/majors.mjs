#!/usr/bin/env node
// Runs a workspace's tests once for each ioredis major named, whatever the earlier ones gave:
//   vitest-majors 6 5 [vitest arguments]
// Each run sees its major as KIT_IOREDIS.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const args = process.argv.slice(2);
const rest = args.findIndex((arg) => !/^\d+$/.test(arg));
const majors = rest === -1 ? args : args.slice(0, rest);
const vitestArgs = rest === -1 ? [] : args.slice(rest);
const vitest = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");

for (const major of majors) {
  const result = join("test-results", `result-ioredis${major}.json`);
  rmSync(result, { force: true });
  console.log(`ioredis ${major}`);
  const { status } = spawnSync(process.execPath, [vitest, "run", ...vitestArgs], {
    stdio: "inherit",
    env: { ...process.env, KIT_IOREDIS: major },
  });
  if (status !== 0) process.exitCode = 1;
  if (!existsSync(result)) recordCrash(result, major);
}

/** Another major's result must not hide that this one gave none. */
function recordCrash(file, major) {
  const failures = [`the run with ioredis ${major} ended without a result`];
  mkdirSync("test-results", { recursive: true });
  writeFileSync(file, JSON.stringify({ passed: 0, failed: 1, skipped: 0, failures }));
  process.exitCode = 1;
}
