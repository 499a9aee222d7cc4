import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";

/** A place as the classic code stores it: city, region, country. */
export type ClassicCity = readonly [city: string, region: string, country: string];

/** Python's `int(text)`, which refuses text that is no decimal number. */
const integer = (text: string): number => {
  if (!/^\d+$/.test(text)) throw new TypeError(`invalid literal for an integer: ${text}`);
  return Number(text);
};

/** Reads the parts of an address as digits of base 256. It accepts any number of parts and any number in a part. */
function ipToScore(address: string): number {
  return address.split(".").reduce((score, part) => score * 256 + integer(part), 0);
}

const fields = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)].map(([, quoted, plain]) =>
    quoted === undefined ? (plain ?? "") : quoted.replaceAll('""', '"'),
  );

const rows = (file: Uint8Array): string[][] =>
  // Latin-1, as in the first files of the vendor. Today's files are UTF-8.
  Buffer.from(file)
    .toString("latin1")
    .split(/\r?\n/)
    .filter((line) => line !== "")
    .map(fields);

/**
 * "Redis in Action", chapter 5: reads a file of `start, end, city id`, and adds `<city id>_<row>` scored by the start
 * to a ZSET, one awaited `ZADD` for each row.
 *
 * Known faults:
 *
 * - the end of a range is dropped
 * - a row whose first field contains an "i" is taken for the header
 * - a start in CIDR notation throws in the middle of the import
 * - IPv6 is skipped, since a score has 53 bits
 * - the member contains the row's number, so that a second import leaves rows of the first
 * - readers see a half imported table
 */
export async function importIps(redis: Redis, file: Uint8Array, prefix = ""): Promise<void> {
  const { ipToCity } = classicKeys(prefix);
  for (const [count, [start = "", , cityId = ""]] of rows(file).entries()) {
    if (start.toLowerCase().includes("i")) continue;
    let score: number;
    if (start.includes(".")) score = ipToScore(start);
    else if (/^\d+$/.test(start)) score = Number(start);
    else continue;
    await redis.zadd(ipToCity, score, `${cityId}_${String(count)}`);
  }
}

/**
 * "Redis in Action", chapter 5: `ZREVRANGEBYSCORE … LIMIT 0 1`, then `HGET`.
 *
 * Known faults:
 *
 * - an address between two ranges has the city of the range before; so have private and other special addresses
 * - IPv6 throws
 * - two round trips
 */
export async function findCity(redis: Redis, address: string, prefix = ""): Promise<ClassicCity | null> {
  const { ipToCity, cities } = classicKeys(prefix);
  const [member] = await redis.zrevrangebyscore(ipToCity, ipToScore(address), 0, "LIMIT", 0, 1);
  if (member === undefined) return null;
  const city = await redis.hget(cities, member.split("_")[0] ?? "");
  // A missing city throws, as in the classic code.
  return JSON.parse(city ?? "") as ClassicCity;
}
