import fc from "fast-check";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { checkPrefix, decodedName, keyspace, nameIn, slotOf } from "../src/kernel/base/keyspace.js";

const redis = useRedis(vitest, { args: ["--cluster-enabled", "yes"] });

const hostile = fc
  .oneof(
    fc.string({ unit: "binary", minLength: 1, maxLength: 100 }),
    fc.string({
      unit: fc.constantFrom("{", "}", ":", "%", "7", "B", "\0", "\n", "\u007f", "a"),
      minLength: 1,
      maxLength: 12,
    }),
    fc.string({ unit: fc.constantFrom("\u0080", "\u202e", "\u2066", "\u2028", "%", "é"), minLength: 1, maxLength: 12 }),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }),
  )
  .filter((name) => Buffer.byteLength(name) <= 512);
const part = fc.constantFrom("lease", "queue", "fence");

describe("keyspace", () => {
  it("gives different keys to different names and parts", () => {
    const keys = keyspace("lock");
    fc.assert(
      fc.property(hostile, part, hostile, part, (name, one, other, two) => {
        expect(keys.key(name, one) === keys.key(other, two)).toBe(name === other && one === two);
      }),
      { numRuns: 2_000 },
    );
  });

  it("gives another key to a name that is written as an escaped one", () => {
    const keys = keyspace("lock");
    fc.assert(
      fc.property(hostile, (name) => {
        const escaped = /\{(.*)\}/s.exec(keys.key(name, "lease"))![1]!;
        fc.pre(Buffer.byteLength(escaped) <= 512);
        expect(keys.key(escaped, "lease") === keys.key(name, "lease")).toBe(escaped === name);
      }),
      { numRuns: 2_000 },
    );
  });

  it("puts one tag into a key, without braces or control characters, and the part behind it", () => {
    fc.assert(
      fc.property(hostile, part, (name, partName) => {
        const key = keyspace("lock", "app").key(name, partName);
        expect(key).toMatch(/^app:lock:\{[^{}:]+\}:[a-z]+$/);
        expect(key).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u);
        expect(nameIn(key)).toBe(name);
      }),
      { numRuns: 2_000 },
    );
  });

  it("lets the name alone decide on the slot, which is the server's own", async () => {
    const names = fc.sample(hostile, { numRuns: 1_000, seed: 7 });
    const prefixes = fc.sample(fc.constantFrom("kit", "a", "my-app:v2", "é:%"), { numRuns: names.length, seed: 7 });
    const slots = redis.client.pipeline();
    for (const [index, name] of names.entries()) {
      const key = keyspace("lock", prefixes[index]).key(name, "lease");
      const tag = /\{(.*)\}/s.exec(key)![1]!;
      slots.call("CLUSTER", "KEYSLOT", key).call("CLUSTER", "KEYSLOT", tag);
      slots.call("CLUSTER", "KEYSLOT", keyspace("queue").key(name, "waiting"));
      slots.call("CLUSTER", "KEYSLOT", keyspace("queue").base(name));
    }
    const replies = (await slots.exec())!.map(([, slot]) => slot);
    for (const [index, name] of names.entries()) {
      const slot = slotOf(keyspace("lock", prefixes[index]).key(name, "lease"));
      expect(replies.slice(4 * index, 4 * index + 4)).toEqual([slot, slot, slot, slot]);
    }
    // Names that tried to move it lie in different slots all the same.
    expect(new Set(replies).size).toBeGreaterThan(500);
  });

  it("refuses just those names that are empty, too long, or half a surrogate pair, and does not repeat them", () => {
    const unit = fc.constantFrom("{", "}", ":", "*", "%", "\0", "\n", "é", "😀", "\ud800", "\udc00", "x".repeat(255));
    const keys = keyspace("lock");
    const refusalOf = (name: string): unknown => {
      try {
        keys.key(name, "lease");
        return undefined;
      } catch (error) {
        return error;
      }
    };
    const refusal = expect.objectContaining({
      code: "KIT_NAME",
      message: expect.stringMatching(/^A name m[^{}*\n]+$/),
    });
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 6 }), (name) => {
        const isSound = name !== "" && Buffer.byteLength(name) <= 512 && !/\p{Surrogate}/u.test(name);
        expect(refusalOf(name)).toEqual(isSound ? undefined : refusal);
      }),
      { numRuns: 2_000 },
    );
  });

  it("reads plain names as they are", () => {
    expect(keyspace("queue").key("mail/Ünïcode 😀", "waiting")).toBe("kit:queue:{mail/Ünïcode 😀}:waiting");
  });

  it("escapes what would move the tag, part the key, or wreck a terminal", () => {
    expect(keyspace("lock").key("a{b}:c%\n\0\u007f", "lease")).toBe("kit:lock:{a%7Bb%7D%3Ac%25%0A%00%7F}:lease");
    expect(keyspace("lock").key("a\u0085b\u202e\u2028", "lease")).toBe("kit:lock:{a%C2%85b%E2%80%AE%E2%80%A8}:lease");
  });

  it.each([
    ["empty", ""],
    ["ten megabytes", "x".repeat(10_000_000)],
    ["513 bytes", "x".repeat(513)],
    ["513 bytes in fewer characters", "é".repeat(257)],
    ["half a surrogate pair", "a\ud800"],
    ["the other half", "\udc00a"],
    ["a number", 42 as unknown as string],
    ["null", null as unknown as string],
    ["an object with a toString", { toString: () => "x" } as unknown as string],
  ])("refuses a name that is %s", (_, name) => {
    expect(() => keyspace("lock").key(name, "lease")).toThrow(expect.objectContaining({ code: "KIT_NAME" }));
  });

  it("does not repeat a refused name", () => {
    const name = `canary${"x".repeat(600)}`;
    expect(() => keyspace("lock").key(name, "lease")).toThrow(/^(?!.*canary)/);
  });

  it("takes a name of 512 bytes", () => {
    expect(keyspace("lock").key("x".repeat(512), "lease")).toContain("x".repeat(512));
  });
});

describe("slotOf", () => {
  it("agrees with the server on any key, tagged or not", async () => {
    const keys = fc.sample(
      fc.oneof(
        fc.string({ unit: fc.constantFrom("{", "}", "a", "b", "é", "😀"), maxLength: 12 }),
        fc.string({ maxLength: 30 }),
      ),
      { numRuns: 500, seed: 3 },
    );
    for (const key of ["", "{}", "{}a", "a{}{b}", "{{a}}", "}{a}", "{a", ...keys])
      expect([key, slotOf(key)]).toEqual([key, await redis.server.call("CLUSTER", "KEYSLOT", key)]);
  });
});

it("returns a stored name with an invalid escape unchanged", () => {
  expect(["item%3A42", "%", "100%", "%C3"].map(decodedName)).toEqual(["item:42", "%", "100%", "%C3"]);
});

describe("checkPrefix", () => {
  it("accepts what can come before a hash tag", () => {
    expect(["kit", "a", "my-app:v2", "é".repeat(64)].map(checkPrefix)).toEqual([
      "kit",
      "a",
      "my-app:v2",
      "é".repeat(64),
    ]);
  });

  it.each(["", "a{b", "a}b", "a b", "a\nb", "a\0", "a*", "a?", "[ab]", "a\\", "x".repeat(65)])(
    "refuses %j",
    (prefix) => {
      expect(() => checkPrefix(prefix)).toThrow(RangeError);
    },
  );

  it("refuses what is no text", () => {
    expect(() => checkPrefix(7 as unknown as string)).toThrow(TypeError);
  });
});
