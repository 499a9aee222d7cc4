import {
  appendFile,
  link,
  mkdir,
  open,
  rename,
  rm,
  symlink,
  truncate,
  unlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
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
  shipper.on("error", ({ code }) => errors.push(code));
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
    await soon(() => expect(errors).toEqual(["KIT_LOGSHIP_CHANGED"]));
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
