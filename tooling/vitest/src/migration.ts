import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { printedBy } from "./examples.js";

interface Server extends AsyncDisposable {
  readonly url: string;
}

/**
 * A guide from another library, by the programs in `folder`: each runs against a server of its own, prints what its comments
 * say, and stands in the guide as it is. `NAME.before.ts` (or `NAME.before-4.ts` where there are several) and
 * `NAME.after.ts` print the same.
 *
 * @param shown What the guide shows of a program's source, where its imports have other names here.
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
    it.each(files)("%s prints what it says, and stands in the guide as it is", async (file) => {
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

    it.each(files.filter((file) => file.includes(".before")))("what replaces %s prints the same", (file) =>
      expect(claims(file.replace(/\.before(-\w+)?\./, ".after."))).toEqual(claims(file)),
    );
  });
};
