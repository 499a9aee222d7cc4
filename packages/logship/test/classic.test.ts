import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { constants, createDeflateRaw, crc32, gzipSync } from "node:zlib";
import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { dailyCountry, readGzip, readLines } from "../src/index.js";
import { countWords, fixtureOf, inBlocks, logLines, textOf, wordsOf, writeLog } from "./harness.js";

/** Each test shows that this package does not have a known defect of the log code in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const reason = new Error("enough");

const ours = async (blocks: AsyncIterable<Uint8Array>): Promise<string[]> => {
  const found: string[] = [];
  for await (const { lines } of readLines(readGzip(blocks))) found.push(...lines);
  return found;
};

describe("shipping", () => {
  it("a restart ships a file a second time", async () => {
    const directory = await fixture.directory();
    const path = await writeLog(directory, "a.log", ["one", "two"]);
    await fixture.shipper().add(path);
    expect((await fixture.shipper().add(path)).wasShipped).toBe(true);
    expect(await fixture.receiver().run(countWords, { until: "empty" })).toEqual({ files: 1, lines: 2 });
  });

  it("a file above the limit is never shipped", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 2_000);
    const path = await writeLog(directory, "a.log", lines);
    const shipper = fixture.shipper({ limitBytes: 20_000, chunkBytes: 2_048, codec: "none", consumers: ["c"] });
    const receiving = fixture.receiver({ flushLines: 100 }).run(countWords);
    expect((await shipper.add(path)).lines).toBe(2_000);
    await shipper.closeChannel();
    expect((await receiving).lines).toBe(2_000);
  });

  it("each shipper counts the limit for itself", async () => {
    const lines = logLines(0, 1_000);
    const size = Buffer.byteLength(textOf(lines));
    // Equal files would be one content.
    const files = [["a.log", lines] as const, ["b.log", lines.toReversed()] as const];
    const waits: Promise<unknown>[] = [];
    const controller = new AbortController();
    for (const [name, own] of files) {
      const shipper = fixture.shipper({ limitBytes: size, chunkBytes: 2_048, codec: "none" });
      waits.push(new Promise<void>((resolve) => shipper.once("waiting", () => resolve())));
      const path = await writeLog(await fixture.directory(), name, own);
      shipper.add(path, { signal: controller.signal }).catch(() => 0);
    }
    await Promise.all(waits);
    const { usedBytes, reservedBytes } = (await fixture.shipper().status())!;
    expect(usedBytes + reservedBytes).toBeLessThanOrEqual(size);
    controller.abort(reason);
  });

  it("a file with the name of the end mark ends its consumers", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, ":done", ["lost"]);
    await writeLog(directory, "b.log", ["lost too"]);
    await fixture.shipper().addDirectory(directory);
    expect(await fixture.receiver().run(countWords, { until: "empty" })).toEqual({ files: 2, lines: 2 });
  });
});

describe("cleaning up", () => {
  it("a file that all are done with stays because of an unfinished older one", async () => {
    const directory = await fixture.directory();
    for (const name of ["a.log", "b.log"]) await writeLog(directory, name, ["one"]);
    const shipper = fixture.shipper();
    await shipper.addDirectory(directory);
    const before = (await shipper.status())!;
    for await (const file of fixture.receiver().files({ until: "empty" })) {
      if (file.name === "a.log") continue;
      for await (const batch of file.batches()) expect(batch.lines).toEqual(["one"]);
      await file.commit();
    }
    const after = (await shipper.status())!;
    expect(after.files.map(({ name }) => name)).toEqual(["a.log"]);
    expect(after.usedBytes).toBe(before.usedBytes / 2);
  });
});

describe("receiving", () => {
  it("a consumer that dies has acknowledged files that it never read, and counts lines twice", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 300);
    await writeLog(directory, "a.log", lines.slice(0, 200));
    await writeLog(directory, "b.log", lines.slice(200));
    await fixture.shipper({ chunkBytes: 1_024 }).addDirectory(directory);
    let seen = 0;
    const failing = fixture.receiver({ flushLines: 10 }).run((some, results, context) => {
      if ((seen += some.length) > 100) throw reason;
      return countWords(some, results, context);
    });
    expect(await rejection(failing)).toBe(reason);
    const next = fixture.receiver();
    await next.run(countWords, { until: "empty" });
    expect(await next.results("words")).toEqual(wordsOf(lines));
  });
});

describe("gzip", () => {
  const whole = Buffer.concat([gzipSync("one\n"), gzipSync("two\n")]);

  it("everything behind the first member is lost", async () => {
    expect(await ours(inBlocks(whole, 1_000))).toEqual(["one", "two"]);
  });

  it("a small file becomes one block of any size", async () => {
    const bomb = gzipSync(Buffer.alloc(16_777_216));
    const largest = async (blocks: AsyncIterable<Uint8Array>): Promise<number> => {
      let size = 0;
      for await (const block of blocks) size = Math.max(size, block.length);
      return size;
    };
    expect(await largest(readGzip(inBlocks(bomb, bomb.length)))).toBe(131_072);
  });

  it("a last line feed makes one line more", async () => {
    const blocks = async function* (): AsyncGenerator<Uint8Array> {
      yield* [Buffer.from("one\n"), Buffer.alloc(0)];
      await Promise.resolve();
    };
    const own: string[] = [];
    for await (const { lines } of readLines(blocks())) own.push(...lines);
    expect(own).toEqual(["one"]);
  });

  it("a wrong checksum is not detected", async () => {
    const bad = Buffer.from(gzipSync("one\n"));
    bad[bad.length - 8]! ^= 1;
    expect(await rejection(ours(inBlocks(bad, 1_000)))).toMatchObject({ code: "KIT_LOGSHIP_BAD_DATA" });
  });

  it("content that is cut within its header is an empty file", async () => {
    const cut = gzipSync("one\n").subarray(0, 6);
    expect(await rejection(ours(inBlocks(cut, 1_000)))).toMatchObject({ code: "KIT_LOGSHIP_BAD_DATA" });
  });

  it("a block that inflates to nothing ends the file", async () => {
    const text = Buffer.from("one\ntwo\n");
    const deflate = createDeflateRaw();
    const parts: Buffer[] = [];
    deflate.on("data", (part: Buffer) => void parts.push(part));
    await new Promise<void>((resolve) =>
      deflate.write("one\n", () => deflate.flush(constants.Z_SYNC_FLUSH, () => resolve())),
    );
    const first = Buffer.concat(parts.splice(0));
    await new Promise<void>((resolve) => deflate.end("two\n", () => deflate.once("end", () => resolve())));
    const rest = Buffer.concat(parts);
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE(crc32(text), 0);
    trailer.writeUInt32LE(text.length, 4);
    // Stored blocks of no bytes, as a server that flushes often writes them.
    const nothing = Buffer.from([0, 0, 0, 0xff, 0xff]);
    const pieces = [Buffer.concat([gzipSync("").subarray(0, 10), first]), nothing, Buffer.concat([rest, trailer])];
    const blocks = async function* (): AsyncGenerator<Uint8Array> {
      yield* pieces;
      await Promise.resolve();
    };
    expect(await ours(blocks())).toEqual(["one", "two"]);
  });
});

describe("the count by day and country", () => {
  const locate = (address: string): readonly string[] | undefined =>
    address === "1.1.1.1" ? ["", "", "DE"] : undefined;
  const countOf = async (lines: readonly string[]): Promise<Record<string, string>> => {
    const directory = await fixture.directory();
    await writeFile(join(directory, "a.log"), textOf(lines));
    const job = fixture.job({ name: lines.join(), directory, flushLines: 1 });
    const parse = (line: string): { address: string; day: string } | undefined => {
      const [address, day] = line.split(" ");
      return address && day ? { address, day } : undefined;
    };
    await job.run(dailyCountry({ locator: { country: (address) => locate(address)?.[2] }, parse }));
    return Object.fromEntries(await job.results("country"));
  };

  it("each flush overwrites the day", async () => {
    expect(await countOf(["1.1.1.1 d", "1.1.1.1 d"])).toEqual({ "d DE": "2" });
  });

  it("an address that is not known ends the consumer, as does a blank line", async () => {
    expect(await countOf(["2.2.2.2 d", " ", "1.1.1.1 d"])).toEqual({ "d unknown": "1", unreadable: "1", "d DE": "1" });
  });
});

describe("processing a directory", () => {
  it("a run that ended in the middle resumes at a wrong place", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 1_500);
    await writeLog(directory, "a.log", lines);
    const job = fixture.job({ directory, flushLines: 1 });
    let seen = 0;
    const failing = job.run((some, results, context) => {
      if ((seen += some.length) > 1_200) throw reason;
      return countWords(some, results, context);
    });
    expect(await rejection(failing)).toBe(reason);
    await job.run(countWords);
    expect(await job.results("words")).toEqual(wordsOf(lines));
  });

  it("lengths are appended to a stored offset, which is text", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "a.log", ["a", "b"]);
    const job = fixture.job({ directory });
    await job.run(countWords);
    expect((await job.files()).map(({ offset }) => offset)).toEqual([4]);
  });

  it("a file that arrives late and sorts before the last one is left out", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "b.log", ["x"]);
    const job = fixture.job({ directory });
    expect((await job.run(countWords)).lines).toBe(1);
    await writeLog(directory, "a.log", ["y"]);
    expect((await job.run(countWords)).lines).toBe(1);
    expect(await job.results("words")).toEqual(wordsOf(["x", "y"]));
  });

  it("a second job continues at the position of the first one", async () => {
    const directories = [await fixture.directory(), await fixture.directory()] as const;
    await writeLog(directories[0], "b.log", ["x"]);
    await writeLog(directories[1], "a.log", ["y"]);
    for (const [index, directory] of directories.entries())
      expect(await fixture.job({ name: String(index), directory }).run(countWords)).toEqual({ files: 1, lines: 1 });
  });
});
