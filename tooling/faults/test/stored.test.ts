import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { startRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import { expect, it } from "vitest";

// A client that may write a package's keys can store any number and any name. No reader may hang, fill the memory, or fail without
// an error code of kit. The test uses a package, then finds the numbers and names in every field of its keys.

const numbers = /(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])/g;
/** Names that the fills use. Packages store them escaped, so a bare `%` is another program's. */
const namesInUse = /(?<![\w%.])(?:a|all|ann|b|bob|each|eve|hang|later|mail|shop)(?![\w.])/g;
const hostile = ["0", "-1", "nan", "1e-9", "1e9", "1e300", "text"];
/** All values at each place, instead of one. */
const isWhole = process.env["KIT_STORED"] === "all";

interface Used {
  readonly failures: readonly string[];
  readonly megabytes: number;
}

/** A stored number or name, the values to put there, and what puts one. */
interface Place {
  readonly what: string;
  readonly values: readonly string[];
  put(value: string): Promise<unknown>;
}

const found = (pattern: RegExp, values: readonly string[], what: string, text: string, put: Put): Place[] =>
  // Other fields are binary.
  [...(/^[\x20-\x7e\t\n]*$/.test(text) ? text.matchAll(pattern) : [])].slice(0, 8).map(({ 0: former, index }) => ({
    what: `${what}, character ${String(index)}`,
    values,
    put: (value) => put(text.slice(0, index) + value + text.slice(index + former.length)),
  }));
type Put = (text: string) => Promise<unknown>;
const namesIn = (what: string, text: string, put: Put): Place[] => found(namesInUse, ["%"], what, text, put);
const placesIn = (what: string, text: string, put: Put): Place[] => [
  ...found(numbers, hostile, what, text, put),
  ...namesIn(what, text, put),
];

const placesOf = async (client: Redis, key: string): Promise<Place[]> => {
  switch (await client.type(key)) {
    case "string":
      return placesIn(key, (await client.get(key)) ?? "", (text) => client.set(key, text, "KEEPTTL"));
    case "hash":
      return Object.entries(await client.hgetall(key)).flatMap(([field, text]) => [
        ...placesIn(`${key} ${field}`, text, (changed) => client.hset(key, field, changed)),
        ...namesIn(`${key}, field ${field}`, field, (changed) =>
          client.multi().hdel(key, field).hset(key, changed, text).exec(),
        ),
      ]);
    case "list":
      return (await client.lrange(key, 0, 3)).flatMap((text, index) =>
        placesIn(`${key} ${String(index)}`, text, (changed) => client.lset(key, index, changed)),
      );
    case "zset":
      return (await client.zrange(key, "0", "3")).flatMap((member) => [
        {
          what: `${key}, score of ${member}`,
          values: hostile,
          // A score is a number in any case.
          put: (value) => client.zadd(key, Number.isNaN(Number(value)) ? "inf" : value, member) as Promise<unknown>,
        },
        ...namesIn(`${key}, member ${member}`, member, async (changed) => {
          const score = (await client.zscore(key, member)) ?? "0";
          await client.multi().zrem(key, member).zadd(key, score, changed).exec();
        }),
      ]);
    default:
      return [];
  }
};

const ask = async (child: ChildProcess, task: "fill" | "use"): Promise<Used> => {
  child.send(task);
  const [used] = (await once(child, "message", { signal: AbortSignal.timeout(60_000) })) as [Used];
  return used;
};

/** The keys of a package, by its reference. */
const documented = (name: string): string[] => {
  const page = new URL(`../../../packages/${name === "config" ? "core" : name}/docs/reference.md`, import.meta.url);
  return [...readFileSync(page, "utf8").matchAll(/^\| `(kit:[^`]+)`/gm)].map(([, key = ""]) => key);
};
const patternOf = (key: string): RegExp =>
  new RegExp(`^${key.replace(/\{[^}]*\}/g, "\\{[^}]*\\}").replace(/<\w+>|KEY|ID|…/g, ".+")}$`);
/** They exist for an instant, in every other window, after a crash between two calls, or never. */
const absent = [
  ...["wake", "replies:…", "adopted", "staged"].map((key) => `kit:queue:{name}:${key}`),
  ...["sent-even", "sent-odd"].map((key) => `kit:chat:{<tag>}:${key}:<chat>`),
  ...["free", "leases", "pending", "pending:<c>"].map((key) => `kit:logship:{name}:${key}`),
  ...["mark", "mark:<token>"].map((key) => `kit:durable:{tag}:${key}`),
  "kit:autocomplete:{name}:absent",
];

const names = ["lock", "semaphore", "limiter", "chat", "queue", "stats", "autocomplete", "geoip", "logship", "config"];

it.each(names)(
  "a stored number or name of %s that is not what it should be harms no reader",
  async (name) => {
    await using server = await startRedis();
    const client = server.client();
    const url = `redis://127.0.0.1:${String(server.nodes[0]?.port)}`;
    const child = fork(new URL("stored/uses.mjs", import.meta.url), [url, name]);
    try {
      await once(child, "message");
      expect((await ask(child, "fill")).failures).toEqual([]);
      const stored = await Promise.all(
        (await client.keys("*")).map(async (key) => [key, await client.dumpBuffer(key)] as const),
      );
      const isStored = (key: string): boolean => stored.some(([one]) => patternOf(key).test(one));
      expect(documented(name).filter((key) => !isStored(key) && !absent.includes(key))).toEqual([]);
      const restore = async (): Promise<void> => {
        await client.flushall();
        // Without an expiry, so that each use finds the same.
        for (const [key, dump] of stored) await client.call("RESTORE", key, 0, dump);
      };
      await restore();
      const places = (await Promise.all(stored.map(([key]) => placesOf(client, key)))).flat();
      expect(places.length).toBeGreaterThan(2);
      const harmed: string[] = [];
      for (const [index, { what, values, put }] of places.entries())
        for (const value of isWhole ? values : [values[index % values.length]!]) {
          await restore();
          await put(value);
          const used = await ask(child, "use").catch(() => "hangs");
          const harm = typeof used === "string" ? [used] : used.failures;
          harmed.push(...harm.map((text) => `${what} := ${value}: ${text}`));
          if (typeof used === "string") throw new Error(harmed.join("\n"));
          if (used.megabytes > 500) harmed.push(`${what} := ${value}: ${String(used.megabytes)} MB`);
        }
      expect(harmed).toEqual([]);
    } finally {
      child.kill("SIGKILL");
    }
  },
  600_000,
);
