import {
  appendFile,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  truncate,
  unlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { FollowOptions, Shipper } from "../src/index.js";
import { fixtureOf, logLines, textOf, writeLog } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

/** Follows until `stop()`, which resolves with the error that ended it. */
const following = (
  path: string,
  options: FollowOptions = {},
  shipper: Shipper = fixture.shipper({ flushMs: 10 }),
): { readonly shipper: Shipper; readonly errors: string[]; stop(): Promise<unknown> } => {
  const controller = new AbortController();
  const ended = rejection(shipper.follow(path, { quietMs: 50, ...options, signal: controller.signal }));
  const errors: string[] = [];
  shipper.on("error", ({ message }) => errors.push(message));
  return {
    shipper,
    errors,
    stop: async () => {
      controller.abort(new Error("stopped"));
      return await ended;
    },
  };
};

/** All lines of the channel so far, in the order of its files. */
const collecting = (): { readonly lines: string[]; readonly files: string[] } => {
  const found = { lines: [] as string[], files: [] as string[] };
  const receiver = fixture.receiver({ flushMs: 20 });
  receiver.on("done", ({ file }) => found.files.push(file));
  receiver.run((lines) => void found.lines.push(...lines)).catch(() => undefined);
  return found;
};

const text = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => `line ${String(from + index)}\n`).join("");

const soon = async (check: () => void): Promise<void> => await eventually(check, { timeoutMs: 100_000 });

describe("following a log", () => {
  it("waits for the file, ships lines as they come, and half a line only when it is whole", async () => {
    const path = join(await fixture.directory(), "app.log");
    const { stop } = following(path);
    const got = collecting();
    await writeFile(path, "one\ntw");
    await soon(() => expect(got.lines).toEqual(["one"]));
    await appendFile(path, "o\nthree\n");
    await soon(() => expect(got.lines).toEqual(["one", "two", "three"]));
    expect(await stop()).toMatchObject({ message: "stopped" });
  });

  it.each([
    ["it is compressed already", ".1.gz"],
    ["the next file was rotated already", ".0"],
  ])("waits for the last lines of a rotated file, although %s", async (_, suffix) => {
    const path = join(await fixture.directory(), "app.log");
    const { errors, stop } = following(path, { quietMs: 500 });
    const got = collecting();
    await writeFile(path, text(0, 1));
    await soon(() => expect(got.lines).toHaveLength(1));
    await writeFile(path + suffix, suffix.endsWith("gz") ? gzipSync(text(0, 1)) : text(40, 41));
    const later = Date.now() / 1_000 + 0.4;
    await utimes(path + suffix, later, later);
    await rename(path, `${path}.1`);
    await writeFile(path, text(41, 42));
    for (let line = 1; line < 40; line++) {
      await appendFile(`${path}.1`, text(line, line + 1));
      await soon(() => expect([got.lines.length, errors]).toEqual([line + 1, []]));
    }
    const rest = suffix.endsWith("gz") ? text(41, 42) : text(40, 42);
    await soon(() => expect(got.lines).toEqual((text(0, 40) + rest).split("\n").slice(0, -1)));
    expect(await stop()).toMatchObject({ message: "stopped" });
    expect(errors).toEqual([]);
  });

  it("ships lines that are written into space that the file had reserved, and then the next file", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "app.log");
    const file = await open(path, "w");
    await file.truncate(1_000_000);
    await file.write("one\ntw", 0);
    const { stop, errors } = following(path);
    const got = collecting();
    await soon(() => expect(got.lines).toEqual(["one"]));
    await file.write("o\n", 6);
    await soon(() => expect(got.lines).toEqual(["one", "two"]));
    await file.truncate(8);
    await file.write("three\n", 8);
    await soon(() => expect(got.lines).toEqual(["one", "two", "three"]));
    await file.truncate(300_000);
    await file.close();
    await rename(path, `${path}.1`);
    await writeLog(directory, "app.log", ["four"]);
    await soon(() => expect(got.lines).toEqual(["one", "two", "three", "four"]));
    expect([got.files, errors]).toEqual([["app.log"], []]);
    await stop();
  });

  it("reads lines that are written to a file after it was rotated away, and then the next file", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "app.log");
    const { stop, errors } = following(path, { quietMs: 300 });
    const got = collecting();
    const lines = logLines(0, 400);
    await writeLog(directory, "app.log", lines.slice(0, 100));
    await soon(() => expect(got.lines).toEqual(lines.slice(0, 100)));
    await rename(path, join(directory, "app.log.1"));
    await writeLog(directory, "app.log", lines.slice(200, 300));
    // Its writer has the old one open still.
    await appendFile(join(directory, "app.log.1"), textOf(lines.slice(100, 200)));
    await soon(() => expect(got.lines).toEqual(lines.slice(0, 300)));
    await appendFile(path, textOf(lines.slice(300)));
    await soon(() => expect(got.lines).toEqual(lines));
    expect([got.files, errors]).toEqual([["app.log"], []]);
    await stop();
  });

  it("continues after a stop in which the log was rotated several times, without a gap or a repeat", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "app.log");
    const lines = logLines(0, 600);
    // Files rotated away before come first; a compressed copy is left out.
    await writeLog(directory, "app.log.2", lines.slice(0, 100));
    await writeLog(directory, "app.log.3.gz", lines.slice(0, 100));
    await writeLog(directory, "other.log", ["other"]);
    await writeLog(directory, "app.log", lines.slice(100, 200));
    const first = following(path);
    const got = collecting();
    await soon(() => expect(got.lines).toEqual(lines.slice(0, 200)));
    await first.stop();
    await appendFile(path, textOf(lines.slice(200, 300)));
    await rename(path, join(directory, "app.log.1"));
    for (const [from, to] of [
      ["app.log.2", "app.log.4"],
      ["app.log.1", "app.log.3"],
    ] as const)
      await rename(join(directory, from), join(directory, to));
    const aged = async (file: string, some: readonly string[], seconds: number): Promise<void> =>
      await utimes(await writeLog(directory, file, some), seconds, Date.now() / 1_000 + seconds);
    await aged("app.log.2", lines.slice(300, 400), 10);
    await aged("app.log.1", lines.slice(400, 500), 20);
    await aged("app.log", lines.slice(500), 30);
    const second = following(path);
    await soon(() => expect(got.lines).toEqual(lines));
    expect(second.errors).toEqual([]);
    await second.stop();
  });

  it("keeps up with a hundred rotations, some of them deleted while they are read", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "app.log");
    const { stop, errors } = following(path);
    const got = collecting();
    const lines = logLines(0, 1_000);
    for (let index = 0; index < 100; index++) {
      await writeLog(directory, "next", lines.slice(10 * index, 10 * index + 10));
      await rename(join(directory, "next"), path);
      await rename(path, join(directory, `app.log.${String(index)}`));
    }
    await soon(() => expect(got.lines.length).toBeGreaterThan(0));
    await writeLog(directory, "app.log", ["last"]);
    await soon(() => expect(got.lines).toEqual([...lines, "last"]));
    await unlink(path);
    await writeLog(directory, "app.log", ["after the deletion"]);
    await soon(() => expect(got.lines.at(-1)).toBe("after the deletion"));
    expect(errors).toEqual([]);
    await stop();
  });

  it("continues after a stop in which the file that it was shipping was rotated away and compressed", async () => {
    const path = join(await fixture.directory(), "app.log");
    await writeFile(`${path}.4.gz`, gzipSync(text(400, 410)));
    await utimes(`${path}.4.gz`, 999, 999);
    await writeFile(path, text(0, 10));
    const first = following(path);
    const got = collecting();
    await soon(() => expect(got.lines).toHaveLength(10));
    await first.stop();
    await appendFile(path, text(10, 15));
    for (const [at, name] of [".3.gz", ".2.gz"].entries()) {
      await writeFile(`${path}${name}`, gzipSync(await readFile(path)));
      // Rotations are not within one tick of the file system's clock, which orders the files.
      await utimes(`${path}${name}`, 1_000 + at, 1_000 + at);
      await unlink(path);
      await writeFile(path, text(15 + 10 * at, 25 + 10 * at));
    }
    const second = following(path, { rotated: /^app\.log\.\d/ });
    await soon(() => expect(textOf(got.lines)).toBe(text(0, 35)));
    await second.stop();
    expect(second.errors).toEqual([]);
  });

  it("ships a file that was compressed before its shipper, which died, had sent any of it", async () => {
    const path = join(await fixture.directory(), "app.log");
    const shipper = fixture.shipper({ flushMs: 600_000 });
    await writeFile(path, text(0, 10));
    const first = following(path, {}, shipper);
    const isOpen = async (): Promise<void> => expect(await fixture.db.hget(fixture.keys.files, "1:state")).toBe("open");
    await eventually(isOpen);
    await first.stop();
    expect(await fixture.db.hget(fixture.keys.files, "1:text")).toBe("0");
    await writeFile(`${path}.1.gz`, gzipSync(text(0, 15)));
    await utimes(`${path}.1.gz`, 1_000, 1_000);
    await unlink(path);
    await writeFile(path, text(15, 20));
    const got = collecting();
    const second = following(path);
    await soon(() => expect(textOf(got.lines)).toBe(text(0, 20)));
    await second.stop();
    expect(second.errors).toEqual([]);
  });

  it("ships files that were rotated and compressed while it did not look, after one that it had shipped", async () => {
    const path = join(await fixture.directory(), "app.log");
    await writeFile(path, text(0, 10));
    const first = following(path);
    const got = collecting();
    await soon(() => expect(got.lines).toHaveLength(10));
    await rename(path, `${path}.2`);
    await soon(() => expect(got.files).toHaveLength(1));
    await first.stop();
    for (const [at, from, to] of [
      [2, 0, 10],
      [1, 10, 20],
    ] as const) {
      await writeFile(`${path}.${String(at)}.gz`, gzipSync(text(from, to)));
      await utimes(`${path}.${String(at)}.gz`, 1_000 - at, 1_000 - at);
    }
    await unlink(`${path}.2`);
    await writeFile(path, text(20, 30));
    const second = following(path);
    await soon(() => expect(got.lines.at(-1)).toBe("line 29"));
    expect(textOf(got.lines)).toBe(text(0, 30));
    await second.stop();
    expect(second.errors).toEqual([]);
  });

  it.each([
    ["another text than the shipped file", text(10, 20), 0],
    ["the text of the shipped file and more", text(0, 20), 1],
  ])("ships a gzip file from a stop that has %s, which is gone", async (_, before, copyCount) => {
    const path = join(await fixture.directory(), "app.log");
    await writeFile(path, text(0, 10));
    const first = following(path);
    const got = collecting();
    await soon(() => expect(got.lines).toHaveLength(10));
    await rename(path, `${path}.1`);
    await soon(() => expect(got.files).toHaveLength(1));
    await first.stop();
    await unlink(`${path}.1`);
    await writeFile(`${path}.1.gz`, gzipSync(before));
    await writeFile(path, text(20, 30));
    const second = following(path);
    const copies: unknown[] = [];
    second.shipper.on("copy", (copy) => copies.push(copy));
    await soon(() => expect(got.lines.at(-1)).toBe("line 29"));
    expect(textOf(got.lines)).toBe(text(0, 10) + before + text(20, 30));
    await second.stop();
    const copy = { file: "app.log.1.gz", of: expect.stringContaining(" ") as string, to: text(0, 10).length };
    expect([copies, second.errors]).toEqual([Array.from({ length: copyCount }, () => copy), []]);
  });

  it("leaves out gzip files that are older than the channel, and reports them", async () => {
    const path = join(await fixture.directory(), "app.log");
    for (const [file, content] of [
      [`${path}.3.gz`, gzipSync(text(0, 10))],
      [`${path}.2.gz`, gzipSync(text(10, 20))],
      [`${path}.1`, text(10, 20)],
    ] as const)
      await writeFile(file, content);
    await utimes(`${path}.3.gz`, 1_000, 1_000);
    await utimes(`${path}.1`, 2_000, 2_000);
    await writeFile(path, text(20, 30));
    const { shipper, stop, errors } = following(path);
    const skipped: unknown[] = [];
    shipper.on("skipped", (fact) => skipped.push(fact));
    const got = collecting();
    await soon(() => expect(textOf(got.lines)).toBe(text(10, 30)));
    await stop();
    expect([skipped, errors]).toEqual([[{ file: "app.log.3.gz" }, { file: "app.log.2.gz" }], []]);
  });

  it.skipIf(process.platform !== "linux")("knows a gzip file that was empty when it was opened", async () => {
    const path = join(await fixture.directory(), "app.log");
    const gzip = `${path}.2.gz`;
    await writeFile(gzip, "");
    await writeFile(path, text(0, 10));
    const { stop, errors } = following(path, { quietMs: 600_000 });
    const got = collecting();
    const isOpen = async (): Promise<void> => {
      const handles = (await readdir("/proc/self/fd")).map((handle) => readlink(`/proc/self/fd/${handle}`));
      expect((await Promise.allSettled(handles)).map((handle) => "value" in handle && handle.value)).toContain(gzip);
    };
    await eventually(isOpen);
    await writeFile(gzip, gzipSync(text(0, 10_000)));
    await soon(() => expect(textOf(got.lines)).toBe(text(0, 10_000) + text(0, 10)));
    await stop();
    expect(errors).toEqual([]);
  });

  it("ships each file of a log whose first line is always the same, though inodes are used again and a file had only that", async () => {
    const path = join(await fixture.directory(), "app.log");
    const header = "time,level,text\n";
    await writeFile(path, header);
    const { stop, errors } = following(path);
    const got = collecting();
    for (let period = 0; period < 5; period++) {
      const inTime = period === 1 ? "" : text(10 * period, 10 * period + 10);
      await appendFile(path, inTime);
      await soon(() => expect(textOf(got.lines).endsWith(inTime || header)).toBe(true));
      const files = got.files.length;
      await rename(path, `${path}.1`);
      // A new file gets the inode that was freed last.
      await soon(() => expect(got.files).toHaveLength(files + 1));
      await writeFile(`${path}.2.gz`, gzipSync(await readFile(`${path}.1`)));
      await unlink(`${path}.1`);
      await writeFile(path, header);
    }
    expect(got.lines.filter((line) => line !== header.trimEnd())).toHaveLength(40);
    await stop();
    expect(errors).toEqual([]);
  });

  it("follows a link to another directory, from which no events come, and the link's next target", async () => {
    const directory = await fixture.directory();
    const elsewhere = join(directory, "elsewhere");
    await mkdir(elsewhere);
    const path = join(directory, "app.log");
    await writeLog(elsewhere, "monday", ["one"]);
    await symlink(join(elsewhere, "monday"), path);
    const { stop } = following(path);
    const got = collecting();
    await soon(() => expect(got.lines).toEqual(["one"]));
    await appendFile(join(elsewhere, "monday"), "two\n");
    await soon(() => expect(got.lines).toEqual(["one", "two"]));
    await writeLog(elsewhere, "tuesday", ["three"]);
    await symlink(join(elsewhere, "tuesday"), `${path}.new`);
    await rename(`${path}.new`, path);
    await soon(() => expect(got.lines).toEqual(["one", "two", "three"]));
    await rm(directory, { recursive: true });
    await stop();
  });

  it("waits for its directory, and continues when that is removed and created again", async () => {
    const directory = join(await fixture.directory(), "logs");
    const path = join(directory, "app.log");
    const { stop, errors } = following(path);
    const got = collecting();
    await mkdir(directory);
    await writeLog(directory, "app.log", ["one"]);
    await soon(() => expect(got.lines).toEqual(["one"]));
    await rm(directory, { recursive: true });
    await mkdir(directory);
    await writeLog(directory, "app.log", ["two"]);
    await soon(() => expect(got.lines).toEqual(["one", "two"]));
    expect(errors).toEqual([]);
    await stop();
  });

  it("reports a truncated log, and a file that grows after its end", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "app.log");
    await writeLog(directory, "app.log", ["one", "two"]);
    const shipper = fixture.shipper({ flushMs: 10 });
    const { errors } = following(path, {}, shipper);
    const got = collecting();
    await soon(() => expect(got.lines).toEqual(["one", "two"]));
    await link(path, `${path}.1`);
    await unlink(path);
    await writeLog(directory, "app.log", ["three"]);
    await soon(() => expect(got.lines).toEqual(["one", "two", "three"]));
    await appendFile(`${path}.1`, "too late\n");
    // It is checked when the next file has ended.
    await rename(path, `${path}.2`);
    const grown = "was processed or shipped to byte 8";
    await soon(() => expect(errors).toEqual([expect.stringContaining(grown)]));
    const truncated = join(directory, "b.log");
    await writeLog(directory, "b.log", ["one", "two"]);
    const other = fixture.shipper({ name: "other", flushMs: 10 });
    const committed = new Promise<void>((resolve) => other.once("progress", () => resolve()));
    const failing = rejection(other.follow(truncated));
    await committed;
    await truncate(truncated, 2);
    expect(await failing).toMatchObject({ code: "KIT_LOGSHIP_CHANGED", file: "b.log" });
  });
});
