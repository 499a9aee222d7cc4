import { readFileSync } from "node:fs";
import { startRedis, type RedisServer } from "@kit/testing";
import type { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Cost, type Costs, fullName, loadOf, type Mix } from "../src/costs/costs.js";
import { meter } from "../src/costs/meter.js";
import { operations } from "../src/costs/operations.js";
import { examples, pageFile, pageOf, rates } from "../src/costs/page.js";
import { costs as program, readCosts } from "../src/costs/program.js";
import { type Opened, Scene } from "../src/costs/scene.js";
import { UsageError } from "../src/options.js";

const started = async (): Promise<RedisServer<"single">> => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  return server;
};

/** A client whose connection is up, so that its greeting is not counted. */
const clientOf = async (server: RedisServer<"single">): Promise<Redis> => {
  const redis = server.client();
  await redis.ping();
  return redis;
};

describe("The meter", () => {
  it("counts the commands of clients and of scripts, and each byte", async () => {
    const server = await started();
    const redis = await clientOf(server);
    const script = "redis.call('INCR', KEYS[1]) return redis.call('GET', KEYS[1])";
    const sha = String(await redis.script("LOAD", script));
    const done = await meter(server, async () => {
      await redis.set("a", "1");
      await redis.evalsha(sha, 1, "a");
    });
    const requests = [
      ["set", "a", "1"],
      ["evalsha", sha, "1", "a"],
    ];
    const sent = requests.map((parts) => [
      `*${String(parts.length)}`,
      ...parts.flatMap((part) => [`$${String(part.length)}`, part]),
    ]);
    const bytesIn = sent.flat().reduce((all, line) => all + `${line}\r\n`.length, 0);
    const bytesOut = "+OK\r\n$1\r\n2\r\n".length;
    expect(done).toMatchObject({ commands: 2, innerCommands: 2, bytesIn, bytesOut });
  });

  it("counts an INFO of a client, and none of its own", async () => {
    const server = await started();
    const redis = await clientOf(server);
    expect(await meter(server, () => redis.info("server"))).toMatchObject({ commands: 1, innerCommands: 0 });
  });

  it("counts nothing while nothing happens", async () => {
    const server = await started();
    await clientOf(server);
    expect(await meter(server, () => Promise.resolve())).toMatchObject({
      commands: 0,
      innerCommands: 0,
      bytesIn: 0,
      bytesOut: 0,
    });
  });
});

const cost = (commands: number): Cost => ({ commands, innerCommands: 0, bytesIn: 10, bytesOut: 1, cpuMicros: 5 });
const made = {
  operations: [
    { package: "a", name: "one", about: "", ...cost(1), commandsOnCluster: 4 },
    { package: "a", name: "two", about: "", ...cost(2) },
  ],
} as const;

describe("The load of a mix", () => {
  it("is the sum of its operations", () => {
    expect(loadOf(made, { "a: one": 100, "a: two": 10 })).toEqual({
      commands: 120,
      commandsOnCluster: 420,
      innerCommands: 0,
      bytesIn: 1_100,
      bytesOut: 110,
      cpuMicros: 550,
    });
  });

  it("refuses an operation that is not measured, and names those that are", () => {
    expect(() => loadOf(made, { "a: three": 1 })).toThrow(/"a: three"[^]*a: one\n {2}a: two/);
  });

  // A package that sends more, or less, than is kept fails here: `npm run bench -- costs --save`.
  it("predicts what a real mix does to a real server", { timeout: 60_000 }, async () => {
    const perSecond: Mix = {
      "lock: acquire and release, free": 80,
      "semaphore: acquire and release, room": 40,
      "queue: add": 60,
      "chat: send": 40,
      "stats: flush of one counter": 20,
      "autocomplete: suggest": 100,
      "autocomplete: put": 20,
      "geoip: look-up, cached": 100,
      "core: transaction (`optimistic`)": 20,
      "core: change of a configuration": 20,
    };
    const seconds = 2;
    const slices = 10;
    const server = await started();
    await using all = new Scene(server);
    const running: { readonly run: Opened["run"]; readonly each: number }[] = [];
    for (const [name, rate] of Object.entries(perSecond)) {
      const operation = operations.find((one) => one.name === name);
      const scene = new Scene(server);
      all.atEnd(() => scene[Symbol.asyncDispose]());
      const { run } = await operation!.open(scene);
      await run(5);
      running.push({ run, each: rate / slices });
    }
    const done = await meter(server, async () => {
      for (let slice = 0; slice < seconds * slices; slice++)
        await Promise.all(running.map(({ run, each }) => run(each)));
    });
    const predicted = loadOf(readCosts(), perSecond);
    const ratio = (of: keyof Cost): number => done[of] / (predicted[of] * seconds);
    expect(Math.abs(ratio("commands") - 1)).toBeLessThan(0.02);
    expect(Math.abs(ratio("innerCommands") - 1)).toBeLessThan(0.02);
    // The lengths of names and the widths of numbers differ.
    expect(Math.abs(ratio("bytesIn") - 1)).toBeLessThan(0.05);
    expect(Math.abs(ratio("bytesOut") - 1)).toBeLessThan(0.05);
  });
});

describe("The kept costs", () => {
  it("have every operation, once", () => {
    expect(readCosts().operations.map(fullName)).toEqual(operations.map(({ name }) => name));
    expect(new Set(operations.map(({ name }) => name)).size).toBe(operations.length);
  });

  it("have all that the examples of the page are made of", () => {
    for (const mixAt of Object.values(examples))
      for (const rate of rates) expect(loadOf(readCosts(), mixAt(rate)).commands).toBeGreaterThan(0);
  });

  it("make the page as it is", async () => {
    expect(await pageOf(readCosts())).toBe(readFileSync(pageFile, "utf8"));
  });

  it("refuse a page that has no place for a table, or a place for none", async () => {
    const kept: Costs = readCosts();
    await expect(pageOf(kept, "# At scale\n")).rejects.toThrow(/no part for conditions/);
    await expect(pageOf(kept, "<!-- costs: nothing -->\n<!-- end -->\n")).rejects.toThrow(/"nothing"/);
  });
});

describe("npm run bench -- costs", () => {
  it.each([
    [["--load", "queue: add"], /"queue: add=1000", got "queue: add"/],
    [["--load", "queue: nothing=1"], /No operation is named "queue: nothing"/],
    [["--unknown"], /--unknown/],
  ])("refuses %j", async (args, message) => {
    const refused = program(args, () => undefined);
    await expect(refused).rejects.toBeInstanceOf(UsageError);
    await expect(refused).rejects.toThrow(message);
  });
});
