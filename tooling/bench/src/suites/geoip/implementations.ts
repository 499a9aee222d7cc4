// The ways to locate an address, each behind the same small interface.
import { createReadStream } from "node:fs";
import { findCity, importIps } from "@tooling/classic";
import type { Redis } from "ioredis";
import type { CityResponse } from "maxmind";
import { connected } from "../../clients.js";
import { pinned } from "../../pins.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";
import {
  blocksFile,
  cities,
  cityName,
  classicFile,
  locationsFile,
  type Network,
  networksOf,
  unnamedFile,
} from "./data.js";
import { mmdbOf } from "./mmdb.js";

/** An implementation that is open in this process. */
export interface Locator {
  /** Writes the files for an import of `rows` rows. Resolves with the import, which resolves with the rows it stored. */
  readonly importOf?: (rows: number) => Promise<() => Promise<number>>;
  /** Loads `rows` networks by the fastest way; not measured. */
  load(rows: number): Promise<void>;
  /** Resolves with the name of the city. */
  find(address: string): Promise<string | undefined>;
}

type Definition = AnyDefinition<Locator>;

const kit = (id: string, settings: string, cachePages: number): Definition => ({
  id,
  peer: "kit",
  settings,
  open: async (url, _setup, connect) => {
    const { createGeoIp, geoLite2, importGeoIp } = await import("@kit/geoip");
    const redis = await connect(url);
    const geo = createGeoIp(redis, "city", { cachePages });
    const importOf = async (rows: number): Promise<() => Promise<number>> => {
      const [blocks, locations] = [unnamedFile(blocksFile(rows)), unnamedFile(locationsFile())];
      const input = (name: string, fd: number) => ({
        name,
        stream: createReadStream("", { fd, start: 0, autoClose: false, highWaterMark: 1 << 18 }),
      });
      return async () => {
        const source = geoLite2({ blocks: [input("blocks", blocks)], locations: [input("locations", locations)] });
        return (await importGeoIp(redis, "city", source)).ranges.v4;
      };
    };
    return {
      importOf,
      load: async (rows) => void (await (await importOf(rows))()),
      find: async (address) => (await geo.lookup(address)).place?.cityName,
    };
  },
});

const member = ({ place }: Network, row: number): string => `${String(place % cities)}_${String(row)}`;

/** Stores the rows as the classic code does, but a thousand in each command. */
const loadClassic = async (redis: Redis, rows: number): Promise<void> => {
  let scored: (number | string)[] = [];
  let row = 0;
  for (const network of networksOf(rows)) {
    if (scored.push(network.first, member(network, ++row)) < 2_000 && row < rows) continue;
    await redis.zadd("ip2cityid:", ...scored);
    scored = [];
  }
  for (let city = 0; city < cities; city += 1_000) {
    const some = Array.from({ length: 1_000 }, (_, at) => city + at);
    await redis.hset(
      "cityid2city:",
      Object.fromEntries(some.map((one) => [one, JSON.stringify([cityName(one), "N1", "XA"])])),
    );
  }
};

const classic: Definition = {
  id: "classic",
  settings: "start and city in a sorted set, one awaited ZADD per row; ZREVRANGEBYSCORE and HGET: two round trips",
  open: async (url) => {
    const redis = await connected(url);
    return {
      importOf: async (rows) => {
        const file = Buffer.from([...classicFile(rows)].join("\n"));
        return await Promise.resolve(async () => {
          await importIps(redis, file);
          return await redis.zcard("ip2cityid:");
        });
      },
      load: (rows) => loadClassic(redis, rows),
      find: async (address) => (await findCity(redis, address))?.[0],
    };
  },
};

const variadic: Definition = {
  id: "variadic ZADD",
  settings: "the classic layout, a thousand rows in each ZADD, the next one parsed while one is under way",
  open: async (url) => {
    const redis = await connected(url);
    return {
      importOf: async (rows) => {
        const file = Buffer.from([...classicFile(rows)].join("\n"));
        return await Promise.resolve(async () => {
          let scored: string[] = [];
          let sending: Promise<unknown> = Promise.resolve();
          for (const [row, line] of file.toString("latin1").split("\n").entries()) {
            if (row === 0) continue;
            const [first = "", , city = ""] = line.split(",");
            scored.push(first, `${city}_${String(row)}`);
            if (scored.length < 2_000 && row < rows) continue;
            await sending;
            sending = redis.zadd("ip2cityid:", ...scored);
            scored = [];
          }
          await sending;
          return await redis.zcard("ip2cityid:");
        });
      },
      load: (rows) => loadClassic(redis, rows),
      find: () => Promise.resolve(undefined),
    };
  },
};

const maxmind: Definition = {
  id: "maxmind",
  peer: pinned("maxmind"),
  settings: "an mmdb file in the memory of the process, its cache of results off; no server",
  open: async () => {
    const { Reader } = await import("maxmind");
    let reader: InstanceType<typeof Reader<CityResponse>>;
    return {
      load: (rows) => {
        reader = new Reader(mmdbOf(networksOf(rows)));
        return Promise.resolve();
      },
      find: (address) => Promise.resolve(reader.get(address)?.city?.names.en),
    };
  },
};

export const implementations = catalogOf<Locator>([
  kit("kit", "cached mode with its defaults", 4_096),
  kit("kit, two pages", "cached mode with two pages: nearly every look-up fetches one; places are cached", 2),
  classic,
  variadic,
  maxmind,
]);
