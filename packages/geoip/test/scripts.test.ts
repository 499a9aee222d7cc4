import { contract, useRedis } from "@kit/testing";
import { about, nothing, onMovingSlots, stateOf } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { encodePage } from "../src/pages.js";
import * as scripts from "../src/scripts/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["geoip:*"] });
onMovingSlots(redis, scripts);
const fixture = fixtureOf(redis);

let current: string;
let incoming: string;
beforeEach(() => {
  current = fixture.keys.current;
  incoming = fixture.keys.version("v2");
});
const state = () => stateOf(fixture.db, { current, incoming });
const head = (fields: object = {}): Promise<number> =>
  fixture.db.hset(current, {
    layout: "1",
    current: "v1",
    previous: "",
    epoch: "4",
    isSealed: "1",
    keepMs: "1000",
    ...fields,
  });
const switchTo = (args: object = {}) =>
  scripts.switchTo.run(
    fixture.db,
    { current, incoming, before: fixture.keys.version("v0") },
    {
      version: "v2",
      expected: "v1",
      previous: "",
      keepMs: 5_000,
      mayAbandon: 0,
      channel: fixture.keys.changed,
      ...args,
    },
  );

describe("every script", () => {
  it("keeps the contract of scripts", async () => {
    expect(await contract(scripts, redis.server.nodes[0]!)).toEqual([]);
  });
});

describe("stage", () => {
  it("changes nothing of a key that is permanent: a copy that comes late must not let it expire", async () => {
    await scripts.stage.run(fixture.db, { target: incoming }, { stagingMs: 60_000, fields: ["a", "1"] });
    await fixture.db.persist(incoming);
    await scripts.stage.run(fixture.db, { target: incoming }, { stagingMs: 60_000, fields: ["a", "2"] });
    expect([await fixture.db.pttl(incoming), await fixture.db.hget(incoming, "a")]).toEqual([-1, "1"]);
  });

  it("stores fields and their expiry, again and again", async () => {
    for (let time = 0; time < 2; time++)
      await scripts.stage.run(fixture.db, { target: incoming }, { stagingMs: 60_000, fields: ["a", "1", "b", "2"] });
    expect((await state()).incoming).toEqual({ type: "hash", value: { a: "1", b: "2" }, ttl: about(60_000) });
  });

  it("refuses another type, and changes nothing", async () => {
    await fixture.db.set(incoming, "x");
    await expect(
      scripts.stage.run(fixture.db, { target: incoming }, { stagingMs: 1, fields: ["a", "1"] }),
    ).rejects.toMatchObject({ code: "KIT_KEY_TYPE", key: incoming });
    expect((await state()).incoming).toEqual({ type: "string", value: "x", ttl: -1 });
  });
});

describe("read", () => {
  it("gives the server's time, and what is there", async () => {
    const before = await scripts.read.run(fixture.db, { current }, {});
    expect(before).toMatchObject({ current: undefined, previous: "" });
    const [seconds] = (await redis.server.nodes[0]!.call("TIME")) as string[];
    expect(Math.abs(before.now / 1_000 - Number(seconds))).toBeLessThan(60);
    await head({ previous: "v0", isSealed: "0" });
    expect(await scripts.read.run(fixture.db, { current }, {})).toMatchObject({
      current: "v1",
      previous: "v0",
      epoch: 4,
      isSealed: false,
      keepMs: 1_000,
    });
  });

  it.each([{ layout: "2" }, { layout: "x" }])("refuses a layout that it does not know", async (fields) => {
    await head(fields);
    await expect(scripts.read.run(fixture.db, { current }, {})).rejects.toMatchObject({ code: "KIT_LAYOUT" });
  });

  it("refuses a record that has lost a field", async () => {
    await head();
    await fixture.db.hdel(current, "isSealed");
    await expect(scripts.read.run(fixture.db, { current }, {})).rejects.toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("switch", () => {
  beforeEach(async () => {
    await head();
    await fixture.db.hset(incoming, "manifest", "{}");
    await fixture.db.pexpire(incoming, 60_000);
  });
  const switched = {
    layout: "1",
    current: "v2",
    previous: "v1",
    epoch: "5",
    isSealed: "0",
    keepMs: "5000",
    at: expect.any(String),
  };

  it("moves the pointer once, makes the record permanent, and publishes", async () => {
    const heard: string[] = [];
    const listener = redis.connect();
    listener.on("message", (_channel, message) => heard.push(message));
    redis.defer(() => listener.removeAllListeners("message"));
    await listener.subscribe(fixture.keys.changed);
    for (let time = 0; time < 2; time++) expect(await switchTo()).toBe("serving");
    expect(await state()).toEqual({
      current: { type: "hash", value: switched, ttl: -1 },
      incoming: { type: "hash", value: { manifest: "{}" }, ttl: -1 },
    });
    await expect.poll(() => heard).toEqual(["v2"]);
  });

  it.each([
    ["another version serves", { expected: "v0" }, {}, "changed"],
    ["none was expected", { expected: "" }, {}, "changed"],
    ["the one that serves is not sealed", {}, { isSealed: "0" }, "changed"],
  ] as const)("changes nothing when %s", async (_why, args, fields, outcome) => {
    await head(fields);
    const before = await state();
    expect(await switchTo(args)).toBe(outcome);
    expect((await state()).current).toEqual(before.current);
    expect((await state()).incoming.ttl).toEqual(about(60_000));
  });

  it("changes nothing when the record is gone, or the layout is newer", async () => {
    await head({ layout: "2" });
    await expect(switchTo()).rejects.toMatchObject({ code: "KIT_LAYOUT" });
    await head();
    await fixture.db.unlink(incoming);
    expect(await switchTo()).toBe("gone");
    expect(await state()).toMatchObject({ current: { value: { current: "v1" } }, incoming: nothing });
  });

  it("abandons a version that is not sealed only when the caller allows it", async () => {
    const before = fixture.keys.version("v0");
    await fixture.db.hset(before, "manifest", "{}");
    await head({ isSealed: "0", previous: "v0" });
    for (const args of [{ previous: "v0" }, { mayAbandon: 1 }]) expect(await switchTo(args)).toBe("changed");
    expect(await fixture.db.pttl(before)).toBe(-1);
    expect(await switchTo({ mayAbandon: 1, previous: "v0" })).toBe("serving");
    expect((await state()).current.value).toEqual(switched);
    // No version refers to that one any more.
    expect(await fixture.db.pttl(before)).toEqual(about(5_000));
  });
});

describe("keep", () => {
  const keep = (epoch: number, ms: number) => scripts.keep.run(fixture.db, { shard: incoming }, { epoch, ms });

  it("decides how long a shard lives, and yields to what a later switch decided", async () => {
    expect(await keep(1, 0)).toBe(false);
    await fixture.db.hset(incoming, "0", "page");
    await fixture.db.pexpire(incoming, 60_000);
    for (let time = 0; time < 2; time++) expect(await keep(9, 0)).toBe(true);
    expect((await state()).incoming).toEqual({ type: "hash", value: { "0": "page", epoch: "9" }, ttl: -1 });
    expect(await keep(10, 5_000)).toBe(true);
    // Sent before, and delivered only now.
    expect(await keep(9, 0)).toBe(true);
    expect((await state()).incoming).toMatchObject({ value: { epoch: "10" }, ttl: about(5_000) });
    expect(await keep(11, 0)).toBe(true);
    expect(await keep(10, 5_000)).toBe(true);
    expect((await state()).incoming).toMatchObject({ value: { epoch: "11" }, ttl: -1 });
  });
});

describe("seal", () => {
  const seal = (version = "v1", epoch = 4) =>
    scripts.seal.run(fixture.db, { current, previous: incoming }, { version, epoch, keepMs: 5_000 });

  it("notes it, and lets the version before expire, once", async () => {
    await head({ isSealed: "0" });
    await fixture.db.hset(incoming, "manifest", "{}");
    expect(await seal()).toBe(true);
    expect(await state()).toMatchObject({ current: { value: { isSealed: "1" } }, incoming: { ttl: about(5_000) } });
    await fixture.db.persist(incoming);
    expect(await seal()).toBe(true);
    expect((await state()).incoming.ttl).toBe(-1);
  });

  it("changes nothing when another version serves", async () => {
    await head({ isSealed: "0" });
    await fixture.db.hset(incoming, "manifest", "{}");
    expect(await seal("v2")).toBe(false);
    // The same one serves again.
    expect(await seal("v1", 3)).toBe(false);
    expect(await state()).toMatchObject({ current: { value: { isSealed: "0" } }, incoming: { ttl: -1 } });
  });
});

describe("find", () => {
  const bytes = (value: bigint, length: number): Buffer =>
    Buffer.from(value.toString(16).padStart(2 * length, "0"), "hex");
  const find = (page: Buffer | string, address: bigint, length: number) =>
    fixture.db
      .hset(incoming, "7", page)
      .then(() => scripts.find.run(fixture.db, { shard: incoming }, { field: 7, address: bytes(address, length) }));

  it("searches pages of all widths", async () => {
    const v4 = encodePage(4, [0, 0x01000000, 0xff000000], [0, 4_294_967_295, 3]);
    expect(await find(v4, 0x00ffffffn, 4)).toEqual({ first: 0, place: 0, next: 0x01000000 });
    expect(await find(v4, 0x01000000n, 4)).toEqual({ first: 0x01000000, place: 4_294_967_295, next: 0xff000000 });
    expect(await find(v4, 0xffffffffn, 4)).toEqual({ first: 0xff000000, place: 3, next: undefined });
    const at = 0x2001n << 112n;
    const narrow = encodePage(6, [0n, at, at + (1n << 64n)], [1, 2, 3]);
    expect(await find(narrow, at + 5n, 16)).toEqual({ first: at, place: 2, next: at + (1n << 64n) });
    const wide = encodePage(6, [0n, at, at + 5n], [1, 2, 3]);
    expect(await find(wide, at + 4n, 16)).toEqual({ first: at, place: 2, next: at + 5n });
    expect(await find(wide, at + 5n, 16)).toEqual({ first: at + 5n, place: 3, next: undefined });
  });

  it("finds nothing in what is no page", async () => {
    for (const damaged of ["", "x", "0123\u00040", `0123\u0020${"0".repeat(40)}`, `0123\u0004${"0".repeat(9)}`])
      expect(await find(damaged, 1n, 4)).toBeUndefined();
    expect(await scripts.find.run(fixture.db, { shard: current }, { field: 1, address: bytes(1n, 4) })).toBeUndefined();
  });
});
