// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type {
  AddressInput,
  CsvInput,
  createGeoIp,
  DatabaseInfo,
  dbIp,
  GeoIp,
  GeoIpCorruptError,
  GeoIpEvents,
  GeoIpImportError,
  GeoIpNotLoadedError,
  GeoIpNoVersionError,
  GeoIpOptions,
  GeoIpSource,
  GeoIpStagingError,
  GeoIpStaleError,
  GeoLite2Files,
  geoLite2,
  ImportOptions,
  ImportProgress,
  ImportResult,
  importGeoIp,
  Located,
  lookedUpAs,
  Lookup,
  Mode,
  NamesByLocale,
  NotLocated,
  Place,
  RangeInput,
  ReservedClass,
  RollbackOptions,
  rollbackGeoIp,
} from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
type Call<F> = F extends (...args: infer Args) => infer Result ? [Args, Result] : never;
type Source = GeoIpSource | AsyncIterable<RangeInput> | Iterable<RangeInput>;

export type Pins = [
  Check<Same<Call<typeof createGeoIp>, [[redis: RedisLike, database: string, options?: Option<GeoIpOptions>], GeoIp]>>,
  Check<
    Same<
      Call<typeof importGeoIp>,
      [[redis: RedisLike, database: string, source: Source, options?: Option<ImportOptions>], Promise<ImportResult>]
    >
  >,
  Check<
    Same<
      Call<typeof rollbackGeoIp>,
      [[redis: RedisLike, database: string, options?: Option<RollbackOptions>], Promise<string>]
    >
  >,
  Check<Same<Call<typeof geoLite2>, [[files: GeoLite2Files], GeoIpSource]>>,
  Check<typeof dbIp extends (one: CsvInput, other: CsvInput) => GeoIpSource ? true : false>,
  Check<Same<Call<typeof lookedUpAs>, [[address: AddressInput], string | null]>>,
  Check<
    Same<
      keyof GeoIpOptions,
      | "prefix"
      | "isolate"
      | "deadlineMs"
      | "mode"
      | "cachePages"
      | "cachePlaces"
      | "locales"
      | "maxAgeMs"
      | "onStale"
      | "onUnavailable"
    >
  >,
  Check<
    Same<
      keyof ImportOptions,
      | "prefix"
      | "deadlineMs"
      | "stagingMs"
      | "keepPreviousMs"
      | "minRanges"
      | "onInvalid"
      | "overlap"
      | "maxInvalid"
      | "builtAt"
      | "attribution"
      | "onProgress"
      | "signal"
    >
  >,
  Check<Same<keyof RollbackOptions, "prefix" | "deadlineMs" | "keepPreviousMs">>,
  Check<
    Same<
      Exclude<keyof GeoIp, "on" | "once" | "off" | "emit">,
      "database" | "ready" | "lookup" | "lookupSync" | "info" | "cached" | "close" | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<keyof GeoIpEvents, "version" | "stale" | "evictable" | "error">>,
  Check<Same<Mode, "cached" | "local" | "server">>,
  Check<Same<AddressInput, string | Uint8Array | number | bigint>>,
  Check<Same<Call<GeoIp["lookup"]>, [[address: AddressInput], Promise<Lookup>]>>,
  Check<Same<Call<GeoIp["lookupSync"]>, [[address: AddressInput], Lookup]>>,
  Check<Same<Lookup, Located | NotLocated>>,
  Check<Same<keyof Located, "place" | "none" | "first" | "last" | "version">>,
  Check<Same<NotLocated["none"], "invalid" | "gap" | "unavailable" | ReservedClass>>,
  Check<Same<keyof RangeInput, "network" | "first" | "last" | "place" | "names">>,
  Check<Same<NamesByLocale[string]["cityName"], Option<string>>>,
  Check<Same<Place["geonameId"], Option<number>>>,
  Check<Same<keyof ImportProgress, "file" | "rows" | "bytes" | "ranges">>,
  Check<Same<keyof ImportResult, "version" | "format" | "ranges" | "places" | "locales" | "skipped" | "crossing">>,
  Check<
    Same<
      keyof DatabaseInfo,
      | "database"
      | "version"
      | "format"
      | "importedAt"
      | "builtAt"
      | "attribution"
      | "locales"
      | "ranges"
      | "ageMs"
      | "previous"
      | "pages"
    >
  >,
  Check<

      | GeoIpImportError
      | GeoIpStagingError
      | GeoIpNoVersionError
      | GeoIpCorruptError
      | GeoIpStaleError
      | GeoIpNotLoadedError extends KitError
      ? true
      : false
  >,
];

declare const found: Lookup;
if (found.place) void found.version;
// @ts-expect-error a gap is of no version
else void found.version;
