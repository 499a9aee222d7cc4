import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createGeoIp, type CsvInput, dbIp, geoLite2, type ImportOptions, type RangeInput } from "../src/index.js";
import { RangeFolder } from "../src/ranges.js";
import { csv, locationsEn } from "./data.js";
import { fixtureOf } from "./harness.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const country = async (address: string): Promise<string | undefined> =>
  (await fixture.reader().lookup(address)).place?.country;
const file = (...lines: readonly string[]): CsvInput => csv("file.csv", lines);
const range = (first: string, last: string, code: string): RangeInput => ({ first, last, place: { country: code } });

describe("a file with some rows that are not as they should be", () => {
  const rows = [
    "1.0.0.0,1.0.0.9,XA",
    "1.0.0.5,1.0.0.12,XB",
    "x,1.0.1.0,XC",
    "1.0.1.0,1.0.1.9,XD",
    "1.0.0.0,1.0.0.1,XE",
  ];

  it("is refused, or loses the rows, or gives the addresses of two ranges to the narrower one", async () => {
    expect(await rejection(fixture.import(dbIp(file(...rows))))).toMatchObject({ row: 2 });
    const skipped = await fixture.import(dbIp(file(...rows)), { onInvalid: "skip" });
    expect(skipped).toMatchObject({ skipped: 3, crossing: 0, ranges: { v4: 2 } });
    expect([await country("1.0.0.9"), await country("1.0.0.12"), await country("1.0.1.1")]).toEqual([
      "XA",
      undefined,
      "XD",
    ]);
    const narrower = { onInvalid: "skip", overlap: "narrower" } as const;
    expect(await fixture.import(dbIp(file(...rows)), narrower)).toMatchObject({
      skipped: 2,
      crossing: 1,
      ranges: { v4: 3 },
    });
    expect([await country("1.0.0.4"), await country("1.0.0.5"), await country("1.0.0.12")]).toEqual(["XA", "XB", "XB"]);
  });

  it("is refused from a number of such rows on, and for its header or first row in any case", async () => {
    const options: ImportOptions = { onInvalid: "skip", overlap: "narrower", maxInvalid: 3 };
    expect(await fixture.import(dbIp(file(...rows)), options)).toMatchObject({ skipped: 2, crossing: 1 });
    const before = await redis.keys();
    for (const source of [
      dbIp(file(...rows, "y,y,y")),
      dbIp(file("1.0.0.0,1.0.0.1,Germany", ...rows)),
      geoLite2({ blocks: [file("network,x", "1.0.0.0/24,1")], locations: [csv("en.csv", locationsEn)] }),
    ])
      expect(await rejection(fixture.import(source, options))).toMatchObject({
        code: "KIT_GEOIP_IMPORT",
        file: "file.csv",
      });
    expect(await rejection(fixture.import([null as never], { ...options, maxInvalid: 0 }))).toMatchObject({
      code: "KIT_GEOIP_IMPORT",
    });
    expect(await redis.keys()).toEqual(before);
  });

  it("gives each address to the narrowest of the ranges that hold it, however they cross", () => {
    let [seed, crossing] = [7, 0];
    const random = (below: number): number => (seed = (seed * 48_271) % 0x7fffffff) % below;
    for (let turn = 0; turn < 400; turn++) {
      const ranges = Array.from({ length: 1 + random(12) }, (_, place) => {
        const first = random(40);
        return { first, last: first + random(25), place: place + 1 };
      }).sort((one, other) => one.first - other.first);
      const records: [number, number][] = [];
      const folder = RangeFolder.v4((first, place) => records.push([first, place]), "narrower");
      const taken = ranges.filter(({ first, last, place }) => folder.add(first, last, place) === undefined);
      folder.finish();
      crossing += folder.crossing;
      for (let address = 0; address < 70; address++) {
        const holding = taken.filter(({ first, last }) => first <= address && address <= last);
        const least = Math.min(...holding.map(({ first, last }) => last - first));
        const best = holding.filter(({ first, last }) => last - first === least).map(({ place }) => place);
        const found = records.findLast(([first]) => first <= address)?.[1] ?? 0;
        expect([turn, address, best.length === 0 ? found === 0 : best.includes(found)]).toEqual([turn, address, true]);
      }
    }
    expect(crossing).toBeGreaterThan(1_000);
  });
});

describe("files of vendors", () => {
  it("are read with a header, with addresses as numbers, and with ten columns", async () => {
    const numeric = dbIp(
      csv("v4.csv", ["ip_range_start,ip_range_end,country_code", '"16777216","16777471",XA', "16777472,16777475,XB"]),
      csv("v6.csv", ["42540766411282592856903984951653826560,42540766411282592856903984951653826599,XC"]),
    );
    expect(await fixture.import(numeric)).toMatchObject({ ranges: { v4: 2, v6: 1 }, skipped: 0 });
    expect([await country("1.0.0.255"), await country("1.0.1.3"), await country("2001:db8::1")]).toEqual([
      "XA",
      "XB",
      "XC",
    ]);
    const city = "1.0.0.0,1.0.0.255,XA,Northbank,District 7,Harbourton,ABC 12,10.5,-20.25,Europe/Harbour";
    expect(await fixture.import(dbIp(file(city)))).toMatchObject({ format: "DB-IP city" });
    expect((await fixture.reader().lookup("1.0.0.1")).place).toEqual({
      country: "XA",
      regionName: "Northbank",
      subregionName: "District 7",
      cityName: "Harbourton",
      postalCode: "ABC 12",
      latitude: 10.5,
      longitude: -20.25,
      timeZone: "Europe/Harbour",
    });
  });

  it("have codes where codes belong", async () => {
    for (const code of ["Germany", "de", "D", "D1"])
      expect(await rejection(fixture.import(dbIp(file(`1.0.0.0,1.0.0.1,${code}`))))).toMatchObject({
        column: "country",
      });
    const row = locationsEn.map((line) => line.replace(",XA,", ",Arland,"));
    const source = geoLite2({ blocks: [], locations: [csv("en.csv", row)] });
    expect(await rejection(fixture.import(source))).toMatchObject({ row: 2, column: "country_iso_code" });
  });
});

describe("an import", () => {
  const many = 120_000;
  const textOf = (number: number): string =>
    `${String(1 + (number >> 16))}.${String((number >> 8) & 255)}.${String(number & 255)}.`;

  // Counts turns, not times: each turn lets replies and timers of others come.
  it.each<[string, () => Parameters<typeof fixture.import>[0]]>([
    ["an iterable", () => Array.from({ length: many }, (_, at) => range(`${textOf(at)}0`, `${textOf(at)}9`, "XA"))],
    [
      "one large text",
      () =>
        dbIp(
          csv(
            "file.csv",
            Array.from({ length: many }, (_, at) => `${textOf(at)}0,${textOf(at)}9,XA`),
          ),
        ),
    ],
  ])("of %s leaves the event loop to others", async (_what, source) => {
    const given = source();
    let [ranges, before, most, isOver] = [0, 0, 0, false];
    const turn = (): void => {
      most = Math.max(most, ranges - before);
      before = ranges;
      if (!isOver) setImmediate(turn);
    };
    const importing = fixture.import(given, { onProgress: (progress) => void ({ ranges } = progress) });
    turn();
    expect((await importing).ranges.v4).toBe(many);
    turn();
    isOver = true;
    expect(most).toBeLessThan(many / 4);
  });
});

describe("readers", () => {
  it("keep a page, not the part of the connection's buffers that it came in", async () => {
    const pages = 300;
    const ranges = Array.from({ length: pages * 128 }, (_, at) => ({
      first: at * 16,
      last: at * 16 + 7,
      place: { country: "XA" },
    }));
    await fixture.import(ranges);
    // Over one connection, so that the parts of the replies come together.
    const client = fixture.connect() as Redis;
    const reader = createGeoIp(client, "city", { prefix: redis.prefix, deadlineMs: 10_000 });
    redis.defer(() => reader.close());
    await client.set(`${redis.prefix}:big`, "x".repeat(60_000), "PX", 60_000);
    await reader.ready();
    const held = (): number => {
      collect();
      return process.memoryUsage().arrayBuffers;
    };
    const before = held();
    for (let page = 0; page < pages; page++)
      await Promise.all([reader.lookup(page * 128 * 16), client.get(`${redis.prefix}:big`)]);
    expect(reader.cached.pages).toBe(pages);
    // A page has 2 KB. What the connection has read lately is freed a little later.
    await eventually(() => expect(held() - before).toBeLessThan(pages * 8_192));
  });

  it("leave a switch to its importer", async () => {
    const ranges = (country: string): RangeInput[] =>
      Array.from({ length: 70_000 }, (_, at) => ({ first: at * 16, last: at * 16 + 7, place: { country } }));
    await fixture.import(ranges("XA"));
    const readers = Array.from({ length: 8 }, () => fixture.reader());
    for (const reader of readers) await reader.lookup(1);
    await fixture.db.config("RESETSTAT");
    await fixture.import(ranges("XB"));
    await eventually(async () => {
      for (const reader of readers) expect((await reader.lookup(1)).place?.country).toBe("XB");
    });
    const found = /cmdstat_persist:calls=(\d+)/.exec(await fixture.db.info("commandstats"))?.[1];
    // Each shard of the version, and its record.
    expect(Number(found)).toBeLessThan(10);
  });
});
