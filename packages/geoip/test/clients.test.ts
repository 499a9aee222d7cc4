import { eventually, useRedis } from "@kit/testing";
import { Redis } from "ioredis5";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createGeoIp, dbIp, geoLite2, importGeoIp, rollbackGeoIp } from "../src/index.js";
import { cityFiles, csv, dbIpCity } from "./data.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["geoip:*"] });
const fixture = fixtureOf(redis);

describe("on ioredis 5", () => {
  it("databases are imported, looked up in all modes, replaced and rolled back", async () => {
    const client = new Redis(redis.url, { disconnectTimeout: 50 });
    redis.defer(() => client.disconnect());
    const { prefix } = redis;
    await importGeoIp(client, "city", geoLite2(cityFiles()), { prefix });
    const readers = (["cached", "local", "server"] as const).map((mode) =>
      createGeoIp(client, "city", { prefix, mode }),
    );
    redis.defer(() => Promise.all(readers.map((reader) => reader.close())));
    const countries = () =>
      Promise.all(readers.map(async (reader) => (await reader.lookup("1.0.4.1")).place?.countryName));
    expect(await countries()).toEqual(["Borduria", "Borduria", "Borduria"]);
    await importGeoIp(client, "city", dbIp(csv("city.csv", dbIpCity)), { prefix });
    await eventually(async () => expect(await countries()).toEqual([undefined, undefined, undefined]));
    await rollbackGeoIp(client, "city", { prefix });
    await eventually(async () => expect(await countries()).toEqual(["Borduria", "Borduria", "Borduria"]));
  });
});

describe("a reader", () => {
  it("answers from its cache while the server is away; other look-ups reject in time or resolve as unavailable", async () => {
    await fixture.import();
    const client = redis.connect();
    const make = (options: object) => {
      const reader = createGeoIp(client, "city", { prefix: redis.prefix, deadlineMs: 300, ...options });
      redis.defer(() => reader.close());
      return reader;
    };
    const [strict, lenient, local] = [make({}), make({ onUnavailable: "none" }), make({ mode: "local" })];
    for (const reader of [strict, lenient]) await reader.lookup("1.0.0.1");
    expect(() => local.lookupSync("1.0.0.1")).toThrow(
      expect.objectContaining({ code: "KIT_GEOIP_NOT_LOADED" }) as Error,
    );
    await local.ready();
    const [node] = redis.server.nodes;
    node!.pause();
    redis.defer(() => node!.resume());
    expect((await strict.lookup("1.0.1.1")).place?.cityName).toBe("Harbourton");
    await expect(strict.lookup("2001:db8::1")).rejects.toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(await lenient.lookup("2001:db8::1")).toEqual({ place: null, none: "unavailable" });
    expect((await local.lookup("1.0.1.1")).place?.cityName).toBe("Harbourton");
    expect(local.lookupSync("2001:db8:0:1::7").place?.country).toBe("XB");
    expect(local.lookupSync("1.0.2.0")).toEqual({ place: null, none: "gap" });
    expect(local.lookupSync("x")).toEqual({ place: null, none: "invalid" });
  });

  it("checks for another version once a minute, since an importer may lack the permission to publish", async () => {
    await fixture.db.call("ACL", "SETUSER", "quiet", "on", ">secret", "~*", "resetchannels", "+@all");
    redis.defer(() => fixture.db.call("ACL", "DELUSER", "quiet"));
    await fixture.import([{ network: "1.0.0.0/24", place: { asn: 1 } }]);
    vitest.vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    redis.defer(() => void vitest.vi.useRealTimers());
    const reader = fixture.reader();
    await reader.ready();
    const asn = async () => (await reader.lookup("1.0.0.1")).place?.asn;
    const quiet = redis.connect({ username: "quiet", password: "secret" });
    await importGeoIp(quiet, "city", [{ network: "1.0.0.0/24", place: { asn: 2 } }], { prefix: redis.prefix });
    await eventually(async () => {
      await asn();
      vitest.vi.advanceTimersByTime(60_000);
      expect(await asn()).toBe(2);
    });
  });

  it("keeps no more pages than configured, and refuses every call once it is closed", async () => {
    const place = (index: number) => ({ asn: index });
    const ranges = Array.from({ length: 20_000 }, (_, index) => ({
      network: `1.${String(index >> 8)}.${String(index & 255)}.0/24`,
      place: place(index),
    }));
    await fixture.import(ranges);
    const reader = fixture.reader({ cachePages: 8, cachePlaces: 128 });
    for (let index = 0; index < 20_000; index += 17)
      expect((await reader.lookup(`1.${String(index >> 8)}.${String(index & 255)}.1`)).place).toEqual({ asn: index });
    expect(reader.cached.pages).toBeLessThanOrEqual(8);
    expect(reader.cached.places).toBeLessThanOrEqual(128);
    await reader.close();
    await reader.close();
    await expect(reader.lookup("1.0.0.1")).rejects.toMatchObject({ code: "KIT_CLOSED" });
    expect(() => reader.lookupSync("1.0.0.1")).toThrow(expect.objectContaining({ code: "KIT_CLOSED" }) as Error);
    await expect(reader.close({ timeoutMs: -1 })).rejects.toThrow(RangeError);
  });
});
