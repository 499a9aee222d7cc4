import { holdErrors, untilAborted } from "@kit/core/toolkit";
import {
  type Address,
  type AddressInput,
  parseAddress,
  addressAt,
  maxV4,
  networkAt,
  parseNetwork,
  type Span,
} from "./address.js";
import type { VersionBuilder } from "./builder.js";
import { type CsvInput, type CsvRow, readCsv } from "./csv.js";
import { GeoIpImportError } from "./errors.js";
import { NumbersByBytes } from "./numbers.js";
import type { NamesByLocale, Place, PlaceNames } from "./place.js";

/** The progress of an import. */
export interface ImportProgress {
  /** The file being read. */
  readonly file: string;
  /** Rows of this file so far. */
  readonly rows: number;
  /** Bytes of this file so far, unpacked. */
  readonly bytes: number;
  /** Ranges of all files so far. */
  readonly ranges: number;
}

/** The operands of a source. @internal */
interface SourceCall {
  readonly builder: VersionBuilder;
  readonly progress: (progress: Omit<ImportProgress, "ranges">) => void;
  /** Passes over a row or range that cannot be read, or throws. */
  readonly invalid: (error: unknown) => void;
  readonly signal: AbortSignal | undefined;
}

/** A source that `importGeoIp` can read: create it with {@link geoLite2} or {@link dbIp}. */
export interface GeoIpSource {
  /** @internal */
  readonly read: (call: SourceCall) => Promise<{ readonly format: string; readonly locales: readonly string[] }>;
}

/** A range of addresses and its place, for your own data. */
export interface RangeInput {
  /** A network, such as `192.0.2.0/24`. Or set `first` and `last`. */
  readonly network?: string | undefined;
  readonly first?: AddressInput | undefined;
  readonly last?: AddressInput | undefined;
  readonly place: Place;
  /** Names by language, in addition to those in `place`. */
  readonly names?: NamesByLocale | undefined;
}

const sourceOf = (inputs: readonly CsvInput[], read: GeoIpSource["read"]): GeoIpSource => {
  for (const input of inputs) holdErrors((input as { stream?: unknown } | undefined)?.stream ?? input);
  return { read };
};

const add = ({ v4, v6 }: VersionBuilder, span: Span, place: number): string | undefined =>
  span.family === 4 ? v4.add(span.first, span.last, place) : v6.add(span.first, span.last, place);

/** Reads a file of data row by row. */
const readFile = (
  input: CsvInput,
  { builder, progress, invalid, signal }: SourceCall,
  onRow: (row: CsvRow) => void,
): Promise<void> => {
  let bytes = 0;
  let isFirst = true;
  const onAnyRow = (row: CsvRow): void => {
    try {
      onRow(row);
    } catch (error) {
      // A file whose first row cannot be read is another kind of file.
      if (isFirst) throw error;
      invalid(error);
    }
    isFirst = false;
  };
  const onChunk = (row: CsvRow, more: number): Promise<void> => {
    bytes += more;
    progress({ file: row.file, rows: row.number, bytes });
    return builder.ready();
  };
  return readCsv(input, onAnyRow, onChunk, signal);
};

const numberIn = (row: CsvRow, column: number, name: string, limit = Number.MAX_SAFE_INTEGER): number | undefined => {
  const text = row.text(column, name);
  if (text === "") return undefined;
  const value = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(Math.abs(value) <= limit)) throw row.error(name, "is not a number in its range");
  return value;
};
const idIn = (row: CsvRow, column: number, name: string): number | undefined => {
  const value = numberIn(row, column, name);
  if (value !== undefined && (!Number.isInteger(value) || value < 0)) throw row.error(name, "is not a valid id");
  return value;
};
const flagIn = (row: CsvRow, column: number): true | undefined => (row.text(column, "") === "1" ? true : undefined);
const codeIn = (row: CsvRow, column: number, name: string): string | undefined => {
  const text = row.text(column, name);
  if (text !== "" && !/^[A-Z]{2}$/.test(text)) throw row.error(name, "is not a code of two capital letters");
  return text || undefined;
};
const textIn = (row: CsvRow, column: number, name: string): string | undefined => row.text(column, name) || undefined;

/** The columns of a file, found by the names in its header. */
class Header {
  readonly width: number;
  readonly #columns: ReadonlyMap<string, number>;

  constructor(row: CsvRow, required: readonly string[]) {
    this.width = row.count;
    this.#columns = new Map(Array.from({ length: row.count }, (_, column) => [row.text(column, "header"), column]));
    for (const name of required) if (!this.has(name)) throw row.error(name, "is missing from the header");
  }

  has(name: string): boolean {
    return this.#columns.has(name);
  }

  /** -1 if the file does not have it. */
  at(name: string): number {
    return this.#columns.get(name) ?? -1;
  }

  check(row: CsvRow): void {
    if (row.count !== this.width)
      throw row.error(undefined, `has ${String(row.count)} columns, but the header has ${String(this.width)}`);
  }
}

/** The facts of one geoname id, from the locations files. */
interface Location {
  readonly place: Place;
  readonly names: Record<string, PlaceNames>;
  /** Its number in the version; 0 if not used so far. */
  number: number;
}

const readLocations = async (
  inputs: readonly CsvInput[],
  call: SourceCall,
  wanted: readonly string[] | undefined,
  locations: Map<number, Location>,
  locales: Set<string>,
): Promise<void> => {
  for (const input of inputs) {
    let header: Header | undefined;
    await readFile(input, call, (row) => {
      if (!header) {
        header = new Header(row, ["geoname_id", "locale_code", "country_iso_code"]);
        return;
      }
      header.check(row);
      const columns = header;
      const text = (name: string): string | undefined => textIn(row, columns.at(name), name);
      const id = idIn(row, header.at("geoname_id"), "geoname_id");
      if (id === undefined) throw row.error("geoname_id", "is empty");
      const locale = text("locale_code");
      if (locale === undefined) throw row.error("locale_code", "is empty");
      if (wanted && !wanted.includes(locale)) return;
      locales.add(locale);
      let location = locations.get(id);
      if (!location) {
        const place = {
          geonameId: id,
          continent: codeIn(row, columns.at("continent_code"), "continent_code"),
          country: codeIn(row, columns.at("country_iso_code"), "country_iso_code"),
          region: text("subdivision_1_iso_code"),
          subregion: text("subdivision_2_iso_code"),
          timeZone: text("time_zone"),
          isInEuropeanUnion: flagIn(row, header.at("is_in_european_union")),
        };
        locations.set(id, (location = { place, names: {}, number: 0 }));
      }
      location.names[locale] = {
        continentName: text("continent_name"),
        countryName: text("country_name"),
        regionName: text("subdivision_1_name"),
        subregionName: text("subdivision_2_name"),
        cityName: text("city_name"),
      };
    });
  }
};

/** The files of one GeoLite2 or GeoIP2 CSV download. */
export interface GeoLite2Files {
  /** `GeoLite2-*-Blocks-IPv4.csv` and `-IPv6.csv`, or one of them. */
  readonly blocks: readonly CsvInput[];
  /** `GeoLite2-*-Locations-<locale>.csv`, one for each language. ASN has none. */
  readonly locations?: readonly CsvInput[] | undefined;
  /** The languages of `locations` to keep; by default all. */
  readonly locales?: readonly string[] | undefined;
}

const networkColumn = "network";
const geonameColumns = ["geoname_id", "registered_country_geoname_id"] as const;
const asnColumn = "autonomous_system_number";

/** Makes places from the rows of a blocks file; rows with the same content share one. */
class BlockPlaces {
  readonly #builder: VersionBuilder;
  readonly #locations: ReadonlyMap<number, Location>;
  readonly #numbers = new NumbersByBytes();

  constructor(builder: VersionBuilder, locations: ReadonlyMap<number, Location>) {
    this.#builder = builder;
    this.#locations = locations;
  }

  numberOf(row: CsvRow, header: Header, network: number): number {
    const make = (): number => (header.has(asnColumn) ? this.#network(row, header) : this.#place(row, header));
    const { bytes, from, to } = row;
    if (network === 0) return this.#numbers.get(bytes, row.endOf(0), to, make);
    const others = [bytes.subarray(from, row.startOf(network)), bytes.subarray(row.endOf(network), to)];
    const key = Buffer.concat(others);
    return this.#numbers.get(key, 0, key.length, make);
  }

  #network(row: CsvRow, header: Header): number {
    const organisation = "autonomous_system_organization";
    const asn = idIn(row, header.at(asnColumn), asnColumn);
    if (asn === undefined) return 0;
    return this.#builder.place({ asn, organisation: textIn(row, header.at(organisation), organisation) }, 0);
  }

  #place(row: CsvRow, header: Header): number {
    const [own, registered] = geonameColumns.map((name) => idIn(row, header.at(name), name));
    const id = own ?? registered;
    // A network that the vendor cannot place at all, for example of a satellite provider.
    if (id === undefined) return 0;
    const location = this.#locations.get(id);
    if (!location) {
      const column = own === undefined ? geonameColumns[1] : geonameColumns[0];
      throw row.error(column, `names ${String(id)}, which no locations file has. Use files of one download`);
    }
    location.number ||= this.#builder.names(location);
    const number = (name: string, limit?: number): number | undefined => numberIn(row, header.at(name), name, limit);
    const place = {
      postalCode: textIn(row, header.at("postal_code"), "postal_code"),
      latitude: number("latitude", 90),
      longitude: number("longitude", 180),
      accuracyRadiusKm: number("accuracy_radius"),
      isAnycast: flagIn(row, header.at("is_anycast")),
      isRegisteredCountry: own === undefined ? true : undefined,
    };
    return this.#builder.place(place, location.number);
  }
}

/**
 * Reads GeoLite2 or GeoIP2 City, Country or ASN in MaxMind's CSV format. Columns are found by their names in the header. A row
 * without `geoname_id` has the place of its registered country, flagged `isRegisteredCountry`.
 *
 * @example
 * geoLite2({ blocks: ["GeoLite2-City-Blocks-IPv4.csv"], locations: ["GeoLite2-City-Locations-en.csv"] });
 */
export const geoLite2 = ({ blocks, locations: locationFiles = [], locales: wanted }: GeoLite2Files): GeoIpSource =>
  sourceOf([...blocks, ...locationFiles], async (call) => {
    const { builder } = call;
    const locations = new Map<number, Location>();
    const locales = new Set<string>();
    await readLocations(locationFiles, call, wanted, locations, locales);
    let places = new BlockPlaces(builder, locations);
    let columns = "";
    let format = "GeoLite2";
    for (const input of blocks) {
      let header: Header | undefined;
      let network = -1;
      await readFile(input, call, (row) => {
        if (!header) {
          header = new Header(row, [networkColumn]);
          // Equal bytes mean the same only in files with the same columns.
          const own = row.bytes.toString("latin1", row.from, row.to);
          if (own !== columns) places = new BlockPlaces(builder, locations);
          columns = own;
          network = header.at(networkColumn);
          if (!header.has(asnColumn) && !header.has(geonameColumns[0]))
            throw row.error(geonameColumns[0], "is missing from the header");
          format = header.has(asnColumn)
            ? "GeoLite2-ASN"
            : header.has("latitude")
              ? "GeoLite2-City"
              : "GeoLite2-Country";
          return;
        }
        header.check(row);
        const span = row.bare(network, networkAt);
        if (typeof span === "string") throw row.error(networkColumn, span);
        const problem = add(builder, span, places.numberOf(row, header, network));
        if (problem) throw row.error(networkColumn, problem);
      });
    }
    return { format, locales: [...locales] };
  });

/** The columns of DB-IP's free files by their number. The files of ip-location-db have ten columns. */
const dbIpColumns: Readonly<Record<number, { readonly format: string; readonly names: readonly string[] }>> = {
  3: { format: "DB-IP country", names: ["ip_start", "ip_end", "country"] },
  4: { format: "DB-IP ASN", names: ["ip_start", "ip_end", "as_number", "as_organisation"] },
  8: {
    format: "DB-IP city",
    names: ["ip_start", "ip_end", "continent", "country", "stateprov", "city", "latitude", "longitude"],
  },
  10: {
    format: "DB-IP city",
    names: [
      ...["ip_start", "ip_end", "country", "stateprov", "district", "city", "postcode", "latitude", "longitude"],
      "timezone",
    ],
  },
};
/** ISO 3166 reserves this code for users; DB-IP writes it for unknown countries. */
const unknownCode = "ZZ";

const dbIpPlace = (row: CsvRow, names: readonly string[]): Place | undefined => {
  const text = (name: string): string | undefined => textIn(row, names.indexOf(name), name);
  const asn = idIn(row, names.indexOf("as_number"), "as_number");
  if (asn !== undefined) return { asn, organisation: text("as_organisation") };
  const code = (name: string): string | undefined => codeIn(row, names.indexOf(name), name);
  const country = code("country");
  if (country === undefined || country === unknownCode) return undefined;
  return {
    continent: code("continent"),
    country,
    regionName: text("stateprov"),
    subregionName: text("district"),
    cityName: text("city"),
    postalCode: text("postcode"),
    timeZone: text("timezone"),
    latitude: numberIn(row, names.indexOf("latitude"), "latitude", 90),
    longitude: numberIn(row, names.indexOf("longitude"), "longitude", 180),
  };
};

const spanOf = (first: Address | undefined, last: Address | undefined): Span | undefined => {
  if (first?.family === 4 && last?.family === 4 && first.value <= last.value)
    return { family: 4, first: first.value, last: last.value };
  if (first?.family === 6 && last?.family === 6 && first.value <= last.value)
    return { family: 6, first: first.value, last: last.value };
  return undefined;
};

/** An address as text, or as a number: IPv4 up to 32 bits, otherwise IPv6. */
const addressIn = (bytes: Uint8Array, from: number, to: number): Address | undefined => {
  let end = from;
  while (end < to && bytes[end]! >= 0x30 && bytes[end]! <= 0x39) end++;
  if (end < to || end === from || end - from > 39) return addressAt(bytes, from, to);
  const value = BigInt(Buffer.from(bytes.subarray(from, to)).toString());
  return parseAddress(value <= maxV4 ? Number(value) : value);
};

/**
 * Reads DB-IP's free databases in CSV: country, city or ASN, distinguished by their number of columns. It also reads the form
 * of ip-location-db: ten columns of a city, addresses as numbers. A header is skipped. Rows of country `ZZ`, "unknown", are
 * gaps.
 */
export const dbIp = (...files: readonly CsvInput[]): GeoIpSource =>
  sourceOf(files, async (call) => {
    const { builder } = call;
    const numbers = new NumbersByBytes();
    let format = "DB-IP";
    for (const input of files) {
      let columns: (typeof dbIpColumns)[number] | undefined;
      await readFile(input, call, (row) => {
        if (!columns) {
          columns = dbIpColumns[row.count];
          if (!columns)
            throw row.error(undefined, `has ${String(row.count)} columns; DB-IP's files have 3, 4, 8 or 10`);
          ({ format } = columns);
          if (/^[a-z][a-z_ ]*$/i.test(row.text(0, "ip_start"))) return;
        }
        const { names } = columns;
        if (row.count !== names.length)
          throw row.error(undefined, `has ${String(row.count)} columns, but the first row has ${String(names.length)}`);
        const first = row.bare(0, addressIn);
        if (!first) throw row.error("ip_start", "is not an address");
        const span = spanOf(first, row.bare(1, addressIn));
        if (!span) throw row.error("ip_end", "is not an address of the same family at or after ip_start");
        const number = numbers.get(row.bytes, row.startOf(2), row.to, () => {
          const place = dbIpPlace(row, names);
          return place ? builder.place(place, 0) : 0;
        });
        const problem = add(builder, span, number);
        if (problem) throw row.error("ip_start", problem);
      });
    }
    return { format, locales: [] };
  });

/** How many ranges between two checks of the importer's backlog, and between two reports of progress. */
const rangesPerChunk = 4_096;

/** Undefined: a bigint, a cycle, or a toJSON or getter that throws. */
const jsonOf = (value: unknown): string | undefined => {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
};

/** Reads ranges from the caller. */
export const rangesSource = (ranges: AsyncIterable<RangeInput> | Iterable<RangeInput>): GeoIpSource => ({
  read: async ({ builder, progress, invalid, signal }) => {
    const numbers = new Map<string, number>();
    const locales = new Set<string>();
    let row = 0;
    const take = (range: RangeInput | null): void => {
      const fail = (column: string, problem: string): GeoIpImportError =>
        new GeoIpImportError({ file: "ranges", row, column }, problem);
      const { network, first, last, place, names } = range ?? ({} as Partial<RangeInput>);
      const span =
        network === undefined ? spanOf(parseAddress(first ?? ""), parseAddress(last ?? "")) : parseNetwork(network);
      if (span === undefined) throw fail("first", "and last are not two addresses of one family in order");
      if (typeof span === "string") throw fail("network", span);
      if (typeof place !== "object" || (place as Place | null) === null) throw fail("place", "is not an object");
      const text = jsonOf([place, names]);
      if (text === undefined) throw fail("place", "or its names are not JSON");
      let number = numbers.get(text);
      if (number === undefined) numbers.set(text, (number = builder.place(place, 0, names)));
      for (const locale of Object.keys(names ?? {})) locales.add(locale);
      const problem = add(builder, span, number);
      if (problem) throw fail(network === undefined ? "first" : "network", problem);
    };
    for await (const range of signal ? untilAborted(ranges, signal) : ranges) {
      row++;
      try {
        take(range);
      } catch (error) {
        invalid(error);
      }
      const isChunk = row % rangesPerChunk === 0;
      if (isChunk) progress({ file: "ranges", rows: row, bytes: 0 });
      if (isChunk || builder.isDue) await builder.ready();
    }
    progress({ file: "ranges", rows: row, bytes: 0 });
    return { format: "ranges", locales: [...locales] };
  },
});
