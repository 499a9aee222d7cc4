import { connect } from "@kit/core";
import { createGeoIp, importGeoIp } from "@kit/geoip";

const redis = await connect();

// Any async iterable of ranges; for the vendors' files there are geoLite2() and dbIp().
await importGeoIp(redis, "city", [
  {
    network: "192.0.2.0/25",
    place: { country: "XA" },
    names: { en: { cityName: "Harbourton" }, de: { cityName: "Hafenstadt" } },
  },
  { first: "192.0.2.200", last: "192.0.2.210", place: { country: "XB" } },
  { network: "2001:db8::/32", place: { country: "XC" } },
]);

const geo = createGeoIp(redis, "city", { locales: ["de", "en"] });

const found = await geo.lookup("192.0.2.1");
console.log(found.place?.country, found.place?.cityName); // prints: XA Hafenstadt

// IPv4 inside IPv6 is looked up as IPv4; a port and brackets do no harm.
console.log((await geo.lookup("::ffff:192.0.2.205")).place?.country); // prints: XB
console.log((await geo.lookup("[2001:db8::1]:443")).place?.country); // prints: XC

// No neighbour's place in a gap: the reason instead.
console.log((await geo.lookup("192.0.2.220")).none, (await geo.lookup("10.0.0.1")).none); // prints: documentation private
console.log((await geo.lookup("8.8.8.8")).none, (await geo.lookup("1.2.3")).none); // prints: gap invalid

await geo.close();
await redis.close();
