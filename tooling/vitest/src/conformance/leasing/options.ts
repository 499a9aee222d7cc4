import { describe, expect, it } from "vitest";
import { rejection } from "../../promises.js";
import { expectRefusal } from "../../refusals.js";
import type { Client } from "../ground.js";
import type { Held, Leasing } from "./leasing.js";

const names = [
  "{",
  "}",
  "{}",
  "a{b}c",
  "}{",
  "%7B",
  "a\u0000b",
  "a\nb",
  "a\tb",
  "a:b",
  "a|b",
  " ",
  "…",
  "👩‍🚀",
  "\u202e",
];
const labels = [
  "a|b",
  "|",
  "two words",
  "two\nlines",
  "tab\there",
  "granted\t1\t2\t3",
  "nul\u0000byte",
  "1:2:3",
  "👩‍🚀 on board",
  "ünïcödé",
  "%s %d {}",
  "x".repeat(128),
];
const leaseWanted = "an integer from 10 to 86400000";

const savedOf = (held: Held): Record<string, unknown> => JSON.parse(held.serialise()) as Record<string, unknown>;

/** The options of an object with leases, and the texts that it accepts. */
export const describeLeaseOptions = (leasing: Leasing): void => {
  const { name, what } = leasing;
  const { redis } = leasing.ground;

  describe("the options of an object", () => {
    it("have the defaults that the README says", async () => {
      const own = `${redis.prefix}-default`;
      const held = await leasing.create(redis.client, own, leasing.required).acquire();
      expect(held.leaseMs).toBe(10_000);
      expect(held.holder).toMatch(new RegExp(`:${String(process.pid)}$`));
      const explicit = leasing.create(redis.client, own, { ...leasing.required, prefix: "kit" });
      expect((await explicit.inspect()).holders).toMatchObject([{ holder: held.holder }]);
      await held.release();
    });

    it("are never written to, nor read again", async () => {
      const options = { ...leasing.required, prefix: redis.prefix, leaseMs: 1_000, holder: "mine" };
      const frozen = leasing.create(redis.client, name, Object.freeze({ ...options }));
      const changing = { ...options };
      const other = leasing.create(redis.client, name, changing);
      Object.assign(changing, { leaseMs: 99_999, prefix: "elsewhere" });
      const held = await frozen.acquire(Object.freeze({ waitMs: 100 }));
      expect(await other.tryAcquire()).toBeNull();
      await held.release();
      expect((await other.acquire()).leaseMs).toBe(1_000);
    });
  });

  describe("acquire", () => {
    it.each(names)("escapes the hostile name %j, all of whose keys share one slot", async (hostile) => {
      const leaser = leasing.make({ name: hostile });
      const held = await leaser.acquire();
      const waiter = await leaser.enqueue();
      const parts = leasing.keysOf(hostile);
      const keys = Object.values(parts);
      expect(new Set(await redis.keys())).toEqual(new Set(keys));
      const form = new RegExp(`^[^{}]*\\{([^{}]+)\\}:(?:\\w+-)?(?:${Object.keys(parts).join("|")})$`);
      const tags = keys.map((key) => form.exec(key)?.[1]);
      expect(new Set(tags).size).toBe(1);
      // eslint-disable-next-line no-control-regex
      expect(tags[0]).toMatch(/^[^\u0000-\u001f:]+$/);
      await held.release();
      await (await waiter.promise).release();
    });

    it.each(labels)("keeps the hostile label %j through hand-off, renewal and release", async (text) => {
      const leaser = leasing.labelled(text);
      const label = leasing.label(text);
      const first = await leaser.acquire();
      const waiter = await leaser.enqueue();
      expect(await leaser.inspect()).toMatchObject({ holders: [label], queue: [label] });
      expect(await rejection(leaser.acquire({ waitMs: 0 }))).toMatchObject(leasing.timeoutOf(text));
      await first.extend();
      expect(await first.release()).toBe("released");
      const second = await waiter.promise;
      expect(second).toMatchObject(label);
      expect(await leaser.inspect()).toMatchObject({ holders: [label], queue: [] });
      await second.extend();
      expect(await second.release()).toBe("released");
    });
  });

  describe("using", () => {
    it("refuses a routine that is none, before it acquires", async () => {
      const error = await rejection(leasing.make().using(undefined as never));
      expect(String(error)).toBe("TypeError: Expected `routine` to be a function, got undefined");
      expect(await redis.keys()).toEqual([]);
    });
  });

  describe("extend", () => {
    it.each([9, 86_400_001, 1.5, Number.NaN, "1000", null])("refuses %o, and changes nothing", async (leaseMs) => {
      const leaser = leasing.make();
      const held = await leaser.acquire({ leaseMs: 5_000, renew: false });
      expectRefusal(await rejection(held.extend(leaseMs as number)), "leaseMs", leaseMs, leaseWanted);
      expect(held.leaseMs).toBe(5_000);
      const [holder] = (await leaser.inspect()).holders as { readonly msLeft: number }[];
      expect(holder?.msLeft).toBeLessThanOrEqual(5_000);
    });
  });

  describe("resume", () => {
    const fields: Readonly<Record<string, object>> = {
      "another package": { kit: "another" },
      "another layout": { layout: 2 },
      "no name": { name: undefined },
      "no token": { token: undefined },
      ...leasing.spoilt,
    };
    const noTexts: Readonly<Record<string, unknown>> = {
      "no JSON": "{",
      null: "null",
      "a number": "42",
      "another object": "{}",
      "a number instead of text": 42,
      undefined,
    };

    it.each([...Object.keys(fields), ...Object.keys(noTexts)])(
      "refuses %s, without repeating it, and never touches Redis",
      async (kind) => {
        const saved = savedOf(await leasing.make().acquire());
        const text = kind in fields ? JSON.stringify({ ...saved, ...fields[kind] }) : noTexts[kind];
        const client = redis.connect({ lazyConnect: true }) as Client;
        const error = await rejection(leasing.on(client).resume(text as string));
        expect(error).toBeInstanceOf(TypeError);
        expect(String(error)).toBe(
          `TypeError: Expected a string from \`serialise()\` or \`handOver()\` of a ${what}, made by this major version`,
        );
        expect(client.status).toBe("wait");
      },
    );

    it("refuses a serialised lease with an unknown option", async () => {
      const saved = savedOf(await leasing.make().acquire());
      const error = await rejection(leasing.make().resume(JSON.stringify({ ...saved, leaseMs: "long" })));
      expectRefusal(error, "leaseMs", "long", leaseWanted);
    });
  });
};
