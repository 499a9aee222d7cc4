import { connect } from "@kit/core";
import { createGeoIp, dbIp, geoLite2, importGeoIp, rollbackGeoIp } from "@kit/geoip";

await using redis = await connect();
const files = new URL("../test/files/", import.meta.url);
const file = (name: string): URL => new URL(name, files);

const { ranges, places } = await importGeoIp(
  redis,
  "city",
  geoLite2({
    blocks: [file("GeoLite2-City-Blocks-IPv4.csv"), file("GeoLite2-City-Blocks-IPv6.csv")],
    locations: [file("GeoLite2-City-Locations-en.csv"), file("GeoLite2-City-Locations-de.csv")],
  }),
  { builtAt: Date.UTC(2026, 10, 20), attribution: "As the licence of the data says", minRanges: 5 },
);
console.log(ranges.v4, ranges.v6, places); // prints: 3 2 4

await using geo = createGeoIp(redis, "city", { mode: "local", maxAgeMs: 45 * 86_400_000 });
await geo.ready();
const found = geo.lookupSync("1.0.4.9");
console.log(found.place?.countryName, found.place?.timeZone); // prints: Borduria America/Bord

// Another vendor, in the place of the first one, all at once; and back.
const changed = () => new Promise((resolve) => geo.once("version", resolve));
const toDbIp = changed();
await importGeoIp(redis, "city", dbIp(file("dbip-country-lite.csv.gz")));
await toDbIp;
console.log(geo.lookupSync("1.0.4.9").place?.country); // prints: XB
const back = changed();
await rollbackGeoIp(redis, "city");
await back;
console.log(geo.lookupSync("1.0.4.9").place?.countryName); // prints: Borduria
