import fc from "fast-check";
import { eventually, startRedis } from "@kit/testing";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { commandsIn, Tap } from "../src/lab/tap.js";

const encode = (parts: readonly string[]): Buffer =>
  Buffer.from(
    `*${String(parts.length)}\r\n${parts.map((part) => `$${String(Buffer.byteLength(part))}\r\n${part}\r\n`).join("")}`,
  );

const textsIn = (chunk: Buffer): string[][] => commandsIn(chunk).map((command) => command.map(String));

const someCommands = fc.array(fc.array(fc.string({ unit: "binary" }), { minLength: 1, maxLength: 4 }), {
  maxLength: 4,
});

describe("commandsIn", () => {
  it("finds all commands of a whole chunk", () => {
    fc.assert(
      fc.property(someCommands, (commands) => {
        expect(textsIn(Buffer.concat(commands.map(encode)))).toEqual(commands);
      }),
    );
  });

  it("finds the whole commands before a torn one", () => {
    fc.assert(
      fc.property(
        someCommands,
        fc.array(fc.string(), { minLength: 1, maxLength: 3 }),
        fc.nat(),
        (commands, last, at) => {
          const torn = encode(last);
          const chunk = Buffer.concat([...commands.map(encode), torn.subarray(0, at % torn.length)]);
          expect(textsIn(chunk)).toEqual(commands);
        },
      ),
    );
  });
});

describe("A tap", () => {
  it("sends the same bytes again, even when they are not text", async () => {
    await using server = await startRedis();
    const again = server.client();
    const tap = await Tap.start(server.nodes[0]?.port ?? 0, (name, args) => again.call(name, ...args));
    const client = new Redis(tap.port);
    try {
      await client.ping();
      tap.copies = 1;
      const bytes = Buffer.from([0, 255, 13, 10, 200, 36]);
      await client.eval("return redis.call('APPEND', KEYS[1], ARGV[1])", 1, "bytes", bytes);
      expect(await client.getBuffer("bytes")).toEqual(Buffer.concat([bytes, bytes]));
    } finally {
      client.disconnect();
      await tap.close();
    }
  });

  it("leads new connections to its target, and leaves open ones where they are", async () => {
    await using one = await startRedis();
    await using other = await startRedis();
    const portOf = ({ nodes: [node] }: typeof one): number => node?.port ?? 0;
    const tap = await Tap.start(portOf(one), () => Promise.resolve());
    const serverOf = async (client: Redis): Promise<number> =>
      Number(/tcp_port:(\d+)/.exec(await client.info("server"))?.[1]);
    const [old, young] = [new Redis(tap.port), new Redis(tap.port, { lazyConnect: true })];
    try {
      expect(await serverOf(old)).toBe(portOf(one));
      tap.target = portOf(other);
      expect([await serverOf(old), await serverOf(young)]).toEqual([portOf(one), portOf(other)]);
      expect([tap.linksTo(portOf(one)), tap.linksTo(portOf(other))]).toEqual([1, 1]);
      old.disconnect();
      await eventually(() => expect(tap.linksTo(portOf(one))).toBe(0));
    } finally {
      old.disconnect();
      young.disconnect();
      await tap.close();
    }
  });

  it("sends only scripts again, `copies` times", async () => {
    await using server = await startRedis();
    const again = server.client();
    const tap = await Tap.start(server.nodes[0]?.port ?? 0, (name, args) => again.call(name, ...args));
    const client = new Redis(tap.port);
    try {
      const count = (): Promise<unknown> => client.eval("return redis.call('INCR', KEYS[1])", 1, "count");
      expect(await count()).toBe(1);
      tap.copies = 3;
      await count();
      await client.incr("other");
      await eventually(() => expect(tap.echoes).toHaveLength(3));
      tap.copies = 0;
      expect(await client.mget("count", "other")).toEqual(["5", "1"]);
    } finally {
      client.disconnect();
      await tap.close();
    }
  });

  it("holds a reply back until the copies have theirs, and keeps the order of all replies", async () => {
    await using server = await startRedis();
    const again = server.client();
    let letGo = (): void => undefined;
    const held = new Promise<void>((resolve) => (letGo = resolve));
    const tap = await Tap.start(server.nodes[0]?.port ?? 0, async (name, args) => {
      await held;
      return again.call(name, ...args);
    });
    const client = new Redis(tap.port);
    const heard: unknown[] = [];
    const hear = (reply: unknown): void => void heard.push(reply);
    try {
      await client.ping();
      tap.copies = 1;
      const first = client.eval("return redis.call('INCR', KEYS[1])", 1, "count").then(hear);
      await eventually(async () => expect(await again.get("count")).toBe("1"));
      tap.copies = 0;
      const second = client.ping().then(hear);
      // A round trip of another connection: whatever had been passed on would be here.
      await again.echo("turn");
      expect(heard).toEqual([]);
      letGo();
      await Promise.all([first, second]);
      expect([heard, await again.get("count")]).toEqual([[1, "PONG"], "2"]);
    } finally {
      client.disconnect();
      await tap.close();
    }
  });
});
