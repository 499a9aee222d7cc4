import type { Redis } from "ioredis";
import { beforeEach, describe, expect, it } from "vitest";
import {
  addContact,
  classicKeys,
  completeContact,
  completeMember,
  CONTACTS_KEPT,
  joinGuild,
  leaveGuild,
  prefixRange,
  removeContact,
} from "../src/index.js";
import { useClassic } from "./harness.js";

const classic = useClassic();
let redis: Redis;
let prefix: string;

beforeEach(async () => {
  redis = await classic.connect();
  prefix = classic.prefix;
});

describe("the classic recent contacts", () => {
  it("keep the newest hundred, the newest first, each once", async () => {
    for (let number = 0; number < CONTACTS_KEPT + 5; number++) await addContact(redis, "ada", `c${number}`, prefix);
    await addContact(redis, "ada", "c50", prefix);
    const kept = await redis.lrange(classicKeys(prefix).contacts("ada"), 0, -1);
    expect([kept.length, kept[0], kept[1], kept.at(-1)]).toEqual([CONTACTS_KEPT, "c50", "c104", "c5"]);
    await removeContact(redis, "ada", "c104", prefix);
    expect(await completeContact(redis, "ada", "c10", prefix)).toEqual(["c103", "c102", "c101", "c100", "c10"]);
  });
});

describe("the classic guild", () => {
  it("completes the names of its members, ten at most, and leaves no mark", async () => {
    const names = ["abc", "abcd", "abcz", "abcx", "abcy", "abci", "abcj", "abd"];
    for (const name of names) await joinGuild(redis, "guild", name, prefix);
    expect(await completeMember(redis, "guild", "abc", prefix)).toEqual([
      "abc",
      "abcd",
      "abci",
      "abcj",
      "abcx",
      "abcy",
      "abcz",
    ]);
    await leaveGuild(redis, "guild", "abcd", prefix);
    expect(await completeMember(redis, "guild", "abc", prefix)).toHaveLength(6);
    expect(await redis.zcard(classicKeys(prefix).guild("guild"))).toBe(names.length - 1);
    expect(prefixRange("abc")).toEqual(["abb{", "abc{"]);
    expect(prefixRange("aba")).toEqual(["ab`{", "aba{"]);
  });
});
