import { readdirSync, readFileSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describe, expect, it, vi } from "vitest";

const folder = new URL("../examples/", import.meta.url);
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

const printed: Record<string, RegExp> = {
  "connect.ts": /^true (redis|valkey) \d+\.\d+\.\d+ [\d.]+\nhello$/,
  "optimistic.ts": /^sold 1$/,
  "script.ts": /^1\n2\n2$/,
};

describe("examples", () => {
  it.each(readdirSync(folder))("%s does what it says, and stands in the README as it is", async (file) => {
    await using server = await startRedis();
    vi.stubEnv("REDIS_URL", server.url);
    const log = vi.spyOn(console, "log").mockReturnValue(undefined);
    await import(new URL(file, folder).href);
    const lines = log.mock.calls.map((line) => line.join(" ")).join("\n");
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
    expect(lines).toMatch(printed[file] ?? /a line for this example/);
    expect(readme).toContain(readFileSync(new URL(file, folder), "utf8").trim());
  });
});
