import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { deflateRawSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { crcOf } from "../src/bytes/crc.js";
import { Restarts } from "../src/bytes/reading.js";
import { BadDataError, readGzip } from "../src/index.js";
import { inBlocks } from "./harness.js";

const inflate = async (bytes: Uint8Array, ...sizes: number[]): Promise<Buffer> => {
  const parts: Buffer[] = [];
  for await (const part of readGzip(inBlocks(bytes, ...(sizes.length > 0 ? sizes : [65_536])), { file: "a.gz" }))
    parts.push(part);
  return Buffer.concat(parts);
};
const text = Buffer.from(Array.from({ length: 500 }, (_, index) => `line ${String(index)}\n`).join(""));

/** A member with every optional field in its header. */
const decorated = (content: Buffer): Buffer => {
  const plain = gzipSync(content);
  const header = Buffer.from(plain.subarray(0, 10));
  header[3] = 2 | 4 | 8 | 16;
  const fields = [
    Buffer.from([3, 0]),
    Buffer.from("abc"),
    Buffer.from("name\0"),
    Buffer.from("comment\0"),
    Buffer.from([1, 2]),
  ];
  return Buffer.concat([header, ...fields, plain.subarray(10)]);
};

describe("readGzip", () => {
  it("reads nothing, one member, several, empty ones, and headers with every field, in blocks of any size", async () => {
    const several = Buffer.concat([gzipSync(text), gzipSync(""), decorated(text), gzipSync("x")]);
    const expected = Buffer.concat([text, text, Buffer.from("x")]);
    for (const size of [1, 2, 7, 100, 65_536]) expect((await inflate(several, size)).equals(expected)).toBe(true);
    expect(await inflate(Buffer.alloc(0))).toHaveLength(0);
    expect(await inflate(gzipSync(""))).toHaveLength(0);
    expect((await inflate(gzipSync(text))).equals(text)).toBe(true);
  });

  it("yields no block without text, which would spoil a running CRC-32", async () => {
    const content = Buffer.concat([gzipSync("one\n"), gzipSync(""), gzipSync("two\n")]);
    const blocks: string[] = [];
    for await (const block of readGzip(Readable.from([content]))) blocks.push(String(block));
    expect(blocks).toEqual(["one\n", "two\n"]);
    expect(crcOf(new Uint8Array(new ArrayBuffer(0)), 5)).toBe(5);
  });

  it("reads ten thousand tiny members", async () => {
    const member = gzipSync("tiny\n");
    expect(String(await inflate(Buffer.concat(Array.from({ length: 10_000 }, () => member)), 4_096))).toBe(
      "tiny\n".repeat(10_000),
    );
  });

  it("accepts zeros behind the last member as padding, and rejects anything else there", async () => {
    const member = gzipSync(text);
    for (const size of [1, 65_536]) {
      expect((await inflate(Buffer.concat([member, Buffer.alloc(700)]), size)).equals(text)).toBe(true);
      for (const garbage of ["garbage", "\x1f", "\x1f\x8b", "\x1fx", "\0\0x"])
        await expect(inflate(Buffer.concat([member, Buffer.from(garbage, "latin1")]), size)).rejects.toThrow(
          BadDataError,
        );
    }
  });

  it("rejects content that ends early, at every byte, after the text before", async () => {
    const member = gzipSync("0123456789".repeat(20));
    for (let length = 1; length < member.length; length++)
      await expect(inflate(member.subarray(0, length), 5)).rejects.toMatchObject({
        code: "KIT_LOGSHIP_BAD_DATA",
        file: "a.gz",
        offset: length,
      });
    const second = Buffer.concat([gzipSync(text), member]);
    const parts: Buffer[] = [];
    const reading = (async () => {
      for await (const part of readGzip(inBlocks(second.subarray(0, -1), 64))) parts.push(part);
    })();
    await expect(reading).rejects.toThrow("ends early");
    expect(String(Buffer.concat(parts))).toBe(`${String(text)}${"0123456789".repeat(20)}`);
  });

  it("rejects a flipped bit at every byte of a member", async () => {
    const member = gzipSync(text);
    for (let at = 0; at < member.length; at++) {
      // Time, extra flags and operating system do not affect the content.
      if (at >= 4 && at < 10) continue;
      const flipped = Buffer.from(member);
      flipped[at]! ^= 0x10;
      const outcome = await inflate(flipped).then(
        (content) => (content.equals(text) ? "same" : "changed"),
        (error: unknown) => (error instanceof BadDataError ? "rejected" : String(error)),
      );
      // The last compressed byte ends with bits that are not read.
      expect([at, outcome]).toEqual([at, at === member.length - 9 && outcome === "same" ? "same" : "rejected"]);
    }
  });

  it("loses nothing in a run of empty deflate blocks of 256 KiB", async () => {
    const emptyBlocks = Buffer.concat(Array.from({ length: 52_000 }, () => Buffer.from([0, 0, 0, 0xff, 0xff])));
    const member = gzipSync(text);
    const raw = deflateRawSync(text);
    const content = Buffer.concat([member.subarray(0, 10), emptyBlocks, raw, member.subarray(-8)]);
    expect((await inflate(content, 1_000)).equals(text)).toBe(true);
  });

  it("holds one block of a gzip bomb at a time, and waits for its reader", async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1_048_576));
    const blocks = readGzip(inBlocks(bomb, 16_384));
    let [length, largest] = [0, 0];
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    for await (const block of blocks) {
      length += block.length;
      largest = Math.max(largest, block.length);
      if (length % (8 * 1_048_576) === 0) most = Math.max(most, process.memoryUsage().arrayBuffers - before);
    }
    expect([length, largest]).toEqual([64 * 1_048_576, 131_072]);
    expect(most).toBeLessThan(48 * 1_048_576);
  });

  it("stops reading its source when its reader leaves", async () => {
    let isEnded = false;
    const source = async function* (): AsyncGenerator<Uint8Array> {
      try {
        yield gzipSync(randomBytes(1_000_000)).subarray(0, 500_000);
        await new Promise(() => undefined);
      } finally {
        isEnded = true;
      }
    };
    for await (const block of readGzip(source())) {
      expect(block.length).toBeGreaterThan(0);
      break;
    }
    expect(isEnded).toBe(true);
  });

  it("finds the member of a position among 300,000 in one pass", () => {
    const restarts = new Restarts(false);
    for (let index = 0; index < 300_000; index++) restarts.note(index * 25, index * 5);
    for (let index = 300_000; index < 600_000; index++) restarts.note(index * 25, 1_500_000);
    const startedAt = performance.now();
    expect(restarts.at(1_499_998, 7)).toEqual({ offset: 1_499_998, stored: 299_999 * 25, skip: 3, crc: 7 });
    expect(restarts.at(1_500_000, 7)).toEqual({ offset: 1_500_000, stored: 599_999 * 25, skip: 0, crc: 7 });
    // Moving the list once for each member took 24 s.
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  it("reads 100,000 empty members, and other work runs meanwhile", async () => {
    const empty = gzipSync("");
    const content = Buffer.concat([...Array.from({ length: 100_000 }, () => empty), gzipSync("end\n")]);
    let [turns, isRead] = [0, false];
    const turn = (): void => {
      turns++;
      if (!isRead) setImmediate(turn);
    };
    turn();
    expect(String(await inflate(content, content.length))).toBe("end\n");
    isRead = true;
    expect(turns).toBeGreaterThan(1_000);
  });
});
