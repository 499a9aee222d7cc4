import { retry } from "@kit/core";
import { attach } from "@kit/core/toolkit";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { losingOnce, rejection, runProgram } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { GeoIpCommands } from "../src/commands.js";
import { rollbackGeoIp } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { manyRanges, modes } from "./data.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const program = new URL("programs/importer.mjs", import.meta.url);
const importUntil = (command: number) => runProgram(redis, program, [redis.url, redis.prefix, String(command)]);

/** Lets everything expire that has an expiry, as when its time has passed. */
const expire = async (): Promise<void> => {
  for (const key of await redis.keys()) if ((await fixture.db.pttl(key)) > 0) await fixture.db.pexpire(key, 1);
  await eventually(async () => {
    for (const key of await redis.keys()) expect([key, await fixture.db.pttl(key)]).toEqual([key, -1]);
  });
};
const cities = async (): Promise<unknown> => {
  const reader = fixture.reader();
  const found = await Promise.all(["1.0.0.1", "1.0.2.1", "1.0.254.1"].map((address) => reader.lookup(address)));
  await reader.close();
  return new Set(found.map(({ place }) => place?.cityName?.slice(0, 1)));
};
const activating = { stagingMs: 60_000, keepPreviousMs: 60_000, deadlineMs: 10_000 };
/** Commands to which something happens right behind a switch. */
const commandsWith = (happens: () => unknown): GeoIpCommands => {
  /** The first settling is the one before the switch. */
  class UnluckyCommands extends GeoIpCommands {
    settles = 0;
    override async settle(...options: Parameters<GeoIpCommands["settle"]>): Promise<boolean> {
      if (++this.settles === 2) await happens();
      return await super.settle(...options);
    }
  }
  const context = attach(redis.connect(), { prefix: redis.prefix });
  redis.defer(() => context.detach());
  return new UnluckyCommands(context, "city", fixture.keys);
};
/** The command before which a killed importer has switched, or a little earlier. The first test finds it. */
let nearSwitch = 1;
/** Lets importers die, each a command later, until one has switched from the version that serves. */
const dieAfterSwitch = async (): Promise<void> => {
  const current = (): Promise<string | null> => fixture.db.hget(fixture.keys.current, "current");
  const before = await current();
  for (let command = nearSwitch; (await current()) === before; command++) await importUntil(command);
};
const old = new Set("a");
const fresh = new Set("b");

/** The old version serves, and whatever else is there expires: before a reader comes that could mend anything. */
const expectUnseen = async (command: number, current: string): Promise<void> => {
  const staying: string[] = [];
  for (const key of await redis.keys()) if ((await fixture.db.pttl(key)) === -1) staying.push(key);
  expect([command, staying.filter((key) => !key.includes(current))]).toEqual([command, [fixture.keys.current]]);
  expect([command, await cities()]).toEqual([command, old]);
};

/** The new version serves, and the reader completes what its importer did not. */
const expectServing = async (command: number): Promise<void> => {
  // As some seconds later: until then readers leave it to the importer.
  await fixture.db.hset(fixture.keys.current, "at", "1");
  expect([command, await cities()]).toEqual([command, fresh]);
  await eventually(async () => expect(await fixture.db.hget(fixture.keys.current, "isSealed")).toBe("1"));
};

describe("an importer that is killed", () => {
  it("before any of its commands leaves one complete version serving, and only keys that expire", async () => {
    // The server does not know the scripts of a fresh build yet: later runs send less.
    await importUntil(0);
    await fixture.db.unlink(...(await redis.keys()));
    const first = await fixture.import(manyRanges(300, "a"));
    const ownKeys = (await redis.keys()).length;
    const { printed, code } = await importUntil(0);
    const commands = Number(printed);
    expect([code, commands > 15]).toEqual([0, true]);
    expect(await fixture.rollback()).toBe(first.version);
    await expire();
    let switches = 0;
    for (let command = 1; command <= commands; command++) {
      expect((await importUntil(command)).code).toBeNull();
      const { current = "" } = await fixture.db.hgetall(fixture.keys.current);
      const isOld = current === first.version;
      if (isOld) await expectUnseen(command, current);
      else {
        if (++switches === 1) nearSwitch = Math.max(1, command - 3);
        await expectServing(command);
        await fixture.rollback();
      }
      await expire();
      expect([command, (await redis.keys()).length, await cities()]).toEqual([command, ownKeys, old]);
    }
    // One look, the shards, the switch, and what comes after it were all among them.
    expect(switches).toBeGreaterThan(3);
    expect(switches).toBeLessThan(commands - 5);
  });

  it("after the switch, and its data has expired: every reader has the old version's places", async () => {
    await fixture.import(manyRanges(300, "a"));
    const head = () => fixture.db.hgetall(fixture.keys.current);
    const { current: first = "" } = await head();
    await dieAfterSwitch();
    const switched = await head();
    expect(switched["isSealed"]).toBe("0");
    await expire();
    for (const [index, mode] of modes.entries()) {
      // As the dead importer left it; each switch is a later one.
      const epoch = String(Number(switched["epoch"]) + 2 * index);
      await fixture.db.hset(fixture.keys.current, { ...switched, epoch });
      expect([mode, (await fixture.reader({ mode }).lookup("1.0.0.1")).place?.cityName]).toEqual([mode, "a0"]);
      expect([mode, await head()]).toMatchObject([mode, { current: first, isSealed: "1" }]);
    }
    // An import goes on from there.
    await fixture.import(manyRanges(300, "c"));
    expect(await cities()).toEqual(new Set("c"));
  });

  it("does not report success when its data expires during the switch", async () => {
    const first = await fixture.import(manyRanges(300, "a"));
    const second = await fixture.import(manyRanges(300, "b"));
    const commands = commandsWith(
      async () => void (await fixture.db.unlink(commands.keys.shard(first.version, "v4", 0))),
    );
    const { manifest } = (await commands.record(first.version, 10_000))!;
    expect(await rejection(commands.activate(first.version, manifest, activating))).toMatchObject({
      code: "KIT_GEOIP_STAGING",
    });
    expect((await fixture.reader().info()).version).toBe(second.version);
    expect(await cities()).toEqual(fresh);
  });

  it("does not report success when a failover undoes its switch: it switches again", async () => {
    const first = await fixture.import(manyRanges(300, "a"));
    await fixture.import(manyRanges(300, "b"));
    const before = await fixture.db.hgetall(fixture.keys.current);
    const commands = commandsWith(async () => void (await fixture.db.hset(fixture.keys.current, before)));
    const { manifest } = (await commands.record(first.version, 10_000))!;
    await commands.activate(first.version, manifest, activating);
    expect(await fixture.db.hgetall(fixture.keys.current)).toMatchObject({ current: first.version, isSealed: "1" });
    await expire();
    expect(await cities()).toEqual(old);
  });

  it("reports an unknown outcome when the server goes away after its switch", async () => {
    const first = await fixture.import(manyRanges(300, "a"));
    await fixture.import(manyRanges(300, "b"));
    const [node] = redis.server.nodes;
    redis.defer(() => node!.resume());
    const commands = commandsWith(() => node!.pause());
    const { manifest } = (await commands.record(first.version, 10_000))!;
    const error = await rejection(commands.activate(first.version, manifest, { ...activating, deadlineMs: 500 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", cause: { code: "KIT_UNAVAILABLE" } });
    node!.resume();
    expect((await fixture.reader().info()).version).toBe(first.version);
  });

  it("is not repeated by retry() when its reply is lost: a second roll-back would undo it", async () => {
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const first = await fixture.import(manyRanges(300, "a"));
    await fixture.import(manyRanges(300, "b"));
    const client = fixture.connect({ port: proxy.port });
    const back = (): Promise<string> => rollbackGeoIp(client, "city", { prefix: redis.prefix, deadlineMs: 500 });
    const { attempt, tries } = losingOnce(proxy, back, { client, script: scripts.switchTo });
    const error = await rejection(retry(attempt, { waitMs: 30_000 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: undefined, retryable: false });
    expect([tries(), (await fixture.reader().info()).version]).toEqual([1, first.version]);
  });

  it("with its data and the old version's lost: another import repairs it", async () => {
    await fixture.import(manyRanges(300, "a"));
    await dieAfterSwitch();
    for (const key of await redis.keys()) if (key.endsWith(":shard")) await fixture.db.unlink(key);
    const { version } = await fixture.import(manyRanges(300, "c"));
    expect(await cities()).toEqual(new Set("c"));
    await expire();
    expect(await cities()).toEqual(new Set("c"));
    // Neither of the two broken ones leaves anything for good.
    expect((await redis.keys()).filter((key) => !key.includes(version))).toEqual([fixture.keys.current]);
  });

  it("after the switch, and then another one: nothing of them and of the old version stays", async () => {
    await fixture.import(manyRanges(300, "a"));
    const shards = async (): Promise<string[]> => (await redis.keys()).filter((key) => key.endsWith(":shard"));
    const [kept] = await shards();
    await dieAfterSwitch();
    // Of the old version only one shard is left, so that it cannot serve again.
    for (const key of await shards()) if (key !== kept) await fixture.db.unlink(key);
    await dieAfterSwitch();
    for (const key of await shards()) if (key !== kept) await fixture.db.unlink(key);
    const { version } = await fixture.import(manyRanges(300, "c"));
    await expire();
    expect((await redis.keys()).filter((key) => !key.includes(version))).toEqual([fixture.keys.current]);
    expect(await cities()).toEqual(new Set("c"));
  });
});
