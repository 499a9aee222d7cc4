import { isIP } from "node:net";
import { custom, required, resolve, type RulesOf, text } from "@kit/core/toolkit";
import type { LinesHandler } from "./runner.js";

/** Looks up addresses. */
export interface Locator {
  /** Returns a country, such as `DE`; null or undefined if it is unknown. An error ends the run. */
  country(address: string): string | null | undefined | Promise<string | null | undefined>;
}

/** The visit that a line describes. */
export interface Visit {
  readonly address: string;
  /** Format: `2026-03-01`. */
  readonly day: string;
}

/** Settings of the count by day and country. */
export interface DailyCountryOptions {
  /** Finds the country of an address. */
  readonly locator: Locator;
  /**
   * The result's name.
   *
   * @default "country"
   */
  readonly result?: string | undefined;
  /**
   * Reads a line. Returns undefined if the line has no address and day.
   *
   * @default the common and the combined log format: `address … [01/Mar/2026:13:55:36 +0000] "…`, with the day as it is written, also after
   *   a `host:port`. Brackets and port of the address are left out. The first address of a list counts, as in `X-Forwarded-For`. A line
   *   with `-` for the address, or with an impossible day, cannot be read
   */
  readonly parse?: ((line: string) => Visit | undefined) | undefined;
}

const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
/** A virtual host may come first. */
const hostsPattern = /^(\S+) (\S+) /;
const dayPattern = /\[(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):/;
/** The request follows. A user's name may contain a day, but servers escape its quotes. */
const dayBeforeRequest = new RegExp(`${dayPattern.source}[^[\\]]*\\] "`);
const portPattern = /:\d+$/;

/** An address without its port and brackets. Undefined if it is not an address. */
const addressOf = (text: string): string | undefined => {
  const bare = isIP(text) === 0 ? text.replace(portPattern, "").replace(/^\[(.*)\]$/, "$1") : text;
  return isIP(bare) > 0 ? bare : undefined;
};

/** The first entry of a list. */
const firstOf = (text: string): string => text.split(",", 1)[0]!;

const visitOf = (line: string): Visit | undefined => {
  const [, first, second] = hostsPattern.exec(line)?.map(firstOf) ?? [];
  const [, day = "", month = "", year = ""] = dayBeforeRequest.exec(line) ?? dayPattern.exec(line) ?? [];
  if (first === undefined || second === undefined) return undefined;
  // A server that resolves names writes a name instead of the address.
  const address = addressOf(first) ?? (portPattern.test(first) ? (addressOf(second) ?? second) : first);
  const [number, date] = [months.indexOf(month), new Date(0)];
  date.setUTCFullYear(Number(year), number, Number(day));
  // A day that the month does not have would become a day of the next month.
  if (address === "-" || number < 0 || date.getUTCMonth() !== number || day === "00") return undefined;
  return { address, day: `${year}-${String(number + 1).padStart(2, "0")}-${day}` };
};

const dailyCountryRules = {
  locator: required(
    custom((name, locator: Locator | undefined): Locator => {
      if (typeof locator?.country === "function") return locator;
      throw new TypeError(`Expected \`${name}\` to have a function \`country\``);
    }),
  ),
  result: text(400, "country"),
  parse: custom((_name, parse: (line: string) => Visit | undefined) => parse, visitOf),
} satisfies RulesOf<DailyCountryOptions>;

/**
 * Counts lines by day and country into the fields `<day> <country>` of one result. An address that the locator does not know counts as
 * `<day> unknown`. A line that cannot be read counts as `unreadable`. So the fields add up to the number of lines.
 *
 * Sums stay in memory until the next commit. The `flush…` settings of the job or receiver control when to commit. The end of a file commits
 * as well.
 *
 * @example
 * await receiver.run(dailyCountry({ locator: { country: (address) => places.get(address) } }));
 */
export const dailyCountry = (options: DailyCountryOptions): LinesHandler => {
  const { locator, result, parse } = resolve("options", options, dailyCountryRules);
  return async (lines, results) => {
    for (const line of lines) {
      const visit = parse(line);
      if (!visit) {
        results.increment(result, "unreadable");
        continue;
      }
      const found = locator.country(visit.address);
      // Awaiting a value that is already there would cost a turn of the event loop for each line.
      // The promise of a locator may not be a native one.
      const country = typeof found === "object" ? await found : found;
      results.increment(result, `${visit.day} ${country ?? "unknown"}`);
    }
  };
};
