import { fileURLToPath } from "node:url";
import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import { type RedisServer, startRedis, type StartRedisOptions, useRedis } from "@kit/testing";
import { Redis } from "ioredis";
import {
  type Component,
  type ComponentEntry,
  type ComponentOptions,
  createComponent,
  type CustomComponentOptions,
  withComponent,
} from "../src/config/index.js";
import type { RedisLike } from "../src/index.js";
import { rejection, until } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{/] });

const start = async (options: StartRedisOptions = {}): Promise<RedisServer> => {
  const server = await startRedis(options);
  redis.defer(() => server.stop());
  return server;
};
const addressOf = (server: RedisServer): string => `redis://127.0.0.1:${String(server.nodes[0]!.port)}`;
const connectionsTo = async (server: RedisServer): Promise<number> =>
  String(await server.call("CLIENT", "LIST"))
    .split("\n")
    .filter((line) => line.includes(" name=kit ")).length;

type Event = readonly [name: string, fact: unknown];
const reported = (component: Pick<Component, "on">): { readonly events: Event[] } => {
  const events: Event[] = [];
  component.on("swap", (fact) => events.push(["swap", fact]));
  component.on("degraded", (fact) => events.push(["degraded", fact]));
  component.on("forced", (fact) => events.push(["forced", fact]));
  component.on("error", (fact) => events.push(["error", fact]));
  return { events };
};

const make = (options: ComponentOptions = {}, client: RedisLike = redis.client): Component => {
  const logs = createComponent(client, "logs", { prefix: redis.prefix, ...options });
  redis.defer(() => logs.close());
  return logs;
};

/** A connection that is only counted. */
interface Link {
  readonly url: string;
  closed: "no" | "drained" | "forced";
}
const makeLinked = (options: Partial<CustomComponentOptions<Link>> = {}) => {
  const links: Link[] = [];
  const logs = createComponent<Link>(redis.client, "logs", {
    prefix: redis.prefix,
    open: ({ url }) => {
      const link: Link = { url, closed: "no" };
      links.push(link);
      return link;
    },
    close: (link, isForced) => {
      link.closed = isForced ? "forced" : "drained";
    },
    ...options,
  });
  redis.defer(() => logs.close());
  return { logs, links, reported: reported(logs as unknown as Component) };
};
const at = (host: string): ComponentEntry => ({ url: `redis://${host}` });

describe("component", () => {
  it("calls a function with the connection that the entry describes", async () => {
    const server = await start();
    const logs = make();
    const log = withComponent(logs, async (db, app: string, line: string) => await db.lpush(`recent:${app}`, line));
    await logs.config.set({ url: addressOf(server) });
    expect(await log("shop", "hello")).toBe(1);
    expect([logs.state, await server.call("LINDEX", "recent:shop", "0")]).toEqual(["ready", "hello"]);
    await logs.close();
    expect(await rejection(log("shop", "more"))).toMatchObject({ code: "KIT_CLOSED" });
    await until(async () => (await connectionsTo(server)) === 0);
  });

  it("has no connection without an entry, and never one to a default address", async () => {
    const logs = make();
    const log = withComponent(logs, async (db) => await db.ping());
    expect(await rejection(log())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
    expect(await rejection(logs.ready())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
    for (const url of [
      "redis://",
      "redis:///0",
      "127.0.0.1",
      "",
      "redis://:6379",
      "redis://h:0",
      "redis://h:99999",
      "redis://h?x=1",
      "http://h",
    ])
      expect(await rejection(logs.config.set({ url }))).toMatchObject({
        code: "KIT_CONFIG_INVALID",
        issues: [{ path: "url" }],
      });
    const waiting = logs.ready({ waitMs: 20_000 });
    const server = await start();
    await logs.config.set({ url: addressOf(server) });
    // The missing entry is there, and on its way.
    expect(await log()).toBe("PONG");
    await waiting;
    expect(await log()).toBe("PONG");
  });

  it("does not swap for the same content, nor for a change that is taken back at once", async () => {
    const { logs, links, reported } = makeLinked();
    const swapsTo = async (host: string): Promise<void> => {
      await logs.config.set(at(host));
      await until(() => links.at(-1)!.url === `redis://${host}` && reported.events.length === links.length - 1);
    };
    await logs.config.set(at("a"));
    await logs.ready();
    await logs.config.set({ secret: undefined, ...at("a") });
    await swapsTo("c");
    expect(links.map(({ url }) => url)).toEqual(["redis://a", "redis://c"]);
    const takeBack = async () => {
      await swapsTo("c");
      const swaps = links.length;
      const startedAt = performance.now();
      await logs.config.set(at("b"));
      await logs.config.set(at("c"));
      const tookMs = performance.now() - startedAt;
      await swapsTo("d");
      return { tookMs, opened: links.slice(swaps).map(({ url }) => url) };
    };
    // At once is within the 100 ms that a component waits for what follows a change. A slow machine needs several tries.
    let tried = await takeBack();
    while (tried.tookMs >= 90) tried = await takeBack();
    expect(tried.opened).toEqual(["redis://d"]);
    await until(() => links.slice(0, -1).every(({ closed }) => closed === "drained"));
    expect(reported.events).toEqual(links.slice(1).map((_, swap) => ["swap", { generation: swap + 2 }]));
  });

  it("swaps a bounded number of times under 50 changes a second, and ends on the last", async () => {
    const { logs, links } = makeLinked();
    await logs.config.set(at("h0"));
    await logs.ready();
    const startedAt = performance.now();
    const changes = 150;
    for (let change = 1; change <= changes; change++) {
      await logs.config.set(at(`h${String(change)}`));
      // oxlint-disable-next-line kit/no-sleep -- The rate of the changes.
      await new Promise((resolve) => setTimeout(resolve, 18));
    }
    const last = `redis://h${String(changes)}`;
    await until(() => links.at(-1)!.url === last);
    // The first connection, the last, and at most one for each pause of 100 ms that this machine has made.
    expect(links.length).toBeLessThanOrEqual(2 + (performance.now() - startedAt) / 100);
    await until(() => links.slice(0, -1).every(({ closed }) => closed === "drained"));
  });

  it("loses none of 1,000 commands in flight when it swaps, and closes the old connection", async () => {
    const [old, next] = [await start(), await start()];
    const logs = make();
    await logs.config.set({ url: addressOf(old) });
    const log = withComponent(logs, async (db, line: number) => {
      // Two commands with a pause between: the call straddles the swap, and keeps its connection.
      await db.rpush("begun", String(line));
      await new Promise(setImmediate);
      return await db.rpush("done", String(line));
    });
    await logs.ready();
    const swapped = new Promise((resolve) => logs.once("swap", resolve));
    let isSwapped = false;
    void swapped.then(() => (isSwapped = true));
    const results: Promise<number>[] = [];
    await logs.config.set({ url: addressOf(next) });
    for (let line = 0; !isSwapped || results.length < 1_000; line++) {
      results.push(log(line));
      if (line % 100 === 0) await new Promise(setImmediate);
    }
    results.push(log(-1));
    const settled = await Promise.allSettled(results);
    expect(settled.filter(({ status }) => status !== "fulfilled")).toEqual([]);
    const counts = await Promise.all([old, next].map(async (server) => Number(await server.call("LLEN", "done"))));
    expect(counts[0]! + counts[1]!).toBe(results.length);
    expect(Math.min(...counts)).toBeGreaterThan(0);
    for (const server of [old, next])
      expect(await server.call("LLEN", "begun")).toBe(await server.call("LLEN", "done"));
    await until(async () => (await connectionsTo(old)) === 0);
    expect(await connectionsTo(next)).toBe(1);
  });

  it("closes by force what is held longer than it drains, and reports how much", async () => {
    const [old, next] = [await start(), await start()];
    const logs = make({ drainMs: 100 });
    const { events } = reported(logs);
    await logs.config.set({ url: addressOf(old) });
    const block = withComponent(logs, async (db) => await db.blpop("nothing", 0));
    const stuck = Promise.all([rejection(block()), rejection(block())]);
    await until(async () => String(await old.call("INFO", "clients")).includes("blocked_clients:1"));
    await logs.config.set({ url: addressOf(next) });
    await stuck;
    expect(events).toEqual([
      ["swap", { generation: 2 }],
      ["forced", { generation: 1, calls: 2 }],
    ]);
    await until(async () => (await connectionsTo(old)) === 0);
    expect(await withComponent(logs, async (db) => await db.ping())()).toBe("PONG");
  });

  it("opens one connection for a hundred first uses at once", async () => {
    const server = await start();
    const writer = make();
    await writer.config.set({ url: addressOf(server) });
    await writer.close();
    const logs = make({}, redis.connect());
    const log = withComponent(logs, async (db, line: number) => await db.rpush("lines", String(line)));
    await Promise.all(Array.from({ length: 100 }, (_, line) => log(line)));
    expect([await server.call("LLEN", "lines"), await connectionsTo(server)]).toEqual([100, 1]);
  });

  describe("refuses before the swap, keeps the old connection, and tries again", () => {
    const file = (name: string): string => fileURLToPath(new URL(`tls/loopback.${name}`, import.meta.url));
    const refused: readonly (readonly [
      what: string,
      words: RegExp,
      entry: () => Promise<{ entry: ComponentEntry; mend?: () => Promise<unknown> }>,
    ])[] = [
      [
        "a server that cannot be reached",
        /ECONNREFUSED/,
        async () => {
          const server = await start();
          const { port } = server.nodes[0]!;
          await server.nodes[0]!.kill();
          return { entry: at(`127.0.0.1:${String(port)}`), mend: () => server.nodes[0]!.start() };
        },
      ],
      [
        "a replica",
        /replica/,
        async () => {
          const server = await start();
          await server.call("REPLICAOF", "127.0.0.1", "1");
          return { entry: { url: addressOf(server) }, mend: () => server.call("REPLICAOF", "NO", "ONE") };
        },
      ],
      [
        "a wrong password",
        /credentials/,
        async () => {
          const server = await start({ password: "right" });
          return {
            entry: { url: addressOf(server), secret: "WRONG" },
            mend: () => server.call("CONFIG", "SET", "requirepass", "wrong"),
          };
        },
      ],
      [
        "a secret that is not known",
        /"NOBODY" has no value/,
        async () => ({ entry: { ...at("127.0.0.1:1"), secret: "NOBODY" } }),
      ],
      [
        "a secret that would leave the machine without TLS",
        /without TLS/,
        async () => ({ entry: { url: "redis://192.0.2.1:6379", secret: "WRONG" } }),
      ],
      [
        "a secret for the servers that a Sentinel on this machine names, without TLS",
        /without TLS/,
        async () => ({ entry: { url: "redis+sentinel://127.0.0.1:1/main", secret: "WRONG" } }),
      ],
      [
        "a secret for the nodes that a Cluster node on this machine names, without TLS",
        /without TLS/,
        async () => ({ entry: { url: "redis+cluster://127.0.0.1:1", secret: "WRONG" } }),
      ],
      [
        "a database that is not there",
        /no database 99/,
        async () => ({ entry: { url: `${addressOf(await start())}/99` } }),
      ],
      [
        "TLS to a plain server",
        /127\.0\.0\.1/,
        async () => ({ entry: { url: addressOf(await start()).replace("redis:", "rediss:") } }),
      ],
      [
        "a TLS server without TLS",
        /127\.0\.0\.1/,
        async () => {
          const server = await start();
          const port = 20_000 + Math.floor(Math.random() * 10_000);
          for (const [name, value] of [
            ["tls-cert-file", file("crt")],
            ["tls-key-file", file("key")],
            ["tls-ca-cert-file", file("crt")],
            ["tls-auth-clients", "no"],
            ["tls-port", String(port)],
          ] as const)
            await server.call("CONFIG", "SET", name, value);
          return { entry: at(`127.0.0.1:${String(port)}`) };
        },
      ],
    ];
    it.each(refused)("%s", async (_, words, given) => {
      const server = await start();
      const logs = make({ secrets: (name) => (name === "WRONG" ? Promise.resolve("wrong") : undefined) });
      await logs.config.set({ url: addressOf(server) });
      const where = withComponent(logs, async (db) => /tcp_port:(\d+)/.exec(await db.info("server"))![1]);
      const port = await where();
      const { entry, mend } = await given();
      const degraded = new Promise<Error>((resolve) => logs.once("degraded", resolve));
      await logs.config.set(entry);
      expect(await degraded).toMatchObject({
        code: "KIT_COMPONENT_REFUSED",
        component: "logs",
        message: expect.stringMatching(words) as unknown,
      });
      expect([logs.state, await where()]).toEqual(["degraded", port]);
      expect(await connectionsTo(server)).toBe(1);
      // Either the server becomes what is wanted, or the entry is taken back.
      await (mend ? mend() : logs.config.set({ url: addressOf(server) }));
      await until(() => logs.state === "ready", 20_000);
      expect((await where()) === port).toBe(mend === undefined);
    });

    it("backs off while it is refused, and reports it once", async () => {
      let tries = 0;
      const { logs, reported } = makeLinked({
        open: () => {
          tries++;
          throw new Error("no");
        },
      });
      await logs.config.set(at("a"));
      expect(await rejection(logs.ready({ waitMs: 2_500 }))).toMatchObject({ code: "KIT_COMPONENT_REFUSED" });
      expect(tries).toBeLessThan(20);
      await until(() => tries > 1);
      expect(reported.events).toMatchObject([["degraded", { code: "KIT_COMPONENT_REFUSED" }]]);
      expect(await rejection(logs.ready())).toMatchObject({ code: "KIT_COMPONENT_REFUSED" });
    });
  });

  it("gives up opening what is not wanted any more, and closes it when it comes", async () => {
    const opened: { url: string; finish: (link: Link) => void; signal: AbortSignal }[] = [];
    const { logs, reported } = makeLinked({
      open: ({ url }, { signal }) => new Promise<Link>((resolve) => opened.push({ url, finish: resolve, signal })),
    });
    await logs.config.set(at("slow"));
    await until(() => opened.length === 1);
    await logs.config.set(at("next"));
    await until(() => opened.length === 2);
    const [slow, next] = [{ url: "slow", closed: "no" } as Link, { url: "next", closed: "no" } as Link];
    expect(opened.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    opened[1]!.finish(next);
    await logs.ready();
    opened[0]!.finish(slow);
    await until(() => slow.closed === "forced");
    expect(await withComponent(logs, (link) => link)()).toBe(next);
    expect(reported.events).toEqual([]);
  });

  it("closes while it opens, while calls are under way, and twice", async () => {
    let finish: ((link: Link) => void) | undefined;
    const opening = makeLinked({ open: () => new Promise<Link>((resolve) => (finish = resolve)) });
    await opening.logs.config.set(at("a"));
    const waiting = rejection(opening.logs.ready());
    await until(() => finish !== undefined);
    const closing = opening.logs.close();
    const late: Link = { url: "late", closed: "no" };
    finish!(late);
    await closing;
    expect([(await waiting).code, late.closed]).toEqual(["KIT_CLOSED", "forced"]);

    const { logs, links, reported } = makeLinked();
    await logs.ready();
    let end: (() => void) | undefined;
    const call = withComponent(logs, () => new Promise<void>((resolve) => (end = resolve)))();
    await until(() => end !== undefined);
    const both = Promise.all([logs.close(), logs.close()]);
    expect(links[0]!.closed).toBe("no");
    end!();
    await Promise.all([call, both]);
    expect([links[0]!.closed, reported.events]).toEqual(["drained", []]);
  });

  it("calls wait for the first connection as long as their options say, and then no option holds", async () => {
    const { logs } = makeLinked();
    const enough = new AbortController();
    const missing = new Promise((resolve) => logs.once("error", resolve));
    const where = ({ url }: Link): string => url;
    const aborted = rejection(withComponent(logs, where, { waitMs: 60_000, signal: enough.signal })());
    const patient = withComponent(logs, where, { waitMs: 60_000 })();
    const impatient = rejection(withComponent(logs, where)());
    await missing;
    expect(await impatient).toMatchObject({ code: "KIT_CONFIG_MISSING" });
    const reason = new Error("enough");
    enough.abort(reason);
    expect(await aborted).toBe(reason);
    expect(await rejection(withComponent(logs, where, { waitMs: 50 })())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
    expect(await rejection(withComponent(logs, where, { signal: enough.signal })())).toBe(reason);
    await logs.config.set(at("a"));
    expect(await patient).toBe("redis://a");
    expect(await withComponent(logs, where, { waitMs: 0, signal: enough.signal })()).toBe("redis://a");
  });

  it("ends every wait when it closes, however long that was to be", async () => {
    const { logs } = makeLinked();
    const missing = new Promise((resolve) => logs.once("error", resolve));
    const options = { waitMs: Number.MAX_SAFE_INTEGER };
    const settled: string[] = [];
    const waits = [logs.ready(options), logs.config.ready(options), withComponent(logs, () => 1, options)()].map(
      async (wait) => settled.push((await rejection(wait)).code),
    );
    await missing;
    // A configuration that is not set is the answer of its own ready().
    await until(() => settled.length === 1);
    expect(settled).toEqual(["KIT_CONFIG_MISSING"]);
    await logs.close();
    await Promise.all(waits);
    expect(settled.slice(1)).toEqual(["KIT_CLOSED", "KIT_CLOSED"]);
  });

  it("passes on what a call throws, and gives its lease back", async () => {
    const { logs, links } = makeLinked();
    await logs.config.set(at("a"));
    const fail = withComponent(logs, () => {
      throw new RangeError("mine");
    });
    await expect(fail()).rejects.toThrow(new RangeError("mine"));
    await logs.close();
    expect(links[0]!.closed).toBe("drained");
  });

  it("keeps its connection when the entry is deleted, and reports it", async () => {
    const { logs, links, reported } = makeLinked({ pollMs: 100 });
    await logs.config.set(at("a"));
    await logs.ready();
    await redis.client.del(`${redis.prefix}:config:{logs}:entry`);
    await until(() => reported.events.length > 0);
    expect(reported.events).toMatchObject([["error", { code: "KIT_CONFIG_MISSING" }]]);
    expect([links.length, links[0]!.closed, await withComponent(logs, ({ url }) => url)()]).toEqual([
      1,
      "no",
      "redis://a",
    ]);
  });

  it("works with an entry and a connection of one's own kind", async () => {
    const server = await start();
    const schema = {
      "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value: value as { port: number } }) },
    } as const;
    const component = createComponent<Redis, { port: number }>(redis.client, "raw", {
      prefix: redis.prefix,
      schema,
      open: ({ port }) => new Redis(port, { lazyConnect: true }),
      check: async (client) => await client.connect(),
      close: (client) => client.disconnect(),
    });
    redis.defer(() => component.close());
    await component.config.set({ port: server.nodes[0]!.port });
    expect(await withComponent(component, async (client, key: string) => await client.incr(key))("n")).toBe(1);
  });

  it("takes no other variable of the environment than the one with its prefix, and says where a secret goes", async () => {
    vi.stubEnv("PAYMENT_KEY", "never");
    vi.stubEnv("KIT_SECRET_LOGS", "right");
    redis.defer(() => vi.unstubAllEnvs());
    const server = await start({ password: "right" });
    const entry = { url: addressOf(server), secret: "LOGS" };
    const logs = make({});
    await logs.config.set({ ...entry, secret: "PAYMENT_KEY" });
    expect(await rejection(logs.ready())).toMatchObject({
      code: "KIT_COMPONENT_REFUSED",
      message: expect.stringContaining("Set KIT_SECRET_PAYMENT_KEY in the environment") as unknown,
    });
    await logs.config.set(entry);
    await logs.ready({ waitMs: 20_000 });

    const asked: unknown[] = [];
    const other = make({ secrets: (...given) => (asked.push(given), "right") });
    await other.ready({ waitMs: 20_000 });
    expect(asked).toEqual([["LOGS", { url: entry.url }]]);
  });

  it("gives an `open` of one's own no secret for a plain address either, unless that is allowed", async () => {
    const opened: string[] = [];
    const options: Partial<CustomComponentOptions<Link>> = {
      secrets: () => "right",
      open: async ({ url }, { secret }) => {
        opened.push(await secret("LOGS"));
        return { url, closed: "no" };
      },
    };
    const { logs } = makeLinked(options);
    await logs.config.set({ url: "redis://192.0.2.1:6379", secret: "LOGS" });
    expect(await rejection(logs.ready())).toMatchObject({ message: expect.stringContaining("without TLS") as unknown });
    expect(opened).toEqual([]);
    await makeLinked({ ...options, allowPlaintextSecrets: true }).logs.ready({ waitMs: 20_000 });
    expect(opened).toEqual(["right"]);
  });

  it("refuses options that are not what they should be", () => {
    expect(() => createComponent(redis.client, "x", { drainMs: -1 })).toThrow("drainMs");
    expect(() => createComponent(redis.client, "x", { open: () => 1 } as never)).toThrow("close");
    expect(() => createComponent(redis.client, "x", { secrets: 1 } as never)).toThrow("secrets");
    expect(() => createComponent(redis.client, "x", { onMissing: "wait" } as never)).toThrow("onMissing");
    const { logs } = makeLinked();
    expect(() => withComponent(logs, () => 1, { waitMs: -1 })).toThrow(RangeError);
    expect(() => withComponent(logs, () => 1, { signal: 1 } as never)).toThrow("signal");
    expect(() => withComponent(logs, () => 1, { deadlineMs: 1 } as never)).toThrow("deadlineMs");
  });
});
