// npm run bench -- costs
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { root } from "../keep.js";
import { UsageError } from "../options.js";
import { type Costs, loadOf, type Mix } from "./costs.js";
import { pageFile, pageOf, tablesOf } from "./page.js";

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

/**
 * Measures the costs, or with `--load` computes a load from the kept ones. Resolves with the exit code.
 *
 * @throws {UsageError} an argument makes no sense.
 */
export const costs = async (args: readonly string[], say: (text: string) => void): Promise<number> => {
  try {
    const { save, load } = parseArgs({
      args: [...args],
      options: {
        save: { type: "boolean", default: false },
        load: { type: "string", multiple: true, default: [] },
      },
    }).values;
    if (load.length > 0) {
      process.stdout.write(`${JSON.stringify(loadOf(readCosts(), mixOf(load)), null, 2)}\n`);
      return 0;
    }
    // Loads all packages, and counts their commands.
    const { measureCosts } = await import("./measure.js");
    const measured = await measureCosts(say);
    process.stdout.write(`\n${Object.values(tablesOf(measured)).join("\n\n")}\n`);
    if (!save) return 0;
    writeFileSync(pageFile, await pageOf(measured));
    writeFileSync(dataFile, `${JSON.stringify(measured, null, 2)}\n`);
    return 0;
  } catch (error) {
    throw error instanceof RangeError || (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS")
      ? new UsageError((error as Error).message)
      : error;
  }
};
