// Made-up networks and places in the vendors' formats, the same in every process and run.
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededBelow } from "@tooling/lab";

/** An IPv4 network and its place. */
export interface Network {
  readonly first: number;
  readonly bits: number;
  readonly place: number;
}

export const cities = 50_000;
/** Distinct combinations of city, postal code and coordinates. */
const places = 150_000;
/** Neighbouring networks lie in one region: this many in a row share a few places. */
const regionNetworks = 256;
const regionPlaces = 64;

export const cityOf = (place: number): number => place % cities;
export const cityName = (city: number): string => `City ${String(city)}`;
const geonameId = (city: number): number => 1_000_000 + 37 * city;

/** Networks of /22 to /28 in order, with gaps. */
export function* networksOf(count: number): Generator<Network> {
  const random = seededBelow(7);
  let made = 0;
  function* split(first: number, bits: number): Generator<Network> {
    if (bits < 28 && random(2) === 0) {
      yield* split(first, bits + 1);
      yield* split(first + 2 ** (31 - bits), bits + 1);
      return;
    }
    if (random(16) === 0 || made === count) return;
    const region = Math.floor(made++ / regionNetworks);
    yield { first, bits, place: (region * 1_009 * regionPlaces + random(regionPlaces)) % places };
  }
  for (let block = 11 * 2 ** 14; made < count; block++) yield* split(block * 1_024, 22);
}

export const addressText = (value: number): string =>
  `${String(value >>> 24)}.${String((value >>> 16) & 255)}.${String((value >>> 8) & 255)}.${String(value & 255)}`;

const blocksHeader =
  "network,geoname_id,registered_country_geoname_id,represented_country_geoname_id,is_anonymous_proxy," +
  "is_satellite_provider,postal_code,latitude,longitude,accuracy_radius,is_anycast";
const locationsHeader =
  "geoname_id,locale_code,continent_code,continent_name,country_iso_code,country_name,subdivision_1_iso_code," +
  "subdivision_1_name,subdivision_2_iso_code,subdivision_2_name,city_name,metro_code,time_zone,is_in_european_union";

/** The columns of the place, which follow the network in a row. */
const placeTexts = (): string[] => {
  const random = seededBelow(11);
  const degrees = (limit: number): string => (random(2 * limit * 10_000) / 10_000 - limit).toFixed(4);
  return Array.from({ length: places }, (_, place) => {
    const id = String(geonameId(cityOf(place)));
    return `${id},${id},,0,0,${String(10_000 + random(90_000))},${degrees(85)},${degrees(175)},${String(5 + random(500))},`;
  });
};

/** A blocks file of GeoLite2 City. */
export function* blocksFile(count: number): Generator<string> {
  const texts = placeTexts();
  yield blocksHeader;
  for (const { first, bits, place } of networksOf(count))
    yield `${addressText(first)}/${String(bits)},${texts[place] ?? ""}`;
}

/** The matching locations file. */
export function* locationsFile(): Generator<string> {
  yield locationsHeader;
  for (let city = 0; city < cities; city++)
    yield `${String(geonameId(city))},en,EU,Europe,XA,"Arland, Republic of",N${String(city % 40)},Northbank ${String(city % 40)},,,${cityName(city)},,Europe/Harbour,1`;
}

/** The same networks in the format that the classic code reads. */
export function* classicFile(count: number): Generator<string> {
  yield "startIpNum,endIpNum,locId";
  for (const { first, bits, place } of networksOf(count))
    yield `${String(first)},${String(first + 2 ** (32 - bits) - 1)},${String(cityOf(place))}`;
}

/** Writes lines to a file without a name, which vanishes with the process. Returns its descriptor. */
export const unnamedFile = (lines: Iterable<string>): number => {
  const folder = mkdtempSync(join(tmpdir(), "bench-"));
  const path = join(folder, "file");
  const writer = openSync(path, "w");
  const file = openSync(path, "r");
  rmSync(folder, { recursive: true });
  let batch: string[] = [];
  const flush = (): void => void (writeSync(writer, batch.map((line) => `${line}\n`).join("")), (batch = []));
  for (const line of lines) if (batch.push(line) === 10_000) flush();
  flush();
  closeSync(writer);
  return file;
};
