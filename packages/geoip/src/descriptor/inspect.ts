import { counted, dated, type Facts, type Inspector, secondsText } from "@kit/core/toolkit";
import { createGeoIp, type DatabaseInfo, GeoIpNoVersionError } from "../index.js";
import { geoIpKeys } from "../keys.js";

const dayMs = 86_400_000;
const ageText = (ms: number): string => (ms < dayMs ? secondsText(ms) : counted(Math.floor(ms / dayMs), "day"));
const instantText = (at: number | null): string => dated(at) ?? "unknown";

const factsOf = (info: DatabaseInfo): Facts => [
  ["database", info.database],
  ["version", info.version],
  ["format", info.format],
  ["age", `${ageText(info.ageMs)}, built ${instantText(info.builtAt)}, imported ${instantText(info.importedAt)}`],
  ["ranges", `${String(info.ranges.v4)} IPv4, ${String(info.ranges.v6)} IPv6, in ${counted(info.pages, "page")}`],
  ["locales", info.locales.length === 0 ? "none" : info.locales.join(", ")],
  ["attribution", info.attribution ?? "none"],
  ["previous", info.previous ?? "none"],
];

export const geoIpInspector: Inspector = {
  thing: "geoip",
  about: "an IP database: version, age and size",
  args: [{ name: "database", about: "name of the database" }],
  look: async ({ redis, prefix }, database: string) => {
    const reader = createGeoIp(redis, database, { prefix });
    try {
      const info = await reader.info();
      const { version, ranges, ...facts } = info;
      const summary = `version ${version}, ${counted(ranges.v4 + ranges.v6, "range")}`;
      return { data: { dataVersion: version, ranges, ...facts }, facts: factsOf(info), summary };
    } catch (error) {
      if (!(error instanceof GeoIpNoVersionError)) throw error;
      const facts: Facts = [
        ["database", database],
        ["state", "unknown: never imported"],
      ];
      return { data: { database }, facts, isUnknown: true };
    } finally {
      await reader.close();
    }
  },
  listed: { things: "databases", keys: ["{NAME}:current"], columns: ["version", "format", "age", "ranges"] },
  keys: (prefix, database: string) => [geoIpKeys(prefix, database).current],
};
