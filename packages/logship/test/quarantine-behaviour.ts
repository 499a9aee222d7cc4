import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import type { KitError } from "@kit/core";
import { rejection } from "@tooling/vitest/helpers";
import { describe, expect, it } from "vitest";
import { countWords, type Fixture, logLines, textOf, wordsOf, writeLog } from "./harness.js";

/** Files that cannot be read or shipped to their end, on one server or on a Cluster. */
export const quarantineBehaviour = (fixture: Fixture): void => {
  describe("a log channel with a file that is damaged", () => {
    const lines = logLines(0, 300);
    /** Files `bad` and `good`, the first damaged in its third chunk; returns what repairs it. */
    const damagedChannel = async (): Promise<() => Promise<void>> => {
      const shipper = fixture.shipper({ chunkBytes: 1_024, codec: "none", consumers: ["keeps", "gives up"] });
      for (const file of ["bad", "good"]) await shipper.send(file, Readable.from([textOf(lines)]));
      const key = fixture.keys.chunk((await fixture.db.hget(fixture.keys.chunks, "1 2"))!.split(" ")[0]!);
      const byte = await fixture.db.getrangeBuffer(key, 100, 100);
      await fixture.db.setrange(key, 100, "#");
      return async () => void (await fixture.db.setrange(key, 100, byte));
    };

    it("quarantines it, continues with those behind it, shows it, and retries it on request", async () => {
      const repair = await damagedChannel();
      for (const consumer of ["keeps", "gives up"]) await fixture.shipper().removeConsumer(consumer);
      const receiver = fixture.receiver({ onBadData: "quarantine", flushLines: 10 });
      const damaged: unknown[] = [];
      receiver.on("damaged", ({ file, error }) => damaged.push([file, error.code]));
      const { files } = await receiver.run(countWords, { until: "empty" });
      expect([files, damaged]).toEqual([1, [["bad", "KIT_LOGSHIP_BAD_DATA"]]]);
      const { files: left, usedBytes } = (await receiver.status())!;
      expect(left.map(({ name, quarantined }) => [name, quarantined])).toEqual([
        ["bad", { c: "KIT_LOGSHIP_BAD_DATA" }],
      ]);
      expect(usedBytes).toBeGreaterThan(textOf(lines).length / 2);
      const sample = (await receiver.metrics()).find(({ name }) => name === "logship_quarantined_files");
      expect([sample?.value, sample?.labels]).toEqual([1, { channel: "web", consumer: "c" }]);
      // Neither this process nor another one of this consumer retries it without a request.
      const next = fixture.receiver({ onBadData: "quarantine" });
      expect(await next.run(countWords, { until: "empty" })).toEqual({ files: 0, lines: 0 });
      await repair();
      expect(await next.redo()).toEqual(["bad"]);
      expect((await next.run(countWords, { until: "empty" })).files).toBe(1);
      const expected = [...wordsOf(lines)].map(([word, count]) => [word, String(2 * Number(count))] as const);
      expect(await next.results("words")).toEqual(new Map(expected));
      expect(await next.redo()).toEqual([]);
      expect((await next.status())!.usedBytes).toBe(0);
    });

    it("can be quarantined or skipped by a caller that reads files one by one", async () => {
      await damagedChannel();
      for (const consumer of ["keeps", "gives up"]) {
        const receiver = fixture.receiver({ consumer });
        const read: string[] = [];
        for await (const file of receiver.files({ until: "empty" }))
          try {
            for await (const line of file.lines()) read.push(line);
            await file.commit();
          } catch (error) {
            await (consumer === "keeps" ? file.quarantine(error as KitError) : file.giveUp());
          }
        expect(read.slice(-300)).toEqual(lines);
      }
      const { files } = (await fixture.shipper().status())!;
      expect(files.map(({ quarantined }) => quarantined)).toEqual([{ keeps: "KIT_LOGSHIP_BAD_DATA" }]);
    });
  });

  describe("a source that cannot be shipped to its end", () => {
    it("ends in the channel with `quarantine`: those behind it arrive, receivers emit `damaged`, and it can be shipped again", async () => {
      const directory = await fixture.directory();
      const [bad, good] = [logLines(0, 2_000), logLines(2_000, 100)];
      const whole = gzipSync(textOf(bad));
      await writeFile(join(directory, "1.gz"), whole.subarray(0, -9));
      await writeLog(directory, "2.log", good);
      const shipper = fixture.shipper({ onBadData: "quarantine", chunkBytes: 1_024 });
      const left: unknown[] = [];
      shipper.on("damaged", ({ file, error }) => left.push([file, error.code]));
      const shipped = await shipper.addDirectory(directory);
      expect([left, shipped.map(({ name }) => name)]).toEqual([[["1.gz", "KIT_LOGSHIP_BAD_DATA"]], ["2.log"]]);
      const receiver = fixture.receiver();
      const damaged: unknown[] = [];
      receiver.on("damaged", ({ file, error }) => damaged.push([file, error.code]));
      expect((await receiver.run(() => undefined, { until: "empty" })).files).toBe(2);
      expect(damaged).toEqual([["1.gz", "KIT_LOGSHIP_BROKEN_OFF"]]);
      await writeFile(join(directory, "1.gz"), whole);
      expect((await shipper.addDirectory(directory)).map(({ wasShipped }) => wasShipped)).toEqual([false, true]);
      expect((await receiver.run(countWords, { until: "empty" })).lines).toBe(2_000);
      expect(await receiver.results("words")).toEqual(wordsOf(bad));
    });

    it("ends in the channel if it is a stream without an identity, which no other call can continue", async () => {
      const shipper = fixture.shipper();
      const failing = (): Readable =>
        Readable.from(
          (async function* () {
            yield "one\n";
            throw new Error("the source failed");
          })(),
        );
      expect(await rejection(shipper.send("a", failing()))).toMatchObject({ message: "the source failed" });
      expect(await rejection(shipper.send("b", Readable.from(["half \ud83d"])))).toBeInstanceOf(TypeError);
      expect(await rejection(shipper.send("c", failing(), { id: "c" }))).toMatchObject({
        message: "the source failed",
      });
      const { files } = (await shipper.status())!;
      expect(files.map(({ name, isSealed, fault }) => [name, isSealed, fault])).toEqual([
        ["a", true, "KIT_LOGSHIP_INTERRUPTED"],
        ["b", true, "KIT_LOGSHIP_INTERRUPTED"],
        ["c", false, undefined],
      ]);
    });
  });

  it("keeps the results of consumers, and of a job of the same name, apart", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 50);
    await writeLog(directory, "a.log", lines);
    const job = fixture.job({ directory });
    await job.run(countWords);
    await fixture.shipper({ consumers: ["a", "b"] }).addDirectory(directory);
    for (const consumer of ["a", "b"]) {
      const receiver = fixture.receiver({ consumer });
      await receiver.run(countWords, { until: "empty" });
      expect(await receiver.results("words")).toEqual(wordsOf(lines));
    }
    await job.delete();
    expect(await fixture.receiver({ consumer: "a" }).results("words")).toEqual(wordsOf(lines));
  });
};
