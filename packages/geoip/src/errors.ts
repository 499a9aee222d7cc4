import { KitError } from "@kit/core";

/** Codes of this package's own errors. */
export type GeoIpErrorCode =
  | "KIT_GEOIP_IMPORT"
  | "KIT_GEOIP_STAGING"
  | "KIT_GEOIP_NO_VERSION"
  | "KIT_GEOIP_CORRUPT"
  | "KIT_GEOIP_STALE"
  | "KIT_GEOIP_NOT_LOADED";

declare module "@kit/core" {
  interface KitErrorCodes {
    geoip: GeoIpErrorCode;
  }
}

/** The position of a fault in the input. */
export interface ImportPosition {
  readonly file: string;
  /** Counted from 1, including the header; undefined for the file as a whole. */
  readonly row?: number | undefined;
  readonly column?: string | undefined;
}

/**
 * The input is malformed; `file`, `row` and `column` name the place. Nothing of this import was ever visible, and the old
 * version keeps serving.
 */
export class GeoIpImportError extends KitError {
  /** @internal */
  static override readonly brand: string = "GeoIpImportError";
  readonly file: string;
  readonly row: number | undefined;
  readonly column: string | undefined;

  constructor({ file, row, column }: ImportPosition, problem: string, cause?: unknown) {
    const place = [
      file,
      ...(row === undefined ? [] : [`row ${String(row)}`]),
      ...(column === undefined ? [] : [`column ${column}`]),
    ];
    super("KIT_GEOIP_IMPORT", `${place.join(", ")}: ${problem}`, { cause });
    this.file = file;
    this.row = row;
    this.column = column;
  }
}

/**
 * The import took longer than `stagingMs`, or the server evicts keys, so parts of its data were lost. The old version keeps
 * serving. Import again with a longer `stagingMs`.
 */
export class GeoIpStagingError extends KitError {
  /** @internal */
  static override readonly brand: string = "GeoIpStagingError";

  constructor(database: string) {
    super(
      "KIT_GEOIP_STAGING",
      `The new version of ${database} lost data during the import. Raise stagingMs, or stop the server from evicting keys`,
      { retryable: true },
    );
  }
}

/** The version does not exist: nothing was imported yet, or there is no earlier version to roll back to. */
export class GeoIpNoVersionError extends KitError {
  /** @internal */
  static override readonly brand: string = "GeoIpNoVersionError";
  readonly database: string;

  constructor(database: string, problem: string) {
    super("KIT_GEOIP_NO_VERSION", `Database ${database} ${problem}`);
    this.database = database;
  }
}

/** A part of the serving version is missing (deleted, evicted) or damaged. An import replaces the version. */
export class GeoIpCorruptError extends KitError {
  /** @internal */
  static override readonly brand: string = "GeoIpCorruptError";
  readonly database: string;
  readonly version: string;

  constructor(database: string, version: string, part: string) {
    super("KIT_GEOIP_CORRUPT", `Database ${database}, version ${version}: ${part} is missing or damaged. Import again`);
    this.database = database;
    this.version = version;
  }
}

/** The data is older than `maxAgeMs`, and `onStale` is `"refuse"`. */
export class GeoIpStaleError extends KitError {
  /** @internal */
  static override readonly brand: string = "GeoIpStaleError";
  readonly database: string;
  readonly ageMs: number;

  constructor(database: string, ageMs: number) {
    super(
      "KIT_GEOIP_STALE",
      `The data of ${database} is ${String(Math.floor(ageMs / 86_400_000))} days old, more than maxAgeMs. Import newer data`,
    );
    this.database = database;
    this.ageMs = ageMs;
  }
}

/** `lookupSync()` was called in a mode other than `local`, or before `ready()` resolved. */
export class GeoIpNotLoadedError extends KitError {
  /** @internal */
  static override readonly brand: string = "GeoIpNotLoadedError";

  constructor(database: string) {
    super(
      "KIT_GEOIP_NOT_LOADED",
      `Database ${database} is not loaded. Use mode "local", and await ready() before lookupSync()`,
    );
  }
}
