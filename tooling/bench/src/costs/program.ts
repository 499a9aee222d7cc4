// npm run bench -- costs
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { root } from "../keep.js";
import { UsageError } from "../options.js";
import type { Costs } from "./costs.js";
import { loadOf, type Mix } from "./load.js";
import { pageFile, pageOf } from "./page.js";
import { tablesOf } from "./tables.js";

const dataFile = join(root, "apps", "docs", "bench", "costs.json");

/** The kept costs. */
export const readCosts = (): Costs => JSON.parse(readFileSync(dataFile, "utf8")) as Costs;

/** `queue: add=1000`: an operation, and how often a second. */
const mixOf = (parts: readonly string[]): Mix =>
  Object.fromEntries(
    parts.map((text): [string, number] => {
      const at = text.lastIndexOf("=");
      const perSecond = Number(text.slice(at + 1));
      if (at < 1 || text.slice(at + 1).trim() === "" || !(perSecond >= 0))
        throw new UsageError(`Expected --load to be like "queue: add=1000", got "${text}"`);
      return [text.slice(0, at).trim(), perSecond];
    }),
  );

const print = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value, null, 2)}\n`);

const load = (parts: readonly string[]): void => {
  try {
    print(loadOf(readCosts(), mixOf(parts)));
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
};

/** Resolves with the exit code. */
const check = async (): Promise<number> => {
  if ((await pageOf(readCosts())) === readFileSync(pageFile, "utf8")) return 0;
  process.stdout.write("apps/docs/at-scale.md is not as its data: `npm run bench -- costs --page`\n");
  return 1;
};

const measure = async (isSaved: boolean, say: (text: string) => void): Promise<void> => {
  // Loads all packages, and counts their commands.
  const { measureCosts } = await import("./measure.js");
  const costs = await measureCosts(say);
  say("");
  process.stdout.write(`${[...tablesOf(costs).values()].join("\n\n")}\n`);
  if (!isSaved) return;
  const page = await pageOf(costs);
  writeFileSync(dataFile, `${JSON.stringify(costs, null, 2)}\n`);
  writeFileSync(pageFile, page);
};

/**
 * Measures, or with an option uses what is kept. Resolves with the exit code.
 *
 * @throws {UsageError} an argument makes no sense.
 */
export const costs = async (args: readonly string[], say: (text: string) => void): Promise<number> => {
  let values;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        save: { type: "boolean", default: false },
        page: { type: "boolean", default: false },
        check: { type: "boolean", default: false },
        load: { type: "string", multiple: true, default: [] },
      },
    }));
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
  if (values.load.length > 0) load(values.load);
  else if (values.check) return await check();
  else if (values.page) writeFileSync(pageFile, await pageOf(readCosts()));
  else await measure(values.save, say);
  return 0;
};
