import {
  choice,
  clientRules,
  type ClientOptions,
  custom,
  integer,
  type Resolved,
  type RulesOf,
  signal,
  text,
  textOption,
} from "@kit/core/toolkit";
import type { Overlap } from "./ranges.js";
import type { ImportProgress } from "./sources.js";

const dayMs = 86_400_000;
const longestMs = 100 * 365 * dayMs;

/** Where the pages of a database are searched. */
export type Mode = "cached" | "local" | "server";

/** Settings of a reader. */
export interface GeoIpOptions extends ClientOptions {
  /**
   * `cached` keeps recently used pages, `local` all of them, and `server` none: then the server searches, for clients
   * with little memory.
   *
   * @default "cached"
   */
  readonly mode?: Mode | undefined;
  /**
   * How many pages of 256 ranges a reader in `cached` mode keeps of each family: about 2.5 KB each.
   *
   * @default 4096
   */
  readonly cachePages?: number | undefined;
  /**
   * About how many places a reader keeps in all modes, up to 1 KB each; and as many answers of each family.
   *
   * @default 16384
   */
  readonly cachePlaces?: number | undefined;
  /**
   * Languages of names, the preferred one first: each name is in the first language that has it.
   *
   * @default ["en"]
   */
  readonly locales?: readonly string[] | undefined;
  /**
   * The age at which the event `stale` reports the data, counted from `builtAt`, or from the import if that is not
   * given. 0 means never.
   *
   * @default 0
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * How look-ups treat data older than `maxAgeMs`: they answer, or reject with GeoIpStaleError.
   *
   * @default "answer"
   */
  readonly onStale?: "answer" | "refuse" | undefined;
  /**
   * How a look-up ends if it needs the server and cannot reach it: it rejects, or resolves with `none: "unavailable"`.
   *
   * @default "reject"
   */
  readonly onUnavailable?: "reject" | "none" | undefined;
}

export const geoIpRules = {
  ...clientRules,
  mode: choice(["cached", "local", "server"], "cached"),
  cachePages: integer(1, 1e7, 4_096),
  cachePlaces: integer(1, 1e8, 16_384),
  locales: custom(
    (name, locales: readonly string[]) => {
      if (!Array.isArray(locales)) throw new TypeError(`Expected \`${name}\` to be an array of texts`);
      return locales.map((locale) => textOption(name, locale, 35));
    },
    ["en"],
  ),
  maxAgeMs: integer(0, longestMs, 0),
  onStale: choice(["answer", "refuse"], "answer"),
  onUnavailable: choice(["reject", "none"], "reject"),
} satisfies RulesOf<GeoIpOptions>;

export type GeoIpSettings = Resolved<typeof geoIpRules>;

/** Settings of an import. */
export interface ImportOptions {
  /**
   * The beginning of all keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * How long one call to the server may take, in milliseconds.
   *
   * @default 10000
   */
  readonly deadlineMs?: number | undefined;
  /**
   * How long the parts of an unfinished import stay, in milliseconds; an import must be shorter.
   *
   * @default 3600000 (an hour)
   */
  readonly stagingMs?: number | undefined;
  /**
   * How long the previous version is kept, in milliseconds: for readers that have not switched yet, and for `rollback`.
   *
   * @default 86400000 (a day)
   */
  readonly keepPreviousMs?: number | undefined;
  /**
   * An import with fewer ranges is refused: the files may have been cut off.
   *
   * @default 1
   */
  readonly minRanges?: number | undefined;
  /**
   * The handling of a row or range that cannot be read, or comes too early: `stop` ends the import, `skip` passes it over. A file whose header or
   * first row cannot be read, or that is no CSV, always ends it.
   *
   * @default "stop"
   */
  readonly onInvalid?: "stop" | "skip" | undefined;
  /**
   * The handling of ranges that cross, so that neither lies inside the other: `refuse` makes the later one invalid; with `narrower` the addresses of
   * both belong to the one that has fewer, or the earlier one of two equal.
   *
   * @default "refuse"
   */
  readonly overlap?: Overlap | undefined;
  /**
   * The import ends when more ranges than this are passed over or cross: the file may be damaged, or of another kind.
   *
   * @default 1000
   */
  readonly maxInvalid?: number | undefined;
  /** When the vendor made the data, epoch milliseconds: the date in the name of the download. */
  readonly builtAt?: number | undefined;
  /** The attribution that the licence of the data requires; stored with the data for `info()`. */
  readonly attribution?: string | undefined;
  /** Called after each chunk of a file. */
  readonly onProgress?: ((progress: ImportProgress) => void) | undefined;
  /** Ends the import: it rejects with `signal.reason`, and the old version keeps serving. */
  readonly signal?: AbortSignal | undefined;
}

export const importRules = {
  prefix: clientRules.prefix,
  deadlineMs: integer(1, dayMs, 10_000),
  stagingMs: integer(1_000, longestMs, 3_600_000),
  keepPreviousMs: integer(1_000, longestMs, dayMs),
  minRanges: integer(0, undefined, 1),
  builtAt: integer(0),
  attribution: text(2_000),
  onProgress: custom((name, onProgress: (progress: ImportProgress) => void) => {
    if (typeof onProgress !== "function") throw new TypeError(`Expected \`${name}\` to be a function`);
    return onProgress;
  }),
  signal,
  onInvalid: choice(["stop", "skip"], "stop"),
  overlap: choice(["refuse", "narrower"], "refuse"),
  maxInvalid: integer(0, undefined, 1_000),
} satisfies RulesOf<ImportOptions>;

export type ImportSettings = Resolved<typeof importRules>;

/** Settings of a roll-back. */
export interface RollbackOptions {
  /**
   * The beginning of all keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * How long one call to the server may take, in milliseconds.
   *
   * @default 10000
   */
  readonly deadlineMs?: number | undefined;
  /**
   * How long the replaced version is kept, in milliseconds.
   *
   * @default 86400000 (a day)
   */
  readonly keepPreviousMs?: number | undefined;
}

export const rollbackRules = {
  prefix: importRules.prefix,
  deadlineMs: importRules.deadlineMs,
  keepPreviousMs: importRules.keepPreviousMs,
} satisfies RulesOf<RollbackOptions>;
