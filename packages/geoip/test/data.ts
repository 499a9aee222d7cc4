import type { CsvInput, GeoLite2Files, RangeInput } from "../src/index.js";

/** A file that stands in a text. */
export const csv = (name: string, text: string | readonly string[]): CsvInput => ({
  name,
  stream: (async function* () {
    await Promise.resolve();
    yield typeof text === "string" ? text : text.map((line) => `${line}\n`).join("");
  })(),
});

/** Synthetic data in the exact formats of the vendors' files: the addresses, ids and places mean nothing. */
const cityBlocksHeader: string =
  "network,geoname_id,registered_country_geoname_id,represented_country_geoname_id,is_anonymous_proxy," +
  "is_satellite_provider,postal_code,latitude,longitude,accuracy_radius,is_anycast";
const cityLocationsHeader: string =
  "geoname_id,locale_code,continent_code,continent_name,country_iso_code,country_name,subdivision_1_iso_code," +
  "subdivision_1_name,subdivision_2_iso_code,subdivision_2_name,city_name,metro_code,time_zone,is_in_european_union";

export const locationsEn: readonly string[] = [
  cityLocationsHeader,
  '101,en,EU,Europe,XA,"Arland, Republic of",NB,Northbank,,,Harbourton,,Europe/Harbour,1',
  '102,en,NA,"North ""A""",XB,Borduria,,,,,,,America/Bord,0',
  "103,en,AS,Asia,XC,Catania,SC,South,07,District 7,Cityville,,Asia/Cityville,0",
];
const locationsDe: readonly string[] = [
  cityLocationsHeader,
  '101,de,EU,Europa,XA,"Arland, Republik",NB,Nordufer,,,Hafenstadt,,Europe/Harbour,1',
  "102,de,NA,Nordamerika,XB,Bordurien,,,,,,,America/Bord,0",
  "103,de,AS,Asien,XC,Katanien,SC,,07,,城市,,Asia/Cityville,0",
];
export const blocksV4: readonly string[] = [
  cityBlocksHeader,
  "1.0.0.0/24,101,102,,0,0,ABC 12,10.5,-20.25,50,",
  "1.0.1.0/24,101,102,,0,0,ABC 12,10.5,-20.25,50,",
  "1.0.4.0/22,102,102,,0,0,,47.0000,8.0000,1000,1",
  "1.0.9.7/32,,102,,0,0,,,,,",
  "1.0.10.0/24,,,,0,1,,,,,",
  "200.0.0.0/6,103,103,,0,0,07001,-1,1.5,5,",
];
export const blocksV6: readonly string[] = [
  cityBlocksHeader,
  "2001:200::/32,102,102,,0,0,,47.0000,8.0000,1000,1",
  "2001:db8::/32,101,101,,0,0,,10.5,-20.25,50,",
  "2001:db8:0:1::/64,103,101,,0,0,,,,,",
  "2001:db8:0:1::7/128,102,101,,0,0,,,,,",
  "2a00::/12,103,103,,0,0,,,,,",
];

/** One download of GeoLite2-City. */
export const cityFiles = (): GeoLite2Files & { readonly locations: readonly CsvInput[] } => ({
  blocks: [csv("Blocks-IPv4.csv", blocksV4), csv("Blocks-IPv6.csv", blocksV6)],
  locations: [csv("Locations-en.csv", locationsEn), csv("Locations-de.csv", locationsDe)],
});

export const dbIpCity: readonly string[] = [
  "0.0.0.0,0.255.255.255,ZZ,ZZ,,,0,0",
  '1.0.0.0,1.0.1.255,EU,XA,"Northbank","Harbourton, Old",10.5,-20.25',
  "1.0.4.0,1.0.7.255,NA,XB,,,47,8",
  "2001:200::,2001:200:ffff:ffff:ffff:ffff:ffff:ffff,NA,XB,,,47,8",
];
export const asnBlocks: readonly string[] = [
  "network,autonomous_system_number,autonomous_system_organization",
  '1.0.0.0/24,64500,"Example, Inc."',
  "1.0.4.0/22,64501,Beispiel AG",
];

/** Where lookups find their answers. */
export const modes = ["cached", "local", "server"] as const;

/** Ranges that fill several pages: every second /24, each with a different place. */
export const manyRanges = (count: number, tag: string): RangeInput[] =>
  Array.from({ length: count }, (_, index) => ({
    network: `${String(1 + (index >> 15))}.${String((index >> 7) & 255)}.${String((index << 1) & 255)}.0/24`,
    place: { country: "XA", cityName: `${tag}${String(index)}` },
  }));
