import { appendFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { retry } from "@kit/core";
import { attach, type ClientContext } from "@kit/core/toolkit";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { losingOnce, rejection } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as scripts from "../src/scripts/index.js";
import { countWords, fixtureOf, logLines, textOf, wordsOf, writeLog } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const timing = { deadlineMs: 10_000 };

const context = (): ClientContext => {
  const attached = attach(fixture.shared, { prefix: redis.prefix, isolate: false });
  redis.defer(() => attached.detach());
  return attached;
};

/** Resolves with a function that restores the server's present state, like a failover that loses later writes. */
const savePoint = async (): Promise<() => Promise<void>> => {
  const saved = new Map<string, Buffer>();
  for (const key of await redis.keys()) saved.set(key, (await fixture.db.dumpBuffer(key))!);
  return async () => {
    for (const key of await redis.keys()) await fixture.db.del(key);
    for (const [key, dump] of saved) await fixture.db.restore(key, 0, dump);
  };
};

const gate = (): { readonly opened: Promise<void>; open(): void } => {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
};

/** Calls `onCall` before each command of a client, with its arguments as text. */
const spied = (client: Redis, onCall: (args: readonly string[]) => void | Promise<void>): Redis => {
  const call = client.call.bind(client) as (...args: unknown[]) => Promise<unknown>;
  client.call = (async (...args: unknown[]) => {
    await onCall(args.flat().map(String));
    return await call(...args);
  }) as typeof client.call;
  return client;
};

describe("a failover", () => {
  it("gives a lost fence to no other worker, shipper or consumer: their commits would be confused", async () => {
    const { keys } = fixture;
    const at = context();
    const fences = async (op: string): Promise<string[]> => {
      const file = {
        file: op === "first" ? "1-1" : "1-2",
        seen: "",
        prefix: "p",
        likeness: 0,
        name: "x.log",
        stamp: "9 9",
      };
      const source = { source: file.file, mine: "", name: "x.log", codec: "none", limit: 100_000, total: 0 };
      const opening = { ...source, epoch: "e", events: keys.events, chunkBytes: 1_024, expected: [] };
      const alone = { others: "", content: "", position: "", from: "", beginning: [] };
      const joining = { consumer: "c", from: "start", epoch: "e", op };
      const taken = [
        await scripts.claim.run(at, keys, { ...file, leaseMs: 60_000, op, ...alone }, timing),
        await scripts.open.run(at, keys, { ...opening, op }, timing),
        await scripts.join.run(at, keys, joining, timing),
      ];
      return taken.map((reply) => (reply as { fence: string }).fence);
    };
    await fences("first");
    const goBack = await savePoint();
    const lost = await fences("second");
    await goBack();
    const given = await fences("third");
    expect(given.filter((fence) => lost.includes(fence))).toEqual([]);
    expect(given.map((fence, index) => Number(fence) > Number(lost[index]))).toEqual([true, true, true]);
  });

  it("duplicates and loses no line when another file gets the number of a lost one that was being read", async () => {
    const directory = await fixture.directory();
    const [one, two] = [logLines(0, 100), logLines(1_000, 300)];
    const [x, y] = [await writeLog(directory, "x.log", one), await writeLog(directory, "y.log", two)];
    const shipper = fixture.shipper({ codec: "none", chunkBytes: 1_024 });
    await shipper.setLimit(1_000_000);
    const receiver = fixture.receiver();
    const [begun, held] = [gate(), gate()];
    const running = receiver.run(async (lines, results, facts) => {
      await countWords(lines, results, facts);
      begun.open();
      await held.opened;
    });
    await eventually(async () => expect(await fixture.db.exists(fixture.keys.consumers)).toBe(1));
    const goBack = await savePoint();
    await shipper.add(x);
    await begun.opened;
    await goBack();
    for (const path of [y, x]) await shipper.add(path);
    held.open();
    await shipper.closeChannel();
    await running;
    expect(await receiver.results("words")).toEqual(wordsOf([...one, ...two]));
  });

  it("duplicates and loses no line when lost chunks are cut differently, even when damaged files are skipped", async () => {
    const shipper = fixture.shipper({ codec: "none", flushMs: 10 });
    await shipper.setLimit(1_000_000);
    const receiver = fixture.receiver({ onBadData: "skip" });
    const [second, held] = [gate(), gate()];
    let count = 0;
    const running = receiver.run(async (lines, results, facts) => {
      await countWords(lines, results, facts);
      count += lines.length;
      await (count === 1 ? second : held).opened;
    });
    await eventually(async () => expect(await fixture.db.exists(fixture.keys.consumers)).toBe(1));
    const source = new PassThrough();
    const lost = rejection(shipper.send("s", source, { id: "s" }));
    await eventually(async () => expect((await shipper.status())?.files.length).toBe(1));
    const goBack = await savePoint();
    source.write("one\n");
    await eventually(() => expect(count).toBe(1));
    source.write("two\n");
    await eventually(async () => expect((await shipper.status())?.files[0]?.chunks).toBe(2));
    second.open();
    await eventually(() => expect(count).toBe(2));
    await goBack();
    await shipper.send("s", Readable.from(["one\ntwo\nthree\n"]), { id: "s" });
    source.destroy();
    await lost;
    held.open();
    await shipper.closeChannel();
    await running;
    expect(await receiver.results("words")).toEqual(wordsOf(["one", "two", "three"]));
  });
});

describe("a shipper", () => {
  const throughProxy = async (): Promise<{ readonly proxy: FaultProxy; readonly client: Redis }> => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    return { proxy, client };
  };

  it("follows a log through an outage in which the next file starts", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "a.log");
    const { proxy, client } = await throughProxy();
    let opens = 0;
    spied(client, (args) => {
      if (args[0] !== "evalsha" || args[7] !== fixture.keys.consumers || ++opens !== 2) return;
      proxy.refuse = true;
      proxy.resetAll();
    });
    const shipper = fixture.shipper({ client, flushMs: 10, deadlineMs: 300 });
    let outages = 0;
    shipper.on("error", () => {
      if (proxy.refuse) outages++;
      proxy.refuse = false;
    });
    const stop = new AbortController();
    await appendFile(path, "one\n");
    const following = rejection(shipper.follow(path, { quietMs: 0, signal: stop.signal }));
    const linesOf = async (): Promise<unknown> => (await fixture.shipper().status())?.files.map(({ lines }) => lines);
    await eventually(async () => expect(await linesOf()).toEqual([1]));
    await rename(path, `${path}.1`);
    await appendFile(path, "two\nthree\n");
    await eventually(async () => expect(await linesOf()).toEqual([1, 2]));
    expect(outages).toBe(1);
    stop.abort(new Error("enough"));
    expect(await following).toMatchObject({ message: "enough" });
  });

  it("does not ship a stream twice under retry() when the reply to its opening is lost", async () => {
    const { proxy, client } = await throughProxy();
    const shipper = fixture.shipper({ client, deadlineMs: 300 });
    const send = (name: string, options?: { id: string }): Promise<unknown> =>
      shipper.send(name, Readable.from(["x\n"]), options);
    await send("known");
    const nameless = losingOnce(proxy, () => send("nameless"));
    const error = await rejection(retry(nameless.attempt, { waitMs: 20_000 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: undefined, retryable: false });
    await eventually(() => client.ping());
    const named = losingOnce(proxy, () => send("named", { id: "mine" }));
    await retry(named.attempt, { waitMs: 20_000 });
    expect([nameless.tries(), named.tries() > 1]).toEqual([1, true]);
    expect((await fixture.shipper().status())?.files.map(({ name }) => name)).toEqual(["known", "nameless", "named"]);
  });

  it("is not fenced off by its own opening when the reply is lost for longer than a call lasts", async () => {
    await fixture.shipper({ name: "known" }).send("a", Readable.from(["x\n"]));
    const { proxy, client } = await throughProxy();
    const { chunks, consumers } = fixture.keys;
    let [commits, opens] = [0, 0];
    spied(client, (args) => {
      const isCommit = args[0] === "evalsha" && args[6] === chunks;
      const isOpen = args[0] === "evalsha" && args[7] === consumers;
      if ((isCommit && commits++ === 0) || (isOpen && opens++ === 1)) {
        proxy.down.cutNext = 1;
        proxy.refuse = true;
      }
    });
    const shipper = fixture.shipper({ client, codec: "none", chunkBytes: 1_024, deadlineMs: 1_000 });
    const codes: string[] = [];
    shipper.on("error", ({ code }) => {
      codes.push(code);
      proxy.refuse = false;
    });
    const text = textOf(logLines(0, 100));
    expect((await shipper.send("a", Readable.from([text]), { id: "a" })).lines).toBe(100);
    expect([opens > 2, codes.filter((code) => code === "KIT_UNKNOWN_OUTCOME").length]).toEqual([true, 2]);
  });

  it("commits all text of its source after a failed commit, though the source gives no more", async () => {
    const { chunks } = fixture.keys;
    let commits = 0;
    const client = spied(fixture.connect() as Redis, async (args) => {
      const isCommit = args[0] === "evalsha" && args[6] === chunks;
      if (isCommit && commits++ === 0) await fixture.db.unlink(args.find((key) => key.includes(":chunk:"))!);
    });
    const shipper = fixture.shipper({ client, codec: "none", flushMs: 10 });
    const source = new PassThrough();
    const sending = shipper.send("a", source);
    source.write("one\n");
    await eventually(async () => expect((await shipper.status())?.files[0]?.lines).toBe(1));
    expect(commits).toBeGreaterThan(1);
    source.end();
    await sending;
  });

  it("reports no lost data when it seals a file again that every consumer has finished meanwhile", async () => {
    const { keys, db } = fixture;
    await fixture.shipper({ consumers: ["c"] }).send("first", Readable.from(["one\n"]));
    let seals = 0;
    const client = spied(fixture.connect() as Redis, async (args) => {
      const isSeal = args[0] === "evalsha" && args[5] === keys.sources && args[6] === keys.leases;
      if (!isSeal || seals++ > 0) return;
      // As if it was sent before, and its reply lost.
      await db.call(...(args as [string]));
      await fixture.receiver().run(countWords, { until: "empty" });
    });
    const shipper = fixture.shipper({ client });
    const errors: unknown[] = [];
    shipper.on("error", (error) => errors.push(error));
    expect(await shipper.send("a", Readable.from(["two\n"]), { id: "a" })).toMatchObject({ lines: 1 });
    expect([seals, errors]).toEqual([1, []]);
  });

  it("finishes the removal of a silent consumer in which another process died", async () => {
    const { keys, db } = fixture;
    const own = { codec: "none", chunkBytes: 1_024, limitBytes: 60_000, dropSilentMs: 20_000 } as const;
    const shipper = fixture.shipper({ ...own, consumers: ["reads", "silent"] });
    for (const name of ["1", "2", "3"]) await shipper.send(name, Readable.from([textOf(logLines(0, 350))]));
    await fixture.receiver({ consumer: "reads" }).run(countWords, { until: "empty" });
    await db.zadd(keys.seen, 1, "silent");
    const epoch = (await db.hget(keys.channel, "epoch"))!;
    const first = { consumer: "silent", silentMs: 20_000, after: 0, epoch };
    expect((await scripts.drop.run(context(), keys, first, timing))!.after).toBeGreaterThanOrEqual(0);
    const late = fixture.receiver({ consumer: "silent" });
    expect(await rejection(late.run(countWords))).toMatchObject({ code: "KIT_LOGSHIP_DROPPED" });
    expect((await shipper.send("4", Readable.from([textOf(logLines(0, 1_000))]))).lines).toBe(1_000);
    expect((await shipper.status())!.consumers.map(({ name }) => name)).toEqual(["reads"]);
  });
});
