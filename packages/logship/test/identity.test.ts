import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { appendFile, copyFile, readdir, rename, truncate, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { eventually, useRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { localFile, OpenFile } from "../src/bytes/files.js";
import type { JobOptions, LogJob } from "../src/index.js";
import { fixtureOf, logLines, textOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const lines = logLines(0, 9_000);
const once = (some: readonly string[]): Map<string, string> => new Map(some.map((line) => [line, "1"]));

/** A job over one log, and every event that it reports about text. */
const job = async (
  options: Partial<JobOptions> & { readonly client?: Redis } = {},
): Promise<{
  job: LogJob;
  path: string;
  events: unknown[];
  run(each?: () => void): Promise<void>;
  counted(): Promise<Map<string, string>>;
}> => {
  const directory = await fixture.directory();
  const own = fixture.job({ directory, flushLines: 100, match: /^a\.log/, ...options });
  const events: unknown[] = [];
  for (const event of ["gap", "copy", "damaged", "moved", "again"] as const)
    own.on(event, (fact) => void events.push({ event, ...fact }));
  return {
    job: own,
    path: join(directory, "a.log"),
    events,
    run: async (each = () => undefined) =>
      void (await own.run((some, results) => {
        for (const line of some) results.increment("lines", line);
        each();
      })),
    counted: async () => await own.results("lines"),
  };
};

/** Writes a text over a file, in the same inode. */
const overwrite = async (path: string, text: string): Promise<void> => {
  await truncate(path, 0);
  await appendFile(path, text);
};

/** A client, and what happens once before a job compares a file with others, or before the next command after that. */
const watched = (): { client: Redis; once(when: "comparison" | "next", act: () => void): void } => {
  const client = Object.create(fixture.db) as Redis;
  let [waitsFor, act] = ["", (): void => undefined];
  const call = fixture.db.call.bind(fixture.db) as (...args: unknown[]) => Promise<unknown>;
  const watching = async (...args: unknown[]): Promise<unknown> => {
    const isComparison = args.flat().some((arg) => typeof arg === "string" && arg.endsWith(":content"));
    if (waitsFor === "now" || (isComparison && waitsFor === "comparison")) {
      waitsFor = "";
      act();
    } else if (isComparison && waitsFor === "next") waitsFor = "now";
    return await call(...args);
  };
  Object.defineProperty(client, "call", { value: watching });
  return { client, once: (when, does) => void ([waitsFor, act] = [when, does]) };
};

describe("a job knows a file by the text that it counted", () => {
  it("when it was empty as the worker took it, and had lines as the worker read it", async () => {
    const { job: own, path, events, run, counted } = await job();
    await writeFile(path, "");
    own.once("file", () => appendFileSync(path, textOf(lines.slice(0, 100))));
    await run();
    await run();
    expect(await counted()).toEqual(once(lines.slice(0, 100)));
    expect(events).toEqual([]);
  });

  it("when a copy of it was empty as the worker took it, and filled while the worker read it", async () => {
    const { job: own, path, run, counted } = await job();
    await writeFile(path, textOf(lines.slice(0, 100)));
    await run();
    await writeFile(`${path}.1`, "");
    own.once("file", () => writeFileSync(`${path}.1`, textOf(lines.slice(0, 100))));
    const running = run();
    own.once("done", () => writeFileSync(path, textOf(lines.slice(100, 200))));
    await running;
    await run();
    expect(await counted()).toEqual(once(lines.slice(0, 200)));
  });

  it("and does not report it as moved when an earlier run failed before its first commit", async () => {
    const { path, events, run, counted } = await job();
    await writeFile(path, textOf(lines.slice(0, 100)));
    const failing = run(() => {
      throw new Error("enough");
    });
    await expect(failing).rejects.toThrow("enough");
    await run();
    expect(await counted()).toEqual(once(lines.slice(0, 100)));
    expect(events).toEqual([]);
  });

  it("when its copy was opened before it was complete, and it was truncated before the two were compared", async () => {
    const header = "# header";
    const { client, once: before } = watched();
    const { path, events, run, counted } = await job({ client });
    await writeFile(path, textOf([header, ...lines.slice(0, 200)]));
    await run();
    await writeFile(`${path}.1`, textOf([header, ...lines.slice(0, 100)]));
    before("comparison", () => {
      writeFileSync(`${path}.1`, textOf([header, ...lines.slice(0, 200)]));
      writeFileSync(path, textOf([header, ...lines.slice(200, 210)]));
    });
    await run();
    expect(await counted()).toEqual(new Map([...once(lines.slice(0, 210)), [header, "2"]]));
    expect(events).toMatchObject([{ event: "moved", file: "a.log.1" }]);
  });

  it("when its copy has exactly its first KiB", async () => {
    const { client, once: before } = watched();
    const { path, events, run, counted } = await job({ client });
    const text = textOf(lines.slice(0, 200));
    await writeFile(path, text);
    const shipper = fixture.shipper();
    await shipper.add(path);
    const copies: unknown[] = [];
    shipper.on("copy", (copy) => copies.push(copy));
    await run();
    await writeFile(`${path}.1`, Buffer.from(text).subarray(0, 1_024));
    await shipper.add(`${path}.1`);
    expect(copies).toMatchObject([{ of: "a.log" }]);
    before("comparison", () => {
      writeFileSync(`${path}.1`, text);
      writeFileSync(path, textOf(lines.slice(200, 210)));
    });
    await run();
    expect(await counted()).toEqual(once(lines.slice(0, 210)));
    expect(events).toMatchObject([{ event: "moved", file: "a.log.1" }]);
  });

  it.each([
    [100, "gone"],
    [200, "gone"],
    [100, "there"],
    [200, "there"],
  ])("when %d of its 200 lines are copied, and a file that had only their header is %s", async (copied, headerFile) => {
    const header = "# header";
    const { client, once: before } = watched();
    const { path, events, run, counted } = await job({ client });
    await writeFile(`${path}.2`, textOf([header]));
    await run();
    await writeFile(path, textOf([header, ...lines.slice(0, 200)]));
    await run();
    if (headerFile === "gone") await unlink(`${path}.2`);
    events.length = 0;
    await writeFile(`${path}.1`, textOf([header, ...lines.slice(0, copied)]));
    before("next", () => {
      writeFileSync(`${path}.1`, textOf([header, ...lines.slice(0, 200)]));
      writeFileSync(path, textOf([header, ...lines.slice(200, 210)]));
    });
    await run();
    const [counts, expected] = [await counted(), once(lines.slice(0, 210))];
    counts.delete(header);
    expect(counts).toEqual(expected);
    // The log itself continues the header, or repeats it.
    expect(events).toMatchObject([
      { event: headerFile === "gone" ? "moved" : "copy", file: "a.log", of: "a.log.2", to: header.length + 1 },
      { event: "moved", file: "a.log.1", of: "a.log" },
    ]);
  });

  it("when it begins as one that is there, and is written all the time", async () => {
    const { path, events, run, counted } = await job();
    await writeFile(`${path}.1`, "# header\n");
    await run();
    await writeFile(path, textOf(["# header", ...lines.slice(0, 10)]));
    let written = 10;
    const timer = setInterval(() => appendFileSync(path, textOf(lines.slice(written, ++written))), 20);
    redis.defer(() => clearInterval(timer));
    const running = run();
    await eventually(async () => {
      expect((await counted()).get(lines[0]!)).toBe("1");
      expect(written).toBeLessThan(lines.length);
    });
    clearInterval(timer);
    await running;
    await run();
    expect(await counted()).toEqual(new Map([...once(lines.slice(0, written)), ["# header", "2"]]));
    expect(events).toEqual([{ event: "copy", file: "a.log", of: "a.log.1", to: 9 }]);
  });

  it.each([60, 1_500, 5_000])(
    "through rotations of a log whose files begin with one header of %d bytes",
    async (headerBytes) => {
      const { path, events, run, counted } = await job();
      const header = `#${"h".repeat(headerBytes - 2)}\n`;
      for (let period = 0; period < 4; period++) {
        await writeFile(path, header);
        await run();
        await appendFile(path, textOf(lines.slice(10 * period, 10 * period + 10)));
        await run();
        for (const name of (await readdir(join(path, ".."))).sort().reverse()) {
          const [, number = "0"] = /log\.(\d)$/.exec(name) ?? [];
          await rename(join(path, "..", name), `${path}.${String(Number(number) + 1)}`);
        }
        await run();
      }
      expect(await counted()).toEqual(new Map([...once(lines.slice(0, 40)), [header.trim(), "4"]]));
      // A file that has a long header alone may be a copy that is not finished.
      expect(new Set(events.map((fact) => (fact as { event: string }).event))).toEqual(
        new Set(headerBytes < 1_024 ? [] : ["copy"]),
      );
    },
  );

  it("and says which lines count again when an edited file has replaced it", async () => {
    const { path, events, run, counted } = await job();
    await writeFile(path, textOf(lines.slice(0, 200)));
    await run();
    const edited = lines.slice(0, 200).with(150, `${lines[150]!} edited`);
    await writeFile(`${path}.new`, textOf(edited));
    await rename(`${path}.new`, path);
    await run();
    await run();
    expect((await counted()).get(lines[0]!)).toBe("2");
    expect(events).toEqual([{ event: "again", file: "a.log", to: Buffer.byteLength(textOf(lines.slice(0, 200))) }]);
  });

  it("and says which lines are left out when a file is equal to one that is gone", async () => {
    const { path, events, run, counted } = await job();
    await writeFile(`${path}.1`, textOf(lines.slice(0, 100)));
    await run();
    await writeFile(`${path}.2`, textOf(lines.slice(0, 100)));
    await unlink(`${path}.1`);
    await run();
    await run();
    expect(await counted()).toEqual(once(lines.slice(0, 100)));
    const to = Buffer.byteLength(textOf(lines.slice(0, 100)));
    expect(events).toEqual([{ event: "moved", file: "a.log.2", of: "a.log.1", to }]);
  });

  it("for as many commands, and bytes of replies that do not add up, when all files have one header", async () => {
    const commandsAndBytes = async (): Promise<number[]> => {
      const [commands, stats] = [
        await redis.server.call("INFO", "commandstats"),
        await redis.server.call("INFO", "stats"),
      ];
      const calls = [...String(commands).matchAll(/calls=(\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0);
      return [calls, Number(/total_net_output_bytes:(\d+)/.exec(String(stats))?.[1])];
    };
    const costs: number[][] = [];
    for (const begin of ["#".repeat(2_000), ""]) {
      const directory = await fixture.directory();
      const files = Array.from({ length: 150 }, (_, index) => [begin, lines[index]!].filter(Boolean));
      for (const [index, file] of files.entries())
        await writeFile(join(directory, `${String(index)}.log`), textOf(file));
      const before = await commandsAndBytes();
      await fixture.job({ directory }).run(() => undefined);
      const between = await commandsAndBytes();
      await fixture.shipper().addDirectory(directory);
      const after = await commandsAndBytes();
      costs.push([0, 1].flatMap((kind) => [between[kind]! - before[kind]!, after[kind]! - between[kind]!]));
    }
    const [withHeader, without] = costs;
    // Each file gets the list of those with its first KiB, which is short. If it got all of them, there would be 16 times as many bytes.
    const most = [1.5, 1.5, 5, 5].map((factor, index) => factor * without![index]!);
    for (const [index, cost] of withHeader!.entries()) expect(cost).toBeLessThan(most[index]!);
  });

  it.skipIf(process.platform !== "linux")(
    "and does not read each file again for all others with its header",
    async () => {
      const { path, run } = await job();
      let bytes = 0;
      for (let file = 0; file < 8; file++) {
        const text = textOf(["#".repeat(1_100), ...lines.slice(file)]);
        bytes += Buffer.byteLength(text);
        await writeFile(`${path}.${String(file)}`, text);
      }
      const bytesRead = (): number => Number(/rchar: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
      const before = bytesRead();
      await run();
      // Once to compare it, and once to count its lines.
      expect(bytesRead() - before).toBeLessThan(3 * bytes);
    },
  );

  it("among many files with one header, which are compressed later", async () => {
    const { job: own, path, events, run, counted } = await job({ match: /log/, flushLines: 10_000 });
    const shipper = fixture.shipper();
    shipper.on("copy", (fact) => events.push({ event: "copy", ...fact }));
    const directory = join(path, "..");
    const header = "#".repeat(2_000);
    const shipped: boolean[] = [];
    const all = async (): Promise<void> => {
      await run();
      shipped.push(...(await shipper.addDirectory(directory)).map(({ wasShipped }) => wasShipped));
    };
    // More than a channel lists in one record.
    const count = 160;
    for (let file = 0; file < count; file++) await writeFile(`${path}.${String(file)}`, textOf([header, lines[file]!]));
    await all();
    for (let file = 0; file < count; file++) {
      await writeFile(`${path}.${String(file)}.gz`, gzipSync(textOf([header, lines[file]!])));
      await unlink(`${path}.${String(file)}`);
    }
    await all();
    expect(await counted()).toEqual(new Map([...once(lines.slice(0, count)), [header, String(count)]]));
    expect(shipped).toEqual([...Array<boolean>(count).fill(false), ...Array<boolean>(count).fill(true)]);
    expect(events).toEqual([]);
    await own.close();
  });

  it("and counts all of another text, which begins in the same way and is longer", async () => {
    const { path, run, counted } = await job();
    const header = "#".repeat(5_000);
    await writeFile(path, textOf([header, ...lines.slice(0, 20)]));
    await run();
    await overwrite(path, textOf([header, ...lines.slice(20, 60)]));
    await run();
    expect(await counted()).toEqual(new Map([...once(lines.slice(0, 60)), [header, "2"]]));
  });

  it("and counts no line of two texts, when one replaces the other under the reader", async () => {
    const { path, run, counted } = await job({ flushLines: 1 });
    const [header, before, after] = ["#".repeat(5_000), lines.slice(0, 4_400), lines.slice(4_400)];
    await writeFile(path, textOf([header, ...before]));
    // Longer than the first read, which is committed, and than the one that follows.
    await copyFile(path, `${path}.1`);
    let hasWritten = false;
    await run(() => {
      if (!hasWritten) writeFileSync(path, textOf([header, ...after]));
      hasWritten = true;
    });
    await run();
    expect(await counted()).toEqual(new Map([...once([...before, ...after]), [header, "2"]]));
  });

  it("and counts no line of two texts, when one replaces a moved file before the reader continues it", async () => {
    const { job: own, path, events, run, counted } = await job();
    const [before, after] = [lines.slice(0, 110), lines.slice(200, 500)];
    await writeFile(path, textOf(before.slice(0, 100)));
    await run();
    await writeFile(`${path}.new`, textOf(before));
    await rename(`${path}.new`, path);
    own.once("file", () => writeFileSync(path, textOf(after)));
    await run();
    await run();
    expect(await counted()).toEqual(once([...before.slice(0, 100), ...after]));
    const [from, to] = [before.slice(0, 100), before].map((some) => Buffer.byteLength(textOf(some)));
    expect(events).toEqual([
      { event: "moved", file: "a.log", of: "a.log", to: from },
      { event: "gap", file: "a.log", from, to },
    ]);
  });
});

it("a shipper takes a file as it is when `add()` opens it, and the next call ships what was written meanwhile", async () => {
  const path = join(await fixture.directory(), "a.log");
  await fixture.shipper({ consumers: ["c"], limitBytes: 1_000_000 }).send("first", Readable.from([]));
  const shipper = fixture.shipper({ limitBytes: 2_000_000 });
  await writeFile(path, "");
  // It is open in the channel, and not read yet.
  shipper.once("mismatch", () => writeFileSync(path, textOf(lines.slice(0, 10))));
  expect(await shipper.add(path)).toMatchObject({ lines: 0 });
  expect(await shipper.add(path)).toMatchObject({ lines: 10, wasShipped: false });
  expect(await shipper.add(path)).toMatchObject({ lines: 10, wasShipped: true });
});

it("a file that was cut after it was opened is no whole text, before and after it is identified", async () => {
  const path = join(await fixture.directory(), "a.log");
  await writeFile(path, textOf(lines.slice(0, 10)));
  const file = await localFile(path, "a.log");
  for (const [left, isLimited] of [
    [[], true],
    [lines.slice(10, 12), true],
    [[], false],
  ] as const) {
    const opened = (await OpenFile.open(file, isLimited))!;
    redis.defer(() => opened.close());
    await overwrite(path, textOf(left));
    const changed = { code: "KIT_LOGSHIP_CHANGED", file: "a.log" };
    await expect(opened.identify("")).rejects.toMatchObject(changed);
    await overwrite(path, textOf(lines.slice(0, 10)));
    await opened.identify("");
    await truncate(path, 0);
    await expect(isLimited ? opened.read(0).next() : opened.identify("")).rejects.toMatchObject(changed);
    await overwrite(path, textOf(lines.slice(0, 10)));
  }
});

it("a shipper never seals an empty text for a file that was cut before it was read", async () => {
  const path = join(await fixture.directory(), "a.log");
  await fixture.shipper({ consumers: ["c"], limitBytes: 1_000_000 }).send("first", Readable.from([]));
  const shipper = fixture.shipper({ limitBytes: 2_000_000 });
  await writeFile(path, "# header\n");
  // It is open in the channel, and not read yet.
  shipper.once("mismatch", () => writeFileSync(path, ""));
  await expect(shipper.add(path)).rejects.toMatchObject({ code: "KIT_LOGSHIP_CHANGED" });
  await writeFile(path, textOf(["# header", ...lines.slice(0, 10)]));
  expect(await shipper.add(path)).toMatchObject({ lines: 11 });
});

describe("a stored record of a file", () => {
  it("describes no text if its numbers are none", async () => {
    const path = join(await fixture.directory(), "a.log");
    await writeFile(path, textOf(lines));
    const opened = (await OpenFile.open(await localFile(path, "a.log")))!;
    redis.defer(() => opened.close());
    const { prefix } = await opened.identify("");
    const size = opened.was.size;
    const isSame = async (counted: string): Promise<boolean> => (await opened.identify(`${prefix}${counted}`)).isSame;
    expect(await isSame(`${String(size)}.0.0`)).toBe(true);
    for (const counted of ["nan.0.0", "1e-9.0.0", "-1.0.0", "1.2.0", `${String(size)}.1e9.0`, "a", "1e300.0.0"])
      expect([counted, await isSame(counted)]).toEqual([counted, false]);
  });
});
