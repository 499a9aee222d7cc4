import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { loadPopIf, popIf, popIfLibrary } from "../src/pop-if/index.js";

const modes = [["single"], ["cluster"]] as const;

describe.each(modes)("popIf (%s)", (mode) => {
  const redis = useRedis(vitest, { mode, permanentKeys: ["*"] });
  const db = (): Redis => redis.client as Redis;
  const keyOf = (name = "a"): string => `${redis.prefix}:due:{${name}}`;
  /** By script, and by the function of the library. */
  const both: readonly (readonly [string, typeof popIf])[] = [
    ["script", popIf],
    [
      "function",
      async (_redis, key, end, bound) => {
        if (((await db().call("FUNCTION", "LIST")) as unknown[]).length === 0) await loadPopIf(db());
        const text = bound === undefined ? "" : String(bound).replace("Infinity", "inf");
        const reply = (await db().fcall("kit_pop_if", 1, key, end, text)) as [string, string] | null;
        return reply && { member: reply[0], score: Number(reply[1].replace("inf", "Infinity")) };
      },
    ],
  ];

  it.each(both)("by %s takes either end out, only within its bound", async (_how, pop) => {
    const key = keyOf();
    await db().zadd(key, "-inf", "least", 1.5, "low", 1.5, "low2", 7, "high");
    expect(await pop(db(), key, "high", 7.01)).toBeNull();
    expect(await pop(db(), key, "high", 7)).toEqual({ member: "high", score: 7 });
    expect(await pop(db(), key, "low", -Infinity)).toEqual({ member: "least", score: -Infinity });
    expect(await pop(db(), key, "low", 1.4)).toBeNull();
    expect(await pop(db(), key, "low", 1.5)).toEqual({ member: "low", score: 1.5 });
    expect(await pop(db(), key, "low", Infinity)).toEqual({ member: "low2", score: 1.5 });
    expect(await pop(db(), key, "low", Infinity)).toBeNull();
  });

  it.each(both)("by %s uses the server's time if there is no bound", async (_how, pop) => {
    const [key, now] = [keyOf(), Date.now()];
    await db().zadd(key, now - 60_000, "due", now + 60_000, "later");
    expect(await pop(db(), key, "low")).toEqual({ member: "due", score: now - 60_000 });
    expect(await pop(db(), key, "low")).toBeNull();
    expect(await pop(db(), key, "high")).toEqual({ member: "later", score: now + 60_000 });
  });

  it("gives each member to one of many callers", async () => {
    const key = keyOf();
    for (let score = 0; score < 30; score++) await db().zadd(key, score, `m${String(score)}`);
    const popped = await Promise.all(Array.from({ length: 50 }, () => popIf(db(), key, "low")));
    expect(popped.flatMap((one) => (one ? [one.score] : []))).toEqual(Array.from({ length: 30 }, (_, score) => score));
  });

  it.each(both)("by %s writes nothing to replicas or the AOF when nothing is due", async (_how, pop) => {
    const key = keyOf();
    await pop(db(), key, "low");
    await db().zadd(key, 5, "later");
    const changes = async (): Promise<string[]> => {
      const all = await Promise.all(redis.server.nodes.map((node) => node.call("INFO", "persistence")));
      return all.map((info) => /rdb_changes_since_last_save:(\d+)/.exec(String(info))?.[1] ?? "");
    };
    const before = await changes();
    for (let round = 0; round < 5; round++) expect(await pop(db(), key, "low", 1)).toBeNull();
    expect(await changes()).toEqual(before);
    expect(await pop(db(), key, "low", 5)).not.toBeNull();
    expect(await changes()).not.toEqual(before);
  });

  it("is a library on every master, once however often it is loaded", async () => {
    await loadPopIf(db());
    await loadPopIf(db());
    for (const name of ["a", "b", "c", "d", "e", "f"])
      expect(await db().fcall("kit_pop_if", 1, keyOf(name), "low", "")).toBeNull();
    expect(popIfLibrary).toMatch(/^#!lua name=kit_pop_if\n/);
  });

  it("is loaded on every master also by a client that has not read the masters yet", async () => {
    for (const node of redis.server.nodes) await node.call("FUNCTION", "FLUSH");
    await loadPopIf(redis.connect());
    const lists = await Promise.all(redis.server.nodes.map((node) => node.call("FUNCTION", "LIST")));
    expect(lists.filter((list) => String(list).includes("kit_pop_if")).length).toBeGreaterThan(
      mode === "cluster" ? 2 : 0,
    );
  });

  it("does not wait for a server that is silent", async () => {
    await db().ping();
    const [node] = redis.server.nodes;
    node!.pause();
    redis.defer(() => node!.resume());
    expect(await rejection(loadPopIf(db(), { deadlineMs: 200 }))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    node!.resume();
  });

  it.each(both)("by %s works on a server at its memory limit", async (_how, pop) => {
    const key = keyOf();
    await loadPopIf(db());
    await db().zadd(key, 1, "due");
    const limit = async (maxmemory: string): Promise<void> => {
      for (const node of redis.server.nodes) await node.call("CONFIG", "SET", "maxmemory", maxmemory);
    };
    redis.defer(() => limit("0"));
    await limit("1");
    expect(await pop(db(), key, "low")).toEqual({ member: "due", score: 1 });
  });

  it("refuses arguments that make no sense, and keys of another type", async () => {
    const wrong: readonly unknown[][] = [
      ["", "low"],
      [keyOf(), "top"],
      [keyOf(), "low", NaN],
      [keyOf(), "low", "1"],
    ];
    for (const [key, end, bound] of wrong)
      expect(String(await rejection(popIf(db(), key as string, end as "low", bound as number)))).toMatch(/Expected/);
    await db().set(keyOf(), "text");
    expect(await rejection(popIf(db(), keyOf(), "low"))).toMatchObject({ code: "KIT_KEY_TYPE" });
  });
});
