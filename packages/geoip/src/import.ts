import type { RedisLike } from "@kit/core";
import { attach, defaultsOf, holdErrors, resolve, traced } from "@kit/core/toolkit";
import { VersionBuilder } from "./builder.js";
import { GeoIpImportError, GeoIpStagingError } from "./errors.js";
import { geoIpKeys } from "./keys.js";
import {
  type ImportOptions,
  type ImportSettings,
  importRules,
  type RollbackOptions,
  rollbackRules,
} from "./options.js";
import { type GeoIpSource, type RangeInput, rangesSource } from "./sources.js";
import { GeoIpCommands, type Manifest } from "./commands.js";

/** The outcome of an import. */
export interface ImportResult {
  /** The version that serves now. */
  readonly version: string;
  /** The format of the files. */
  readonly format: string;
  /** Ranges that were read. */
  readonly ranges: { readonly v4: number; readonly v6: number };
  /** The number of different places in these ranges. */
  readonly places: number;
  /** Languages of names. */
  readonly locales: readonly string[];
  /** Rows or ranges that were skipped, with `onInvalid: "skip"`. */
  readonly skipped: number;
  /** Ranges that cross another range, with `overlap: "narrower"`. */
  readonly crossing: number;
}

/** Runs an operation with its own commands. */
const withCommands = <T>(
  operation: string,
  redis: RedisLike,
  database: string,
  { prefix }: Pick<ImportSettings, "prefix">,
  work: (commands: GeoIpCommands) => Promise<T>,
): Promise<T> =>
  traced(
    `geoip.${operation}`,
    () => ({ database }),
    async () => {
      const context = attach(redis, { prefix });
      try {
        return await work(new GeoIpCommands(context, database, geoIpKeys(context.prefix, database)));
      } finally {
        context.detach();
      }
    },
  );

const isIterable = (source: object): boolean => Symbol.asyncIterator in source || Symbol.iterator in source;

// A stream of ranges also has a method `read`.
const isSource = (source: object): source is GeoIpSource => !isIterable(source) && "read" in source;

/**
 * Imports a database, and replaces the serving version in one step.
 *
 * kit reads the files as streams, packs them, and stores them under keys that expire after `stagingMs`. When all data is
 * stored, one script moves the pointer and notifies the readers. Only then do the new keys become permanent, and the keys of
 * the previous version expire after `keepPreviousMs`. Until the pointer moves, readers see no new data. If an import fails, is
 * aborted or crashes, the old version keeps serving and the new keys expire. If several imports run at the same time, the last
 * to finish serves.
 *
 * Ranges must ascend within each family, over all files. They may be nested: the most specific range wins.
 *
 * @throws {TypeError | RangeError} an argument is invalid.
 * @throws {GeoIpImportError} the input is malformed; the error names file, row and column. The old version keeps serving.
 * @throws {GeoIpStagingError} the import took longer than `stagingMs`, or the server evicts keys. The old version keeps
 *   serving.
 * @throws {KitUnknownOutcomeError} the reply to the switch was lost, or making the keys permanent failed: the new version may
 *   serve. Check `info()` first: after a second import you cannot roll back to the earlier data. Not retryable if the switch
 *   was sent.
 * @throws `signal.reason` if `signal` aborts before the switch.
 *
 * @example
 * await importGeoIp(redis, "city", geoLite2({ blocks, locations }), { builtAt: Date.UTC(2026, 10, 20) });
 */
export const importGeoIp = async (
  redis: RedisLike,
  database: string,
  source: GeoIpSource | AsyncIterable<RangeInput> | Iterable<RangeInput>,
  options: ImportOptions = {},
): Promise<ImportResult> => {
  const settings = resolve("options", options, importRules);
  const given: unknown = source;
  if (typeof given !== "object" || given === null || !(isIterable(given) || isSource(given)))
    throw new TypeError("Expected `source` to be geoLite2(), dbIp() or an iterable of ranges");
  holdErrors(source);
  const { signal, deadlineMs } = settings;
  signal?.throwIfAborted();
  return await withCommands("import", redis, database, settings, async (commands) => {
    // Completes or reverts a switch that a crash has interrupted.
    await commands.settle(settings);
    const builder = new VersionBuilder(commands, settings, signal);
    const count = { skipped: 0 };
    let manifest: Manifest;
    try {
      manifest = await build(commands, builder, isSource(source) ? source : rangesSource(source), settings, count);
    } catch (error) {
      await builder.idle();
      await commands.discard(builder.stagedKeys, deadlineMs);
      throw error;
    }
    try {
      await commands.activate(builder.version, manifest, settings);
    } catch (error) {
      // Any other failure may have come after the switch: unneeded keys then expire.
      if (error instanceof GeoIpStagingError) await commands.discard(builder.stagedKeys, deadlineMs);
      throw error;
    }
    const { version, format, ranges, locales } = manifest;
    return {
      version,
      format,
      ranges,
      locales,
      places: builder.places,
      skipped: count.skipped,
      crossing: builder.crossing,
    };
  });
};

const build = async (
  commands: GeoIpCommands,
  builder: VersionBuilder,
  source: GeoIpSource,
  { onProgress, deadlineMs, minRanges, onInvalid, maxInvalid, builtAt, attribution, signal }: ImportSettings,
  counted: { skipped: number },
): Promise<Manifest> => {
  let file = "ranges";
  const bound = (): void => {
    const { skipped } = counted;
    const { crossing } = builder;
    if (skipped + crossing <= maxInvalid) return;
    const found = `${String(skipped)} ranges were skipped, and ${String(crossing)} overlap others`;
    throw new GeoIpImportError({ file }, `${found}. The maximum is maxInvalid, ${String(maxInvalid)}`);
  };
  const { format, locales } = await source.read({
    builder,
    progress: (progress) => {
      ({ file } = progress);
      bound();
      onProgress?.({ ...progress, ranges: builder.v4.count + builder.v6.count });
    },
    invalid: (error) => {
      if (onInvalid === "stop" || !(error instanceof GeoIpImportError)) throw error;
      counted.skipped++;
      ({ file } = error);
      bound();
    },
    signal,
  });
  const count = builder.v4.count + builder.v6.count;
  if (count < minRanges)
    throw new GeoIpImportError(
      { file },
      `the input has ${String(count)} ranges, fewer than minRanges, ${String(minRanges)}. It may be truncated`,
    );
  const { now } = await commands.head(deadlineMs, signal);
  return await builder.finish({
    format,
    importedAt: now,
    builtAt: builtAt ?? null,
    attribution: attribution ?? null,
    locales,
  });
};

/**
 * Switches back to the version that served before the last import or roll-back, as long as it is kept (`keepPreviousMs`).
 * Readers switch as they do after an import. Resolves with the id of the version.
 *
 * @throws {TypeError | RangeError} an option is invalid.
 * @throws {GeoIpNoVersionError} there is no earlier version, or parts of it were lost.
 * @throws {KitUnknownOutcomeError} as for an import. Check `info()` first: a second call may undo the first one.
 */
export const rollbackGeoIp = async (
  redis: RedisLike,
  database: string,
  options: RollbackOptions = {},
): Promise<string> => {
  const settings = resolve("options", options, rollbackRules, defaultsOf(importRules));
  return await withCommands("rollback", redis, database, settings, (commands) => commands.rollback(settings));
};
