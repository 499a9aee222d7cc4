import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { crcOf, noteCrc } from "../src/bytes/crc.js";

describe("the CRC-32 of parts", () => {
  it("combines to the CRC-32 that zlib computes for the whole, at every length", () => {
    const before = randomBytes(100);
    for (const length of [...Array.from({ length: 300 }, (_, n) => n), 65_535, 131_060, 1_048_577]) {
      const bytes = randomBytes(length);
      if (length > 0) noteCrc(bytes, crc32(bytes));
      expect([length, crcOf(bytes, crc32(before))]).toEqual([length, crc32(Buffer.concat([before, bytes]))]);
      expect([length, crcOf(bytes, 0)]).toEqual([length, crc32(bytes)]);
    }
  });
});
