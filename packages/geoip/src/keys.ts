import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. The two keys of a database share its hash tag. The data of a version is in shards of about 512 KB
 * with a hash tag each: they spread over a Cluster, and only their expiry changes after they are written.
 *
 * | Key | Type | Content | Life |
 * | --- | --- | --- | --- |
 * | `kit:geoip:{database}:current` | hash | `layout`, `current`, `previous`, `epoch`, `isSealed`, `keepMs`, `at` (of the switch, seconds) | permanent |
 * | `kit:geoip:{database}:version:<v>` | hash | `manifest` (JSON); `fence4`, `fence6`: the first address of each page | `stagingMs` during the import; permanent while it serves; then `keepPreviousMs` |
 * | `kit:geoip:{database.<v>.<part>.<n>}:shard` | hash | 0–255 → page or block of `v4`, `v6`, `places` or `names`; `epoch`: the switch that decided its life | as its version |
 *
 * A change of version is published on the channel `kit:geoip:{database}:changed`.
 */
export interface GeoIpKeys {
  readonly current: string;
  /** The channel on which a change of version is published. */
  readonly changed: string;
  version(version: string): string;
  shard(version: string, part: Part, shard: number): string;
}

/** The contents of a shard: pages of IPv4 or IPv6 ranges, blocks of places, blocks of their names. */
export type Part = "v4" | "v6" | "places" | "names";

export const parts: readonly Part[] = ["v4", "v6", "places", "names"];

/** @throws {KitError} `KIT_NAME`: the database's name cannot be part of a key. */
export const geoIpKeys = (prefix: string, database: string): GeoIpKeys => {
  const space = keyspace("geoip", prefix);
  const base = space.base(database);
  return {
    current: `${base}current`,
    changed: `${base}changed`,
    version: (version) => `${base}version:${version}`,
    shard: (version, part, shard) => space.key(`${database}.${version}.${part}.${String(shard)}`, "shard"),
  };
};
