import type { RedisMode, TestRedis } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { attach } from "../src/kernel/context/context.js";
import { own } from "./harness.js";
import { addOnce, echo, putAll, read, readBytes } from "./scripts.js";

/** For a single server and for a Cluster. */
export const scriptBehaviour = (redis: TestRedis<RedisMode>): void => {
  describe("script operands", () => {
    it("go by name, whatever the order of the object", async () => {
      const base = `{${redis.prefix}}`;
      const keys = { others: [`${base}2`, `${base}3`], first: `${base}1` };
      const args = { values: ["a", "bb", "ccc"], ttlMs: 60_000 };
      expect(await putAll.run(redis.client, keys, args)).toEqual([1, 2, 3]);
      expect(
        await Promise.all([1, 2, 3].map((number) => read.run(redis.client, { key: `${base}${String(number)}` }, {}))),
      ).toEqual(["a", "bb", "ccc"]);
    });

    it("may be no rest at all", async () => {
      expect(
        await putAll.run(redis.client, { first: redis.prefix, others: [] }, { ttlMs: 60_000, values: ["a"] }),
      ).toEqual([1]);
    });

    it("may be a list of values that travel together", async () => {
      const parts = [
        { sign: "=", ms: 5, owner: "a b" },
        { sign: "", ms: 70, owner: "" },
      ];
      expect(await echo.run(redis.client, { key: redis.prefix }, { parts })).toEqual(["= 5 a b", " 70 "]);
      expect(await echo.run(redis.client, { key: redis.prefix }, { parts: [] })).toEqual([]);
    });

    it("keep bytes, line ends and astral characters", async () => {
      const text = "\r\n\0\u{1f600}é$-1\r\n";
      await putAll.run(redis.client, { first: redis.prefix, others: [] }, { ttlMs: 60_000, values: [text] });
      expect(await read.run(redis.client, { key: redis.prefix }, {})).toBe(text);
    });
  });

  describe("script replies", () => {
    it("are bytes where the script says so, also such as are no UTF-8", async () => {
      const bytes = Buffer.from([0, 255, 13, 10, 128]);
      await putAll.run(redis.client, { first: redis.prefix, others: [] }, { ttlMs: 60_000, values: [bytes] });
      expect(await readBytes.run(redis.client, { key: redis.prefix }, {})).toEqual(bytes);
      expect(await read.run(redis.client, { key: redis.prefix }, {})).not.toBe(bytes.toString("latin1"));
    });
  });

  describe("script on each kind of client", () => {
    it("runs on a borrowed client, on one of connect(), on a context and on an isolated one", async () => {
      const owned = await own(redis);
      const context = attach(redis.client);
      const isolated = attach(redis.client, { isolate: true });
      for (const [index, client] of [redis.client, owned, context, isolated].entries())
        expect(await addOnce.run(client, { key: redis.prefix }, { op: String(index) })).toBe(index + 1);
      context.detach();
      isolated.detach();
    });
  });

  describe("client context", () => {
    it("asks the server once whether it is a Cluster", async () => {
      const context = attach(redis.client, { prefix: redis.prefix });
      const answers = await Promise.all([context.isCluster(2_000), context.isCluster(2_000), context.isCluster(2_000)]);
      expect(new Set(answers)).toEqual(new Set([redis.server.mode === "cluster"]));
      const groups = new Set(["{a}1", "{b}1", "{c}1"].map((key) => context.groupOf(key)));
      expect(groups.size).toBe(redis.server.mode === "cluster" ? 3 : 1);
      expect(context.groupOf("{a}1")).toBe(context.groupOf("{a}2"));
      context.detach();
    });
  });
};
