import {
  appendFile,
  copyFile,
  open,
  readFile,
  rename,
  rm,
  stat,
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
import type { LogJob, Padding, Shipper } from "../src/index.js";
import { fixtureOf, logLines, textOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const lines = logLines(0, 9_000);

/** Counts each line by itself: a line that is counted twice shows. */
const run = async (job: LogJob, concurrency = 1): Promise<void> => {
  await job.run((some, results) => some.forEach((line) => void results.increment("lines", line)), { concurrency });
};
const counted = async (job: LogJob): Promise<Map<string, string>> => await job.results("lines");
const once = (some: readonly string[]): Map<string, string> => new Map(some.map((line) => [line, "1"]));

const gzipFile = async (path: string): Promise<void> => {
  await writeFile(`${path}.gz`, gzipSync(await readFile(path)));
  await unlink(path);
};
/** The same content in another inode, as `rsync` and editors replace a file. */
const replace = async (path: string, text: string): Promise<void> => {
  await writeFile(`${path}~`, text);
  await rename(`${path}~`, path);
};
const job = async (
  options: object = {},
): Promise<{ job: LogJob; path: string; gaps: unknown[]; paddings: Padding[] }> => {
  const directory = await fixture.directory();
  const made = fixture.job({ directory, flushLines: 100, match: /^a\.log[^~]*$/, ...options });
  const [gaps, paddings]: [unknown[], Padding[]] = [[], []];
  made.on("gap", (gap) => gaps.push(gap));
  made.on("padding", (padding) => paddings.push(padding));
  return { job: made, path: join(directory, "a.log"), gaps, paddings };
};

describe("a job counts a line once", () => {
  it("through a rotation that compresses the file before the last one", async () => {
    const { job: own, path } = await job();
    for (let day = 0; day < 4; day++) {
      await writeFile(path, textOf(lines.slice(day * 200, day * 200 + 200)));
      await run(own);
      for (let old = 5; old >= 2; old--)
        await rename(`${path}.${String(old)}.gz`, `${path}.${String(old + 1)}.gz`).catch(() => undefined);
      if (day > 0) await gzipFile(`${path}.1`).then(() => rename(`${path}.1.gz`, `${path}.2.gz`));
      await rename(path, `${path}.1`);
    }
    await run(own);
    expect(await counted(own)).toEqual(once(lines.slice(0, 800)));
    expect((await own.files()).map(({ isDone }) => isDone)).toEqual(Array.from({ length: 4 }, () => true));
  });

  it("when the file comes back in another inode, as it was or grown, plain or compressed", async () => {
    const { job: own, path } = await job();
    for (const [from, to, write] of [
      [0, 300, replace],
      [300, 300, replace],
      [300, 301, replace],
      [301, 700, (at: string, text: string) => rm(at).then(() => writeFile(`${at}.gz`, gzipSync(text)))],
      [700, 700, (at: string, text: string) => rm(`${at}.gz`).then(() => writeFile(at, text))],
      [700, 900, replace],
    ] as const) {
      await write(path, textOf(lines.slice(0, to)));
      await run(own);
      expect(await counted(own)).toEqual(once(lines.slice(0, to)));
      expect(from).toBeLessThanOrEqual(to);
    }
  });

  it("of a short file that an editor replaces, and of its last line that was a part", async () => {
    const { job: own, path } = await job({ lastLine: "leave" });
    await writeFile(path, "1\n2\n3-ha");
    await run(own);
    await replace(path, "1\n2\n3-half\n4\n");
    await run(own);
    expect(await counted(own)).toEqual(once(["1", "2", "3-half", "4"]));
  });

  it("when the compressed file is there next to the plain one, and while the worker stopped in the middle", async () => {
    const { job: own, path } = await job();
    await writeFile(path, textOf(lines));
    let batches = 0;
    const failing = own.run((some, results) => {
      if (++batches > 1) throw new Error("enough");
      some.forEach((line) => void results.increment("lines", line));
    });
    expect(await rejection(failing)).toMatchObject({ message: "enough" });
    await writeFile(`${path}.gz`, gzipSync(textOf(lines)));
    await run(own, 2);
    await run(own, 2);
    expect(await counted(own)).toEqual(once(lines));
    await unlink(path);
    await run(own);
    expect(await counted(own)).toEqual(once(lines));
  });

  it("when its worker stopped in the middle, and another file has the inode since", async () => {
    const { job: own, path } = await job();
    await writeFile(path, textOf(lines));
    const failing = own.run(() => {
      throw new Error("enough");
    });
    expect(await rejection(failing)).toMatchObject({ message: "enough" });
    await gzipFile(path);
    await writeFile(`${path}.other`, "other\n");
    const { dev, ino } = await stat(`${path}.other`, { bigint: true });
    const contents = (await fixture.db.hkeys(fixture.keys.progress)).filter((field) => field.endsWith(":file"));
    await fixture.db.hset(fixture.keys.progress, contents[0]!, `${dev.toString(36)}-${ino.toString(36)}`);
    await run(own);
    expect(await counted(own)).toEqual(once([...lines, "other"]));
  });

  it("when two workers meet a file and its compressed copy for the first time at once", async () => {
    const { job: own, path } = await job();
    await writeFile(path, textOf(lines));
    await writeFile(`${path}.gz`, gzipSync(textOf(lines)));
    await run(own, 2);
    expect(await counted(own)).toEqual(once(lines));
  });

  it("through `copytruncate`: the copy continues where the file was left", async () => {
    const { job: own, path, gaps } = await job();
    await writeFile(path, textOf(lines.slice(0, 200)));
    await run(own);
    await appendFile(path, textOf(lines.slice(200, 250)));
    await copyFile(path, `${path}.1`);
    await truncate(path, 0);
    await appendFile(path, textOf(lines.slice(250, 300)));
    await run(own);
    expect(await counted(own)).toEqual(once(lines.slice(0, 300)));
    expect(gaps).toEqual([]);
  });

  it("and of two files that both stay each for itself, with a `copy` event", async () => {
    const { job: own, path } = await job();
    const copies: unknown[] = [];
    own.on("copy", (copy) => copies.push(copy));
    await writeFile(path, textOf(lines.slice(0, 200)));
    await copyFile(path, `${path}.bak`);
    await appendFile(path, textOf(lines.slice(200, 300)));
    await run(own);
    await run(own);
    const twice = new Map(lines.slice(0, 300).map((line, index) => [line, index < 200 ? "2" : "1"]));
    expect(await counted(own)).toEqual(twice);
    expect(copies).toEqual([{ file: "a.log.bak", of: "a.log", to: Buffer.byteLength(textOf(lines.slice(0, 200))) }]);
  });

  it("of files that start with the same text, and of equal ones that are both there, as two", async () => {
    const { job: own, path } = await job();
    const head = `${"#".repeat(2_048)}\n`;
    await writeFile(path, `${head}a\n`);
    await writeFile(`${path}.1`, `${head}b\n`);
    await writeFile(`${path}.2`, "same\n");
    await writeFile(`${path}.3`, "same\n");
    for (const end of ["4", "5"]) await writeFile(`${path}.${end}`, textOf(lines.slice(0, 200)));
    const copies: unknown[] = [];
    own.on("copy", (copy) => copies.push(copy));
    await run(own);
    expect(copies).toEqual([
      { file: "a.log.3", of: "a.log.2", to: 5 },
      { file: "a.log.5", of: "a.log.4", to: Buffer.byteLength(textOf(lines.slice(0, 200))) },
    ]);
    expect(await counted(own)).toEqual(
      new Map([
        ["#".repeat(2_048), "2"],
        ["a", "1"],
        ["b", "1"],
        ["same", "2"],
        ...lines.slice(0, 200).map((line) => [line, "2"] as const),
      ]),
    );
  });

  it("and of a file that became shorter and starts as before again, with a `copy` event if its beginning was long", async () => {
    for (const [before, after, event] of [
      [200, 5_000, [{ file: "a.log", of: "a.log", to: 5_000 }]],
      [3, 20, []],
    ] as const) {
      const { job: own, path } = await job({ name: `job ${String(after)}`, lastLine: "leave" });
      const copies: unknown[] = [];
      own.on("copy", (copy) => copies.push(copy));
      const [long, short] = [
        lines.slice(0, before),
        Buffer.from(textOf(lines.slice(0, before)))
          .toString("utf8", 0, after)
          .split("\n")
          .slice(0, -1),
      ];
      await writeFile(path, textOf(long));
      await run(own);
      await truncate(path, after);
      await run(own);
      expect(await counted(own)).toEqual(new Map(long.map((line) => [line, short.includes(line) ? "2" : "1"])));
      expect(copies).toEqual(event);
      await truncate(path, 0);
      await appendFile(path, "another\n");
      await run(own);
      expect((await counted(own)).get("another")).toBe("1");
    }
  });

  it("but reports one that may be the beginning of a longer one that is gone", async () => {
    for (const [index, write] of [replace, (path: string, text: string) => writeFile(path, gzipSync(text))].entries()) {
      const { job: own, path } = await job({ name: `job ${String(index)}` });
      const copies: unknown[] = [];
      own.on("copy", (copy) => copies.push(copy));
      await writeFile(path, textOf(lines.slice(0, 200)));
      await run(own);
      // Its own predecessor is there under another name: it begins in the same way, and is not a copy.
      await rename(path, `${path}.1`);
      await writeFile(path, `${textOf(lines.slice(0, 80))}other\n`);
      await run(own);
      expect([copies, (await counted(own)).get("other")]).toEqual([[], "1"]);
      await rm(path);
      await rm(`${path}.1`);
      await write(`${path}.2`, textOf(lines.slice(0, 100)));
      await run(own);
      const to = Buffer.byteLength(textOf(lines.slice(0, 100)));
      expect(copies).toEqual([{ file: "a.log.2", of: "a.log", to }]);
      await run(own);
      expect(copies).toHaveLength(1);
    }
  });

  it("and reports what a truncation took, if no copy has it", async () => {
    const { job: own, path, gaps } = await job();
    await writeFile(path, textOf(lines.slice(0, 300)));
    const failing = own.run(() => {
      throw new Error("enough");
    });
    expect(await rejection(failing)).toMatchObject({ message: "enough" });
    const { size } = await stat(path);
    await truncate(path, 0);
    await appendFile(path, textOf(lines.slice(300, 310)));
    await run(own);
    expect(gaps).toEqual([{ file: "a.log", from: 0, to: size }]);
    expect(await counted(own)).toEqual(once(lines.slice(300, 310)));
    // All that was there is counted, but more may have been written before it was truncated.
    const { size: from } = await stat(path);
    await truncate(path, 0);
    await appendFile(path, textOf(lines.slice(310, 320)));
    await run(own);
    expect(gaps.slice(1)).toEqual([{ file: "a.log", from, to: from }]);
  });

  it("and reports that once, in a run that processes the file, though one before found it and failed", async () => {
    const { job: own, path, gaps } = await job();
    const fail = async (): Promise<void> => {
      const failing = own.run(() => {
        throw new Error("enough");
      });
      expect(await rejection(failing)).toMatchObject({ message: "enough" });
    };
    await writeFile(path, textOf(lines.slice(0, 300)));
    await run(own);
    const { size } = await stat(path);
    await truncate(path, 0);
    await appendFile(path, textOf(lines.slice(300, 310)));
    await fail();
    await fail();
    expect(gaps).toEqual([]);
    await run(own);
    await appendFile(path, textOf(lines.slice(310, 320)));
    await fail();
    await run(own);
    expect(gaps).toEqual([{ file: "a.log", from: size, to: size }]);
    expect(await counted(own)).toEqual(once(lines.slice(0, 320)));
  });

  it("behind zero bytes, which are dropped and reported once something follows them", async () => {
    const { job: own, path, paddings } = await job();
    const sum = (): number => paddings.splice(0).reduce((all, { bytes }) => all + bytes, 0);
    const file = await open(path, "w");
    await file.write("one\n", 3_000_000);
    await file.truncate(3_100_000);
    await file.close();
    await run(own);
    expect(sum()).toBe(3_000_000);
    await appendFile(path, "\0\0two\n\0three\n");
    await run(own);
    expect(await counted(own)).toEqual(once(["one", "two", "three"]));
    expect(sum()).toBe(99_996 + 3);
  });

  it.each(["take", "leave"])("of a file whose space was reserved before, with `%s`", async (lastLine) => {
    const { job: own, path, gaps } = await job({ lastLine });
    const file = await open(path, "w");
    let end = 0;
    const write = async (text: string): Promise<void> => void (end += (await file.write(text, end)).bytesWritten);
    await file.truncate(65_536);
    // The first lines are shorter than what a file is known by.
    for (const [from, to] of [
      [0, 5],
      [5, 10],
      [10, 100],
      [100, 150],
    ] as const) {
      await write(textOf(lines.slice(from, to)));
      await run(own);
      expect(await counted(own)).toEqual(once(lines.slice(0, to)));
    }
    await write("a part");
    await run(own);
    await write(" and the rest\n");
    await file.truncate(end);
    await file.close();
    await run(own);
    const rest = lastLine === "take" ? ["a part", " and the rest"] : ["a part and the rest"];
    expect(await counted(own)).toEqual(once([...lines.slice(0, 150), ...rest]));
    expect(gaps).toEqual([]);
  });
});

it("a job refuses a container that it cannot read, by its name, whatever the file is called", async () => {
  for (const [magic, container] of [
    ["28b52ffd0400", "zstd"],
    ["fd377a585a0000", "xz"],
    ["425a68393141592653", "bzip2"],
    ["504b030414", "zip"],
    ["502a4d1804000000", "zstd"],
    ["5f2a4d1804000000", "zstd"],
    ["5d00008000ff", "lzma"],
    ["4c5a4950010c", "lzip"],
    ["526172211a0700", "rar"],
  ] as const) {
    const { job: own, path } = await job({ name: `job ${magic}` });
    await writeFile(path, Buffer.from(`${magic}0a`, "hex"));
    const error = (await rejection(run(own))) as Error;
    expect(error).toMatchObject({ code: "KIT_LOGSHIP_BAD_DATA", file: "a.log" });
    expect(error.message).toContain(container);
  }
  const { job: text, path } = await job({ name: "text" });
  await writeFile(path, "BZhello\n");
  await writeFile(`${path}.1`, "LZIP is a format, X*M another\n");
  await run(text);
  expect(await counted(text)).toEqual(once(["BZhello", "LZIP is a format, X*M another"]));
  await utimes(path, 0, 0);
});

describe("a shipper puts a line into the channel once", () => {
  const ship = async (): Promise<{ shipper: Shipper; path: string; directory: string }> => {
    const directory = await fixture.directory();
    return { shipper: fixture.shipper({ consumers: ["c"] }), path: join(directory, "a.log"), directory };
  };
  const received = async (): Promise<Map<string, string>> => {
    const receiver = fixture.receiver();
    await receiver.run((some, results) => some.forEach((line) => void results.increment("lines", line)), {
      until: "empty",
    });
    return await receiver.results("lines");
  };

  it("of a directory each night, though its files are compressed after a day", async () => {
    const { shipper, path, directory } = await ship();
    for (let day = 0; day < 4; day++) {
      await writeFile(path, textOf(lines.slice(day * 200, day * 200 + 200)));
      for (let old = 5; old >= 2; old--)
        await rename(`${path}.${String(old)}.gz`, `${path}.${String(old + 1)}.gz`).catch(() => undefined);
      if (day > 0) await gzipFile(`${path}.1`).then(() => rename(`${path}.1.gz`, `${path}.2.gz`));
      await rename(path, `${path}.1`);
      const files = await shipper.addDirectory(directory);
      expect(files.filter(({ wasShipped }) => !wasShipped)).toHaveLength(1);
      // Also once nothing of it is left in the channel.
      if (day === 1) await received();
    }
    expect(await received()).toEqual(once(lines.slice(0, 800)));
  });

  it("of a file that was shipped in part, and comes back compressed and grown", async () => {
    const { shipper, path } = await ship();
    await writeFile(path, textOf(lines));
    const controller = new AbortController();
    shipper.once("progress", () => controller.abort(new Error("enough")));
    const adding = shipper.add(path, { signal: controller.signal });
    expect(await rejection(adding)).toMatchObject({ message: "enough" });
    await appendFile(path, "one more\n");
    await gzipFile(path);
    expect(await shipper.add(`${path}.gz`)).toMatchObject({ id: 1, wasShipped: false, lines: lines.length + 1 });
    expect(await received()).toEqual(once([...lines, "one more"]));
  });

  it("and reports one that may be the beginning of a longer one that is gone", async () => {
    const directory = await fixture.directory();
    const shipper = fixture.shipper();
    const copies: unknown[] = [];
    shipper.on("copy", (copy) => copies.push(copy));
    await writeFile(join(directory, "a.log"), textOf(lines.slice(0, 200)));
    await shipper.addDirectory(directory);
    await replace(join(directory, "a.log"), textOf(lines.slice(0, 100)));
    await shipper.addDirectory(directory);
    const to = Buffer.byteLength(textOf(lines.slice(0, 100)));
    expect(copies).toEqual([{ file: "a.log", of: expect.stringMatching(/^\S+ 1024-\S+ \d{4}-/) as string, to }]);
  });

  it("and reports one that is the beginning of a longer one that is there", async () => {
    const directory = await fixture.directory();
    const shipper = fixture.shipper();
    const copies: unknown[] = [];
    shipper.on("copy", (copy) => copies.push(copy));
    await writeFile(join(directory, "a.log"), textOf(lines.slice(0, 200)));
    await shipper.addDirectory(directory);
    await writeFile(join(directory, "b.log"), textOf(lines.slice(0, 100)));
    await writeFile(join(directory, "c.log"), textOf([...lines.slice(0, 100), "another"]));
    await shipper.addDirectory(directory);
    const to = Buffer.byteLength(textOf(lines.slice(0, 100)));
    expect(copies).toEqual([
      { file: "b.log", of: "a.log", to },
      { file: "c.log", of: "b.log", to },
    ]);
  });

  it("and reports a part of a longer one, though files with only its header are there", async () => {
    const { shipper, path, directory } = await ship();
    const copies: unknown[] = [];
    for (let file = 0; file < 10; file++) await writeFile(join(directory, String(file)), "# header\n");
    await writeFile(path, textOf(["# header", ...lines.slice(0, 200)]));
    await shipper.addDirectory(directory);
    shipper.on("copy", (copy) => copies.push(copy));
    const part = textOf(["# header", ...lines.slice(0, 100)]);
    await writeFile(`${path}.1`, part);
    await shipper.add(`${path}.1`);
    expect(copies).toEqual([{ file: "a.log.1", of: "a.log", to: Buffer.byteLength(part) }]);
  });

  it("of files with one header, after one that had nothing else was shipped and compressed", async () => {
    const { shipper, path, directory } = await ship();
    const copies: unknown[] = [];
    shipper.on("copy", (copy) => copies.push(copy));
    await writeFile(`${path}.1`, "# header\n");
    await shipper.addDirectory(directory);
    await gzipFile(`${path}.1`);
    await writeFile(path, textOf(["# header", ...lines.slice(0, 200)]));
    expect(await shipper.addDirectory(directory)).toMatchObject([{ wasShipped: false }, { wasShipped: true }]);
    expect(await received()).toEqual(new Map([...once(lines.slice(0, 200)), ["# header", "2"]]));
    expect(copies).toEqual([{ file: "a.log", of: expect.stringContaining(" ") as string, to: 9 }]);
  });

  it("and refuses a gzip file to which a member was added since it was shipped", async () => {
    const { shipper, path } = await ship();
    await writeFile(path, gzipSync(textOf(lines.slice(0, 200))));
    await shipper.add(path);
    expect(await shipper.add(path)).toMatchObject({ wasShipped: true });
    await appendFile(path, gzipSync(textOf(lines.slice(200, 300))));
    expect(await rejection(shipper.add(path))).toMatchObject({ code: "KIT_LOGSHIP_CHANGED" });
    await writeFile(`${path}.2`, gzipSync(textOf(lines.slice(300, 400))));
    await appendFile(`${path}.2`, gzipSync(textOf(lines.slice(400, 500))));
    for (const wasShipped of [false, true]) expect(await shipper.add(`${path}.2`)).toMatchObject({ wasShipped });
  });

  it("and refuses one that starts with what was shipped, if that is no header of a deleted file", async () => {
    const { shipper, path } = await ship();
    const member = gzipSync(textOf(lines.slice(0, 50)));
    expect(member.length).toBeLessThan(4_096);
    await writeFile(path, member);
    await shipper.add(path, { passThrough: true });
    await unlink(path);
    await writeFile(`${path}.1`, Buffer.concat([member, gzipSync(textOf(lines.slice(50, 100)))]));
    expect(await rejection(shipper.add(`${path}.1`, { passThrough: true }))).toMatchObject({
      code: "KIT_LOGSHIP_CHANGED",
    });
    // The file has grown since it was shipped, and is still there.
    const text = textOf(lines.slice(100, 150));
    await writeFile(`${path}.2`, text);
    await shipper.add(`${path}.2`);
    await appendFile(`${path}.2`, textOf(lines.slice(150, 200)));
    await writeFile(`${path}.2.gz`, gzipSync(text + textOf(lines.slice(150, 200))));
    expect(await rejection(shipper.add(`${path}.2.gz`))).toMatchObject({ code: "KIT_LOGSHIP_CHANGED" });
  });

  it("and reports one that is equal to a shipped one that is gone, but not a compressed one", async () => {
    const directory = await fixture.directory();
    const shipper = fixture.shipper();
    const moved: unknown[] = [];
    shipper.on("moved", (fact) => moved.push(fact));
    const text = textOf(lines.slice(0, 200));
    await writeFile(join(directory, "a.log"), text);
    await shipper.addDirectory(directory);
    await replace(join(directory, "a.log"), text);
    expect(await shipper.addDirectory(directory)).toMatchObject([{ wasShipped: true }]);
    await writeFile(join(directory, "a.log.gz"), gzipSync(text));
    await unlink(join(directory, "a.log"));
    await shipper.addDirectory(directory);
    expect(moved).toEqual([{ file: "a.log", of: expect.any(String) as string, to: Buffer.byteLength(text) }]);
  });

  it("and refuses one that has grown in another container since it was shipped", async () => {
    const { shipper, path } = await ship();
    await writeFile(path, textOf(lines.slice(0, 300)));
    await shipper.add(path);
    for (const name of [path, `${path}.gz`]) {
      const text = textOf(lines.slice(0, 301));
      await replace(name, text);
      if (name.endsWith(".gz")) await writeFile(name, gzipSync(text));
      expect(await rejection(shipper.add(name))).toMatchObject({ code: "KIT_LOGSHIP_CHANGED" });
    }
    expect(await received()).toEqual(once(lines.slice(0, 300)));
  });

  it("of a log that it follows, when its files are in other inodes at the next start", async () => {
    const { shipper, path } = await ship();
    const follow = async (lastLines: number): Promise<void> => {
      const controller = new AbortController();
      const following = shipper.follow(path, { signal: controller.signal, quietMs: 10 });
      const ending = rejection(following);
      await eventually(async () => {
        const { files = [] } = (await shipper.status()) ?? {};
        expect(files.reduce((sum, file) => sum + file.lines, 0)).toBe(lastLines);
      });
      controller.abort(new Error("enough"));
      expect(await ending).toMatchObject({ message: "enough" });
    };
    await writeFile(`${path}.1`, textOf(lines.slice(0, 100)));
    await writeFile(path, textOf(lines.slice(100, 200)));
    await follow(200);
    await replace(`${path}.1`, textOf(lines.slice(0, 100)));
    await replace(path, textOf(lines.slice(100, 300)));
    await follow(300);
    expect((await shipper.status())?.files).toHaveLength(2);
  });

  it("of equal files that are both there, as two, and forgets the oldest names with their beginnings", async () => {
    const { shipper, directory } = await ship();
    for (const name of ["a", "b"]) await writeFile(join(directory, name), "same\n");
    await shipper.addDirectory(directory);
    expect(await received()).toEqual(new Map([["same", "2"]]));
    const beginnings = (await fixture.db.hkeys(fixture.keys.sources)).filter((field) => field.startsWith("text "));
    expect(beginnings).toHaveLength(1);
    expect((await fixture.db.hget(fixture.keys.sources, beginnings[0]!))?.trim().split("\n")).toHaveLength(2);
  });
});
