import { readFile } from "node:fs/promises";
import { connect } from "@kit/core";
import { createGeoIp, importGeoIp, type RangeInput } from "@kit/geoip";
import { type CityResponse, Reader } from "mmdb-lib";

/** The allocated range of each family: its first address, and the one behind its last. */
const families = [
  { bits: 32, from: 0n, end: 1n << 32n },
  { bits: 128, from: 0x2000n << 112n, end: 0x4000n << 112n },
];
/** Teredo and 6to4 repeat all IPv4 networks. Each is skipped from its first address to the one behind its last. */
const aliases = new Map([
  [0x2001_0000n << 96n, 0x2001_0001n << 96n],
  [0x2002n << 112n, 0x2003n << 112n],
]);

const textOf = (bits: number, address: bigint): string => {
  const [size, base] = bits === 32 ? [8, 10] : [16, 16];
  const groups = Array.from({ length: bits / size }, (_, at) =>
    BigInt.asUintN(size, address >> BigInt(bits - size - at * size)).toString(base),
  );
  return groups.join(bits === 32 ? "." : ":");
};

/** All networks of an mmdb file, in order. */
function* networksOf(mmdb: Reader<CityResponse>): Generator<RangeInput> {
  for (const { bits, from, end } of families)
    for (let at = from; at < end;) {
      const address = textOf(bits, at);
      const [record, length] = mmdb.getWithPrefixLength(address);
      const behind = ((at >> BigInt(bits - length)) + 1n) << BigInt(bits - length);
      const next = aliases.get(at) ?? behind;
      if (record && next === behind) {
        const { country, city, location } = record;
        const names = Object.fromEntries(
          mmdb.metadata.languages.map((language) => [
            language,
            { countryName: country?.names[language as "en"], cityName: city?.names[language as "en"] },
          ]),
        );
        const place = {
          country: country?.iso_code,
          geonameId: city?.geoname_id ?? country?.geoname_id,
          latitude: location?.latitude,
          longitude: location?.longitude,
          timeZone: location?.time_zone,
        };
        yield { network: `${address}/${String(length)}`, place, names };
      }
      at = next;
    }
}

await using redis = await connect();
const file = await readFile(new URL("../test/files/GeoLite2-City.mmdb", import.meta.url));
const mmdb = new Reader<CityResponse>(file);
const { ranges, places } = await importGeoIp(redis, "city", networksOf(mmdb), {
  builtAt: mmdb.metadata.buildEpoch.getTime(),
});
console.log(ranges.v4, ranges.v6, places); // prints: 4 3 2

await using geo = createGeoIp(redis, "city", { locales: ["de", "en"] });
console.log((await geo.lookup("1.0.0.7")).place?.cityName); // prints: Hafenstadt
console.log((await geo.lookup("2a0f::1")).place?.countryName); // prints: Bordurien
