import { optionsObject, textOption } from "@kit/core/toolkit";
import type { LinesHandler } from "./runner.js";

/** Looks up addresses. */
export interface Locator {
  /** A country, like `DE`; null or undefined if it is not known. An error ends the run. */
  country(address: string): string | null | undefined | Promise<string | null | undefined>;
}

/** The visit that a line describes. */
export interface Visit {
  readonly address: string;
  /** As `2026-03-01`. */
  readonly day: string;
}

/** Settings of the count by day and country. */
export interface DailyCountryOptions {
  readonly locator: Locator;
  /**
   * Name of the result.
   *
   * @default "country"
   */
  readonly result?: string | undefined;
  /**
   * Reads a line; undefined if the line has no address and day.
   *
   * @default the common and the combined log format: `address … [01/Mar/2026:13:55:36 +0000] …`, the day as it is written there
   */
  readonly parse?: ((line: string) => Visit | undefined) | undefined;
}

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const visitPattern = /^(\S+) [^[]*\[(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):/;

const visitOf = (line: string): Visit | undefined => {
  const [, address, day, month = "", year] = visitPattern.exec(line) ?? [];
  const number = months.indexOf(month) + 1;
  if (address === undefined || number === 0) return undefined;
  return { address, day: `${String(year)}-${String(number).padStart(2, "0")}-${String(day)}` };
};

/**
 * Counts lines by day and country into the fields `<day> <country>` of one result. An address that the locator does not know is counted as `<day>
 * unknown`, a line that cannot be read as `unreadable`: the fields add up to the number of lines.
 *
 * Sums are collected in memory until the next commit, which the `flush…` settings of the job or receiver decide; each end of a file is one, too.
 *
 * @example
 * await receiver.run(dailyCountry({ locator: { country: (address) => places.get(address) } }));
 */
export const dailyCountry = (options: DailyCountryOptions): LinesHandler => {
  const own = optionsObject<DailyCountryOptions>("options", options, ["locator", "result", "parse"]);
  const { locator, result = "country", parse = visitOf } = own;
  textOption("result", result, 400);
  if (typeof locator?.country !== "function") throw new TypeError("Expected `locator` to have a function `country`");
  return async (lines, results) => {
    for (const line of lines) {
      const visit = parse(line);
      if (!visit) {
        results.increment(result, "unreadable");
        continue;
      }
      const found = locator.country(visit.address);
      // Awaiting a value that is already there would cost a turn of the event loop for each line.
      // Not each locator answers with a native Promise.
      const country = typeof found === "object" ? await found : found;
      results.increment(result, `${visit.day} ${country ?? "unknown"}`);
    }
  };
};
