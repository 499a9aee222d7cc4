import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, lstatSync, symlinkSync, unlinkSync } from "node:fs";
import { mkdir, realpath, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough, Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { crc32, gzipSync } from "node:zlib";
import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Redis } from "ioredis";
import type { Shipper } from "../src/index.js";
import { defaultsOf, resolve } from "@kit/core/toolkit";
import { lineRules } from "../src/bytes/lines.js";
import { readingOf, Restarts, start } from "../src/bytes/reading.js";
import { type CommitOperands, type FlushOptions, flushRules, runFile } from "../src/process/runner.js";
import { countWords, fixtureOf, logLines, textOf, wordsOf, writeLog } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

describe("shipping", () => {
  it("cuts files of whole chunks, and of a byte more or less", async () => {
    for (const size of [0, 1, 1_023, 1_024, 1_025, 3_071, 3_072, 3_073]) {
      const shipper = fixture.shipper({ name: String(size), codec: "none", chunkBytes: 1_024 });
      const bytes = Buffer.alloc(size, "0123456789\n");
      const { sha256, textBytes } = await shipper.send("a", Readable.from([bytes]));
      expect([size, textBytes, sha256]).toEqual([size, size, createHash("sha256").update(bytes).digest("hex")]);
      expect((await shipper.status())!.files[0]!.chunks).toBe(Math.ceil(size / 1_024));
      const parts: Buffer[] = [];
      for await (const file of fixture.receiver({ name: String(size) }).files({ until: "empty" }))
        for await (const part of file.bytes()) parts.push(part);
      expect(Buffer.concat(parts).equals(bytes)).toBe(true);
    }
  });

  it("rejects with the error of a stream that fails before it is read", async () => {
    const stream = createReadStream("/nowhere/a.log");
    const sent = rejection(fixture.shipper().send("a", stream));
    expect(stream.listenerCount("error")).toBe(1);
    expect(await sent).toMatchObject({ code: "ENOENT" });
  });

  it("recognises gzip by content and not by name, like a job", async () => {
    const directory = await fixture.directory();
    await writeFile(join(directory, "plain.gz"), "w1 plain\n");
    await writeFile(join(directory, "packed.log"), gzipSync("w2 packed\n"));
    const job = fixture.job({ name: "job", directory });
    expect(await job.run(countWords)).toEqual({ files: 2, lines: 2 });
    const expected = new Map([
      ["w1", "1"],
      ["w2", "1"],
    ]);
    expect(await job.results("words")).toEqual(expected);
    await fixture.shipper().addDirectory(directory);
    const receiver = fixture.receiver();
    await receiver.run(countWords, { until: "empty" });
    expect(await receiver.results("words")).toEqual(expected);
  });

  it("counts for each chunk the memory that it takes in Redis", async () => {
    for (const codec of ["none", "gzip"] as const) {
      const shipper = fixture.shipper({ name: codec, codec, chunkBytes: 5_000 });
      await shipper.send("a", Readable.from([textOf(logLines(0, 5_000))]));
      let memory = 0;
      for (const key of await redis.keys())
        if (key.includes(`{${codec}}:chunk:`)) memory += Number(await fixture.db.call("MEMORY", "USAGE", key));
      const { usedBytes } = (await shipper.status())!;
      expect(memory).toBeGreaterThan(5_000);
      expect(memory).toBeLessThanOrEqual(usedBytes);
      expect(usedBytes).toBeLessThan(1.05 * memory);
    }
  });
});

describe("a source that is no stream", () => {
  it("is refused before anything is sent", async () => {
    for (const wrong of [["an array is no stream"], undefined])
      expect(await rejection(fixture.shipper().send("a", wrong as never, { id: "a" }))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });
});

describe("a directory", () => {
  it("is matched by a global expression like by any other", async () => {
    const directory = await fixture.directory();
    const names = ["access.1", "access.2", "access.3", "access.4"];
    for (const name of names) await writeFile(join(directory, name), `${name}\n`);
    expect((await fixture.job({ directory, match: /^access/g }).run(countWords)).files).toBe(4);
    const shipped = await fixture.shipper().addDirectory(directory, { match: /^access/g });
    expect(shipped.map(({ name }) => name)).toEqual(names);
  });
});

describe("links in a directory", () => {
  /** Links to a file beside the directory, to one below it, and to one in it. */
  const linked = async (name: string) => {
    const around = await realpath(await fixture.directory());
    const directory = join(around, "logs");
    await mkdir(join(directory, "old"), { recursive: true });
    const outside = await writeLog(around, "secret", ["secret"]);
    await writeLog(join(directory, "old"), "first", ["first"]);
    for (const [link, target] of [
      [`${name}.1`, "../secret"],
      [`${name}.2`, "old/first"],
      [`${name}.3`, name],
      ["elsewhere", outside],
    ] as const)
      await symlink(target, join(directory, link));
    const path = await writeLog(directory, name, ["now"]);
    return { directory, path, skipped: { file: `${name}.1`, target: outside } };
  };
  /** The directory may be given as a link. */
  const linkTo = async (directory: string): Promise<string> => {
    const link = join(await fixture.directory(), "link");
    await symlink(directory, link);
    return link;
  };

  it("is left out if it took the place of a file after the directory was listed, and so is a file that vanished", async () => {
    const directory = await fixture.directory();
    const outside = await writeLog(await realpath(await fixture.directory()), "secret", ["secret"]);
    const [, second, third] = await Promise.all(["a", "b", "c"].map((name) => writeLog(directory, name, [name])));
    const shipper = fixture.shipper();
    const left: unknown[] = [];
    shipper.on("skipped", (link) => left.push(link));
    shipper.on("progress", () => {
      unlinkSync(second!);
      symlinkSync(outside, second!);
      unlinkSync(third!);
    });
    expect((await shipper.addDirectory(directory)).map(({ name }) => name)).toEqual(["a"]);
    expect(left).toEqual([{ file: "b", target: outside }]);
  });

  it.each(["pipe", "socket"])("is left out if a %s took its place, which nobody writes to", async (kind) => {
    const directory = await fixture.directory();
    const [, second] = await Promise.all(["a", "b", "c"].map((name) => writeLog(directory, name, [name])));
    const shipper = fixture.shipper();
    shipper.once("progress", () => {
      unlinkSync(second!);
      const socket =
        "require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))";
      if (kind === "pipe") execFileSync("mkfifo", [second!]);
      else spawnSync(process.execPath, ["-e", socket, second!]);
    });
    expect((await shipper.addDirectory(directory)).map(({ name }) => name)).toEqual(["a", "c"]);
    expect(lstatSync(second!).isFile()).toBe(false);
  });

  it("are followed by a shipper to files of the directory, and out of it only where that is asked for", async () => {
    const { directory, skipped } = await linked("access");
    const shipper = fixture.shipper();
    const left: unknown[] = [];
    shipper.on("skipped", (link) => left.push(link));
    const match = /^access/;
    const names = async (dereference?: boolean) =>
      (await shipper.addDirectory(await linkTo(directory), { match, dereference })).map(({ name }) => name);
    expect(await names()).toEqual(["access", "access.2"]);
    expect(left).toEqual([skipped]);
    expect(await names(true)).toEqual(["access", "access.1", "access.2"]);
    expect(left).toHaveLength(1);
  });

  it("are followed by a job to files of the directory, and out of it only where that is asked for", async () => {
    const { directory, skipped } = await linked("access");
    const job = fixture.job({ directory: await linkTo(directory), match: /^access/ });
    const left: unknown[] = [];
    job.on("skipped", (link) => left.push(link));
    expect(await job.run(countWords)).toMatchObject({ files: 2 });
    expect(left).toEqual([skipped]);
    expect(await fixture.job({ directory, dereference: true }).run(countWords)).toMatchObject({ files: 1 });
  });

  it.each([undefined, true])(
    "are no rotated files if they lead out of the directory: dereference %s",
    async (dereference) => {
      const { path, skipped } = await linked("app.log");
      const shipper = fixture.shipper({ flushMs: 10, consumers: ["c"] });
      const left: unknown[] = [];
      shipper.on("skipped", (link) => left.push(link));
      const controller = new AbortController();
      const following = shipper.follow(path, { dereference, quietMs: 0, signal: controller.signal });
      const seen: string[] = [];
      const receiver = fixture.receiver({ consumer: "c" });
      const receiving = receiver.run((lines) => void seen.push(...lines), { signal: controller.signal });
      await eventually(() => expect(seen).toContain("now"), { timeoutMs: 100_000 });
      controller.abort();
      await Promise.allSettled([following, receiving]);
      expect(seen.toSorted()).toEqual(dereference ? ["first", "now", "secret"] : ["first", "now"]);
      expect(left).toEqual(dereference ? [] : [skipped]);
    },
  );
});

describe("results that cannot be stored", () => {
  it("leave nothing of their commit, even when a field looks like an integer but is none for Redis", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "a.log", ["x"]);
    const job = fixture.job({ directory });
    for (const value of ["007", "-0"]) {
      await fixture.db.hset(job.resultKey("r"), "f", value);
      const running = job.run((_, results) => void results.increment("r", "a").increment("r", "f"));
      expect(await rejection(running)).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
      expect(await job.results("r")).toEqual(new Map([["f", value]]));
    }
  });

  it("leave nothing of their commit where a field or member is no text", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "a.log", ["x"]);
    const job = fixture.job({ directory });
    const none = undefined as unknown as string;
    for (const kind of ["increment", "rank", "set", "add"] as const) {
      const running = job.run((_, results) => void results.increment("r", "a")[kind]("s", none, none as never));
      expect(await rejection(running)).toBeInstanceOf(TypeError);
    }
    expect(await job.results("r")).toEqual(new Map());
  });

  it("are refused at once when their name has a lone surrogate, and so is such a consumer", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "a.log", ["x"]);
    const refused: unknown[] = [];
    await fixture.job({ directory }).run((_, results) => {
      for (const name of ["\ud83d", "", "x".repeat(401)])
        try {
          results.increment(name, "f");
        } catch (error) {
          refused.push(error);
        }
    });
    expect(refused).toEqual([
      new RangeError("Expected `name` to be well-formed Unicode"),
      new RangeError("Expected `name` to have 1 to 400 characters, got 0"),
      new RangeError("Expected `name` to have 1 to 400 characters, got 401"),
    ]);
    expect(() => fixture.receiver({ consumer: "\ud83d" })).toThrow("Expected `consumer` to be well-formed Unicode");
  });
});

describe("a writable stream", () => {
  it.each<[string, (shipper: Shipper) => Promise<unknown>]>([
    ["is destroyed with an error", async (shipper) => begun(shipper).then((cut) => cut.destroy(new Error("enough")))],
    ["is destroyed", async (shipper) => begun(shipper).then((cut) => cut.destroy())],
    [
      "has a source that breaks",
      async (shipper) => {
        const source = Readable.from(
          (async function* () {
            yield "one\n";
            await stored(shipper);
            throw new Error("enough");
          })(),
        );
        await rejection(pipeline(source, shipper.writable("cut")));
      },
    ],
    [
      "is aborted as a web stream",
      async (shipper) => {
        const writer = shipper.webWritable("cut").getWriter();
        writer.closed.catch(() => undefined);
        await writer.write("one\n");
        await stored(shipper);
        await writer.abort(new Error("enough"));
      },
    ],
  ])("ends its file as interrupted where it %s", async (_, cut) => {
    const shipper = fixture.shipper({ flushMs: 10 });
    await cut(shipper);
    await eventually(async () => expect((await shipper.status())!.files[0]!.fault).toBe("KIT_LOGSHIP_INTERRUPTED"));
  });

  it("finishes when its file is sealed, and fails when its file fails", async () => {
    const shipper = fixture.shipper();
    await pipeline(Readable.from(["one\n", "two\n"]), shipper.writable("whole"));
    expect((await shipper.status())!.files[0]).toMatchObject({ isSealed: true, lines: 2 });
    await shipper.closeChannel();
    const failed = once(shipper.writable("late"), "error");
    expect((await failed)[0]).toMatchObject({ code: "KIT_LOGSHIP_CHANNEL_CLOSED" });
  });
});

const stored = (shipper: Shipper): Promise<unknown> =>
  eventually(async () => expect((await shipper.status())?.files[0]?.chunks).toBe(1));

const begun = async (shipper: Shipper): Promise<Writable> => {
  const cut = shipper.writable("cut");
  cut.on("error", () => undefined);
  cut.write("one\n");
  await stored(shipper);
  return cut;
};

/** A client that counts the chunks that are fetched through it. */
const countingClient = (): { readonly client: Redis; fetched(): number } => {
  const client = fixture.connect() as Redis;
  let chunks = 0;
  const get = client.mgetBuffer.bind(client) as (...args: unknown[]) => Promise<(Buffer | null)[]>;
  client.mgetBuffer = ((...args: unknown[]) => {
    chunks += args.length;
    return get(...args);
  }) as typeof client.mgetBuffer;
  return { client, fetched: () => chunks };
};

describe("a receiver", () => {
  it("refuses a chunk that states more text than a shipper frames, and inflates nothing of it", async () => {
    await fixture.shipper().send("a", Readable.from(["a\n"]));
    const bomb = gzipSync(Buffer.alloc(2_097_153, "a\n"));
    const [part = "", , , , ...rest] = (await fixture.db.hget(fixture.keys.chunks, "1 0"))!.split(" ");
    await fixture.db.set(fixture.keys.chunk(part), bomb);
    await fixture.db.hset(fixture.keys.chunks, "1 0", [part, bomb.length, 2_097_153, crc32(bomb), ...rest].join(" "));
    expect(await rejection(fixture.receiver().run(countWords, { until: "empty" }))).toMatchObject({
      code: "KIT_LOGSHIP_BAD_DATA",
      message: expect.stringContaining("its text size is too large") as string,
    });
  });

  it("fetches no more than prefetchBytes ahead, and nothing once its reader has left", async () => {
    await fixture.shipper({ codec: "none", chunkBytes: 1_024 }).send("a", Readable.from([textOf(logLines(0, 3_000))]));
    const { client, fetched } = countingClient();
    const receiver = fixture.receiver({ client, prefetchBytes: 4_096 });
    let delivered = 0;
    for await (const file of receiver.files({ until: "empty" })) {
      for await (const { lines } of file.batches()) {
        expect(lines.length).toBeGreaterThan(0);
        delivered++;
        for (let turn = 0; turn < 20; turn++) await fixture.db.ping();
        // The one that is delivered, and the next whose beginning ends its last line.
        expect(fetched()).toBeLessThanOrEqual(delivered + 5);
        if (delivered === 10) break;
      }
      break;
    }
    const before = fetched();
    for (let turn = 0; turn < 20; turn++) await fixture.db.ping();
    expect([before >= 10, fetched()]).toEqual([true, before]);
    expect((await fixture.receiver().run(countWords, { until: "empty" })).lines).toBe(3_000);
  });

  it("does not end a file whose text is not the shipped one, though each of its chunks is whole", async () => {
    await fixture.shipper({ codec: "none" }).send("a", Readable.from(["one\ntwo\n"]));
    const { id } = (await fixture.shipper().status())!.files[0]!;
    const [field, receiver] = [`${id}:crc`, fixture.receiver()];
    const shipped = (await fixture.db.hget(fixture.keys.files, field))!;
    await fixture.db.hset(fixture.keys.files, field, "1");
    expect(await rejection(receiver.run(countWords, { until: "empty" }))).toMatchObject({
      code: "KIT_LOGSHIP_BAD_DATA",
      message: expect.stringContaining("received text differs from the shipped file") as string,
    });
    await fixture.db.hset(fixture.keys.files, field, shipped);
    await fixture.receiver().run(countWords, { until: "empty" });
    expect(await receiver.results("words")).toEqual(wordsOf(["one", "two"]));
  });

  it("holds no more text than it may fetch ahead, however well that was compressed", async () => {
    const line = `${"x".repeat(1_023)}\n`;
    await fixture.shipper().send("a", Readable.from([line.repeat(16_384)]));
    const { chunks, storedBytes } = (await fixture.shipper().status())!.files[0]!;
    expect([chunks > 12, storedBytes < 200_000]).toEqual([true, true]);
    const { client, fetched } = countingClient();
    const files = fixture.receiver({ client, prefetchBytes: 2_097_152 }).files({ until: "empty" });
    await (await files.next()).value!.batches().next();
    for (let turn = 0; turn < 50; turn++) await fixture.db.ping();
    expect([fetched() > 0, fetched() <= 5]).toEqual([true, true]);
    await files.return();
  });

  it("yields each line once, in order, to a caller that requests many at a time, and ends after return()", async () => {
    const lines = logLines(0, 3_000);
    await fixture.shipper({ chunkBytes: 1_024, codec: "none" }).send("a", Readable.from([textOf(lines)]));
    for (const most of [3_000, 1_000]) {
      for await (const file of fixture.receiver().files({ until: "empty" })) {
        const reading = file.lines();
        const taken = await Promise.all(lines.slice(0, most).map(() => reading.next()));
        expect(taken.map(({ value }) => value as string)).toEqual(lines.slice(0, most));
        await reading.return?.();
        expect(await reading.next()).toEqual({ done: true, value: undefined });
        // A reader that returns before the end is not done with the file.
        if (most === 1_000) await file.commit();
      }
    }
    expect((await fixture.receiver().run(countWords, { until: "empty" })).lines).toBe(2_000);
  });

  it("stays below the server's output buffer limit, with several of them in one process", async () => {
    const lines = logLines(0, 60_000);
    await fixture.shipper({ codec: "none" }).send("a", Readable.from([textOf(lines)]));
    await fixture.db.config("SET", "client-output-buffer-limit", "normal 1500000 0 0");
    redis.defer(() => fixture.db.config("SET", "client-output-buffer-limit", "normal 0 0 0"));
    const receivers = ["a", "b", "c"].map((consumer) =>
      fixture.receiver({ consumer, isolate: true, prefetchBytes: 1_000_000 }),
    );
    const errors: unknown[] = [];
    for (const receiver of receivers) receiver.on("error", (error) => errors.push(error));
    const running = receivers.map((receiver) => receiver.run(countWords, { until: "empty" }));
    for (const { lines: count } of await Promise.all(running)) expect(count).toBe(60_000);
    expect(errors).toEqual([]);
  });

  it("ends when it is aborted in the middle, and the next one continues behind its last commit", async () => {
    const lines = logLines(0, 3_000);
    await fixture.shipper({ chunkBytes: 1_024 }).send("a", Readable.from([textOf(lines)]));
    const controller = new AbortController();
    const receiver = fixture.receiver({ flushLines: 100 });
    let seen = 0;
    const running = receiver.run(
      async (some, results, context) => {
        await countWords(some, results, context);
        if ((seen += some.length) > 1_000) controller.abort(new Error("enough"));
      },
      { signal: controller.signal },
    );
    expect(await rejection(running)).toMatchObject({ message: "enough" });
    expect((await receiver.run(countWords, { until: "empty" })).lines).toBeLessThan(3_000);
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
  });

  it("goes back, in the same run, to a file whose last commit a failover lost", async () => {
    const shipper = fixture.shipper({ consumers: ["other"] });
    await shipper.send("a", Readable.from(["one\n"]));
    const client = fixture.connect() as Redis;
    const receiver = fixture.receiver({ client });
    const done: string[] = [];
    receiver.on("done", ({ file }) => done.push(file));
    const running = receiver.run(countWords);
    await eventually(() => expect(done).toEqual(["a"]));
    await fixture.db.del(fixture.keys.positions, receiver.resultKey("words"));
    client.disconnect(true);
    await eventually(() => expect(done).toEqual(["a", "a"]));
    await shipper.closeChannel();
    expect((await running).files).toBe(2);
    expect(await receiver.results("words")).toEqual(new Map([["one", "1"]]));
  });

  it("stores each result once when commits are not awaited, and loses none that is collected meanwhile", async () => {
    const lines = logLines(0, 500);
    await fixture.shipper({ chunkBytes: 1_024 }).send("a", Readable.from([textOf(lines)]));
    const receiver = fixture.receiver();
    for await (const file of receiver.files({ until: "empty" })) {
      const { results } = file;
      const commits: Promise<void>[] = [];
      for await (const line of file.lines()) {
        results.increment("words", line.split(" ", 1)[0]!);
        if (commits.length < 20) commits.push(file.commit());
      }
      await Promise.all(commits);
      await file.commit();
    }
    expect(await receiver.results("words")).toEqual(wordsOf(lines));
  });

  it("keeps no chunk of a file that it skipped, however much of it is shipped afterwards", async () => {
    const shipper = fixture.shipper({ codec: "none", chunkBytes: 1_024, flushMs: 10, limitBytes: 20_000 });
    const source = new PassThrough();
    const sending = shipper.send("a", source);
    const receiver = fixture.receiver({ maxLineBytes: 1_000, onBadData: "skip" });
    const running = receiver.run(countWords);
    source.write(`${"x".repeat(3_000)}\n`);
    await eventually(async () => expect((await fixture.db.hvals(fixture.keys.positions))[0]).toMatch(/ done /));
    source.end(textOf(logLines(0, 3_000)));
    await sending;
    const { usedBytes, fileCount } = (await shipper.status())!;
    expect([usedBytes, fileCount]).toEqual([0, 0]);
    await shipper.closeChannel();
    expect((await running).files).toBe(0);
  });

  it("is one of ten: chunks are freed when the last one has passed them, and not before", async () => {
    const names = Array.from({ length: 10 }, (_, index) => `c${String(index)}`);
    const shipper = fixture.shipper({ codec: "none", chunkBytes: 1_024, consumers: names });
    await shipper.send("a", Readable.from([textOf(logLines(0, 500))]));
    const { usedBytes } = (await shipper.status())!;
    for (const consumer of names) {
      expect((await shipper.status())!.usedBytes).toBe(usedBytes);
      const receiver = fixture.receiver({ consumer });
      expect((await receiver.run(countWords, { until: "empty" })).lines).toBe(500);
    }
    expect((await shipper.status())!.usedBytes).toBe(0);
  });
});

describe("results are committed", () => {
  const blocks = 8;
  const linesPerBlock = 1_000;

  /** How many lines each commit had. All blocks are there at once: no pause of a disk comes in between. */
  const commits = async (options: FlushOptions, everyBlock?: () => Promise<void>): Promise<number[]> => {
    async function* text(): AsyncGenerator<Buffer, void, undefined> {
      for (let at = 0; at < blocks; at++) yield Buffer.from("x".repeat(9).concat("\n").repeat(linesPerBlock));
    }
    const each: number[] = [];
    const never = { flushLines: 1e9, flushBytes: 1e9, flushMs: 3_600_000 };
    const run = {
      reading: readingOf({ blocks: text(), restarts: new Restarts(true) }, start, defaultsOf(lineRules), "all"),
      position: start,
      seq: 0,
      flush: resolve("options", { ...never, ...options }, flushRules),
      context: { file: "a.log", signal: new AbortController().signal },
      commit: ({ lines }: CommitOperands) => Promise.resolve(void each.push(lines)),
      padded: () => undefined,
    };
    expect(await runFile(run, () => everyBlock?.())).toBe(blocks * linesPerBlock);
    return each.filter((lines) => lines > 0);
  };

  it("by lines, by bytes, by time, and at the end of a file", async () => {
    expect(await commits({})).toEqual([8_000]);
    expect(await commits({ flushLines: 3_000 })).toEqual([3_000, 3_000, 2_000]);
    expect(await commits({ flushBytes: 30_001 })).toEqual([4_000, 4_000]);
    const longEnough = async () => {
      const until = performance.now() + 20;
      await eventually(() => expect(performance.now()).toBeGreaterThan(until));
    };
    expect(await commits({ flushMs: 20 }, longEnough)).toEqual([2_000, 2_000, 2_000, 2_000]);
  });
});
