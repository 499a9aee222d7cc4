import { fileURLToPath } from "node:url";
import { connect } from "@kit/core";
import { useRedis } from "@kit/testing";
import { commandCall, inspectCall, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";

const redis = useRedis(vitest, { permanentKeys: ["geoip:*"] });
const file = (name: string): string => fileURLToPath(new URL(`files/${name}`, import.meta.url));
const geoLite2 = ["Blocks-IPv4", "Locations-de", "Blocks-IPv6", "Locations-en"].map((part) =>
  file(`GeoLite2-City-${part}.csv`),
);

const run = async (path: string, args: readonly string[], options = {}) => {
  const client = await connect({ url: redis.url, deadlineMs: 30_000 });
  redis.defer(() => client.close());
  const call = commandCall(client, redis.prefix, options);
  await descriptor.commands!.find((command) => command.path === path)!.run(call, ...args);
  return call.written;
};
const inspect = async (database: string) => {
  const client = await connect({ url: redis.url, deadlineMs: 30_000 });
  redis.defer(() => client.close());
  return await descriptor.inspectors![0]!.look(inspectCall(client, redis.prefix), database);
};

describe("the command line", () => {
  it("imports the files of a download in any order, looks addresses up, and goes back", async () => {
    const imported = await run("geoip import", ["city", ...geoLite2], { built: "2026-11-20", locales: "de" });
    expect(imported.reports).toMatchObject([{ database: "city", format: "GeoLite2-City", ranges: { v4: 3, v6: 2 } }]);
    const addresses = ["1.0.0.1", "::ffff:1.0.4.1", "10.0.0.1", "x"];
    const { lines } = await run("geoip lookup", ["city", ...addresses], { locales: "de" });
    expect(lines).toMatchObject([
      { address: "1.0.0.1", place: { cityName: "Hafenstadt" } },
      { address: "::ffff:1.0.4.1", place: { countryName: "Bordurien" } },
      { address: "10.0.0.1", none: "private" },
      { address: "x", none: "invalid" },
    ]);
    await run("geoip import", ["city", file("dbip-country-lite.csv.gz")], { attribution: "By nobody" });
    expect(await inspect("city")).toMatchObject({
      data: { format: "DB-IP country", attribution: "By nobody", builtAt: null, ranges: { v4: 3, v6: 1 } },
    });
    const [{ dataVersion }] = imported.reports as [{ dataVersion: string }];
    expect((await run("geoip rollback", ["city"])).reports).toEqual([{ database: "city", dataVersion }]);
    const { facts } = await inspect("city");
    expect(facts).toContainEqual(["version", dataVersion]);
    expect(String(facts)).toContain("built 2026-11-20T00:00:00.000Z");
  });

  it("refuses files of no vendor or of two, dates that are none, and databases that are not there", async () => {
    const packed = file("dbip-country-lite.csv.gz");
    const unknown = fileURLToPath(new URL("../package.json", import.meta.url));
    for (const files of [[unknown], [...geoLite2, packed]])
      expect(await rejection(run("geoip import", ["city", ...files]))).toBeInstanceOf(RangeError);
    expect(await rejection(run("geoip import", ["city", packed], { built: "soon" }))).toBeInstanceOf(RangeError);
    for (const missing of ["/nowhere/blocks.csv", "/nowhere/blocks.csv.gz"])
      expect(await rejection(run("geoip import", ["city", missing]))).toMatchObject({ code: "ENOENT" });
    expect(await inspect("city")).toMatchObject({ data: { database: "city" }, isUnknown: true });
  });
});
