import { Readable } from "node:stream";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type CsvInput, dbIp, geoLite2, type RangeInput } from "../src/index.js";
import { cityFiles, csv, locationsEn } from "./data.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const header = "network,geoname_id,registered_country_geoname_id";
const blocks = (...lines: readonly string[]): CsvInput => csv("blocks.csv", [header, ...lines]);
const city = (file: CsvInput) => geoLite2({ blocks: [file], locations: [csv("en.csv", locationsEn)] });
const lookup = async (address: string) => (await fixture.reader().lookup(address)).place;

describe("an import of malformed input", () => {
  const row = "1.0.0.0/24,101,101";
  it.each<[string, Parameters<typeof fixture.import>[0], object]>([
    ["a network that is none", city(blocks(row, "1.0.1.0-24,101,")), { row: 3, column: "network" }],
    ["bits beyond the prefix", city(blocks("1.0.1.1/24,101,")), { row: 2, column: "network" }],
    ["too few columns", city(blocks(row, "1.0.1.0/24")), { row: 3, column: undefined }],
    ["too many columns", city(blocks(`${row},1`)), { row: 2, column: undefined }],
    ["an id that is no number", city(blocks("1.0.1.0/24,x1,")), { row: 2, column: "geoname_id" }],
    ["an id that no location has", city(blocks("1.0.1.0/24,,7")), { row: 2, column: "registered_country_geoname_id" }],
    ["no header", city(csv("blocks.csv", [row])), { row: 1, column: "network" }],
    ["a header without ids", city(csv("blocks.csv", ["network,x"])), { row: 1, column: "geoname_id" }],
    ["an open quote", city(blocks(row, '1.0.1.0/24,"101,101')), { row: 3, column: undefined }],
    ["a stray quote", city(blocks('1.0.1.0/24,1"0"1,101')), { row: 2, column: "geoname_id" }],
    ["networks out of order", city(blocks("1.0.1.0/24,101,", row)), { row: 3, column: "network" }],
    ["a network with two places", city(blocks(row, "1.0.0.0/24,102,")), { row: 3, column: "network" }],
    [
      "a latitude out of range",
      city(csv("blocks.csv", [`${header},latitude`, `${row},91`])),
      { row: 2, column: "latitude" },
    ],
    [
      "bytes that are not UTF-8",
      geoLite2({
        blocks: [],
        locations: [
          {
            name: "blocks.csv",
            stream: Readable.from([`${locationsEn[0]!}\n`, Buffer.from("7,en,EU,K\xfcste,,,,,,,,,,\n", "latin1")]),
          },
        ],
      }),
      { row: 2, column: "continent_name" },
    ],
    ["columns of nobody", dbIp(csv("blocks.csv", ["1.0.0.0,1.0.0.1"])), { row: 1, column: undefined }],
    ["an end before its start", dbIp(csv("blocks.csv", ["1.0.0.1,1.0.0.0,XA"])), { row: 1, column: "ip_end" }],
    ["an end of the other family", dbIp(csv("blocks.csv", ["1.0.0.1,::1,XA"])), { row: 1, column: "ip_end" }],
    [
      "ranges that overlap",
      dbIp(csv("blocks.csv", ["1.0.0.0,1.0.0.9,XA", "1.0.0.5,1.0.0.12,XB"])),
      { row: 2, column: "ip_start" },
    ],
  ])("says where: %s", async (_what, source, where) => {
    const { version } = await fixture.import();
    const before = await redis.keys();
    const error = await rejection(fixture.import(source));
    expect(error).toMatchObject({ code: "KIT_GEOIP_IMPORT", file: "blocks.csv", ...where });
    // The old version serves, and nothing of the new one is left.
    expect((await fixture.reader().info()).version).toBe(version);
    expect(await lookup("1.0.4.0")).toMatchObject({ country: "XB" });
    expect(await redis.keys()).toEqual(before);
  });

  it("says where among ranges of the caller's own", async () => {
    const bad = [
      { network: "1.0.0.0/24", place: {} },
      { first: "1.0.1.9", last: "1.0.1.8", place: {} },
    ];
    expect(await rejection(fixture.import(bad))).toMatchObject({ file: "ranges", row: 2, column: "first" });
    expect(await rejection(fixture.import([{ network: "x", place: {} }]))).toMatchObject({ row: 1, column: "network" });
    for (const network of [null, ["1.0.0.0/24"], 1n, {}])
      expect(await rejection(fixture.import([{ network, place: {} } as never]))).toMatchObject({
        code: "KIT_GEOIP_IMPORT",
        row: 1,
        column: "network",
      });
    const cycle: Record<string, unknown> = {};
    cycle["cycle"] = cycle;
    for (const place of [undefined, null, "XA", cycle, { latitude: 1n }])
      expect(await rejection(fixture.import([{ network: "1.0.0.0/24", place } as never]))).toMatchObject({
        code: "KIT_GEOIP_IMPORT",
        row: 1,
        column: "place",
      });
    expect(await rejection(fixture.import([null as never]))).toMatchObject({ code: "KIT_GEOIP_IMPORT", row: 1 });
    const some = [{ network: null }, { network: "1.0.0.0/24", place: cycle }, ...bad.slice(0, 1)] as never;
    expect(await fixture.import(some, { onInvalid: "skip" })).toMatchObject({ ranges: { v4: 1 }, skipped: 2 });
    expect(String(await rejection(fixture.import({} as never)))).toMatch(/^TypeError: Expected `source`/);
  });

  it("refuses a file that is missing, cut off while packed, or shorter than expected", async () => {
    const folder = mkdtempSync(join(tmpdir(), "geoip-"));
    redis.defer(() => rmSync(folder, { recursive: true }));
    const path = (name: string): string => join(folder, name);
    const lines = Array.from(
      { length: 40_000 },
      (_, index) => `${String(1 + (index >> 16))}.${String((index >> 8) & 255)}.${String(index & 255)}.0/24,101,`,
    );
    const packed = gzipSync([header, ...lines].join("\n"));
    writeFileSync(path("whole.csv.gz"), packed);
    writeFileSync(path("cut.csv.gz"), packed.subarray(0, packed.length / 2));
    expect(await rejection(fixture.import(city(path("none.csv"))))).toMatchObject({
      code: "KIT_GEOIP_IMPORT",
      file: "none.csv",
    });
    expect(await rejection(fixture.import(city(path("none.csv.gz"))))).toMatchObject({ file: "none.csv.gz" });
    expect(await rejection(fixture.import(city(path("cut.csv.gz"))))).toMatchObject({ file: "cut.csv.gz" });
    const short = fixture.import(city(path("whole.csv.gz")), { minRanges: 40_001 });
    expect(await rejection(short)).toMatchObject({ code: "KIT_GEOIP_IMPORT" });
    expect(await redis.keys()).toEqual([]);
    expect((await fixture.import(city(path("whole.csv.gz")), { minRanges: 40_000 })).ranges.v4).toBe(40_000);
  });
});

describe("an import", () => {
  it("takes CRLF, a byte order mark, quotes, columns in any order, unknown columns, and no last newline", async () => {
    const text =
      '\uFEFFextra,"registered_country_geoname_id",network,geoname_id\r\n"a,""b""\nc",102,1.0.0.0/24,101\r\n\r\n,102,"1.0.1.0/24",';
    for (const size of [1, 2, 7, 1_000]) {
      const bytes = Buffer.from(text);
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size),
      );
      await fixture.import(city({ name: "odd.csv", stream: Readable.from(chunks, { objectMode: true }) }));
      expect(await lookup("1.0.0.1")).toMatchObject({ cityName: "Harbourton", countryName: "Arland, Republic of" });
      expect(await lookup("1.0.1.255")).toMatchObject({ countryName: "Borduria", isRegisteredCountry: true });
    }
  });

  it("reads streams without a name, names the file that one reads in errors, and refuses what is none", async () => {
    const rows = `${header}\n1.0.0.0/24,101,102\n`;
    await fixture.import(
      geoLite2({ blocks: [Readable.from([rows])], locations: [Readable.from(locationsEn.map((row) => `${row}\n`))] }),
    );
    expect(await lookup("1.0.0.1")).toMatchObject({ geonameId: 101 });
    const web = new Response("1.0.0.0,1.0.0.255,FR\n").body as unknown as AsyncIterable<Uint8Array>;
    await fixture.import(dbIp(web));
    expect(await lookup("1.0.0.1")).toMatchObject({ country: "FR" });
    const file = join(tmpdir(), "no-such-folder", "none.csv");
    const stream = createReadStream(file);
    const source = dbIp(stream);
    // It fails before it is read.
    await eventually(() => expect(stream.errored).not.toBeNull());
    expect(await rejection(fixture.import(source))).toMatchObject({ file: "none.csv" });
    const ranges = Readable.from([{}]).destroy(new Error("no such table"));
    expect(String(await rejection(fixture.import(ranges)))).toBe("Error: no such table");
    expect(await rejection(fixture.import(dbIp(Readable.from(["1,2"]))))).toMatchObject({ file: "stream", row: 1 });
    for (const wrong of [undefined, null, 7, {}, { stream: "text" }, { name: "a", stream: undefined }])
      expect(String(await rejection(fixture.import(dbIp(wrong as never))))).toMatch(
        /^TypeError: Expected a file to be /,
      );
  });

  it("reads each file by its own header, even where rows of two have the same bytes", async () => {
    const v4 = csv("v4.csv", [header, "1.0.0.0/24,101,102"]);
    const v6 = csv("v6.csv", ["network,registered_country_geoname_id,geoname_id", "2001:db8::/32,101,102"]);
    await fixture.import(geoLite2({ blocks: [v4, v6], locations: [csv("en.csv", locationsEn)] }));
    expect(await lookup("1.0.0.1")).toMatchObject({ geonameId: 101 });
    expect(await lookup("2001:db8::1")).toMatchObject({ geonameId: 102 });
  });

  it("ends by its signal when its source gives nothing any more, and leaves nothing", async () => {
    for (const sourceOf of [
      (stream: AsyncIterable<never>) => geoLite2({ blocks: [{ name: "blocks.csv", stream }] }),
      (stream: AsyncIterable<never>) => stream,
    ]) {
      const reason = new Error("enough");
      const stop = new AbortController();
      const silent = async function* (): AsyncGenerator<never> {
        setImmediate(() => stop.abort(reason));
        yield await new Promise<never>(() => undefined);
      };
      expect(await rejection(fixture.import(sourceOf(silent()), { signal: stop.signal }))).toBe(reason);
    }
    expect(await redis.keys()).toEqual([]);
  });

  it("keeps only the languages that are wanted", async () => {
    const result = await fixture.import(geoLite2({ ...cityFiles(), locales: ["de"] }));
    expect(result.locales).toEqual(["de"]);
    expect((await fixture.reader({ locales: ["en", "de"] }).lookup("1.0.0.1")).place?.cityName).toBe("Hafenstadt");
  });

  it("gives nested ranges to the most specific, in whichever order two with one start come", async () => {
    const range = (first: string, last: string, asn: number): RangeInput => ({ first, last, place: { asn } });
    await fixture.import([
      range("1.0.0.0", "1.0.0.7", 1),
      range("1.0.0.0", "1.0.0.255", 2),
      range("1.0.0.0", "1.0.0.63", 3),
      range("1.0.0.4", "1.0.0.5", 4),
      range("1.0.0.64", "1.0.0.64", 5),
      range("1.0.0.255", "1.0.0.255", 6),
      range("1.0.1.0", "1.0.1.0", 6),
    ]);
    const reader = fixture.reader();
    const asns: number[] = [];
    for (const last of [0, 3, 4, 5, 6, 7, 8, 63, 64, 65, 254, 255])
      asns.push((await reader.lookup(`1.0.0.${String(last)}`)).place?.asn ?? 0);
    expect(asns).toEqual([1, 1, 4, 4, 1, 1, 3, 3, 5, 2, 2, 6]);
    expect(await reader.lookup("1.0.1.0")).toMatchObject({ first: "1.0.0.255", last: "1.0.1.0" });
    expect((await reader.lookup("1.0.1.1")).none).toBe("gap");
  });

  it("fails when what was staged expires before it is complete, and the old version serves", async () => {
    const { version } = await fixture.import();
    const slow = async function* () {
      for (let index = 0; index < 66_000; index++)
        yield {
          network: `1.${String((index >> 8) & 255)}.${String(index & 255)}.${index < 65_536 ? "0/25" : "128/25"}`,
          place: { asn: index },
        };
    };
    const taken: RangeInput[] = [];
    for await (const range of slow()) if (taken.length < 65_536) taken.push(range);
    const late = async function* () {
      yield* taken;
      const [shard] = await eventually(async () => {
        const staged = (await redis.keys()).filter((key) => key.endsWith(".places.0}:shard") && !key.includes(version));
        expect(staged).not.toEqual([]);
        return staged;
      });
      await fixture.db.unlink(shard!);
    };
    expect(await rejection(fixture.import(late()))).toMatchObject({ code: "KIT_GEOIP_STAGING" });
    expect((await fixture.reader().info()).version).toBe(version);
    expect((await redis.keys()).filter((key) => !key.includes(version))).toEqual([fixture.keys.current]);
  });

  it("that comes last serves, of several at a time, and nothing of the others stays for good", async () => {
    const imports = await Promise.all(
      [1, 2, 3].map((asn) => fixture.import([{ network: "1.0.0.0/24", place: { asn } }])),
    );
    const { version } = await fixture.reader().info();
    expect(imports.map((one) => one.version)).toContain(version);
    for (const key of await redis.keys())
      expect([key, (await fixture.db.pttl(key)) === -1]).toEqual([
        key,
        key.includes(version) || key === fixture.keys.current,
      ]);
  });

  it("reads a stream of ranges", async () => {
    await fixture.import(
      Readable.from([{ network: "1.0.0.0/24", place: { asn: 7 }, names: { en: { cityName: "A" } } }]),
    );
    expect(await lookup("1.0.0.1")).toEqual({ asn: 7, cityName: "A" });
  });

  it("names what is wrong with its arguments", async () => {
    const call = (source: unknown, options: object = {}) => rejection(fixture.import(source as RangeInput[], options));
    for (const source of [null, 7, "x"]) expect(await call(source)).toBeInstanceOf(TypeError);
    for (const options of [
      { stagingMs: 1 },
      { keepPreviousMs: 0 },
      { minRanges: -1 },
      { builtAt: -1 },
      { attribution: "" },
    ])
      expect(await call([], options)).toBeInstanceOf(RangeError);
    for (const options of [{ onProgress: 1 }, { signal: 1 }, { stagingSeconds: 1 }])
      expect(await call([], options)).toBeInstanceOf(TypeError);
    expect(await call([])).toMatchObject({ code: "KIT_GEOIP_IMPORT" });
    for (const options of [{ mode: "fast" }, { cachePages: 0 }, { maxAgeMs: -1 }, { onStale: "x" }, { locales: [""] }])
      expect(() => fixture.reader(options as object)).toThrow(RangeError);
    expect(() => fixture.reader({ locales: "en" } as object)).toThrow(TypeError);
    expect(await redis.keys()).toEqual([]);
  });
});
