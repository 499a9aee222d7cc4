import { describe, expect, it } from "vitest";
import { parseOptions, UsageError } from "../src/options.js";

const parse = (...args: string[]): unknown => parseOptions(args, ["lock", "marketplace"]);

describe("options", () => {
  it("has five rounds in full length, as a table, when nothing else is said", () => {
    expect(parse("lock")).toEqual({
      package: "lock",
      pattern: undefined,
      rounds: 5,
      json: false,
      save: false,
      before: undefined,
      client: "ioredis",
      profile: undefined,
      scale: 1,
    });
  });

  it("takes all it is given", () => {
    expect(
      parse("lock", "--case", "c=1", "--rounds", "7", "--json", "--scale", "0.5", "--profile", "c="),
    ).toMatchObject({
      pattern: "c=1",
      rounds: 7,
      json: true,
      profile: "c=",
      scale: 0.5,
    });
  });

  it.each([
    [[], "Which package? There are: lock, marketplace"],
    [["queue"], 'There are no benchmarks of "queue". There are: lock, marketplace'],
    [["lock", "marketplace"], "One package at a time"],
    [["lock", "--rounds", "0"], "Expected --rounds to be an integer from 1"],
    [["lock", "--rounds", "many"], 'got "many"'],
    [["lock", "--scale", "2"], "Expected --scale to be above 0 and at most 1"],
    [["lock", "--fast"], "--fast"],
    [["lock", "--save", "--scale", "0.1"], "--save keeps what the docs show"],
    [["lock", "--before", "/nowhere"], "Expected --before to be a checkout"],
    [["lock", "--client", "redis"], 'Expected --client to be ioredis or node-redis, got "redis"'],
    [["lock", "--client", "node-redis", "--save"], "--save keeps what the docs show"],
  ])("refuses %j", (args, message) => {
    expect(() => parse(...args)).toThrow(UsageError);
    expect(() => parse(...args)).toThrow(message);
  });
});
