import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";

interface Server extends AsyncDisposable {
  readonly url: string;
}

/**
 * Tests the examples of a package. Each example:
 *
 * - runs against a server of its own
 * - prints the lines of its comments `// prints: …`, or those that `printed` has for it
 * - ends in order when it runs again
 * - is part of one of the pages, word for word
 *
 * The first page is beside the folder of the examples.
 */
export const describeExamples = (
  startServer: () => Promise<Server>,
  pages: readonly URL[],
  printed: Readonly<Record<string, RegExp>> = {},
): void => {
  const folder = new URL("examples/", pages[0]);
  const text = pages.map((page) => readFileSync(page, "utf8")).join("\n");

  describe("examples", () => {
    it.each(readdirSync(folder).filter((file) => /\.(?:ts|mjs)$/.test(file)))(
      "%s prints what its comments claim, and the documents quote it unchanged",
      async (file) => {
        await using server = await startServer();
        vi.stubEnv("REDIS_URL", server.url);
        try {
          const module = new URL(file, folder).href;
          const lines = await printedBy(module);
          const source = readFileSync(new URL(file, folder), "utf8");
          const said = [...source.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line = ""]) => line).join("\n");
          const isAsSaid = printed[file]?.test(lines.join("\n")) ?? lines.join("\n") === said;
          expect({ isAsSaid, said: printed[file] ?? said, lines }).toMatchObject({ isAsSaid: true });
          expect(text).toContain(source.trim());
          // Runs again on the data of the first run. It may print other numbers, but must not hang or fail.
          await printedBy(`${module}?again`);
        } finally {
          vi.unstubAllEnvs();
        }
      },
    );
  });
};

/** Tests that a program that is a test file itself, which the caller imports, is part of a page, word for word. */
export const describeTestProgram = (program: URL, page: URL): void => {
  it("is quoted unchanged in the documents", () => {
    expect(readFileSync(page, "utf8")).toContain(readFileSync(program, "utf8").trim());
  });
};

/** Loads a module, which runs it, and returns the lines that it printed. */
export const printedBy = async (href: string): Promise<string[]> => {
  const log = vi.spyOn(console, "log").mockReturnValue(undefined);
  try {
    await import(href);
    return log.mock.calls.map((values) => values.map(String).join(" "));
  } finally {
    log.mockRestore();
  }
};
