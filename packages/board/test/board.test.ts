import { connect, KitError } from "@kit/core";
import type { PackageDescriptor } from "@kit/core/toolkit";
import { createChat } from "@kit/chat";
import { createLimiter } from "@kit/limiter";
import { createLock } from "@kit/lock";
import { createSemaphore } from "@kit/semaphore";
import { useRedis } from "@kit/testing";
import { closedPort } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createBoard } from "../src/index.js";
import { at, fill, packages, permanentKeys, seen, thing, visit, Visitor } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

/** A lock that is held until the end of the test. */
const hold = async (name: string): Promise<void> => {
  const lock = createLock(redis.client, { prefix: redis.prefix });
  redis.defer(() => lock.close({ timeoutMs: 0 }));
  await lock.acquire(name);
};

describe("the overview", () => {
  it("says that nothing is stored yet", async () => {
    const { status, text } = await visit(redis).get();
    expect(status).toBe(200);
    expect(text).toContain(`Nothing is stored under the prefix ${redis.prefix} yet.`);
  });

  it("has a row for each thing of each package, with its state, queues first", async () => {
    await fill(redis);
    await hold("item:42");
    const semaphore = createSemaphore(redis.client, "payments", { permits: 2, prefix: redis.prefix });
    const chat = createChat(redis.client, { prefix: redis.prefix });
    const limiter = createLimiter(redis.client, "logins", {
      limits: { hourly: { count: 5, perMs: 3_600_000 } },
      prefix: redis.prefix,
    });
    redis.defer(async () => {
      await Promise.all([semaphore.close({ timeoutMs: 0 }), chat.close(), limiter.close()]);
    });
    await semaphore.acquire();
    await limiter.consume("203.0.113.7");

    const { text, html } = await visit(redis).get();
    for (const name of ["mail", "item:42", "payments", "logins"]) expect(text).toContain(name);
    expect(text.indexOf("Queues")).toBeLessThan(text.indexOf("Locks"));
    expect(html).toContain(`href="?${thing("lock", ["item:42"]).replaceAll("&", "&amp;")}"`);
    expect(text).toMatch(/Keys seen: .*queue \d+ keys/);
  });

  it("lists the things of one kind, and finds those whose name has a text", async () => {
    for (const name of ["item:42", "item:43", "cart:1"]) await hold(name);
    const visitor = visit(redis);
    const all = await visitor.get("list=locks");
    for (const name of ["item:42", "item:43", "cart:1"]) expect(all.text).toContain(name);
    const some = await visitor.get("list=locks&q=item");
    expect(some.text).toContain("item:43");
    expect(some.text).not.toContain("cart:1");
    expect((await visitor.get("list=locks&q=nothing")).text).toContain("No locks here have this in their name.");
  });

  it("reads a bounded part of a large keyspace, says so, and is complete after further pages", async () => {
    const { client, prefix } = redis;
    for (let from = 0; from < 20_000; from += 1_000) {
      const pipeline = client.pipeline();
      for (let n = from; n < from + 1_000; n++) pipeline.set(`${prefix}:noise:${String(n)}`, "", "PX", 600_000);
      await pipeline.exec();
    }
    await hold("needle");
    const visitor = visit(redis);
    // A kind of which nothing was found has a link as well: its page opens a thing by its name.
    for (const things of ["queues", "locks"]) expect((await visitor.get()).html).toContain(`href="?list=${things}"`);
    const pages: string[] = [];
    for (let page = 0; page < 6; page++) pages.push((await visitor.get("list=locks")).text);
    const isPartial = pages.map((text) => text.includes("more keys than the 4,000 of one page"));
    expect([isPartial[0], isPartial.at(-1), isPartial.lastIndexOf(true) < 5]).toEqual([true, false, true]);
    expect(pages.at(-1)).toContain("needle");
    // It is found once, and stays while the next scan has not come to it.
    expect(pages.map((text) => text.includes("needle")).lastIndexOf(false)).toBeLessThan(5);
  });

  it("forgets a thing that is gone", async () => {
    await hold("item:42");
    const visitor = visit(redis);
    expect((await visitor.get("list=locks")).text).toContain("item:42");
    const keys = (await redis.keys()).filter((key) => key.includes("item"));
    await redis.client.del(...keys);
    expect((await visitor.get("list=locks")).text).not.toContain("item:42");
  });

  it("links to the thing whose whole name is searched, though the list lacks it", async () => {
    const { html } = await visit(redis).get("list=locks&q=item%3A42");
    expect(html).toContain(`href="?${thing("lock", ["item:42"]).replaceAll("&", "&amp;")}"`);
  });
});

describe("the page of a thing", () => {
  it("has its facts, its table and its actions, and its keys when asked", async () => {
    await hold("item:42");
    const visitor = visit(redis);
    const { text, html } = await visitor.get(thing("lock", ["item:42"]));
    expect(text).toMatch(/holder .* fencing token/);
    expect(html).toContain("do=lock+release");
    expect(text).not.toContain(`${redis.prefix}:lock:{item%3A42}`);
    const withKeys = await visitor.get(thing("lock", ["item:42"], ["keys", "1"]));
    expect(withKeys.text).toContain(`${redis.prefix}:lock:{item%3A42}:lease`);
  });

  it("reports an unknown thing with 404, and offers no action on it", async () => {
    const { status, text, html } = await visit(redis).get(thing("queue", ["nowhere"]));
    expect(status).toBe(404);
    expect(text).toContain("unknown: no job was added");
    expect(html).not.toContain("do=");
  });

  it("reports a damaged thing, and does not hide the others", async () => {
    await hold("good");
    await redis.client.rpush(`${redis.prefix}:lock:{bad}:lease`, "no lease");
    const { status, text } = await visit(redis).get("list=locks");
    expect(status).toBe(200);
    expect(text).toContain("good");
    expect(text).toMatch(/bad .*lease/);
  });

  it("passes the options of its inspector", async () => {
    const limiter = createLimiter(redis.client, "logins", {
      limits: { hourly: { count: 5, perMs: 3_600_000 } },
      prefix: redis.prefix,
    });
    redis.defer(() => limiter.close());
    await limiter.consume("203.0.113.7", { tokens: 3 });
    const { text } = await visit(redis).get(thing("limiter", ["logins"], ["o.key", "203.0.113.7"]));
    expect(text).toContain("203.0.113.7");
  });
});

describe("a package of somebody else", () => {
  const written: string[] = [];
  const parrot: PackageDescriptor = {
    name: "parrot",
    things: "parrots",
    permissions: { tried: () => [] },
    inspectors: [
      {
        thing: "parrot",
        about: "what it says",
        cost: 1,
        options: [{ name: "loud", about: "in capitals" }],
        look: async ({ redis: client, prefix, isSet }, name: string) => {
          const said = String(await client.call("GET", `${prefix}:parrot:{${name}}:word`));
          return {
            data: { said },
            facts: [["said", isSet("loud") ? said.toUpperCase() : said]],
            table: { columns: ["word"], rows: [[said]] },
          };
        },
        listed: { things: "parrots", keys: ["{NAME}:word"], columns: ["said"] },
        keys: (prefix, name: string) => [`${prefix}:parrot:{${name}}:word`],
      },
    ],
    commands: [
      {
        path: "parrot teach",
        about: "teach it a word",
        args: [
          { name: "name", about: "" },
          { name: "word", about: "what it will say" },
        ],
        options: [{ name: "ms", takes: "integer", about: "how long it remembers" }],
        buttons: [{ thing: "parrot", text: "Teach" }],
        run: async ({ redis: client, prefix, integer, output }, name: string, word: string) => {
          await client.call("SET", `${prefix}:parrot:{${name}}:word`, word, "PX", integer("ms") ?? 60_000);
          written.push(word);
          await output.line({ word }, `it says ${word}`);
        },
      },
      // Without a button: the board offers nothing of it.
      { path: "parrot kill", about: "", run: () => Promise.reject(new Error("never")) },
    ],
    checks: [
      {
        id: "parrot-alive",
        about: "whether it is",
        look: () => Promise.resolve([{ severity: "warning", text: "polly is asleep", fix: "wake it" }]),
      },
    ],
  };
  const board = (): Visitor => visit(redis, { packages: [parrot] });
  const teach = async (word: string): Promise<unknown> =>
    await redis.client.set(`${redis.prefix}:parrot:{polly}:word`, word, "PX", 60_000);

  it("is shown by its descriptor alone: overview, page, options, keys, check", async () => {
    await teach("hello");
    const visitor = board();
    expect((await visitor.get()).text).toMatch(/Parrots 1 .*polly hello/);
    expect((await visitor.get(thing("parrot", ["polly"], ["o.loud", "on"], ["keys", "1"]))).text).toMatch(
      /HELLO.*parrot:\{polly\}:word string/,
    );
    expect((await visitor.get("page=health&run=1")).text).toMatch(/warning parrot-alive polly is asleep Fix: wake it/);
    expect((await visitor.get()).text).toContain("polly is asleep");
  });

  it("runs its commands that have a button, with arguments and options, and no other", async () => {
    await teach("hello");
    const visitor = board();
    const ask = await visitor.get(thing("parrot", ["polly"], ["do", "parrot teach"]));
    expect(ask.text).toContain("What it will say");
    const { text } = await visitor.post(thing("parrot", ["polly"], ["do", "parrot teach"]), [
      ["a", "ahoy"],
      ["o.ms", "5000"],
    ]);
    expect(text).toMatch(/Done\. it says ahoy/);
    expect(written).toEqual(["ahoy"]);
    expect(await redis.client.pttl(`${redis.prefix}:parrot:{polly}:word`)).toBeLessThanOrEqual(5_000);
    const bad = await visitor.post(thing("parrot", ["polly"], ["do", "parrot teach"]), [
      ["a", "x"],
      ["o.ms", "soon"],
    ]);
    expect(bad.status).toBe(422);
    expect(bad.text).toContain("ms must be an integer");
    expect((await visitor.post(thing("parrot", ["polly"], ["do", "parrot kill"]))).status).toBe(404);
  });
});

describe("addresses", () => {
  it("has only relative links, so that it can be mounted at any path", async () => {
    await fill(redis);
    const visitor = visit(redis);
    for (const query of ["", "list=queues", "page=health&run=1", thing("queue", ["mail"]), "thing=nothing"]) {
      const { html } = await visitor.get(query);
      const targets = [...html.matchAll(/\s(?:href|src|action|hx-get)="([^"]*)"/g)].map(([, target = ""]) => target);
      expect(targets.length).toBeGreaterThan(4);
      expect(targets.filter((target) => !/^[?#]/.test(target))).toEqual([]);
    }
  });

  it("answers at any path alike", async () => {
    await hold("item:42");
    const { board } = visit(redis);
    for (const path of ["/", "/board", "/board/", "/a/b/c.html", "/%2e%2e/x"]) {
      const { status, text } = await seen(await board(new Request(`http://x${path}?list=locks`)));
      expect([path, status, text.includes("item:42")]).toEqual([path, 200, true]);
    }
  });

  it("serves its files, which a browser keeps for good", async () => {
    const visitor = visit(redis);
    const { html } = await visitor.get();
    const files = [...html.matchAll(/(?:href|src)="\?(asset=[^"]*)"/g)].map(([, query = ""]) =>
      query.replaceAll("&amp;", "&"),
    );
    expect(files).toHaveLength(3);
    for (const query of files) {
      const { status, headers, html: body } = await visitor.get(query);
      expect(status).toBe(200);
      expect(body.length).toBeGreaterThan(100);
      expect(headers.get("cache-control")).toContain("immutable");
    }
    expect((await visitor.get("asset=board.css&v=old")).headers.get("cache-control")).toBe("no-store");
    expect((await visitor.get("asset=constructor")).status).toBe(404);
  });

  it.each([
    ["page=nothing", 404],
    ["list=nothing", 404],
    ["thing=nothing&name=a", 404],
    ["thing=lock", 404],
    ["thing=lock&name=", 404],
    ["thing=lock&name=a&name=b", 404],
    ["thing=lock&name=a&do=queue+purge", 404],
    ["thing=lock&name=a&do=nothing", 404],
  ])("knows no page %s", async (query, status) => {
    expect((await visit(redis).get(query)).status).toBe(status);
  });

  it("answers HEAD without a body, and no other method", async () => {
    const { board } = visit(redis);
    const head = await seen(await board(new Request(at, { method: "HEAD" })));
    expect([head.status, head.html]).toEqual([200, ""]);
    const put = await seen(await board(new Request(at, { method: "PUT" })));
    expect([put.status, put.headers.get("allow")]).toEqual([405, "GET, HEAD, POST"]);
  });
});

describe("trouble", () => {
  it("reports with 503 that no server answers, and works again afterwards", async () => {
    const client = await connect({ url: redis.url, deadlineMs: 500 });
    redis.defer(() => client.close());
    const visitor = new Visitor(createBoard(client, { packages, prefix: redis.prefix }));
    expect((await visitor.get(thing("queue", ["mail"]))).status).toBe(404);
    client.disconnect();
    const { status, text } = await visitor.get(thing("queue", ["mail"]));
    expect([status, text.includes("KIT_")]).toEqual([503, true]);
  });

  it("reports with 503 a client that keeps its commands because no server is there", async () => {
    const client = redis.connect({ host: "127.0.0.1", port: closedPort, retryStrategy: () => 100 });
    const ignore = (): void => undefined;
    client.on("error", ignore);
    const visitor = new Visitor(createBoard(client, { packages, prefix: redis.prefix }));
    const { status, text } = await visitor.get(thing("lock", ["item:42"]));
    expect([status, text.includes("Redis is unavailable")]).toEqual([503, true]);
    client.off("error", ignore);
  });

  it("hides the message of an unexpected error from the page, and gives it to onError", async () => {
    const errors: unknown[] = [];
    const secret = new Error("password hunter2");
    const broken: PackageDescriptor = {
      name: "broken",
      things: "broken things",
      permissions: { tried: () => [] },
      inspectors: [{ thing: "broken", about: "", look: () => Promise.reject(secret) }],
    };
    const visitor = visit(redis, { packages: [broken], onError: (error) => errors.push(error) });
    const { status, text } = await visitor.get(thing("broken", ["x"]));
    expect(status).toBe(500);
    expect(text).not.toContain("hunter2");
    expect(errors).toEqual([secret]);
  });

  it("shows the message and the code of an error of kit", async () => {
    const broken: PackageDescriptor = {
      name: "broken",
      things: "broken things",
      permissions: { tried: () => [] },
      inspectors: [
        { thing: "broken", about: "", look: () => Promise.reject(new KitError("KIT_CLUSTER", "Ask the other node")) },
      ],
    };
    const { status, text } = await visit(redis, { packages: [broken] }).get(thing("broken", ["x"]));
    expect([status, text.includes("Ask the other node KIT_CLUSTER")]).toEqual([500, true]);
  });

  it.each([
    [{}, /packages/],
    [{ packages: [{}] }, /packages/],
    [{ packages, prefix: "" }, /prefix/],
    [{ packages, authorize: "yes" }, /authorize/],
    [{ packages, readOnly: true }, /Unknown option "readOnly"/],
  ])("refuses wrong options %#", (options, message) => {
    expect(() => createBoard(redis.client, options as never)).toThrow(message);
  });
});
