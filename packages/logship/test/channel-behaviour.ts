import { createHash } from "node:crypto";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import { eventually, type RedisMode, type TestRedis } from "@kit/testing";
import { rejection, scriptCalls, watched } from "@tooling/vitest/helpers";
import { describe, expect, it } from "vitest";
import type { LinesHandler, ReceivedFile, Receiver, Shipper } from "../src/index.js";
import { countWords, type Fixture, inBlocks, killPoints, logLines, textOf, wordsOf, writeLog } from "./harness.js";

const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");

/** All lines of a channel that one consumer gets, by file. */
const linesOf = async (
  receiver: Receiver,
  until: "closed" | "empty" = "empty",
  most = Infinity,
): Promise<Record<string, string[]>> => {
  const found: Record<string, string[]> = {};
  for await (const file of receiver.files({ until })) {
    const lines: string[] = (found[file.name] = []);
    for await (const line of file.lines()) if (lines.push(line) >= most) break;
    await file.commit();
  }
  return found;
};

/** The behaviour of channels, on one server or on a Cluster. */
export const channelBehaviour = (redis: TestRedis<RedisMode>, fixture: Fixture): void => {
  describe("a log channel", () => {
    const usedOf = async (shipper: Shipper): Promise<readonly number[]> => {
      const { usedBytes, reservedBytes } = (await shipper.status())!;
      return [usedBytes, reservedBytes];
    };

    it.each(["gzip", "none"] as const)(
      "carries plain and gzip files to every consumer, byte for byte (codec %s)",
      async (codec) => {
        const directory = await fixture.directory();
        const lines = logLines(0, 6_000);
        await writeLog(directory, "access.2.log", lines.slice(0, 2_000));
        await writeLog(directory, "access.10.log.gz", lines.slice(2_000));
        const shipper = fixture.shipper({ codec, chunkBytes: 4_096, consumers: ["a", "b"] });
        const shipped = await shipper.addDirectory(directory);
        expect(
          shipped.map(({ name, lines: count, textBytes, sha256: sum, wasShipped }) => [
            name,
            count,
            textBytes,
            sum,
            wasShipped,
          ]),
        ).toEqual(
          [lines.slice(0, 2_000), lines.slice(2_000)].map((part, index) => [
            ["access.2.log", "access.10.log.gz"][index],
            part.length,
            Buffer.byteLength(textOf(part)),
            sha256(textOf(part)),
            false,
          ]),
        );
        expect(await linesOf(fixture.receiver({ consumer: "a" }))).toEqual({
          "access.2.log": lines.slice(0, 2_000),
          "access.10.log.gz": lines.slice(2_000),
        });
        // The other consumer needs all of it still.
        expect((await usedOf(shipper))[0]).toBeGreaterThan(4_096);
        expect((await shipper.status())!.files.map(({ positions }) => positions)).toEqual(
          shipped.map(({ textBytes }) => ({ a: textBytes, b: 0 })),
        );
        const b = fixture.receiver({ consumer: "b" });
        expect(await b.run(countWords, { until: "empty" })).toEqual({ files: 2, lines: 6_000 });
        expect(await b.results("words")).toEqual(wordsOf(lines));
        expect(await usedOf(shipper)).toEqual([0, 0]);
        expect(
          await fixture.db.exists(fixture.keys.files, fixture.keys.chunks, fixture.keys.positions, fixture.keys.free),
        ).toBe(0);
        // A shipped file is not shipped again, and no consumer gets it again.
        expect((await shipper.addDirectory(directory)).map(({ wasShipped }) => wasShipped)).toEqual([true, true]);
        expect(await b.run(countWords, { until: "empty" })).toEqual({ files: 0, lines: 0 });
      },
    );

    it("gives files by batches, bytes, Node and web streams alike", async () => {
      const text = textOf(logLines(0, 5_000));
      await fixture.shipper({ chunkBytes: 4_096 }).send("a", Readable.from([text]));
      const read = {
        batches: async (receiver: Receiver) => {
          let got = "";
          for await (const file of receiver.files({ until: "empty" }))
            for await (const { lines } of file.batches()) got += textOf(lines);
          return got;
        },
        bytes: async (receiver: Receiver) => {
          const parts: Buffer[] = [];
          for await (const file of receiver.files({ until: "empty" }))
            for await (const part of file.bytes()) parts.push(part);
          return Buffer.concat(parts).toString();
        },
        node: async (receiver: Receiver) => {
          const parts: Buffer[] = [];
          for await (const file of receiver.files({ until: "empty" }))
            for await (const part of file.readable()) parts.push(part as Buffer);
          return Buffer.concat(parts).toString();
        },
        web: async (receiver: Receiver) => {
          let got = "";
          for await (const file of receiver.files({ until: "empty" }))
            got += await new Response(file.webReadable()).text();
          return got;
        },
      };
      for (const [kind, reader] of Object.entries(read))
        expect([kind, sha256(await reader(fixture.receiver({ consumer: kind })))]).toEqual([kind, sha256(text)]);
    });

    it("ships Node and web streams, text and bytes, in blocks of any size", async () => {
      const text = textOf(logLines(0, 3_000));
      const bytes = Buffer.from(text);
      const shipper = fixture.shipper({ chunkBytes: 8_192 });
      await pipeline(Readable.from(inBlocks(bytes, 1, 7_000, 333)), shipper.writable("node"));
      const web = new Blob([bytes]).stream();
      await web.pipeTo(shipper.webWritable("web"));
      await shipper.send("web source", new Blob([bytes]).stream());
      await shipper.send("empty", Readable.from([]));
      const got = await linesOf(fixture.receiver());
      const lines = logLines(0, 3_000);
      expect(got).toEqual({ node: lines, web: lines, "web source": lines, empty: [] });
    });

    it("stores framed chunks that are together a valid gzip file", async () => {
      const text = textOf(logLines(0, 4_000));
      const { id } = await fixture.shipper({ chunkBytes: 4_096 }).send("a", Readable.from([text]));
      const descriptors = await fixture.db.hgetall(fixture.keys.chunks);
      const parts: Buffer[] = [];
      for (let ordinal = 0; ordinal < Object.keys(descriptors).length; ordinal++) {
        const part = descriptors[`${String(id)} ${String(ordinal)}`]!.split(" ")[0]!;
        parts.push((await fixture.db.getBuffer(fixture.keys.chunk(part)))!);
        expect(parts.at(-1)!.length).toBeLessThanOrEqual(4_096);
      }
      expect(gunzipSync(Buffer.concat(parts)).toString()).toBe(text);
    });

    it("passes gzip files through unchanged, and resumes in the middle of them", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 3_000);
      const path = await writeLog(directory, "a.gz", lines);
      const shipper = fixture.shipper({ chunkBytes: 1_024, limitBytes: 1_000_000 });
      const { sha256: sum, storedBytes } = await shipper.add(path, { passThrough: true });
      expect([sum, storedBytes]).toEqual([sha256(await readFile(path)), (await readFile(path)).length]);
      const got: string[] = [];
      for (let round = 0; got.length < 3_000 && round < 20; round++)
        for await (const file of fixture.receiver().files({ until: "empty" })) {
          let count = 0;
          for await (const line of file.lines()) {
            got.push(line);
            if (++count === 650) break;
          }
          await file.commit();
        }
      expect(got).toEqual(lines);
      const small = fixture.shipper({ name: "small", limitBytes: 4_096, chunkBytes: 1_024 });
      expect(await rejection(small.add(path, { passThrough: true }))).toMatchObject({ code: "KIT_LOGSHIP_TOO_LARGE" });
      expect((await small.status())!.fileCount).toBe(0);
    });

    it("resumes in the middle of a file, at the exact line, for each codec", async () => {
      const lines = logLines(0, 2_000);
      for (const codec of ["gzip", "none"] as const) {
        await fixture.shipper({ name: codec, codec, chunkBytes: 2_048 }).send("a", Readable.from([textOf(lines)]));
        const got: string[] = [];
        for (let round = 0; round < 100 && got.length < lines.length; round++)
          for await (const file of fixture.receiver({ name: codec }).files({ until: "empty" })) {
            let count = 0;
            for await (const line of file.lines()) {
              got.push(line);
              if (++count === 137) break;
            }
            await file.commit();
          }
        expect(got).toEqual(lines);
      }
    });

    it("never holds more than its limit, and lets the shipper wait without commands until there is space", async () => {
      const lines = logLines(0, 8_000);
      const text = textOf(lines);
      const limitBytes = 40_000;
      const shippers = [1, 2, 3].map(() =>
        fixture.shipper({ limitBytes, chunkBytes: 2_048, codec: "none", maxInFlight: 4, client: fixture.connect() }),
      );
      let waits = 0;
      for (const shipper of shippers) shipper.on("waiting", () => waits++);
      const sending = watched(
        Promise.all(shippers.map((shipper, index) => shipper.send(`s${String(index)}`, Readable.from([text])))),
      );
      await eventually(() => expect(waits).toBeGreaterThanOrEqual(3));
      expect(sending.isSettled).toBe(false);
      const highest = { total: 0, looks: 0 };
      const watching = (async () => {
        while (!sending.isSettled) {
          const state = (await fixture.db.hmget(fixture.keys.channel, "used", "reserved")).map(Number);
          highest.total = Math.max(highest.total, state[0]! + state[1]!);
          highest.looks++;
        }
      })();
      const receiver = fixture.receiver({ flushLines: 500 });
      const running = receiver.run(countWords, { concurrency: 3 }).catch(() => undefined);
      await sending.promise;
      await watching;
      expect(highest.looks).toBeGreaterThan(10);
      expect(highest.total).toBeLessThanOrEqual(limitBytes);
      expect(highest.total).toBeGreaterThan(limitBytes / 2);
      await shippers[0]!.closeChannel();
      await running;
      const expected = [...wordsOf(lines)].map(([word, count]) => [word, String(3 * Number(count))] as const);
      expect(await receiver.results("words")).toEqual(new Map(expected));
      expect(await usedOf(shippers[0]!)).toEqual([0, 0]);
    });

    it("gives files that are read to their end, even when the iteration has ended before", async () => {
      const lines = logLines(0, 3_000);
      const shipper = fixture.shipper({ chunkBytes: 1_024 });
      for (const name of ["a", "b"]) await shipper.send(name, Readable.from([textOf(lines)]));
      const receiver = fixture.receiver({ prefetchBytes: 1_024 });
      const files: ReceivedFile[] = [];
      for await (const file of receiver.files({ until: "empty" })) files.push(file);
      for (const file of files) {
        const found: string[] = [];
        for await (const line of file.lines()) found.push(line);
        await file.commit();
        expect(found).toEqual(lines);
      }
      expect(await usedOf(shipper)).toEqual([0, 0]);
    });

    it("ends the reading of such files by the signal of their iteration, and by close()", async () => {
      await fixture.shipper({ chunkBytes: 1_024 }).send("a", Readable.from([textOf(logLines(0, 3_000))]));
      const receiver = fixture.receiver({ prefetchBytes: 1_024 });
      const stop = new AbortController();
      const read = async (signal?: AbortSignal): Promise<AsyncIterator<string>> => {
        let lines: AsyncIterator<string> | undefined;
        for await (const file of receiver.files({ until: "empty", signal })) lines = file.lines();
        await lines!.next();
        return lines!;
      };
      const rest = async (lines: AsyncIterator<string>): Promise<void> => {
        while ((await lines.next()).done !== true);
      };
      const stopped = await read(stop.signal);
      stop.abort(new Error("stopped"));
      expect(await rejection(rest(stopped))).toMatchObject({ message: "stopped" });
      const closed = await read();
      await receiver.close();
      expect(await rejection(rest(closed))).toMatchObject({ code: "KIT_CLOSED" });
    });

    it("lets the first open file continue when those behind it have filled the channel, though its receiver reads one at a time", async () => {
      const lines = logLines(0, 1_500);
      const options = { limitBytes: 20_000, chunkBytes: 1_024, codec: "none", flushMs: 5 } as const;
      const shipper = fixture.shipper(options);
      const first = shipper.writable("first");
      first.write(textOf(lines.slice(0, 10)));
      await eventually(async () => expect((await shipper.status())!.files[0]?.chunks).toBe(1));
      const waiting = new Promise<void>((resolve) => shipper.once("waiting", () => resolve()));
      const second = shipper.send("second", Readable.from([textOf(lines)]));
      await waiting;
      const receiver = fixture.receiver({ flushLines: 100 });
      const running = receiver.run(countWords);
      await new Promise<void>((resolve) => first.end(textOf(lines.slice(10)), resolve));
      await second;
      await shipper.closeChannel();
      expect((await running).lines).toBe(3_000);
    });

    it("frees every chunk that a commit has passed, however many there are", async () => {
      const shipper = fixture.shipper({ chunkBytes: 1_024, codec: "none", consumers: ["c", "slow"] });
      const text = textOf(logLines(0, 16_000));
      for (const file of ["a", "b"]) await shipper.send(file, Readable.from([text]));
      expect((await shipper.status())!.files[0]!.chunks).toBeGreaterThan(400);
      await fixture.receiver().run(countWords, { until: "empty" });
      for await (const file of fixture.receiver({ consumer: "slow" }).files({ until: "empty" })) await file.giveUp();
      expect(await usedOf(shipper)).toEqual([0, 0]);
      expect((await shipper.status())!.fileCount).toBe(0);
    });

    it("lets the later of two runs of one receiver work, and no line is missing or duplicated", async () => {
      const lines = logLines(0, 3_000);
      await fixture.shipper({ chunkBytes: 2_048 }).send("a", Readable.from([textOf(lines)]));
      const receiver = fixture.receiver({ flushLines: 100 });
      let isHeld = true;
      let release: () => void = () => undefined;
      const released = new Promise<void>((resolve) => (release = resolve));
      const reached = new Promise<void>((resolve) => receiver.once("progress", () => resolve()));
      const first = rejection(
        receiver.run(
          async (some, results, context) => {
            if (context.offset > 0 && isHeld) await released;
            await countWords(some, results, context);
          },
          { until: "empty" },
        ),
      );
      await reached;
      isHeld = false;
      const second = await receiver.run(countWords, { until: "empty" });
      release();
      expect(await first).toMatchObject({ code: "KIT_LOGSHIP_FENCED" });
      expect(second.files).toBe(1);
      expect(await receiver.results("words")).toEqual(wordsOf(lines));
    });

    it("lets a commit with refused results be repeated", async () => {
      await fixture.shipper().send("a", Readable.from(["one\ntwo\n"]));
      const receiver = fixture.receiver();
      await fixture.db.set(receiver.resultKey("words"), "text");
      for await (const file of receiver.files({ until: "empty" })) {
        for await (const line of file.lines()) file.results.increment("words", line);
        expect(await rejection(file.commit())).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
        await fixture.db.del(receiver.resultKey("words"));
        await file.commit();
      }
      expect(await receiver.results("words")).toEqual(
        new Map([
          ["one", "1"],
          ["two", "1"],
        ]),
      );
    });

    it("recognises a short file that has grown: refuses it if it was shipped, continues it if it was not complete", async () => {
      const directory = await fixture.directory();
      const [whole, part] = [join(directory, "whole.log"), join(directory, "part.log")];
      const shipper = fixture.shipper();
      await writeFile(whole, "one\ntwo\n");
      await writeFile(part, "three\n");
      await shipper.add(whole);
      const controller = new AbortController();
      // All its text is committed, but its end is not.
      shipper.once("progress", () => controller.abort(new Error("stopped")));
      expect(await rejection(shipper.add(part, { signal: controller.signal }))).toMatchObject({ message: "stopped" });
      await appendFile(whole, "more\n");
      await appendFile(part, "four\n");
      expect(await rejection(shipper.add(whole))).toMatchObject({ code: "KIT_LOGSHIP_CHANGED" });
      await shipper.add(part);
      expect(await linesOf(fixture.receiver())).toEqual({ "whole.log": ["one", "two"], "part.log": ["three", "four"] });
    });

    it("keeps a channel open for further files, and ends receivers behind the last byte once it is closed", async () => {
      const shipper = fixture.shipper({ flushMs: 10 });
      const receiver = fixture.receiver({ flushMs: 20 });
      const got: string[] = [];
      const running = watched(receiver.run((lines) => void got.push(...lines)));
      const stream = shipper.writable("live");
      stream.write("one\ntw");
      await eventually(() => expect(got).toEqual(["one"]));
      stream.write("o\nthree\n");
      await eventually(() => expect(got).toEqual(["one", "two", "three"]));
      await eventually(async () => expect((await shipper.status())!.files[0]!.positions).toEqual({ c: 14 }));
      await shipper.closeChannel();
      expect(await rejection(shipper.send("late", Readable.from(["x"])))).toMatchObject({
        code: "KIT_LOGSHIP_CHANNEL_CLOSED",
      });
      expect(running.isSettled).toBe(false);
      await new Promise<void>((resolve) => stream.end("four", resolve));
      expect(await running.promise).toEqual({ files: 1, lines: 4 });
      expect(got).toEqual(["one", "two", "three", "four"]);
    });

    it("fences off the older of two shippers of a file, and of two processes of a consumer", async () => {
      const directory = await fixture.directory();
      const path = await writeLog(directory, "a.log", logLines(0, 20_000));
      const first = fixture.shipper({ limitBytes: 20_000, chunkBytes: 1_024, codec: "none" });
      const waiting = new Promise<void>((resolve) => first.once("waiting", () => resolve()));
      const shipping = rejection(first.add(path));
      await waiting;
      const second = fixture.shipper({ chunkBytes: 1_024, codec: "none", client: fixture.connect() });
      const takenOver = new Promise<void>((resolve) => second.once("waiting", () => resolve()));
      const taking = second.add(path);
      await takenOver;
      const older = fixture.receiver();
      const iteration = older.files();
      const file = (await iteration.next()).value!;
      await file.batches().next();
      const younger = fixture.receiver({ flushLines: 100, client: fixture.connect() });
      await second.closeChannel();
      await younger.run(countWords);
      expect(await shipping).toMatchObject({ code: "KIT_LOGSHIP_FENCED" });
      expect(await taking).toMatchObject({ lines: 20_000 });
      expect(await rejection(file.commit())).toMatchObject({ code: "KIT_LOGSHIP_FENCED" });
      await iteration.return();
      expect(await younger.results("words")).toEqual(wordsOf(logLines(0, 20_000)));
    });

    it("refuses a new consumer that cannot have everything, unless it starts at the oldest chunk left, or now", async () => {
      const shipper = fixture.shipper();
      await shipper.send("a", Readable.from(["one\n"]));
      await fixture.receiver().run(countWords, { until: "empty" });
      await shipper.send("b", Readable.from(["two\n"]));
      expect(await rejection(linesOf(fixture.receiver({ consumer: "late" })))).toMatchObject({
        code: "KIT_LOGSHIP_TRIMMED",
      });
      expect(await linesOf(fixture.receiver({ consumer: "oldest", from: "oldest" }))).toEqual({ b: ["two"] });
      const now = fixture.receiver({ consumer: "now", from: "now" });
      expect(await linesOf(now)).toEqual({});
      await shipper.send("c", Readable.from(["three\n"]));
      expect(await linesOf(now)).toEqual({ c: ["three"] });
    });

    it.each(["gzip", "none", "member"] as const)(
      "lets a new consumer start behind the freed chunks of a file, at a line, and reports where (codec %s)",
      async (codec) => {
        const lines = logLines(0, 3_000);
        const path = await writeLog(await fixture.directory(), "a.gz", lines);
        const isWhole = codec === "member";
        await fixture
          .shipper({ codec: isWhole ? "gzip" : codec, chunkBytes: 1_024 })
          .add(path, { passThrough: isWhole });
        expect((await linesOf(fixture.receiver(), "empty", 1_700))["a.gz"]).toHaveLength(1_700);
        const late = fixture.receiver({ consumer: "late", from: "oldest" });
        const trimmed: unknown[] = [];
        late.on("trimmed", (fact) => trimmed.push(fact));
        expect(await linesOf(late)).toEqual({ "a.gz": lines.slice(1_700) });
        const offset = Buffer.byteLength(textOf(lines.slice(0, 1_700)));
        expect(trimmed).toEqual([{ file: "a.gz", offset }]);
        expect(await linesOf(fixture.receiver())).toEqual({ "a.gz": lines.slice(1_700) });
        expect(await fixture.db.exists(fixture.keys.files, fixture.keys.chunks, fixture.keys.positions)).toBe(0);
      },
    );

    it("rejects a chunk that is damaged or missing, or with `skip` continues with other files", async () => {
      const shipper = fixture.shipper({ chunkBytes: 1_024, codec: "none" });
      const text = textOf(logLines(0, 200));
      for (const name of ["damaged", "missing", "whole"]) await shipper.send(name, Readable.from([text]));
      const partOf = async (file: number): Promise<string> =>
        fixture.keys.chunk((await fixture.db.hget(fixture.keys.chunks, `${String(file)} 2`))!.split(" ")[0]!);
      await fixture.db.setrange(await partOf(1), 100, "#");
      await fixture.db.del(await partOf(2));
      const receiver = fixture.receiver({ consumer: "strict" });
      expect(await rejection(receiver.run(countWords))).toMatchObject({
        code: "KIT_LOGSHIP_BAD_DATA",
        file: "damaged",
        chunk: 2,
        offset: 2_048,
      });
      // The other consumer may have freed a part of the files.
      const lenient = fixture.receiver({ onBadData: "skip", from: "oldest" });
      const damaged: unknown[] = [];
      lenient.on("damaged", ({ file, error }) => damaged.push([file, error.code]));
      await lenient.run(() => undefined, { until: "empty" });
      expect(damaged).toEqual([
        ["damaged", "KIT_LOGSHIP_BAD_DATA"],
        ["missing", "KIT_LOGSHIP_BAD_DATA"],
      ]);
      expect(await linesOf(lenient)).toEqual({});
    });

    it("continues a partly shipped source, and rejects one that has changed", async () => {
      const lines = logLines(0, 3_000);
      const shipper = fixture.shipper({ chunkBytes: 1_024 });
      const broken = async function* (): AsyncGenerator<string> {
        yield textOf(lines.slice(0, 2_000));
        await eventually(async () => expect((await shipper.status())!.files[0]!.chunks).toBeGreaterThan(3));
        throw new Error("the pipe broke");
      };
      expect(await rejection(shipper.send("a", broken(), { id: "source 1" }))).toMatchObject({
        message: "the pipe broke",
      });
      expect((await usedOf(shipper))[1]).toBe(0);
      const other = Readable.from([textOf(lines.toReversed())]);
      expect(await rejection(shipper.send("a", other, { id: "source 1" }))).toMatchObject({
        code: "KIT_LOGSHIP_CHANGED",
      });
      const shipped = await fixture
        .shipper({ chunkBytes: 1_024 })
        .send("a", Readable.from([textOf(lines)]), { id: "source 1" });
      expect([shipped.lines, shipped.sha256]).toEqual([3_000, sha256(textOf(lines))]);
      expect(await linesOf(fixture.receiver())).toEqual({ a: lines });
    });

    it("continues a file in the codec with which it was started, and never with the bytes of its gzip file instead of its text", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 3_000);
      const path = await writeLog(directory, "a.gz", lines);
      const options = { limitBytes: 20_000, chunkBytes: 1_024 };
      const controller = new AbortController();
      const first = fixture.shipper({ ...options, codec: "none" });
      first.on("waiting", () => controller.abort(new Error("stopped")));
      await rejection(first.add(path, { signal: controller.signal }));
      const second = fixture.shipper({ ...options, codec: "gzip" });
      expect(await rejection(second.add(path, { passThrough: true }))).toMatchObject({ code: "KIT_LOGSHIP_CHANGED" });
      const adding = second.add(path);
      const receiver = fixture.receiver();
      const running = receiver.run(countWords);
      expect((await adding).lines).toBe(3_000);
      await second.closeChannel();
      await running;
      expect(await receiver.results("words")).toEqual(wordsOf(lines));
    });

    it("stores many results with their position at once, and applies them in pieces, those that are left before all else", async () => {
      const shipper = fixture.shipper({ consumers: ["c"] });
      await shipper.send("a", Readable.from(["one\ntwo\n"]));
      const fields = Array.from({ length: 12_000 }, (_, number) => `field ${String(number)}`);
      const receiver = fixture.receiver();
      const [sum, set] = [receiver.resultKey("sum"), receiver.resultKey("set")];
      // One piece cannot be applied: as if the process had died before it was.
      await fixture.db.hset(sum, fields[7_000]!, "no number");
      for await (const file of receiver.files({ until: "empty" })) {
        for await (const line of file.lines()) file.results.increment("lines", line);
        for (const field of fields) file.results.increment("sum", field).add("set", field);
        expect(await rejection(file.commit())).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
      }
      const next = fixture.receiver();
      expect(await rejection(next.run(countWords, { until: "empty" }))).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
      await fixture.db.hdel(sum, fields[7_000]!);
      expect(await next.run(countWords, { until: "empty" })).toEqual({ files: 0, lines: 0 });
      expect(await next.results("sum")).toEqual(new Map(fields.map((field) => [field, "1"])));
      expect([await fixture.db.scard(set), await fixture.db.exists(fixture.keys.pending("c"))]).toEqual([12_000, 0]);
    });

    it("stores and applies the many results of one call of a handler in the same way", async () => {
      const shipper = fixture.shipper({ consumers: ["c"] });
      await shipper.send("a", Readable.from(["one\n"]));
      const fields = Array.from({ length: 12_000 }, (_, number) => `field ${String(number)}`);
      const receiver = fixture.receiver();
      const sum = receiver.resultKey("sum");
      await fixture.db.hset(sum, fields[7_000]!, "no number");
      const collect: LinesHandler = (_lines, results) =>
        fields.forEach((field) => void results.increment("sum", field));
      const running = receiver.run(collect, { until: "empty" });
      expect(await rejection(running)).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
      await fixture.db.hdel(sum, fields[7_000]!);
      expect(await receiver.run(collect, { until: "empty" })).toEqual({ files: 1, lines: 0 });
      expect(await receiver.results("sum")).toEqual(new Map(fields.map((field) => [field, "1"])));
    });

    it("ships every byte once when it is killed after some of its commands", { timeout: 120_000 }, async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 4_000);
      const files = [
        await writeLog(directory, "a.log", lines.slice(0, 2_500)),
        await writeLog(directory, "b.log.gz", lines.slice(2_500)),
      ];
      let kills = 0;
      for (const killAt of killPoints(fixture)) {
        const name = `channel ${String(killAt)}`;
        const codec = killAt % 2 ? ("gzip" as const) : ("none" as const);
        const options = { chunkBytes: 16_384, codec, maxInFlight: 3, leaseMs: 300 };
        const outcome = await fixture.mortal("ship", { name, options, files, killAt });
        const shipper = fixture.shipper({ name, ...options });
        for (const file of files) await shipper.add(file);
        const receiver = fixture.receiver({ name });
        await receiver.run(countWords, { until: "empty" });
        expect([killAt, await receiver.results("words")]).toEqual([killAt, wordsOf(lines)]);
        if (outcome === "done") break;
        kills++;
      }
      expect(kills).toBeGreaterThanOrEqual(fixture.mode === "cluster" ? 1 : 3);
      // Chunks of dead shippers that were not committed expire.
      await eventually(async () => expect((await redis.keys()).filter((key) => key.includes(":chunk:"))).toEqual([]));
    });

    it(
      "processes every line once when the receiver is killed after some of its commands",
      { timeout: 120_000 },
      async () => {
        const lines = logLines(0, 4_000);
        let kills = 0;
        for (const killAt of killPoints(fixture)) {
          const name = `channel ${String(killAt)}`;
          const shipper = fixture.shipper({ name, chunkBytes: 8_192 });
          await shipper.send("a", Readable.from([textOf(lines.slice(0, 2_500))]));
          await shipper.send("b", Readable.from([textOf(lines.slice(2_500))]));
          const options = { consumer: "c", flushLines: 800 };
          const outcome = await fixture.mortal("receive", { name, options, killAt });
          const receiver = fixture.receiver({ name, ...options });
          await receiver.run(countWords, { until: "empty" });
          expect([killAt, await receiver.results("words")]).toEqual([killAt, wordsOf(lines)]);
          expect([killAt, ...(await usedOf(shipper))]).toEqual([killAt, 0, 0]);
          if (outcome === "done") break;
          kills++;
        }
        expect(kills).toBeGreaterThanOrEqual(fixture.mode === "cluster" ? 1 : 3);
      },
    );

    it("sends no commands while it waits for space or data, and takes back the reservation of a dead shipper", async () => {
      const text = textOf(logLines(0, 3_000));
      const options = { limitBytes: 20_000, chunkBytes: 1_024, codec: "none" as const, leaseMs: 700 };
      const directory = await fixture.directory();
      const path = await writeLog(directory, "a.log", logLines(0, 3_000));
      // The reservation is made by the third command.
      expect(await fixture.mortal("ship", { options, files: [path], killAt: 5 })).toBe("killed");
      const shipper = fixture.shipper(options);
      const waiting = new Promise<void>((resolve) => shipper.on("waiting", () => resolve()));
      const sending = watched(shipper.send("b", Readable.from([text])));
      await waiting;
      await eventually(async () => expect((await usedOf(shipper))[0]).toBeGreaterThan(15_000));
      const idle = fixture.receiver({ name: "idle" });
      const idling = watched(idle.run(countWords));
      await eventually(async () => expect(await fixture.db.exists(fixture.keysOf("idle").channel)).toBe(1));
      // Both look again once they are subscribed.
      const subscribers = async (channel: string): Promise<number> => {
        const asked = redis.server.nodes.map((node) => node.call("PUBSUB", "NUMSUB", channel));
        return (await Promise.all(asked)).reduce((sum: number, reply) => sum + Number((reply as unknown[])[1]), 0);
      };
      for (const { events } of [fixture.keys, fixture.keysOf("idle")])
        await eventually(async () => expect(await subscribers(events)).toBeGreaterThan(0));
      let before = -1;
      await eventually(async () => {
        const calls = await scriptCalls(redis.server.nodes);
        const isQuiet = calls === before;
        before = calls;
        if (!isQuiet) throw new Error("somebody still sends commands");
      });
      for (let pings = 0; pings < 300; pings++) await fixture.db.exists(fixture.keys.channel);
      expect(await scriptCalls(redis.server.nodes)).toBe(before);
      expect([sending.isSettled, idling.isSettled]).toEqual([false, false]);
      const receiver = fixture.receiver({ flushLines: 100 });
      const running = receiver.run(countWords, { concurrency: 2 });
      await sending.promise;
      await shipper.add(path);
      await shipper.closeChannel();
      expect((await running).lines).toBe(6_000);
      await eventually(async () => expect(await usedOf(shipper)).toEqual([0, 0]));
      await idle.close();
      expect(await rejection(idling.promise)).toMatchObject({ code: "KIT_CLOSED" });
    });

    it("lets receivers commit and free memory at maxmemory, and shippers wait", async () => {
      const lines = logLines(0, 3_000);
      const shipper = fixture.shipper({ chunkBytes: 1_024, codec: "none" });
      await shipper.send("a", Readable.from([textOf(lines)]));
      const setLimit = (bytes: string): Promise<unknown> =>
        Promise.all(redis.server.nodes.map((node) => node.call("CONFIG", "SET", "maxmemory", bytes)));
      redis.defer(() => setLimit("0"));
      await setLimit("1");
      const receiver = fixture.receiver({ consumer: "c", flushLines: 500 });
      expect((await receiver.run(countWords, { until: "empty" })).lines).toBe(3_000);
      const full = new Promise<string>((resolve) => shipper.on("error", ({ code }) => resolve(code)));
      const sending = watched(shipper.send("b", Readable.from([textOf(lines)])));
      expect(await Promise.race([full, rejection(sending.promise)])).toMatchObject({ code: "KIT_SERVER_FULL" });
      await setLimit("0");
      await shipper.send("b", Readable.from([textOf(lines)]));
      expect((await receiver.run(countWords, { until: "empty" })).lines).toBe(3_000);
    });

    it("is deleted with its chunks and results while a shipper waits and a receiver reads", async () => {
      const lines = logLines(0, 12_000);
      const shipper = fixture.shipper({ limitBytes: 400_000, chunkBytes: 1_024, codec: "none" });
      const waiting = new Promise<void>((resolve) => shipper.once("waiting", () => resolve()));
      const sending = watched(shipper.send("a", Readable.from([textOf(lines)])));
      await waiting;
      const receiver = fixture.receiver();
      let isFirst = true;
      const running = receiver.run(async (some, results) => {
        results.increment("lines", "all", some.length);
        if (!isFirst) return;
        isFirst = false;
        // More chunks than one step of the deletion takes.
        expect(await fixture.db.hlen(fixture.keys.chunks)).toBeGreaterThan(200);
        await shipper.deleteChannel();
      });
      await Promise.allSettled([running, sending.promise]);
      expect(await rejection(running)).toMatchObject({ code: "KIT_LOGSHIP_RESET" });
      expect(await rejection(sending.promise)).toMatchObject({
        code: expect.stringMatching(/KIT_LOGSHIP_(RESET|INTERRUPTED|CHANNEL_CLOSED)/) as string,
      });
      await shipper.deleteChannel();
      await eventually(async () => expect(await redis.keys()).toEqual([]));
      // The name is free.
      await shipper.send("b", Readable.from([textOf(lines.slice(0, 50))]));
      expect((await fixture.receiver({ consumer: "d" }).run(countWords, { until: "empty" })).lines).toBe(50);
      await shipper.deleteChannel();
      expect(await redis.keys()).toEqual([]);
    });

    it("removes a consumer for good, by name or when it is silent and the shipper finds no space", async () => {
      const lines = logLines(0, 3_000);
      const options = { limitBytes: 20_000, chunkBytes: 1_024, codec: "none" } as const;
      const shipper = fixture.shipper({ ...options, consumers: ["never", "live"], dropSilentMs: 20_000 });
      const dead = fixture.receiver({ consumer: "dead" });
      await dead.run(countWords, { until: "empty" });
      await fixture.db.zadd(fixture.keys.seen, 1, "dead");
      const dropped: string[] = [];
      shipper.on("dropped", ({ consumer }) => dropped.push(consumer));
      expect(await shipper.removeConsumer("unknown")).toBe(false);
      const live = fixture.receiver({ consumer: "live", flushLines: 50 });
      const running = live.run(countWords);
      const waiting = new Promise<void>((resolve) => shipper.once("waiting", () => resolve()));
      const sending = shipper.send("a", Readable.from([textOf(lines)]));
      await waiting;
      expect(dropped).toEqual(["dead"]);
      expect(await shipper.removeConsumer("never")).toBe(true);
      await sending;
      await shipper.closeChannel();
      expect(await running).toEqual({ files: 1, lines: 3_000 });
      expect(await live.results("words")).toEqual(wordsOf(lines));
      expect(await usedOf(shipper)).toEqual([0, 0]);
      expect(await rejection(dead.run(countWords))).toMatchObject({ code: "KIT_LOGSHIP_DROPPED" });
      const anew = fixture.receiver({ consumer: "dead", from: "now" });
      expect(await rejection(anew.run(countWords))).toMatchObject({ code: "KIT_LOGSHIP_DROPPED" });
    });

    it("ends a stream whose process died, and not one that is at work", async () => {
      const shipper = fixture.shipper();
      const controller = new AbortController();
      const stream = new Readable({ read: () => undefined });
      const committed = new Promise<void>((resolve) => shipper.once("progress", () => resolve()));
      const cut = shipper.send("cut", stream, { id: "cut", signal: controller.signal });
      stream.push("one\ntwo\n");
      await committed;
      // Its reservation is still valid.
      expect(await shipper.endAbandoned(0)).toEqual([]);
      controller.abort(new Error("enough"));
      await rejection(cut);
      expect(await shipper.endAbandoned(60_000)).toEqual([]);
      expect(await shipper.endAbandoned(0)).toEqual(["cut"]);
      expect(await shipper.endAbandoned(0)).toEqual([]);
      const { files } = (await shipper.status())!;
      expect(files.map(({ fault }) => fault)).toEqual(["KIT_LOGSHIP_FENCED"]);
      expect(await linesOf(fixture.receiver())).toEqual({ cut: ["one", "two"] });
      // The consumer knows that its end is missing.
      expect(await shipper.send("cut", Readable.from(["all"]), { id: "cut" })).toMatchObject({ wasShipped: false });
    });

    it("reports that Redis lost its data, and ships a file again from its beginning", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 3_000);
      const path = await writeLog(directory, "a.log", lines);
      const shipper = fixture.shipper({ limitBytes: 20_000, chunkBytes: 1_024, codec: "none" });
      const receiver = fixture.receiver({ flushLines: 100 });
      const seen = new Promise<void>((resolve) => receiver.once("progress", () => resolve()));
      const running = receiver.run(async () => {
        // It cannot finish, so that the shipper is in the middle of the file.
        await shipped;
      });
      // It may meet the loss before anybody looks.
      running.catch(() => undefined);
      let release: () => void = () => undefined;
      const shipped = new Promise<void>((resolve) => (release = resolve));
      const waiting = new Promise<void>((resolve) => shipper.once("waiting", () => resolve()));
      const adding = shipper.add(path);
      await waiting;
      await fixture.db.del(...(await redis.keys()).filter((key) => !key.includes(":chunk:")));
      // No message comes; the shipper would look again within ten seconds.
      await fixture.db.publish(fixture.keys.events, "space");
      release();
      expect(await rejection(Promise.race([running, seen.then(() => "progress")]))).toMatchObject({
        code: "KIT_LOGSHIP_RESET",
      });
      const next = fixture.receiver({ flushLines: 100 });
      const again = next.run(countWords);
      expect((await adding).lines).toBe(3_000);
      await shipper.closeChannel();
      await again;
      expect(await next.results("words")).toEqual(wordsOf(lines));
    });

    it("rejects a damaged gzip source", async () => {
      const directory = await fixture.directory();
      const path = join(directory, "a.gz");
      const whole = gzipSync(textOf(logLines(0, 500)));
      await writeFile(path, whole.subarray(0, -9));
      const shipper = fixture.shipper();
      expect(await rejection(shipper.add(path))).toMatchObject({ code: "KIT_LOGSHIP_BAD_DATA", file: "a.gz" });
    });
  });
};
