import { readdirSync, readFileSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describe, expect, it, vi } from "vitest";

const folder = new URL("../examples/", import.meta.url);
const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");

describe("examples", () => {
  it.each(readdirSync(folder).filter((file) => file.endsWith(".ts")))(
    "%s prints what it says, and stands in the README as it is",
    async (file) => {
      await using server = await startRedis();
      vi.stubEnv("REDIS_URL", server.url);
      const printed = vi.spyOn(console, "log").mockReturnValue(undefined);
      await import(new URL(file, folder).href);
      const lines = printed.mock.calls.map((values) => values.map(String).join(" "));
      vi.restoreAllMocks();
      vi.unstubAllEnvs();

      const source = readFileSync(new URL(file, folder), "utf8");
      expect(lines).toEqual([...source.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line));
      expect(readme).toContain(source.trim());
    },
  );
});
