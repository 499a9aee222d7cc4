import type { RedisMode, TestRedis } from "@kit/testing";
import { clientsOf, type Login } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import {
  createGeoIp,
  geoLite2,
  type GeoIp,
  type GeoIpOptions,
  importGeoIp,
  type ImportOptions,
  type ImportResult,
  rollbackGeoIp,
} from "../src/index.js";
import { type GeoIpKeys, geoIpKeys } from "../src/keys.js";
import { cityFiles } from "./data.js";

const database = "city";

/** The server of a test of this package, and its helpers. */
export interface Fixture {
  /** A new client of the user whose objects are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A reader under the test's prefix, by default on the shared client, closed after the test. */
  reader(options?: GeoIpOptions, client?: Parameters<typeof createGeoIp>[0]): GeoIp;
  /** Imports; without a source, the synthetic city files. */
  import(source?: Parameters<typeof importGeoIp>[2], options?: ImportOptions): Promise<ImportResult>;
  rollback(): Promise<string>;
  readonly keys: GeoIpKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
}

/** With a `login` all objects are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): Fixture => {
  const clients = clientsOf(redis, login);
  return {
    connect: clients.connect,
    reader: (options, client = clients.shared()) => {
      const reader = createGeoIp(client, database, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
      redis.defer(() => reader.close());
      return reader;
    },
    import: (source = geoLite2(cityFiles()), options = {}) => {
      // The serving version is permanent by design.
      redis.permanent("geoip:*");
      return importGeoIp(clients.shared(), database, source, { prefix: redis.prefix, ...options });
    },
    rollback: () => rollbackGeoIp(clients.shared(), database, { prefix: redis.prefix }),
    get keys() {
      return geoIpKeys(redis.prefix, database);
    },
    get db() {
      // A Cluster has the same commands.
      return redis.client as Redis;
    },
  };
};
