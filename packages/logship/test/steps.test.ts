import { EventEmitter, once } from "node:events";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { attach, type ClientContext, pause } from "@kit/core/toolkit";
import { FaultProxy, useRedis } from "@kit/testing";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { countWords, fixtureOf, logLines, textOf, wordsOf, writeLog } from "./harness.js";
import { start, formatPosition } from "../src/bytes/reading.js";
import * as scripts from "../src/scripts/index.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const position = formatPosition(start);
const timing = { deadlineMs: 10_000 };

describe("one step of a script", () => {
  let context: ClientContext;
  beforeEach(() => {
    context = attach(fixture.shared, { prefix: redis.prefix, isolate: false });
    redis.defer(() => context.detach());
  });

  const claim = (op: string): Promise<scripts.Claim> => {
    const args = {
      file: "1-1",
      seen: op === "a" ? "" : "p",
      prefix: "p",
      likeness: op === "a" ? 0 : 1,
      name: "x.log",
      stamp: "9 9",
      leaseMs: 60_000,
      op,
      ...{ others: "", content: "", position: "", from: "", beginning: [] },
    };
    return scripts.claim.run(context, fixture.keys, args, timing);
  };
  const progress = (
    fence: string,
    results: readonly (string | number)[] = [],
    names: readonly string[] = [],
    own: object = {},
  ): Promise<scripts.Committed> => {
    const { keys } = fixture;
    const targets = names.map((name) => keys.result(name));
    const facts = {
      seq: 1,
      position,
      prefix: "",
      lines: 1,
      doneStamp: "",
      results: JSON.stringify(results.map(String)),
      ...own,
    };
    const args = { content: "1-1", fence, leaseMs: 60_000, events: keys.events, ...facts };
    return scripts.progress.run(context, { ...keys, targets }, args, timing);
  };
  const open = (source: string, mine: string, own: object = {}): ReturnType<typeof scripts.open.run> => {
    const what = { source, mine, name: "x.log", codec: "none", limit: 100_000, epoch: "e", op: `${source} ${mine}` };
    const size = { total: 0, chunkBytes: 1_024 };
    const args = { ...what, ...size, events: fixture.keys.events, expected: ["a", "b"], ...own };
    return scripts.open.run(context, fixture.keys, args, timing);
  };

  it("claim: gives a file to no other worker while a lease runs", async () => {
    expect(await claim("a")).toMatchObject({ state: "claimed" });
    expect(await claim("b")).toMatchObject({ state: "refused" });
  });

  it("progress: refuses the first commit of a worker whose file another one has claimed since", async () => {
    const first = (await claim("a")) as { fence: string };
    await fixture.db.zadd(fixture.keys.claims, 1, "1-1");
    const second = (await claim("b")) as { fence: string };
    expect(await progress(first.fence, ["h+", 1, "f", 1], ["r"])).toEqual({
      state: "fenced",
      by: Number(second.fence),
    });
    expect(await fixture.db.exists(fixture.keys.result("r"))).toBe(0);
    expect((await progress(second.fence, ["h+", 1, "f", 1], ["r"])).state).toBe("committed");
  });

  it.each([
    ["is done with", { doneStamp: "9 9" }],
    ["gave back", { leaseMs: 0 }],
  ])("progress: a late sign of life takes no file that its worker %s", async (_, end) => {
    const { fence } = (await claim("a")) as { fence: string };
    expect(await progress(fence, [], [], end)).toMatchObject({ state: "committed" });
    expect(await progress(fence, [], [], { seq: 0 })).toMatchObject({ state: "committed" });
    expect(await fixture.db.exists(fixture.keys.claims)).toBe(0);
  });

  it.each([
    ["h+", "set"],
    ["h=", "zset"],
    ["s", "hash"],
    ["z", "string"],
  ])("progress: applies no result when one of kind %s meets a %s", async (kind, type) => {
    const { keys, db } = fixture;
    const key = keys.result("other");
    if (type === "set") await db.sadd(key, "m");
    else if (type === "zset") await db.zadd(key, 1, "m");
    else if (type === "hash") await db.hset(key, "f", "1");
    else await db.set(key, "text");
    const { fence } = (await claim("a")) as { fence: string };
    const results = ["h+", 1, "good", 1, kind, 2, "f", 1];
    expect(await progress(fence, results, ["r", "other"])).toEqual({ state: "refused", fault: "type 2" });
    expect(await db.exists(keys.result("r"))).toBe(0);
  });

  it("open: refuses a shipper whose file another one has opened since, and lets it continue after a failover", async () => {
    const mine = (await open("s", "")) as { fence: string; id: number };
    await open("s", "0");
    expect((await open("s", mine.fence)).state).toBe("open");
    const other = (await open("s", "")) as { fence: string };
    expect(Number(other.fence)).toBeGreaterThan(Number(mine.fence));
    await fixture.db.hset(fixture.keys.files, `${String(mine.id)}:op`, "of another");
    expect((await open("s", mine.fence)).state).toBe("fenced");
  });

  it("open: keeps all the space of a passed-through file free, however full those behind it would make the channel", async () => {
    const { keys, db } = fixture;
    const directory = await fixture.directory();
    const path = join(directory, "x.gz");
    const text = textOf(logLines(0, 4_000));
    await writeFile(path, gzipSync(text));
    const total = (await stat(path)).size;
    const [limitBytes, chunkBytes] = [3 * total, 1_024];
    // It is open, and its shipper has died.
    await open("s", "", { codec: "member", limit: limitBytes, total, chunkBytes });
    const receiver = fixture.receiver({ consumer: "a" });
    await fixture.shipper().removeConsumer("b");
    const running = receiver.run(countWords);
    const behind = fixture.shipper({ codec: "none", chunkBytes, client: fixture.connect() });
    const full = new Promise<void>((resolve) => behind.once("waiting", () => resolve()));
    const sending = behind.send("behind", Readable.from([text]));
    await full;
    const [used, reserved] = (await db.hmget(keys.channel, "used", "reserved")).map(Number);
    expect(used! + reserved!).toBeLessThanOrEqual(limitBytes - total);
    expect(used!).toBeGreaterThan(0);
    const shipper = fixture.shipper({ chunkBytes });
    await shipper.add(path, { id: "s", passThrough: true });
    await sending;
    await shipper.closeChannel();
    expect((await running).lines).toBe(8_000);
    expect(await db.hget(keys.channel, "needs")).toBe("");
  });

  it("commit: reserves the next chunk where what is left of the last one's reservation and the free space hold it together", async () => {
    const { keys, db } = fixture;
    const [chunkBytes, leaseMs] = [2_048, 60_000];
    const { id: file, fence } = (await open("s", "", { limit: 4_096, chunkBytes })) as { id: number; fence: string };
    const own = { file, fence, chunkBytes, leaseMs };
    const reserved = await scripts.reserve.run(context, keys, { ...own, want: 0 }, timing);
    const { bytes: unit } = reserved as { bytes: number };
    await db.set(keys.chunk("part"), "x".repeat(500), "PX", leaseMs);
    const facts = [{ part: "part", size: 500, text: 500, crc: 1, lines: 0 }];
    const committing = { ...own, first: 0, want: unit, crcBefore: 0, crcAfter: 1, events: keys.events, facts };
    const written = [keys.chunk("part")];
    const { bytes } = (await scripts.commit.run(context, { ...keys, written }, committing, timing)) as {
      bytes: number;
    };
    expect([2 * unit > 4_096, bytes]).toEqual([true, unit]);
  });

  it("commit: refuses chunks whose reservation has ended, though they are still there", async () => {
    const { keys, db } = fixture;
    const [chunkBytes, leaseMs] = [2_048, 60_000];
    const { id: file, fence } = (await open("s", "", { chunkBytes })) as { id: number; fence: string };
    const own = { file, fence, chunkBytes, leaseMs };
    await scripts.reserve.run(context, keys, { ...own, want: 0 }, timing);
    await db.set(keys.chunk("part"), "x", "PX", leaseMs);
    const facts = [{ part: "part", size: 1, text: 1, crc: 1, lines: 0 }];
    const committing = { ...own, first: 0, want: 0, crcBefore: 0, crcAfter: 1, events: keys.events, facts };
    const commit = async (): Promise<string> =>
      (await scripts.commit.run(context, { ...keys, written: [keys.chunk("part")] }, committing, timing)).state;
    const [lease = "", ending = ""] = await db.zrange(keys.leases, "0", "-1", "WITHSCORES");
    await db.zadd(keys.leases, "1", lease);
    expect([await commit(), await db.exists(keys.chunks)]).toEqual(["expired", 0]);
    await db.zadd(keys.leases, ending, lease);
    expect([await commit(), await db.exists(keys.chunks)]).toEqual(["committed", 1]);
  });

  it("open and join: give the same fence when they are repeated, so that no process is fenced off by its own copy", async () => {
    const first = await open("s", "");
    expect(await open("s", "")).toEqual(first);
    const join = (op: string): Promise<scripts.Joined> =>
      scripts.join.run(context, fixture.keys, { consumer: "a", from: "start", epoch: "e", op }, timing);
    const joined = await join("one");
    expect(await join("one")).toEqual(joined);
    expect(await join("another")).not.toEqual(joined);
  });

  it("open and join: reuse no fence of a deleted channel, however many it gave within a moment", async () => {
    const { keys } = fixture;
    const discard = (isLast: number): Promise<string[]> =>
      scripts.discard.run(context, { ...keys, targets: [] }, { epoch: "e", isLast, events: keys.events }, timing);
    const join = async (op: string): Promise<string> => {
      const args = { consumer: "a", from: "start", epoch: "e", op };
      return ((await scripts.join.run(context, keys, args, timing)) as { fence: string }).fence;
    };
    const opening = Array.from({ length: 2_000 }, (_, index) => open("s", "", { op: String(index) }));
    const given = new Set((await Promise.all(opening)).map((opened) => (opened as { fence: string }).fence));
    expect(given.add(await join("one")).size).toBe(2_001);
    for (const isLast of [0, 1]) await discard(isLast);
    const { fence } = (await open("s", "")) as { fence: string };
    const joined = await join("another");
    expect([given.has(fence), given.has(joined), fence === joined]).toEqual([false, false, false]);
    // It was not cut on its way into the record.
    const look = { consumer: "a", fence: joined, after: 0, most: 1 };
    expect((await scripts.look.run(context, keys, look, timing)).state).toBe("seen");
  });

  it("discard and forget: delete nothing of a later channel or job when a copy of the call arrives late", async () => {
    const { keys, db } = fixture;
    const discard = (epoch: string, isLast: number): Promise<string[]> =>
      scripts.discard.run(context, { ...keys, targets: [] }, { epoch, isLast, events: keys.events }, timing);
    await open("s", "", { epoch: "first" });
    for (const isLast of [0, 1]) await discard("first", isLast);
    expect(await redis.keys()).toEqual([]);
    await open("s", "", { epoch: "second" });
    for (const isLast of [0, 1]) await discard("first", isLast);
    expect(await db.hget(keys.channel, "epoch")).toBe("second");
    expect(await db.exists(keys.files, keys.live, keys.sources)).toBe(3);

    const forget = (fence: string): Promise<string> =>
      scripts.forget.run(context, { ...keys, targets: [] }, { fence }, timing);
    const { fence } = (await claim("a")) as { fence: string };
    await db.del(keys.claims);
    expect(await forget(fence)).toBe("deleted");
    await claim("a");
    await db.del(keys.claims);
    expect(await forget(fence)).toBe("changed");
    expect(await db.exists(keys.progress)).toBe(1);
  });

  it("change, drop and seal: touch nothing of a later channel when a copy of the call arrives late", async () => {
    const { keys, db } = fixture;
    const { events } = keys;
    const first = (await open("s", "", { epoch: "first" })) as { id: number; fence: string };
    for (const isLast of [0, 1])
      await scripts.discard.run(context, { ...keys, targets: [] }, { epoch: "first", isLast, events }, timing);
    const later = (await open("s", "", { epoch: "second", limit: 99_000 })) as { id: number };
    expect(later.id).toBe(first.id);
    for (const limit of ["", 50_000])
      await scripts.change.run(context, keys, { limit, epoch: "first", events }, timing);
    await scripts.drop.run(context, keys, { consumer: "a", silentMs: 0, after: 0, epoch: "first" }, timing);
    const sealing = {
      file: first.id,
      fence: first.fence,
      count: 0,
      sha256: "",
      fault: "KIT_LOGSHIP_FENCED",
      silentMs: 0,
    };
    expect(await scripts.seal.run(context, keys, { ...sealing, events }, timing)).toBe("fenced");
    expect(await db.hmget(keys.channel, "closed", "limit", "dropped a")).toEqual([null, "99000", null]);
    expect(await db.hget(keys.files, `${String(later.id)}:state`)).toBe("open");
  });

  it("advance: refuses a commit if the chunk that it ends in is gone, or was shipped again since it was read", async () => {
    const { keys, db } = fixture;
    const { id } = (await open("s", "")) as { id: number };
    const joining = { consumer: "a", from: "start", epoch: "e", op: "a" };
    const { fence } = (await scripts.join.run(context, keys, joining, timing)) as { fence: string };
    const advance = async (part: string): Promise<string> => {
      const at = { consumer: "a", fence, file: id, seq: 1, chunk: 0, state: "open", position, cause: "" };
      const args = { ...at, place: `0 ${part}`, results: "[]" };
      return (await scripts.advance.run(context, { ...keys, targets: [] }, args, timing)).state;
    };
    expect(await advance("read")).toBe("moved");
    await db.hset(keys.chunks, `${id} 0`, "anew 1 1 0 0 0 0");
    expect(await advance("read")).toBe("moved");
    expect(await db.exists(keys.positions)).toBe(0);
    expect(await advance("anew")).toBe("committed");
  });

  it("advance: keeps a file until the last consumer is done, even an empty one", async () => {
    const { keys, db } = fixture;
    const { id, fence } = (await open("s", "")) as { id: number; fence: string };
    const sealing = { file: id, fence, count: 0, sha256: "", fault: "", silentMs: -1, events: keys.events };
    expect(await scripts.seal.run(context, keys, sealing, timing)).toBe("sealed");
    const finish = async (consumer: string): Promise<void> => {
      const joined = await scripts.join.run(
        context,
        keys,
        { consumer, from: "start", epoch: "e", op: consumer },
        timing,
      );
      const at = { consumer, fence: (joined as { fence: string }).fence, file: id, seq: 1, chunk: 0, position };
      const args = { ...at, state: "done", cause: "", place: "", results: "[]" };
      expect((await scripts.advance.run(context, { ...keys, targets: [] }, args, timing)).state).toBe("committed");
    };
    await finish("a");
    expect(await db.zrange(keys.live, "0", "-1")).toEqual([String(id)]);
    await finish("b");
    expect(await db.zrange(keys.live, "0", "-1")).toEqual([]);
  });
});

describe("a commit whose reply is lost", () => {
  // From here on the server has each script, so that a lost reply is that of a commit.
  beforeEach(async () => {
    const directory = await fixture.directory();
    const path = await writeLog(directory, "a.log", ["one"]);
    await fixture.job({ name: "known", directory }).run(countWords);
    await fixture.shipper({ name: "known" }).add(path);
    await fixture.receiver({ name: "known" }).run(countWords, { until: "empty" });
  });

  /** A client through a proxy that loses the reply to the first command that `isLost` picks. */
  const losing = async (
    isLost: (args: readonly string[]) => boolean,
  ): Promise<{ readonly client: Redis; readonly proxy: FaultProxy }> => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    let isSent = false;
    const call = client.call.bind(client) as (...args: unknown[]) => Promise<unknown>;
    client.call = ((...args: unknown[]) => {
      if (!isSent && isLost(args.flat().map(String))) {
        isSent = true;
        proxy.down.cutNext = 1;
      }
      return call(...args);
    }) as typeof client.call;
    return { client, proxy };
  };

  it("has one effect: of a job", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 50);
    await writeLog(directory, "a.log", lines);
    const { client, proxy } = await losing(
      (args) => args[0] === "evalsha" && args.some((text) => text.includes('"h+"')),
    );
    const job = fixture.job({ directory, client, leaseMs: 60_000 });
    expect(await job.run(countWords)).toEqual({ files: 1, lines: 50 });
    expect([proxy.stats.resets, proxy.stats.droppedBytes > 0]).toEqual([1, true]);
    expect(await job.results("words")).toEqual(wordsOf(lines));
  });

  it("has one effect: of a receiver", async () => {
    const lines = logLines(0, 50);
    const directory = await fixture.directory();
    // The other consumer keeps the file in the channel.
    await fixture.shipper({ consumers: ["other"] }).add(await writeLog(directory, "a.log", lines));
    const { client, proxy } = await losing(
      (args) => args[0] === "evalsha" && args.some((text) => text.includes('"h+"')),
    );
    const receiver = fixture.receiver({ client });
    expect(await receiver.run(countWords, { until: "empty" })).toEqual({ files: 1, lines: 50 });
    expect([proxy.stats.resets, proxy.stats.droppedBytes > 0]).toEqual([1, true]);
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
  });

  it("has one effect: of a shipper", async () => {
    const lines = logLines(0, 500);
    const directory = await fixture.directory();
    const path = await writeLog(directory, "a.log", lines);
    const { chunks } = fixture.keys;
    const { client, proxy } = await losing((args) => args[0] === "evalsha" && args[6] === chunks);
    const shipper = fixture.shipper({ client, codec: "none", chunkBytes: 1_024, maxInFlight: 4 });
    expect((await shipper.add(path)).lines).toBe(500);
    expect([proxy.stats.resets, proxy.stats.droppedBytes > 0]).toEqual([1, true]);
    const receiver = fixture.receiver();
    expect((await receiver.run(countWords, { until: "empty" })).lines).toBe(500);
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
    const { usedBytes, reservedBytes } = (await shipper.status())!;
    expect([usedBytes, reservedBytes]).toEqual([0, 0]);
  });
});

it("fills space once, though the reply to a reservation is handled after that to a later commit", async () => {
  const { chunks, channel, leases } = fixture.keys;
  const [limitBytes, chunkBytes, leaseMs] = [98_304, 2_048, 1_000];
  const chunk = `${"x".repeat(63)}\n`.repeat(32);
  const settings = { limitBytes, chunkBytes, leaseMs, codec: "none", maxInFlight: 4 } as const;
  await fixture.shipper(settings).send("before", Readable.from([chunk.repeat(26)]));
  const unit = (await fixture.shipper().status())!.usedBytes / 26;

  const client = new Redis({ port: redis.server.nodes[0]!.port });
  redis.defer(() => client.disconnect());
  const call = client.call.bind(client) as (...args: unknown[]) => Promise<unknown>;
  const over: number[] = [];
  let uncommitted = 0;
  let late = 0;
  let reserving: Promise<unknown> = Promise.resolve();
  const commits = new EventEmitter();
  const withLateReplies = async (...args: unknown[]): Promise<unknown> => {
    const texts = args.flat().map(String);
    if (texts[0] === "SET") {
      uncommitted++;
      const reply = await call(...args);
      const [held, keys] = (await fixture.db
        .multi()
        .hmget(channel, "used", "reserved")
        .keys(fixture.keys.chunk("*"))
        .exec())!.map(([, found]) => found as string[]);
      over.push(keys!.length * unit - Number(held![0]) - Number(held![1] ?? 0));
      return reply;
    }
    const isScript = texts[0]!.toLowerCase() === "evalsha";
    if (isScript && texts[6] === leases) {
      const sent = call(...args);
      reserving = sent;
      if (uncommitted === 0) return await sent;
      late++;
      const reply = await sent;
      await once(commits, "handled");
      return reply;
    }
    if (!isScript || texts[6] !== chunks) return await call(...args);
    // The reservation that is asked for beside it comes first. Half a lease later the next one is asked for.
    await pause(0);
    await reserving;
    const [reply] = await Promise.all([call(...args), pause(leaseMs / 2)]);
    uncommitted -= texts.filter((text) => text.startsWith(fixture.keys.chunk(""))).length;
    setImmediate(() => commits.emit("handled"));
    return reply;
  };
  client.call = withLateReplies as typeof client.call;
  const shipper = fixture.shipper({ ...settings, client });
  const full = new AbortController();
  shipper.on("waiting", () => full.abort());
  const sending = shipper.send("more", Readable.from([chunk.repeat(20)]), { signal: full.signal });
  await expect(sending).rejects.toThrow("aborted");
  expect(late).toBeGreaterThan(0);
  expect(Math.max(...over)).toBeLessThanOrEqual(0);
});
