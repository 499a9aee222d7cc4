// A deploy during which two builds work on one server: today's, and the same with the number of its layout raised, as a
// later major will have it. apps/docs/versions.md says what holds then.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import type * as Autocomplete from "@kit/autocomplete";
import type * as Chat from "@kit/chat";
import { KitError } from "@kit/core";
import type * as Config from "@kit/core/config";
import type * as GeoIp from "@kit/geoip";
import type * as Lock from "@kit/lock";
import type * as Logship from "@kit/logship";
import type * as Queue from "@kit/queue";
import type * as Semaphore from "@kit/semaphore";
import type * as Stats from "@kit/stats";
import { useRedis } from "@kit/testing";
import { Redis } from "ioredis";
import * as vitest from "vitest";

const { afterAll, beforeAll, describe, expect, it } = vitest;
const redis = useRedis(vitest, { permanentKeys: [/./] });
const packages = fileURLToPath(new URL("../../../packages/", import.meta.url));

/** The places where the built code says the number of its layout. */
const raised: readonly [RegExp, string][] = [
  [/\b(layout|found\[1\]|stored\[1\]) ?(~=|==) ?'1'/g, "$1 $2 '2'"],
  // Not the number of shards of all chats, which has a layout of its own.
  [/(?<!layout, ?)'layout', ?'1'/g, "'layout', '2'"],
  [/'layout', ?1(?=[,)])/g, "'layout', 2"],
  [/\blayout = 1;/g, "layout = 2;"],
  [/\blayout: 1,/g, "layout: 2,"],
  [/\.layout !== 1\b/g, ".layout !== 2"],
  [/'1:'/g, "'2:'"],
  [/'\^1:/g, "'^2:"],
];

/** A package as it is built: something to store under a name, in a way that a refusal is seen. */
interface Case {
  readonly what: string;
  readonly file: string;
  readonly store: (build: unknown, client: Redis, name: string) => Promise<unknown>;
}

const cases: readonly Case[] = [
  {
    what: "a lock",
    file: "lock/dist/index.js",
    store: async (build, client, name) => {
      await using lock = (build as typeof Lock).createLock(client);
      await lock.using(name, () => undefined, { waitMs: 5_000 });
    },
  },
  {
    what: "a semaphore",
    file: "semaphore/dist/index.js",
    store: async (build, client, name) => {
      await using semaphore = (build as typeof Semaphore).createSemaphore(client, name, { permits: 2 });
      await semaphore.using(() => undefined, { waitMs: 5_000 });
    },
  },
  {
    what: "a queue",
    file: "queue/dist/index.js",
    store: async (build, client, name) => {
      await using queue = (build as typeof Queue).createQueue(client, name);
      await queue.add("mail", { to: "ann" });
    },
  },
  {
    what: "a chat",
    file: "chat/dist/index.js",
    store: async (build, client, name) => {
      await using chat = (build as typeof Chat).createChat(client);
      await chat.create(name, { members: [`${name}:ann`] });
      await chat.send(name, { from: `${name}:ann`, body: "hello" });
    },
  },
  {
    what: "a channel of logs",
    file: "logship/dist/index.js",
    store: async (build, client, name) => {
      const { createShipper } = build as typeof Logship;
      await using shipper = createShipper(client, name, { limitBytes: 1_048_576, consumers: ["count"] });
      await shipper.send(`${String(Math.random())}.log`, Readable.from(["GET /\n"]));
    },
  },
  {
    what: "a counter",
    file: "stats/dist/index.js",
    store: async (build, client, name) => {
      await using stats = (build as typeof Stats).createStats(client);
      await stats.counter(name.replaceAll("-", "_")).add(1);
    },
  },
  {
    what: "an index of names",
    file: "autocomplete/dist/index.js",
    store: async (build, client, name) => {
      const { createPrefixIndex } = build as typeof Autocomplete;
      await using index = createPrefixIndex(client, name, { order: "weight" });
      await index.putMany([{ id: "1", text: "Berlin", weight: 1 }]);
    },
  },
  {
    what: "a database of addresses",
    file: "geoip/dist/index.js",
    store: async (build, client, name) => {
      const { importGeoIp } = build as typeof GeoIp;
      await importGeoIp(client, name, [{ network: "192.0.2.0/25", place: { country: "XA" } }]);
    },
  },
  {
    what: "a configuration",
    file: "core/dist/config.js",
    store: async (build, client, name) => {
      await using config = (build as typeof Config).createConfig<number>(client, name, { default: 0 });
      await config.set(1);
    },
  },
];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "kit-docs-"));
  for (const name of new Set(cases.map(({ file }) => file.split("/")[0] ?? ""))) {
    // Node loads it by itself there, as it does the packages (see the preset of vitest).
    const target = join(folder, "packages", name);
    mkdirSync(target, { recursive: true });
    cpSync(join(packages, name, "dist"), join(target, "dist"), { recursive: true });
    for (const file of ["node_modules", "package.json"]) symlinkSync(join(packages, name, file), join(target, file));
    for (const file of readdirSync(join(target, "dist")).filter((one) => one.endsWith(".js"))) {
      const path = join(target, "dist", file);
      const code = readFileSync(path, "utf8");
      writeFileSync(
        path,
        raised.reduce((text, [pattern, by]) => text.replace(pattern, by), code),
      );
    }
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Every key under a name, with its content. */
const contents = async (name: string): Promise<Record<string, string>> => {
  const part = name.replaceAll("-", "?");
  const keys = await redis.client.keys(`*${part}*`);
  const dumps = await Promise.all(
    keys.toSorted().map(async (key) => [key, (await redis.client.dumpBuffer(key))?.toString("hex")]),
  );
  return Object.fromEntries(dumps) as Record<string, string>;
};

describe.each(cases)("$what, while two builds run", ({ what, file, store }) => {
  const name = (whose: string): string => `${what.replace(/\W+/g, "-")}-of-${whose}`;

  it("is refused by the older build where the newer one has written, without a change; all others continue", async () => {
    const [today, later] = (await Promise.all([
      import(pathToFileURL(join(packages, file)).href),
      import(pathToFileURL(join(folder, "packages", file)).href),
    ])) as [unknown, unknown];
    await store(today, redis.client, name("before"));
    await store(later, redis.client, name("later"));
    const written = await contents(name("later"));
    expect(Object.keys(written)).not.toEqual([]);

    const refusal: unknown = await store(today, redis.client, name("later")).catch((error: unknown) => error);
    expect(KitError.is(refusal) && refusal.code).toBe("KIT_LAYOUT");
    expect(await contents(name("later"))).toEqual(written);

    // Both go on with what is their own.
    await store(today, redis.client, name("before"));
    await store(later, redis.client, name("later"));
    expect(await contents(name("before"))).not.toEqual({});
  });
});

it("lets a worker of the older build take nothing from a queue of the newer one, and say so", async () => {
  const file = "queue/dist/index.js";
  const load = (from: string): Promise<typeof Queue> =>
    import(pathToFileURL(join(from, file)).href) as Promise<typeof Queue>;
  const [today, later] = [await load(packages), await load(join(folder, "packages"))];
  await using newer = later.createQueue(redis.client, "letters");
  await newer.add("mail", { to: "ann" });
  await using older = today.createQueue(redis.client, "letters");
  const handled: string[] = [];
  const worker = older.work({ mail: () => handled.push("by the older one") });
  const error = await new Promise<unknown>((resolve) => worker.once("error", resolve));
  expect(KitError.is(error) && error.code).toBe("KIT_LAYOUT");
  const newWorker = newer.work({ mail: () => handled.push("by the newer one") });
  await new Promise((resolve) => newWorker.once("completed", resolve));
  expect(handled).toEqual(["by the newer one"]);
});
