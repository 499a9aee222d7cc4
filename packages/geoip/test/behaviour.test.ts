import { setImmediate } from "node:timers/promises";
import { crc32, deflateRawSync } from "node:zlib";
import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import {
  endMigrations,
  guardUsers,
  inModes,
  migrateLogin,
  moveSlot,
  nodeOf,
  onMovingSlots,
  rejection,
} from "@tooling/vitest/helpers";
import { slotOf } from "@kit/core/toolkit";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { dbIp, type GeoIp, geoLite2, type Lookup } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { asnBlocks, blocksV4, blocksV6, cityFiles, csv, dbIpCity, manyRanges, modes } from "./data.js";
import { type Fixture, fixtureOf } from "./harness.js";

const gap = { place: null, none: "gap" };

/** A promise, and the function that resolves it. */
const latch = (): { readonly opened: Promise<void>; open(): void } => {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
};

/** Readers and imports, on one server or on a Cluster; with a `login`, as that user. */
inModes({ single: user.loginForText, nodeRedis: onNodeRedis(user.login, fromNodeRedis) }, (mode, login) => {
  describe(`addresses on a ${mode === "cluster" ? "Cluster" : "single server"}${login ? ", as their ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts);
    let lazyFixture: Fixture | undefined;
    const fixture = (): Fixture => (lazyFixture ??= fixtureOf(redis, login));
    const open = async (options?: Parameters<Fixture["reader"]>[0]): Promise<GeoIp> => {
      const reader = fixture().reader(options);
      await reader.ready();
      return reader;
    };
    const rangeOf = (found: Lookup): unknown => (found.none === null ? [found.first, found.last] : found.none);
    const nextVersion = (reader: GeoIp): Promise<string> =>
      new Promise((resolve) => reader.once("version", ({ version }) => resolve(version)));

    describe.each(modes)("in %s mode", (readerMode) => {
      it("have the place of their block from its first to its last, and none beyond", async () => {
        const { version } = await fixture().import();
        const reader = await open({ mode: readerMode });
        const found = await reader.lookup("1.0.4.0");
        expect(found).toEqual({
          place: {
            geonameId: 102,
            continent: "NA",
            continentName: 'North "A"',
            country: "XB",
            countryName: "Borduria",
            timeZone: "America/Bord",
            latitude: 47,
            longitude: 8,
            accuracyRadiusKm: 1_000,
            isAnycast: true,
          },
          none: null,
          first: "1.0.4.0",
          last: "1.0.7.255",
          version,
        });
        expect(await reader.lookup("1.0.7.255")).toEqual(found);
        for (const outside of ["1.0.3.255", "1.0.8.0", "1.0.9.6", "1.0.9.8", "8.8.8.8", "2001:1ff::1", "2600::1"])
          expect(await reader.lookup(outside)).toEqual(gap);
        // The vendor lists it without any place.
        expect(await reader.lookup("1.0.10.1")).toEqual(gap);
        expect((await reader.lookup("0.0.0.0")).none).toBe("unspecified");
        expect((await reader.lookup("255.255.255.255")).none).toBe("reserved");
        expect((await reader.lookup("nowhere")).none).toBe("invalid");
      });

      it("are found in merged neighbours, single addresses, and nested networks", async () => {
        await fixture().import();
        const reader = await open({ mode: readerMode });
        expect(rangeOf(await reader.lookup("1.0.0.200"))).toEqual(["1.0.0.0", "1.0.1.255"]);
        expect(rangeOf(await reader.lookup("1.0.9.7"))).toEqual(["1.0.9.7", "1.0.9.7"]);
        expect((await reader.lookup("1.0.9.7")).place).toMatchObject({ country: "XB", isRegisteredCountry: true });
        const geonames = await Promise.all(
          ["2001:db8::1", "2001:db8:0:1::6", "2001:db8:0:1::7", "2001:db8:0:1::8", "2001:db8:0:2::"].map((address) =>
            reader.lookup(address),
          ),
        );
        expect(geonames.map(({ place }) => place?.geonameId)).toEqual([101, 103, 102, 103, 101]);
        expect(rangeOf(geonames[2]!)).toEqual(["2001:db8:0:1::7", "2001:db8:0:1::7"]);
        expect(rangeOf(geonames[4]!)).toEqual(["2001:db8:0:2::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"]);
        expect(rangeOf(await reader.lookup("2a0f:ffff::1"))).toEqual([
          "2a00::",
          "2a0f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ]);
      });

      it("are the same in all their spellings and forms", async () => {
        await fixture().import();
        const reader = await open({ mode: readerMode });
        const expected = await reader.lookup("1.0.0.1");
        for (const form of [
          "::ffff:1.0.0.1",
          "::ffff:100:1",
          "64:ff9b::1.0.0.1",
          "2002:100:1::",
          "1.0.0.1:80",
          0x1000001,
        ])
          expect(await reader.lookup(form)).toEqual(expected);
        const six = await reader.lookup("2001:db8::1");
        for (const form of ["2001:0DB8:0:0::0001", "[2001:db8::1]:443", "2001:db8::1%eth0", (0x20010db8n << 96n) | 1n])
          expect(await reader.lookup(form)).toEqual(six);
      });

      it("have names in the first of the reader's languages that has them", async () => {
        await fixture().import();
        const german = await open({ mode: readerMode, locales: ["xx", "de", "en"] });
        expect((await german.lookup("200.0.0.0")).place).toMatchObject({
          countryName: "Katanien",
          regionName: "South",
          cityName: "城市",
        });
        const none = await open({ mode: readerMode, locales: ["xx"] });
        expect((await none.lookup("200.0.0.0")).place).toMatchObject({ country: "XC" });
        expect((await none.lookup("200.0.0.0")).place).not.toHaveProperty("cityName");
      });

      it("are found in databases of many pages, and change with them: each answer is of one version", async () => {
        const f = fixture();
        const first = await f.import(manyRanges(3_000, "a"));
        const reader = await open({ mode: readerMode, cachePages: 4 });
        await reader.lookup("1.0.0.1");
        const seen = new Map<string, Set<string>>();
        let isOver = false;
        const looking = (async () => {
          for (let index = 0; !isOver || index % 3_000 !== 0; index = (index + 7) % 3_000) {
            // Answers from the cache alone would leave the import no time.
            if (index % 50 === 0) await setImmediate();
            const range = `1.${String((index >> 7) & 255)}.${String((index << 1) & 255)}.9`;
            const found = await reader.lookup(range);
            if (found.none !== null) throw new Error(`${range} has no place`);
            const name = found.place.cityName ?? "";
            if (name.slice(1) !== String(index)) throw new Error(`${range} has ${name}`);
            seen.set(found.version, (seen.get(found.version) ?? new Set()).add(name.slice(0, 1)));
          }
        })();
        const switched = nextVersion(reader);
        const second = await f.import(manyRanges(3_000, "b"));
        expect(await switched).toBe(second.version);
        isOver = true;
        await looking;
        expect(Object.fromEntries(seen)).toEqual({
          ...(seen.has(first.version) ? { [first.version]: new Set("a") } : {}),
          [second.version]: new Set("b"),
        });
      });
    });

    it("have no place before an import, and one immediately after it", async () => {
      const reader = fixture().reader();
      expect(await rejection(reader.lookup("1.0.0.1"))).toMatchObject({ code: "KIT_GEOIP_NO_VERSION" });
      expect(await rejection(reader.info())).toMatchObject({ code: "KIT_GEOIP_NO_VERSION" });
      expect(await rejection(fixture().rollback())).toMatchObject({ code: "KIT_GEOIP_NO_VERSION" });
      await fixture().import();
      expect((await reader.lookup("1.0.0.1")).none).toBeNull();
    });

    it("have the same places by GeoLite2 and by DB-IP, on equal data; and networks of their own", async () => {
      await fixture().import(dbIp(csv("dbip-city-lite.csv", dbIpCity)));
      const reader = await open();
      expect(await reader.lookup("1.0.1.9")).toMatchObject({
        place: { continent: "EU", country: "XA", cityName: "Harbourton, Old", latitude: 10.5, longitude: -20.25 },
        first: "1.0.0.0",
        last: "1.0.1.255",
      });
      expect(await reader.lookup("0.1.1.1")).toEqual({ place: null, none: "unspecified" });
      const countries = async (): Promise<unknown> =>
        Promise.all(
          ["1.0.0.0", "1.0.1.255", "1.0.2.0", "1.0.4.0", "1.0.8.0", "2001:200::", "2001:201::"].map(
            async (address) => (await reader.lookup(address)).place?.country,
          ),
        );
      const byDbIp = await countries();
      const changed = nextVersion(reader);
      await fixture().import();
      await changed;
      expect(await countries()).toEqual(byDbIp);
      const toAsn = nextVersion(reader);
      await fixture().import(geoLite2({ blocks: [csv("asn", asnBlocks)] }));
      await toAsn;
      expect((await reader.lookup("1.0.0.1")).place).toEqual({ asn: 64_500, organisation: "Example, Inc." });
    });

    it("cover the whole of a family when a block does", async () => {
      const everywhere = { country: "XA" };
      await fixture().import([
        { network: "0.0.0.0/0", place: everywhere },
        { first: "255.255.255.255", last: "255.255.255.255", place: { country: "XB" } },
        { network: "::/0", place: everywhere },
      ]);
      const reader = await open();
      for (const [address, country] of [
        ["0.0.0.0", "XA"],
        ["255.255.255.254", "XA"],
        ["255.255.255.255", "XB"],
        ["::", "XA"],
        ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "XA"],
      ] as const)
        expect([address, (await reader.lookup(address)).place?.country]).toEqual([address, country]);
    });

    it("change at once with a roll-back of their database, and with another one", async () => {
      const first = await fixture().import(manyRanges(300, "a"));
      const second = await fixture().import(manyRanges(300, "b"));
      const reader = await open();
      const cityOf = async (): Promise<unknown> => (await reader.lookup("1.0.2.1")).place?.cityName;
      expect([await cityOf(), (await reader.info()).previous]).toEqual(["b1", first.version]);
      const back = nextVersion(reader);
      expect(await fixture().rollback()).toBe(first.version);
      expect([await back, await cityOf()]).toEqual([first.version, "a1"]);
      const forth = nextVersion(reader);
      expect(await fixture().rollback()).toBe(second.version);
      expect([await forth, await cityOf()]).toEqual([second.version, "b1"]);
      // Nothing of the version that serves expires, and all of the other does.
      for (const key of await redis.keys()) {
        const expires = (await fixture().db.pttl(key)) > 0;
        expect([key, expires]).toEqual([key, key.includes(first.version)]);
      }
    });

    it("are reported as corrupt data, not as a gap, when a part is gone", async () => {
      const { version } = await fixture().import(manyRanges(300, "a"));
      for (const readerMode of ["cached", "server"] as const) {
        const reader = await open({ mode: readerMode });
        const key = fixture().keys.shard(version, "v4", 0);
        const whole = await fixture().db.hgetBuffer(key, "0");
        await fixture().db.hdel(key, "0");
        expect(await rejection(reader.lookup("1.0.0.1"))).toMatchObject({ code: "KIT_GEOIP_CORRUPT", version });
        await fixture().db.hset(key, "0", whole!);
        expect((await reader.lookup("1.0.0.1")).none).toBeNull();
      }
    });

    it("are reported as corrupt data when a bit is wrong", async () => {
      const { version } = await fixture().import(manyRanges(300, "a"));
      for (const [part, field] of [
        ["v4", "0"],
        ["places", "0"],
      ] as const) {
        const key = fixture().keys.shard(version, part, 0);
        const whole = (await fixture().db.hgetBuffer(key, field))!;
        const damaged = Buffer.from(whole);
        damaged[100]! ^= 1;
        await fixture().db.hset(key, field, damaged);
        const reader = await open();
        expect(await rejection(reader.lookup("1.0.0.1"))).toMatchObject({ code: "KIT_GEOIP_CORRUPT", version });
        expect(String(await rejection(open({ mode: "local" })))).toContain("damaged");
        await fixture().db.hset(key, field, whole);
      }
    });

    it("are reported as corrupt data when a block has a valid checksum and no entries, or more than fit", async () => {
      const { version } = await fixture().import(manyRanges(300, "a"));
      const key = fixture().keys.shard(version, "places", 0);
      for (const json of ["null", "{", `[${"0,".repeat(4_000_000)}0]`]) {
        const body = deflateRawSync(json);
        const seal = Buffer.alloc(4);
        seal.writeUInt32BE(crc32(body), 0);
        await fixture().db.hset(key, "0", Buffer.concat([seal, body]));
        const reader = await open();
        expect(await rejection(reader.lookup("1.0.0.1"))).toMatchObject({ code: "KIT_GEOIP_CORRUPT", version });
      }
    });

    it("are refused by an import when a block of places would be too large to be read", async () => {
      const [range, ...others] = manyRanges(3, "a") as [object, ...object[]];
      const large = { ...range, place: { country: "XA" }, names: { en: { cityName: "x".repeat(2_000_000) } } };
      expect(await rejection(fixture().import([large, ...others] as never))).toMatchObject({
        code: "KIT_GEOIP_IMPORT",
      });
    });

    it("are reported as corrupt data when the manifest is damaged, until the next import", async () => {
      for (const manifest of ["{", "null", "[]", '{"layout":1,"fields":{"v4":1e9}}']) {
        const { version } = await fixture().import(manyRanges(300, "a"));
        await fixture().db.hset(fixture().keys.version(version), "manifest", manifest);
        const reader = fixture().reader();
        expect(await rejection(reader.lookup("1.0.0.1"))).toMatchObject({ code: "KIT_GEOIP_CORRUPT", version });
        // As after a switch that was not completed.
        await fixture().db.hset(fixture().keys.current, "isSealed", "0");
        await fixture().import(manyRanges(300, "b"));
        expect((await reader.lookup("1.0.0.1")).place?.cityName).toBe("b0");
        expect((await reader.info()).previous).toBeNull();
        expect(await rejection(fixture().rollback())).toMatchObject({ code: "KIT_GEOIP_NO_VERSION" });
        await fixture().db.unlink(fixture().keys.current);
      }
    });

    it("are answered by the serving version even if the reader missed the push", async () => {
      await fixture().import(manyRanges(300, "a"));
      const reader = await open();
      const { version } = await reader.info();
      // As a reader that was cut off for longer than the old version is kept.
      const switched = nextVersion(reader);
      const second = await fixture().import(manyRanges(300, "b"));
      await switched;
      expect(second.version).not.toBe(version);
      for (const key of await redis.keys()) if (key.includes(version)) await fixture().db.unlink(key);
      expect((await reader.lookup("1.0.0.1")).place?.cityName).toBe("b0");
    });

    it("are answered by the version to which the database was switched during the first load", async () => {
      await fixture().import(manyRanges(300, "a"));
      const client = fixture().connect();
      const other = fixture().reader({}, client);
      await other.ready();
      const methods = client as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
      // A client of node-redis has one method for all commands.
      const method = "callForBytes" in client ? "callForBytes" : "hmgetBuffer";
      const read = methods[method]!.bind(client);
      const [loading, continued] = [latch(), latch()];
      let isFirst = true;
      methods[method] = async (...args) => {
        const reply = await read(...args);
        if (!isFirst || (method === "callForBytes" && args[0] !== "HMGET")) return reply;
        isFirst = false;
        loading.open();
        await continued.opened;
        return reply;
      };
      const reader = fixture().reader({}, client);
      const found = reader.lookup("1.0.0.1");
      await loading.opened;
      const switched = nextVersion(other);
      await fixture().import(manyRanges(300, "b"));
      // The push of the change has come to this client.
      await switched;
      continued.open();
      expect((await found).place?.cityName).toBe("b0");
    });

    if (mode === "cluster")
      it("are found while slots move", async () => {
        const { version } = await fixture().import(manyRanges(3_000, "a"));
        const key = fixture().keys.shard(version, "v4", 0);
        const reader = await open({ cachePages: 1 });
        const from = await nodeOf(redis.server.nodes, key);
        const to = redis.server.nodes.find((node) => node !== from)!;
        let isOver = false;
        const looking = (async () => {
          for (let index = 0; !isOver; index = (index + 311) % 3_000) {
            const address = `1.${String((index >> 7) & 255)}.${String((index << 1) & 255)}.9`;
            expect((await reader.lookup(address)).place?.cityName).toBe(`a${String(index)}`);
          }
        })();
        const slot = String(slotOf(key));
        await moveSlot(redis.server.nodes, { slot, from, to, login: login ? migrateLogin : [] });
        await moveSlot(redis.server.nodes, { slot, from: to, to: from, login: login ? migrateLogin : [] });
        isOver = true;
        await looking;
        await endMigrations(redis.server.nodes);
        const shards = (await redis.keys()).filter((one) => one.endsWith(":shard"));
        expect(new Set(shards.map(slotOf)).size).toBe(shards.length);
      });

    it("are answered with the data's age, and refused on request when it is too old", async () => {
      const dayMs = 86_400_000;
      await fixture().import(undefined, { builtAt: 0, attribution: "Synthetic data" });
      const reader = await open({ maxAgeMs: 45 * dayMs });
      const stale: unknown[] = [];
      reader.on("stale", (event) => stale.push(event));
      expect((await reader.lookup("1.0.0.1")).none).toBeNull();
      await reader.lookup("1.0.0.1");
      expect(stale).toHaveLength(1);
      const strict = await open({ maxAgeMs: 45 * dayMs, onStale: "refuse" });
      expect(await rejection(strict.lookup("1.0.0.1"))).toMatchObject({ code: "KIT_GEOIP_STALE" });
      const info = await reader.info();
      expect(info).toMatchObject({
        attribution: "Synthetic data",
        builtAt: 0,
        format: "GeoLite2-City",
        locales: ["en", "de"],
      });
      expect(info.ageMs).toBeGreaterThan(365 * dayMs);
      expect(info.ranges).toEqual({ v4: blocksV4.length - 1, v6: blocksV6.length - 1 });
    });

    it("are imported with progress, and not at all when the import is aborted", async () => {
      const { version } = await fixture().import();
      const stop = new AbortController();
      const progress: number[] = [];
      const importing = fixture().import(geoLite2(cityFiles()), {
        signal: stop.signal,
        onProgress: ({ ranges }) => {
          progress.push(ranges);
          if (ranges === blocksV4.length - 1) stop.abort(new Error("enough"));
        },
      });
      expect(String(await rejection(importing))).toContain("enough");
      expect(progress.at(-1)).toBe(blocksV4.length - 1);
      expect((await (await open()).info()).version).toBe(version);
      await eventually(async () =>
        expect((await redis.keys()).filter((key) => !key.includes(version))).toEqual([fixture().keys.current]),
      );
    });

    it("are fetched once when many callers need the same page", async () => {
      await fixture().import(manyRanges(300, "a"));
      const reader = await open();
      const calls = async (): Promise<number> => {
        const stats = await Promise.all(redis.server.nodes.map((node) => node.call("INFO", "commandstats")));
        return stats.reduce<number>(
          (sum, text) => sum + Number(/cmdstat_hget:calls=(\d+)/.exec(String(text))?.[1] ?? 0),
          0,
        );
      };
      const before = await calls();
      await Promise.all(Array.from({ length: 100 }, () => reader.lookup("1.0.0.1")));
      // A page and a block of places.
      expect((await calls()) - before).toBe(2);
      await reader.lookup("1.0.0.77");
      expect((await calls()) - before).toBe(2);
    });

    if (mode === "cluster")
      slots.itRanAll(
        () => ({ target: fixture().keys.current }),
        () => [{ script: scripts.stage, args: [60_000, "field", "value"] }],
      );
  });
});
