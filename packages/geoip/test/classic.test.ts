import { useRedis } from "@kit/testing";
import { findCity, importCities, importIps } from "@tooling/classic";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { geoLite2 } from "../src/index.js";
import { blocksV4, cityFiles, csv } from "./data.js";
import { fixtureOf } from "./harness.js";

/** Each test shows a known fault of the classic look-up on its port, and then that ours does not have it. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const prefix = (): string => `${redis.prefix}:classic:`;
const file = (lines: readonly string[]): Buffer => Buffer.from(lines.join("\n"));

const ips = ["startIpNum,endIpNum,locId", "1.0.0.0,1.0.1.255,101", "1.0.4.0,1.0.7.255,102"];
const cities = ["101,XA,NB,Harbourton", "102,XB,,Borduria"];
const classicImport = async (rows: readonly string[] = ips, places: readonly string[] = cities): Promise<void> => {
  await importCities(redis.client, file(places), prefix());
  await importIps(redis.client, file(rows), prefix());
};
const classic = (address: string) => findCity(redis.client, address, prefix());
const countryOf = async (address: string): Promise<string | undefined> =>
  (await fixture.reader().lookup(address)).place?.country;

describe("the classic look-up of cities", () => {
  it("an address in a gap, or behind the last range, has its neighbour's city", async () => {
    await classicImport();
    expect(await classic("1.0.2.0")).toEqual(["Harbourton", "NB", "XA"]);
    expect(await classic("99.0.0.1")).toEqual(["Borduria", "", "XB"]);

    await fixture.import();
    const reader = fixture.reader();
    expect(await reader.lookup("1.0.2.0")).toEqual({ place: null, none: "gap" });
    expect(await reader.lookup("99.0.0.1")).toEqual({ place: null, none: "gap" });
  });

  it("private addresses have a city", async () => {
    await classicImport();
    expect(await classic("192.168.0.1")).toEqual(["Borduria", "", "XB"]);

    await fixture.import(geoLite2({ ...cityFiles(), blocks: [csv("v4", blocksV4.slice(0, 4))] }));
    expect(await fixture.reader().lookup("192.168.0.1")).toEqual({ place: null, none: "private" });
  });

  it("a file of today, in CIDR notation, breaks the import in the middle", async () => {
    const today = ["network,geoname_id,x", "1.0.0.0/24,101,101", "1.0.4.0/22,102,102"];
    await expect(classicImport(["1.0.0.0,1.0.1.255,101", ...today])).rejects.toThrow(TypeError);
    expect(await classic("1.0.4.1")).toEqual(["Harbourton", "NB", "XA"]);

    await fixture.import();
    expect(await countryOf("1.0.4.1")).toBe("XB");
  });

  it("IPv6 cannot be imported or looked up", async () => {
    await classicImport([...ips, "2001:200::,2001:200:ffff::,102"]);
    expect(await redis.client.zcard(`${prefix()}ip2cityid:`)).toBe(2);
    await expect(classic("2001:200::1")).rejects.toThrow(TypeError);

    await fixture.import();
    expect(await countryOf("2001:200::1")).toBe("XB");
  });

  it("readers see a table that is half imported", async () => {
    const seen: unknown[] = [];
    // Another connection looks up after each row, an address of the second one.
    const watched = Object.create(redis.client) as typeof redis.client;
    watched.zadd = async (...args: unknown[]) => {
      const added = (await Reflect.apply(redis.client.zadd, redis.client, args)) as number;
      seen.push(await classic("1.0.4.1"));
      return added as never;
    };
    await importCities(redis.client, file(cities), prefix());
    await importIps(watched, file(ips), prefix());
    expect(seen).toEqual([
      ["Harbourton", "NB", "XA"],
      ["Borduria", "", "XB"],
    ]);

    await fixture.import();
    const reader = fixture.reader();
    const { version } = await reader.info();
    const answers = new Set<string>();
    const halfWay = async function* () {
      yield { network: "1.0.0.0/24", place: { country: "ZY" } };
      const found = await reader.lookup("1.0.4.1");
      answers.add(`${found.place?.country ?? ""} ${found.none === null ? found.version : ""}`);
      yield { network: "1.0.4.0/22", place: { country: "ZZ" } };
    };
    await fixture.import(halfWay());
    expect([...answers]).toEqual([`XB ${version}`]);
    const [fresh] = [fixture.reader()];
    expect([(await fresh.lookup("1.0.0.1")).place, (await fresh.lookup("1.0.4.1")).place]).toEqual([
      { country: "ZY" },
      { country: "ZZ" },
    ]);
  });

  it("a second import leaves ranges of the first", async () => {
    await classicImport();
    await classicImport(["startIpNum,endIpNum,locId", "2.0.0.0,2.0.0.255,102"]);
    expect(await classic("1.0.0.1")).toEqual(["Harbourton", "NB", "XA"]);

    await fixture.import();
    await fixture.import([{ network: "2.0.0.0/24", place: { country: "XB" } }]);
    expect(await fixture.reader().lookup("1.0.0.1")).toEqual({ place: null, none: "gap" });
  });

  it("names in UTF-8 are garbled", async () => {
    await classicImport(ips, ["101,XA,NB,Küstenstadt 城市", "102,XB,,b"]);
    expect((await classic("1.0.0.1"))?.[0]).toBe(Buffer.from("Küstenstadt 城市").toString("latin1"));

    await fixture.import();
    const reader = fixture.reader({ locales: ["de", "en"] });
    expect((await reader.lookup("200.0.0.1")).place?.cityName).toBe("城市");
  });

  it("spellings of addresses are guessed, and give wrong cities", async () => {
    await classicImport();
    // Octal to some, decimal to others; too few parts; too large a part.
    expect(await classic("01.00.4.1")).toEqual(["Borduria", "", "XB"]);
    expect(await classic("1.256.0.1")).toEqual(["Borduria", "", "XB"]);
    expect(await classic("1.0.1024")).toBeNull();

    await fixture.import();
    const reader = fixture.reader();
    for (const spelling of ["01.00.4.1", "1.256.0.1", "1.0.1024"])
      expect(await reader.lookup(spelling)).toEqual({ place: null, none: "invalid" });
  });

  it("a missing city crashes the look-up, and the import does not report it", async () => {
    await classicImport(ips, ["101,XA,NB,Harbourton"]);
    await expect(classic("1.0.4.1")).rejects.toThrow(SyntaxError);

    const files = cityFiles();
    const error = await rejection(
      fixture.import(geoLite2({ ...files, blocks: [csv("v4", [blocksV4[0]!, "1.0.0.0/24,999,,,,,,,,,"])] })),
    );
    expect(error).toMatchObject({ code: "KIT_GEOIP_IMPORT", file: "v4", row: 2, column: "geoname_id" });
  });
});
