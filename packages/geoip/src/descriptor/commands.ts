import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { type CliCommand, counted, type Facts } from "@kit/core/toolkit";
import { parseAddress } from "../address.js";
import { createGeoIp, dbIp, geoLite2, importGeoIp, type GeoIpSource, type Lookup, rollbackGeoIp } from "../index.js";

const newDatabaseArgument = { name: "database", about: "name of the database" } as const;
const databaseArgument = { ...newDatabaseArgument, listedIn: "databases" } as const;

type FileKind = "blocks" | "locations" | "dbip";

/** Detects the format of a file by its first line: DB-IP's files have no header and start with an address. */
const kindOf = async (path: string): Promise<FileKind> => {
  const file = createReadStream(path);
  // An error of the file ends the reading of its text as well.
  const input = path.endsWith(".gz") ? pipeline(file, createGunzip(), () => undefined) : file;
  let first = "";
  try {
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      first = line.replace(/^\uFEFF/, "");
      break;
    }
  } finally {
    input.destroy();
  }
  if (/\blocale_code\b/.test(first)) return "locations";
  if (/\bnetwork\b/.test(first)) return "blocks";
  if (parseAddress(first.split(",")[0]?.replaceAll('"', "") ?? "")) return "dbip";
  throw new RangeError(`${path} is not a GeoLite2 or DB-IP file`);
};

const sourceOf = async (paths: readonly string[], locales: readonly string[] | undefined): Promise<GeoIpSource> => {
  const kinds = await Promise.all(paths.map(kindOf));
  const of = (kind: FileKind): string[] => paths.filter((_, index) => kinds[index] === kind);
  const [blocks, locations, others] = [of("blocks"), of("locations"), of("dbip")];
  if (others.length > 0 && others.length < paths.length)
    throw new RangeError("One database cannot mix GeoLite2 and DB-IP files");
  return others.length > 0 ? dbIp(...others) : geoLite2({ blocks, locations, locales });
};

const instantOf = (text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw new RangeError("Expected --built to be a date such as 2026-11-20");
  return at;
};

/** Rows between two lines of progress. */
const rowsPerNote = 500_000;

export const importCommand: CliCommand = {
  path: "geoip import",
  about: "import CSV files of GeoLite2 or DB-IP as the new version of a database",
  args: [
    newDatabaseArgument,
    { name: "files", about: "blocks and locations files of GeoLite2, or DB-IP files", count: "many" },
  ],
  options: [
    { name: "locales", about: "languages of names to keep, such as de,en", takes: "text" },
    { name: "built", about: "date when the vendor built the data, such as 2026-11-20", takes: "text" },
    { name: "attribution", about: "attribution that the data's license requires", takes: "text" },
    { name: "min-ranges", about: "reject files with fewer ranges, which may be truncated", takes: "integer" },
  ],
  run: async ({ redis, prefix, text, integer, output, signal }, database: string, ...files: string[]) => {
    const source = await sourceOf(files, text("locales")?.split(","));
    let noted = 0;
    const result = await importGeoIp(redis, database, source, {
      prefix,
      signal,
      builtAt: instantOf(text("built")),
      attribution: text("attribution"),
      minRanges: integer("min-ranges"),
      onProgress: ({ file, ranges }) => {
        if (ranges - noted < rowsPerNote) return;
        noted = ranges;
        void output.note(`${file}: ${counted(ranges, "range")} so far`);
      },
    });
    const { version, ...rest } = result;
    const { format, ranges, places } = rest;
    const facts: Facts = [
      ["database", database],
      ["version", version],
      ["format", format],
      ["ranges", `${String(ranges.v4)} IPv4, ${String(ranges.v6)} IPv6`],
      ["places", String(places)],
    ];
    await output.report({ data: { database, dataVersion: version, ...rest }, facts });
  },
};

const lineOf = (address: string, { place, none }: Lookup): string => {
  if (!place) return `${address}  none: ${none}`;
  const { cityName, regionName, countryName, country, asn, organisation } = place;
  const parts = [cityName, regionName, countryName ?? country, asn === undefined ? undefined : `AS${String(asn)}`];
  return `${address}  ${[...parts, organisation].filter((part) => part !== undefined).join(", ")}`;
};

export const lookupCommand: CliCommand = {
  path: "geoip lookup",
  about: "look up IP addresses",
  args: [databaseArgument, { name: "addresses", about: "IPv4 or IPv6 addresses", count: "many" }],
  options: [{ name: "locales", about: "languages of names, preferred first, such as de,en", takes: "text" }],
  run: async ({ redis, prefix, text, output }, database: string, ...addresses: string[]) => {
    const reader = createGeoIp(redis, database, { prefix, locales: text("locales")?.split(",") });
    try {
      for (const address of addresses) {
        const found = await reader.lookup(address);
        await output.line({ address, ...found }, lineOf(address, found));
      }
    } finally {
      await reader.close();
    }
  },
};

export const rollbackCommand: CliCommand = {
  path: "geoip rollback",
  buttons: [{ thing: "geoip", text: "Roll back" }],
  about: "restore the previous version of a database",
  args: [databaseArgument],
  run: async ({ redis, prefix, output }, database: string) => {
    const version = await rollbackGeoIp(redis, database, { prefix });
    await output.report({ data: { database, dataVersion: version }, facts: [["version", version]] });
  },
};
