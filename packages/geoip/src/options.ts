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
   * Which pages a reader keeps. `cached` keeps recently used pages, and `local` all of them. `server` keeps none: the server
   * searches, for clients with little memory.
   *
   * @default "cached"
   */
  readonly mode?: Mode | undefined;
  /**
   * How many pages of 256 ranges a reader in `cached` mode keeps for IPv4, and for IPv6. A page uses about 2.5 KB.
   *
   * @default 4096
   */
  readonly cachePages?: number | undefined;
  /**
   * About how many places a reader keeps in all modes, up to 1 KB each. It keeps the same number of answers for IPv4, and
   * for IPv6.
   *
   * @default 16384
   */
  readonly cachePlaces?: number | undefined;
  /**
   * Languages of names, in order of preference. Each name is in the first language that has it.
   *
   * @default ["en"]
   */
  readonly locales?: readonly string[] | undefined;
  /**
   * The age at which the event `stale` reports the data, in milliseconds since `builtAt`, or since the import without
   * `builtAt`. 0 means never.
   *
   * @default 0
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * What look-ups do with data older than `maxAgeMs`: they answer, or reject with GeoIpStaleError.
   *
   * @default "answer"
   */
  readonly onStale?: "answer" | "refuse" | undefined;
  /**
   * What a look-up does if it needs the server and cannot reach it: it rejects, or resolves with `none: "unavailable"`.
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
      if (!Array.isArray(locales)) throw new TypeError(`Expected \`${name}\` to be an array of strings`);
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
   * The prefix of all keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * The deadline of one call to the server, in milliseconds.
   *
   * @default 10000
   */
  readonly deadlineMs?: number | undefined;
  /**
   * How long the parts of an unfinished import are kept, in milliseconds. An import must take less time.
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
   * The minimum number of ranges. An import with fewer ranges is refused, because its files may have been cut off.
   *
   * @default 1
   */
  readonly minRanges?: number | undefined;
  /**
   * The policy for a row or range that cannot be read, or is out of order: `stop` ends the import, `skip` skips it. A file
   * that is not CSV, or whose header or first row cannot be read, always ends the import.
   *
   * @default "stop"
   */
  readonly onInvalid?: "stop" | "skip" | undefined;
  /**
   * The policy for two ranges that cross, so that neither is inside the other. `refuse` makes the later range invalid. With
   * `narrower`, the shared addresses belong to the range with fewer addresses, or to the earlier range if both have the same
   * size.
   *
   * @default "refuse"
   */
  readonly overlap?: Overlap | undefined;
  /**
   * The import ends when more ranges than this are skipped or cross: the file may be damaged, or of another kind.
   *
   * @default 1000
   */
  readonly maxInvalid?: number | undefined;
  /** When the vendor built the data, in epoch milliseconds: the date in the name of the download. */
  readonly builtAt?: number | undefined;
  /** The attribution that the license of the data requires. It is stored with the data, and `info()` returns it. */
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
   * The prefix of all keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * The deadline of one call to the server, in milliseconds.
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
