import { realpath, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import { gzipSync } from "node:zlib";
import { eventually, useRedis } from "@kit/testing";
import { commandCall, inspectCall, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { connect } from "@kit/core";
import { describe, expect, it } from "vitest";
import { receiveCommand, shipCommand } from "../src/descriptor/commands.js";
import { logshipInspector } from "../src/descriptor/inspect.js";
import { bytesText, progressText } from "../src/descriptor/progress.js";
import { countWords, fixtureOf, logLines, textOf, writeLog } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const callOf = async (options: Readonly<Record<string, string | number | true>> = {}) => {
  const connection = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => connection.close());
  return commandCall(connection, redis.prefix, options);
};
const textWritten = ({ written }: { readonly written: { readonly bytes: readonly Uint8Array[] } }): string =>
  Buffer.concat(written.bytes).toString();

describe("kit ship and kit receive", () => {
  it("carry a directory and a file, and report files that were shipped before", async () => {
    const directory = await fixture.directory();
    const lines = logLines(0, 2_000);
    await writeLog(directory, "1.log", lines.slice(0, 1_000));
    const path = await writeLog(await fixture.directory(), "2.log.gz", lines.slice(1_000));
    const first = await callOf({ limit: 10_000_000, consumers: "a,b", quiet: true });
    await shipCommand.run(first, "web", directory, path);
    expect(first.written.lines).toMatchObject([
      { event: "shipped", name: "1.log", lines: 1_000, wasShipped: false },
      { event: "shipped", name: "2.log.gz", lines: 1_000, wasShipped: false },
    ]);
    const again = await callOf({ close: true, quiet: true });
    await shipCommand.run(again, "web", directory, path);
    expect(again.written.lines).toMatchObject([{ wasShipped: true }, { wasShipped: true }]);

    const seen = await logshipInspector.look(inspectCall(first.redis, redis.prefix), "web");
    expect(seen.data).toMatchObject({
      job: null,
      channel: { limitBytes: 10_000_000, isClosed: true, fileCount: 2, consumers: [{ name: "a" }, { name: "b" }] },
    });
    for (const consumer of ["a", "b"]) {
      const reading = await callOf();
      await receiveCommand.run(reading, "web", consumer);
      expect(textWritten(reading)).toBe(textOf(lines));
    }
    const refused = receiveCommand.run(await callOf({ from: "elsewhere" }), "web", "c");
    expect(await rejection(refused)).toBeInstanceOf(Error);
  });

  it("report a file that is shipped again", async () => {
    const directory = await fixture.directory();
    for (const file of ["1.log", "2.log"]) await writeLog(directory, file, logLines(0, 100));
    const shipping = await callOf({ quiet: true });
    await shipCommand.run(shipping, "web", directory);
    expect(shipping.written.lines).toMatchObject([
      { event: "copy", file: "2.log", of: "1.log" },
      { event: "shipped", name: "1.log" },
      { event: "shipped", name: "2.log", wasShipped: false },
    ]);
  });

  it("leave out a link that leads out of the directory, and name it", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "1.log", ["one"]);
    const outside = await writeLog(await realpath(await fixture.directory()), "secret", ["secret"]);
    await symlink(outside, join(directory, "2.log"));
    const shipping = await callOf({ quiet: true });
    await shipCommand.run(shipping, "web", directory);
    expect(shipping.written.lines).toMatchObject([
      { event: "skipped", file: "2.log", target: outside },
      { event: "shipped", name: "1.log" },
    ]);
    const all = await callOf({ quiet: true, dereference: true });
    await shipCommand.run(all, "web", directory);
    expect(all.written.lines).toMatchObject([
      { name: "1.log" },
      { event: "shipped", name: "2.log", wasShipped: false },
    ]);
  });

  it("name a gzip file of a followed log that they leave out", async () => {
    const path = await writeLog(await fixture.directory(), "app.log", ["two"]);
    await writeFile(`${path}.2.gz`, gzipSync("one\n"));
    await utimes(`${path}.2.gz`, 1_000, 1_000);
    const shipping = await callOf({ quiet: true, follow: true });
    const ended = shipCommand.run(shipping, "web", path);
    await eventually(() => expect(shipping.written.lines).toMatchObject([{ event: "skipped", file: "app.log.2.gz" }]));
    shipping.stop();
    expect(await ended).toBe("resumable");
  });

  it("end in order at a signal: written lines are committed, and the next run continues behind them", async () => {
    const lines = logLines(0, 6_000);
    await fixture.shipper({ chunkBytes: 2_048 }).send("a", new Blob([textOf(lines)]).stream());
    const reading = await callOf();
    const write = reading.output.bytes;
    // The signal comes in the middle of a write.
    const stopping = async (chunk: Uint8Array): Promise<void> => {
      reading.stop();
      await write(chunk);
    };
    const ended = receiveCommand.run({ ...reading, output: { ...reading.output, bytes: stopping } }, "web", "c");
    expect(await ended).toBe("resumable");
    expect(reading.written.bytes).toHaveLength(1);
    const next = await callOf({ once: true });
    await receiveCommand.run(next, "web", "c");
    expect(textWritten(reading) + textWritten(next)).toBe(textOf(lines));
  });

  it("quarantine a damaged file, show it, and retry it", async () => {
    const directory = await fixture.directory();
    await writeFile(join(directory, "1.gz"), gzipSync(textOf(logLines(0, 200))).subarray(0, -9));
    await writeLog(directory, "2.log", ["two"]);
    const shipping = await callOf({ quarantine: true, quiet: true });
    await shipCommand.run(shipping, "web", directory);
    expect(shipping.written.lines).toMatchObject([
      { event: "damaged", file: "1.gz", code: "KIT_LOGSHIP_BAD_DATA" },
      { event: "shipped", name: "2.log" },
    ]);
    const [part] = (await fixture.db.hget(fixture.keys.chunks, "2 0"))!.split(" ");
    const whole = (await fixture.db.getBuffer(fixture.keys.chunk(part!)))!;
    await fixture.db.setrange(fixture.keys.chunk(part!), 5, "#");
    const reading = await callOf({ once: true, quarantine: true });
    await receiveCommand.run(reading, "web", "c");
    expect(textWritten(reading)).toBe("");
    const seen = await logshipInspector.look(inspectCall(reading.redis, redis.prefix), "web");
    expect(seen.table?.rows.map(([file, state, , done]) => [file, state, done])).toEqual([
      ["2.log", "complete", "c 0 B, quarantined: KIT_LOGSHIP_BAD_DATA"],
    ]);
    await fixture.db.set(fixture.keys.chunk(part!), whole);
    const again = await callOf({ once: true, redo: true });
    await receiveCommand.run(again, "web", "c");
    expect(textWritten(again)).toBe("two\n");
  });

  it("return every byte as it was shipped, whatever it is, and several live logs at once", async () => {
    const shipper = fixture.shipper({ flushMs: 10, consumers: ["c", "other"] });
    const odd = Buffer.concat([
      Buffer.from("\ufeffone\r\n\r\n"),
      Buffer.from([0xff, 0xfe, 0, 10]),
      Buffer.alloc(3_000_000, "long"),
      Buffer.from("\nlast"),
    ]);
    await shipper.send("odd", Readable.from([odd]));
    await shipper.send("next", Readable.from(["next\n"]));
    const live = ["first", "second"].map((file) => shipper.writable(file));
    for (const [index, stream] of live.entries()) stream.write(`live ${String(index)}\n`);
    const reading = await callOf({ concurrency: 2 });
    const running = receiveCommand.run(reading, "web", "c");
    await eventually(() => {
      expect(textWritten(reading)).toContain("live 0");
      expect(textWritten(reading)).toContain("live 1");
    });
    for (const stream of live) await finished(stream.end());
    await shipper.closeChannel();
    await running;
    const alone = await callOf();
    await receiveCommand.run(alone, "web", "other");
    // The live files were opened side by side, so either may be the first.
    const wholes = ["live 0\nlive 1\n", "live 1\nlive 0\n"].map((end) =>
      Buffer.concat([odd, Buffer.from(`\nnext\n${end}`)]),
    );
    expect(wholes.some((whole) => Buffer.concat(alone.written.bytes).equals(whole))).toBe(true);
    expect(Buffer.concat(reading.written.bytes).length).toBe(wholes[0]!.length);
  });

  it("know no channel that nobody has shipped to, and make none", async () => {
    const reading = await callOf({ once: true });
    await receiveCommand.run(reading, "wbe", "c");
    expect(reading.written.reports).toEqual([{ channel: "wbe", consumer: "c" }]);
    expect(reading.written.notes).toEqual([expect.stringContaining('has no channel "wbe"')]);
    expect(await fixture.db.keys("*")).toEqual([]);
  });

  it("end while there is nothing to read", async () => {
    await fixture.shipper().send("a", new Blob(["one\n"]).stream());
    const reading = await callOf();
    const running = receiveCommand.run(reading, "web", "c");
    await expect.poll(() => textWritten(reading)).toBe("one\n");
    reading.stop();
    expect(await running).toBe("resumable");
  });
});

describe("kit inspect logship", () => {
  it("shows a job, and reports when there is nothing", async () => {
    const directory = await fixture.directory();
    await writeLog(directory, "1.log", logLines(0, 10));
    await fixture.job({ directory }).run(countWords);
    const { redis: connection } = await callOf();
    const { data, facts, table } = await logshipInspector.look(inspectCall(connection, redis.prefix), "web");
    expect(data).toMatchObject({ channel: null, job: [{ name: "1.log", isDone: true, lines: 10 }] });
    expect([facts?.[1], table?.rows.length]).toEqual([["job", "1 of 1 file done"], 1]);
    const none = await logshipInspector.look(inspectCall(connection, redis.prefix), "none");
    expect(none.facts?.at(-1)).toEqual(["state", "unknown: no job or channel has this name"]);
  });
});

describe("progress in words", () => {
  it("has a bar, a rate and the time left where the total is known", () => {
    expect(progressText("a", 512, 2_048, 512)).toBe("a [#####...............] 25% 512 B/s, 3.0 s left");
    expect(progressText("a", 512, 2_048, undefined)).toBe("a [#####...............] 25%");
    expect(progressText("a", 2_097_152, undefined, 2_097_152)).toBe("a 2.0 MiB 2.0 MiB/s");
    expect([bytesText(0), bytesText(1_023), bytesText(1_536)]).toEqual(["0 B", "1023 B", "1.5 KiB"]);
  });
});
