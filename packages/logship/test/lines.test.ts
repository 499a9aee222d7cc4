import { describe, expect, it } from "vitest";
import { LineError, readLines, type LineOptions } from "../src/index.js";
import { inBlocks } from "./harness.js";

/** The lines, and where each batch ends. */
const cut = async (
  text: string | Uint8Array,
  options: LineOptions = {},
  ...sizes: number[]
): Promise<{ lines: string[]; ends: number[] }> => {
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  const [lines, ends]: [string[], number[]] = [[], []];
  for await (const batch of readLines(inBlocks(bytes, ...(sizes.length > 0 ? sizes : [65_536])), options)) {
    lines.push(...batch.lines);
    ends.push(batch.endOffset);
  }
  return { lines, ends };
};
const linesOf = async (...args: Parameters<typeof cut>): Promise<string[]> => (await cut(...args)).lines;

describe("readLines", () => {
  it.each([
    ["an empty text", "", []],
    ["one byte", "x", ["x"]],
    ["no last line feed", "one\ntwo", ["one", "two"]],
    ["only line feeds", "\n\n\n", ["", "", ""]],
    ["a last CR LF", "one\r\ntwo\r\n", ["one", "two"]],
    ["a lone CR", "o\rne\ntwo\r", ["o\rne", "two\r"]],
    ["two CRs before a line feed", "one\r\r\n", ["one\r"]],
    ["a byte order mark", "\ufeffone\n\ufefftwo\n", ["one", "\ufefftwo"]],
  ])("cuts %s", async (_, text, lines) => {
    for (const size of [1, 2, 3, 65_536]) expect([size, await linesOf(text, {}, size)]).toEqual([size, lines]);
  });

  it("cuts characters, line ends and the byte order mark at every offset of a block", async () => {
    const text = "\ufeffé😀\r\n日本語 x\r\n\r\nlast 😀";
    const bytes = Buffer.from(text);
    const whole = await cut(bytes);
    expect(whole.lines).toEqual(["é😀", "日本語 x", "", "last 😀"]);
    for (let at = 1; at < bytes.length; at++)
      expect([at, await linesOf(bytes, {}, at, 1_000)]).toEqual([at, whole.lines]);
  });

  it("gives the offset behind each line, in text bytes", async () => {
    const bytes = Buffer.from("é\r\n\nlong line\nx");
    for await (const batch of readLines(inBlocks(bytes, 1_000)))
      expect(Array.from({ length: batch.lines.length + 1 }, (_, count) => batch.endOf(count))).toEqual(
        batch.offset === 0 ? [0, 4, 5, 15] : [15, 16],
      );
  });

  it.each(["split", "truncate", "skip"] as const)(
    "delivers lines of every length with the policy %s, whatever the blocks",
    async (onLongLine) => {
      const lines = ["short", "x".repeat(20), "y".repeat(21), "é".repeat(40), "", "z".repeat(100), "end"];
      const text = `${lines.join("\r\n")}\r\n${"w".repeat(45)}`;
      const expected = {
        split: [
          "short",
          "x".repeat(20),
          "y".repeat(20),
          "y",
          ...Array.from({ length: 4 }, () => "é".repeat(10)),
          "",
          ...Array.from({ length: 5 }, () => "z".repeat(20)),
          "end",
          "w".repeat(20),
          "w".repeat(20),
          "w".repeat(5),
        ],
        truncate: ["short", "x".repeat(20), "y".repeat(20), "é".repeat(10), "", "z".repeat(20), "end", "w".repeat(20)],
        skip: ["short", "x".repeat(20), "", "end"],
      }[onLongLine];
      for (const size of [1, 7, 19, 20, 21, 22, 50, 10_000]) {
        const { lines: found, ends } = await cut(text, { maxLineBytes: 20, onLongLine }, size);
        expect([size, found, ends.at(-1)]).toEqual([size, expected, Buffer.byteLength(text)]);
      }
    },
  );

  it("rejects a line that is too long with its offset, after the lines before it", async () => {
    for (const size of [1, 10_000]) {
      const got: string[] = [];
      const reading = (async () => {
        for await (const { lines } of readLines(inBlocks(Buffer.from(`one\n${"x".repeat(30)}\ntwo\n`), size), {
          maxLineBytes: 20,
        }))
          got.push(...lines);
      })();
      await expect(reading).rejects.toMatchObject({ name: "LineError", code: "KIT_LOGSHIP_LINE", offset: 4 });
      expect(got).toEqual(["one"]);
    }
  });

  it("replaces, skips or rejects what is not UTF-8", async () => {
    const bytes = Buffer.concat([Buffer.from("one\n"), Buffer.from([0x80, 0xff, 10]), Buffer.from("three\n")]);
    expect(await linesOf(bytes)).toEqual(["one", "\ufffd\ufffd", "three"]);
    expect(await linesOf(bytes, { onInvalidText: "skip" })).toEqual(["one", "three"]);
    await expect(cut(bytes, { onInvalidText: "error" })).rejects.toMatchObject({ offset: 4 });
    await expect(cut(Buffer.from("\ufefftext\n", "utf16le"))).rejects.toThrow(LineError);
  });

  it("reads a line of 64 MiB in small blocks in linear time and memory that does not grow", async () => {
    const block = Buffer.alloc(65_536, "x");
    const blocks = async function* (): AsyncGenerator<Buffer> {
      for (let count = 0; count < 1_024; count++) yield block;
      yield Buffer.from("\nend\n");
    };
    const read = async (options: LineOptions): Promise<[number, number, string | undefined]> => {
      let [count, length, last] = [0, 0, undefined as string | undefined];
      for await (const { lines } of readLines(blocks(), options))
        for (const line of lines) [count, length, last] = [count + 1, length + line.length, line];
      return [count, length, last];
    };
    const whole = 65_536 * 1_024;
    expect(await read({ maxLineBytes: 2 * whole })).toEqual([2, whole + 3, "end"]);
    expect(await read({ onLongLine: "split" })).toEqual([65, whole + 3, "end"]);
    expect(await read({ onLongLine: "truncate" })).toEqual([2, 1_048_576 + 3, "end"]);
    expect(await read({ onLongLine: "skip" })).toEqual([1, 3, "end"]);
  });

  it("reads each byte once: blocks of one byte cost no more than their number", async () => {
    const bytes = Buffer.alloc(200_000, "x");
    expect((await linesOf(bytes, {}, 1))[0]).toHaveLength(200_000);
  });

  it("gives a million lines of one byte in batches of up to 64 KiB", async () => {
    let [count, batches] = [0, 0];
    for await (const { lines } of readLines(inBlocks(Buffer.alloc(2_000_000, "x\n"), 131_072))) {
      count += lines.length;
      batches++;
    }
    expect([count, batches]).toEqual([1_000_000, 31]);
  });

  it("refuses wrong options", async () => {
    await expect(cut("x", { maxLineBytes: 3 })).rejects.toThrow("maxLineBytes");
    await expect(cut("x", { onLongLine: "drop" as never })).rejects.toThrow("onLongLine");
    await expect(cut("x", { onInvalid: "skip" } as never)).rejects.toThrow("onInvalid");
  });
});
