export {
  GeoIpCorruptError,
  GeoIpImportError,
  GeoIpNotLoadedError,
  GeoIpNoVersionError,
  GeoIpStagingError,
  GeoIpStaleError,
} from "./errors.js";
export { createGeoIp, lookedUpAs } from "./geoip.js";
export { importGeoIp, rollbackGeoIp } from "./import.js";
export { dbIp, geoLite2 } from "./sources.js";

export type { AddressInput, ReservedClass } from "./address.js";
export type { CsvInput } from "./csv.js";
export type { GeoIpErrorCode, ImportPosition } from "./errors.js";
export type { DatabaseInfo, GeoIp, GeoIpEvents, Lookup, NotLocated } from "./geoip.js";
export type { ImportResult } from "./import.js";
export type { GeoIpOptions, ImportOptions, Mode, RollbackOptions } from "./options.js";
export type { NamesByLocale, Place, PlaceNames } from "./place.js";
export type { Located } from "./release.js";
export type { GeoIpSource, GeoLite2Files, ImportProgress, RangeInput } from "./sources.js";
export type { CloseOptions } from "@kit/core/toolkit";
