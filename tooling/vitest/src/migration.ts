import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { printedBy } from "./examples.js";

interface Server extends AsyncDisposable {
  readonly url: string;
}

/**
 * Tests a migration guide by the programs in `folder`. Each program runs against a server of its own, prints the lines
 * that its comments say, and is part of the guide, word for word. `NAME.before.ts` and `NAME.after.ts` print the same. If
 * there are several programs before, they are `NAME.before-4.ts` and so on.
 *
 * @param shown Turns a program's source into the text of the guide, if its imports have other names here.
 */
export const describeMigration = (
  startServer: () => Promise<Server>,
  guide: URL,
  folder: URL,
  shown: (source: string) => string = (source) => source,
): void => {
  const page = readFileSync(guide, "utf8");
  const files = readdirSync(folder);
  const read = (file: string): string => readFileSync(new URL(file, folder), "utf8");
  const claims = (file: string): string[] =>
    [...read(file).matchAll(/\/\/ prints: (.*)$/gm)].map(([, line = ""]) => line);

  describe("the guide", () => {
    it.each(files)("%s prints what its comments claim, and the guide quotes it unchanged", async (file) => {
      await using server = await startServer();
      vi.stubEnv("REDIS_URL", server.url);
      try {
        const lines = await printedBy(new URL(file, folder).href);
        expect(claims(file)).not.toEqual([]);
        expect(lines).toEqual(claims(file));
        expect(page).toContain(shown(read(file)).trim());
      } finally {
        vi.unstubAllEnvs();
      }
    });

    it.each(files.filter((file) => file.includes(".before")))("the replacement of %s prints the same", (file) =>
      expect(claims(file.replace(/\.before(-\w+)?\./, ".after."))).toEqual(claims(file)),
    );
  });
};
