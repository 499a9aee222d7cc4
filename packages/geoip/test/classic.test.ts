import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { geoLite2 } from "../src/index.js";
import { blocksV4, cityFiles, csv } from "./data.js";
import { fixtureOf } from "./harness.js";

/** Each test shows that this package does not have a known defect of the look-up in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const countryOf = async (address: string): Promise<string | undefined> =>
  (await fixture.reader().lookup(address)).place?.country;

describe("defects of the classic look-up of cities, absent here", () => {
  it("an address in a gap, or behind the last range, has its neighbour's city", async () => {
    await fixture.import();
    const reader = fixture.reader();
    expect(await reader.lookup("1.0.2.0")).toEqual({ place: null, none: "gap" });
    expect(await reader.lookup("99.0.0.1")).toEqual({ place: null, none: "gap" });
  });

  it("private addresses have a city", async () => {
    await fixture.import(geoLite2({ ...cityFiles(), blocks: [csv("v4", blocksV4.slice(0, 4))] }));
    expect(await fixture.reader().lookup("192.168.0.1")).toEqual({ place: null, none: "private" });
  });

  it("a file of today, in CIDR notation, breaks the import in the middle", async () => {
    await fixture.import();
    expect(await countryOf("1.0.4.1")).toBe("XB");
  });

  it("IPv6 cannot be imported or looked up", async () => {
    await fixture.import();
    expect(await countryOf("2001:200::1")).toBe("XB");
  });

  it("readers see a table that is half imported", async () => {
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
    await fixture.import();
    await fixture.import([{ network: "2.0.0.0/24", place: { country: "XB" } }]);
    expect(await fixture.reader().lookup("1.0.0.1")).toEqual({ place: null, none: "gap" });
  });

  it("names in UTF-8 are garbled", async () => {
    await fixture.import();
    const reader = fixture.reader({ locales: ["de", "en"] });
    expect((await reader.lookup("200.0.0.1")).place?.cityName).toBe("城市");
  });

  it("spellings of addresses are guessed, and give wrong cities", async () => {
    await fixture.import();
    const reader = fixture.reader();
    for (const spelling of ["01.00.4.1", "1.256.0.1", "1.0.1024"])
      expect(await reader.lookup(spelling)).toEqual({ place: null, none: "invalid" });
  });

  it("a missing city crashes the look-up, and the import does not report it", async () => {
    const files = cityFiles();
    const error = await rejection(
      fixture.import(geoLite2({ ...files, blocks: [csv("v4", [blocksV4[0]!, "1.0.0.0/24,999,,,,,,,,,"])] })),
    );
    expect(error).toMatchObject({ code: "KIT_GEOIP_IMPORT", file: "v4", row: 2, column: "geoname_id" });
  });
});
