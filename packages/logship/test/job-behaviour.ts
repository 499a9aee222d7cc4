import { appendFile, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { RedisMode, TestRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import { describe, expect, it } from "vitest";
import type { LinesHandler } from "../src/index.js";
import { countWords, type Fixture, killPoints, logLines, textOf, wordsOf, writeLog } from "./harness.js";

/** The behaviour of jobs, on one server or on a Cluster. */
export const jobBehaviour = (redis: TestRedis<RedisMode>, fixture: Fixture): void => {
  describe("a log job", () => {
    it("processes plain and gzip files once, in natural order, and a second run finds nothing to do", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 900);
      await writeLog(directory, "access.2.log", lines.slice(0, 300));
      await writeLog(directory, "access.10.log.gz", lines.slice(300, 650));
      await writeLog(directory, "access.11.log", lines.slice(650));
      await writeLog(directory, "other.txt", logLines(0, 5));
      const job = fixture.job({ directory, match: /^access/, flushLines: 100 });
      const order: string[] = [];
      job.on("done", ({ file }) => order.push(file));
      expect(await job.run(countWords)).toEqual({ files: 3, lines: 900 });
      expect(order).toEqual(["access.2.log", "access.10.log.gz", "access.11.log"]);
      expect(await job.results("words")).toEqual(wordsOf(lines));
      expect(await job.run(countWords)).toEqual({ files: 0, lines: 0 });
      expect(await job.results("words")).toEqual(wordsOf(lines));
      expect((await job.files()).map(({ name, isDone, lines: count }) => [name, isDone, count])).toEqual([
        ["access.10.log.gz", true, 350],
        ["access.11.log", true, 250],
        ["access.2.log", true, 300],
      ]);
    });

    it("stores sums, texts, sets and ranks exactly", async () => {
      const directory = await fixture.directory();
      await writeFile(join(directory, "a.log"), "x 1\ny 2\nx 3\n");
      const job = fixture.job({ directory, flushLines: 1 });
      await job.run((lines, results) => {
        for (const line of lines) {
          const [key = "", amount] = line.split(" ");
          results.increment("sum", key, Number(amount)).set("last", key, line).add("seen", key).rank("top", key, 2);
        }
      });
      expect(await job.results("sum")).toEqual(
        new Map([
          ["x", "4"],
          ["y", "2"],
        ]),
      );
      expect(await job.results("last")).toEqual(
        new Map([
          ["x", "x 3"],
          ["y", "y 2"],
        ]),
      );
      expect((await fixture.db.smembers(job.resultKey("seen"))).toSorted()).toEqual(["x", "y"]);
      expect(await fixture.db.zrange(job.resultKey("top"), "0", "-1", "WITHSCORES")).toEqual(["y", "2", "x", "4"]);
    });

    it("applies nothing of a commit that has one result that cannot be stored", async () => {
      const directory = await fixture.directory();
      await writeFile(join(directory, "a.log"), "one\n");
      const job = fixture.job({ directory });
      await fixture.db.hset(job.resultKey("sum"), "bad", "text");
      const failing = job.run((_lines, results) => {
        results.increment("other", "good").increment("sum", "bad");
      });
      expect(await rejection(failing)).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
      expect(await job.results("other")).toEqual(new Map());
      expect(await job.run((_lines, results) => void results.increment("other", "good"))).toEqual({
        files: 1,
        lines: 1,
      });
      expect(await job.results("other")).toEqual(new Map([["good", "1"]]));
    });

    it("stores any number of results at once, under any field name", async () => {
      const directory = await fixture.directory();
      const fields = Array.from({ length: 30_000 }, (_, number) => `field ${String(number)}`);
      await writeFile(join(directory, "a.log"), "one\n");
      const job = fixture.job({ directory, deadlineMs: 30_000 });
      await job.run((_lines, results) => {
        for (const field of fields) results.increment("fields", field);
        for (const field of ["\0", '"\\ud800', "half \ud800", "é😀", ""]) results.set("odd", field, field);
        for (const field of fields.slice(0, 9_000)) results.increment(`r ${field}`, "f");
      });
      expect((await job.results("fields")).size).toBe(30_000);
      expect(await job.results("odd")).toEqual(
        new Map(["\0", '"\\ud800', "half \ufffd", "é😀", ""].map((field) => [field, field])),
      );
      expect(await job.results("r field 8999")).toEqual(new Map([["f", "1"]]));
      await job.delete();
      expect(await redis.keys()).toEqual([]);
    });

    it("refuses a stored position that is none", async () => {
      const directory = await fixture.directory();
      const path = await writeLog(directory, "a.log", logLines(0, 10));
      const job = fixture.job({ directory });
      await job.run(countWords);
      const { progress } = fixture.keys;
      const [field] = (await fixture.db.hkeys(progress)).filter((one) => one.endsWith(":position"));
      await appendFile(path, "w1 more\n");
      for (const position of ["1e-9:0:0:0", "8:8:0:-1", "8:8:1e300:1", "text"]) {
        await fixture.db.hset(progress, field!, position);
        expect(await rejection(job.run(countWords)), position).toMatchObject({ code: "KIT_LAYOUT" });
      }
    });

    it("stores the many results of one call with their position, and applies them in pieces, even after a crash", async () => {
      const directory = await fixture.directory();
      await writeFile(join(directory, "a.log"), "one\n");
      const fields = Array.from({ length: 12_000 }, (_, number) => `field ${String(number)}`);
      const collect: LinesHandler = (_lines, results) =>
        fields.forEach((field) => void results.increment("sum", field));
      const job = fixture.job({ directory });
      // One piece cannot be applied: as if the process had died before it was.
      await fixture.db.hset(job.resultKey("sum"), fields[7_000]!, "no number");
      for (let run = 0; run < 2; run++)
        expect(await rejection(job.run(collect))).toMatchObject({ code: "KIT_LOGSHIP_RESULT" });
      expect(await job.files()).toMatchObject([{ lines: 1 }]);
      await fixture.db.hdel(job.resultKey("sum"), fields[7_000]!);
      expect(await job.run(collect)).toEqual({ files: 1, lines: 0 });
      expect(await job.results("sum")).toEqual(new Map(fields.map((field) => [field, "1"])));
      expect(await fixture.db.exists(fixture.keys.pending())).toBe(0);
    });

    it("leaves out links to directories, and links that lead nowhere or in a circle", async () => {
      const directory = await fixture.directory();
      await writeLog(directory, "a.log", logLines(0, 10));
      for (const [link, target] of Object.entries({ folder: directory, nowhere: "none", circle: "circle" }))
        await symlink(target, join(directory, link));
      expect(await fixture.job({ directory }).run(countWords)).toEqual({ files: 1, lines: 10 });
    });

    it("continues behind the last commit after a handler threw, and stores nothing of the failed lines", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 5_000);
      await writeLog(directory, "a.log", lines);
      const job = fixture.job({ directory, flushLines: 10 });
      let seen = 0;
      const failing = job.run((some, results) => {
        seen += some.length;
        if (seen > 3_000) throw new Error("a bad line");
        void countWords(some, results, undefined as never);
      });
      expect(await rejection(failing)).toMatchObject({ message: "a bad line" });
      await job.run(countWords);
      expect(await job.results("words")).toEqual(wordsOf(lines));
    });

    it("processes the lines added to a file, and those of a file that replaced it", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 300);
      const path = await writeLog(directory, "a.log", lines.slice(0, 10));
      const job = fixture.job({ directory });
      await job.run(countWords);
      await appendFile(path, textOf(lines.slice(10, 100)));
      expect(await job.run(countWords)).toEqual({ files: 1, lines: 90 });
      await rename(path, join(directory, "a.log.1"));
      await writeLog(directory, "a.log", lines.slice(100, 200));
      expect(await job.run(countWords)).toEqual({ files: 1, lines: 100 });
      // The inode stays, the content is another.
      await truncate(path, 0);
      await appendFile(path, textOf(lines.slice(200)));
      expect(await job.run(countWords)).toEqual({ files: 1, lines: 100 });
      expect(await job.results("words")).toEqual(wordsOf(lines));
    });

    it("recognises a file by its first lines, though it was empty or short when it was first seen", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 300);
      const path = await writeLog(directory, "a.log", []);
      const job = fixture.job({ directory });
      for (const [from, to] of [
        [0, 0],
        [0, 1],
        [1, 60],
      ] as const) {
        await appendFile(path, textOf(lines.slice(from, to)));
        expect((await job.run(countWords)).lines).toBe(to - from);
      }
      // Another, larger file in the same inode.
      await truncate(path, 0);
      await appendFile(path, textOf(lines.slice(60)));
      expect(await job.run(countWords)).toEqual({ files: 1, lines: 240 });
      expect(await job.results("words")).toEqual(wordsOf(lines));
    });

    it("leaves a last line without a line feed for later with `leave`", async () => {
      const directory = await fixture.directory();
      const path = join(directory, "a.log");
      await writeFile(path, "one\ntw");
      const job = fixture.job({ directory, lastLine: "leave" });
      const seen: string[] = [];
      const collect = (lines: readonly string[]): void => void seen.push(...lines);
      await job.run(collect);
      await appendFile(path, "o\nthree");
      await job.run(collect);
      expect(seen).toEqual(["one", "two"]);
      await appendFile(path, "\nfour");
      await fixture.job({ directory }).run(collect);
      expect(seen).toEqual(["one", "two", "three", "four"]);
    });

    it("shares files among workers of several objects, each line once", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 4_000);
      for (let index = 0; index < 8; index++)
        await writeLog(
          directory,
          `${String(index)}.log${index % 2 ? ".gz" : ""}`,
          lines.slice(index * 500, (index + 1) * 500),
        );
      const objects = [1, 2, 3].map(() =>
        fixture.job({ directory, flushLines: 50, client: fixture.connect(), leaseMs: 5_000 }),
      );
      const summaries = await Promise.all(objects.map((job) => job.run(countWords, { concurrency: 2 })));
      expect(summaries.reduce((sum, { lines: count }) => sum + count, 0)).toBe(4_000);
      expect(await objects[0]!.results("words")).toEqual(wordsOf(lines));
    });

    it("fences off a worker whose lease has ended, and its file is processed once", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 30_000);
      await writeLog(directory, "a.log", lines);
      const slow = fixture.job({ directory, flushLines: 100, leaseMs: 5_000 });
      const other = fixture.job({ directory, flushLines: 100, client: fixture.connect(), leaseMs: 5_000 });
      const lost: string[] = [];
      slow.on("lost", ({ file }) => lost.push(file));
      let batches = 0;
      let second: Promise<unknown> | undefined;
      await slow.run(async (some, results, context) => {
        await countWords(some, results, context);
        if (++batches !== 3) return;
        // The server considers the first worker dead while it works.
        const [claimed] = await fixture.db.zrange(fixture.keys.claims, "0", "-1");
        await fixture.db.zadd(fixture.keys.claims, 1, claimed!);
        second = other.run(countWords);
        await second;
      });
      await second;
      expect(lost).toEqual(["a.log"]);
      expect(await slow.results("words")).toEqual(wordsOf(lines));
    });

    it("loses and duplicates nothing when it is killed after some of its commands", { timeout: 120_000 }, async () => {
      const lines = logLines(0, 6_000);
      let kills = 0;
      for (const killAt of killPoints(fixture)) {
        const directory = await fixture.directory();
        const name = `job ${String(killAt)}`;
        await writeLog(directory, "a.log", lines.slice(0, 3_000));
        await writeLog(directory, "b.log.gz", lines.slice(3_000));
        const options = { directory, flushLines: 1_000, leaseMs: 300 };
        const outcome = await fixture.mortal("job", { name, options, killAt });
        const job = fixture.job({ name, ...options });
        await job.run(countWords);
        expect([killAt, await job.results("words")]).toEqual([killAt, wordsOf(lines)]);
        if (outcome === "done") break;
        kills++;
      }
      expect(kills).toBeGreaterThanOrEqual(fixture.mode === "cluster" ? 1 : 3);
    });

    it("rejects with a damaged file after the others, or with `skip` continues and retries it in the next run", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 600);
      const whole = gzipSync(textOf(lines.slice(0, 300)));
      await writeFile(join(directory, "a.gz"), whole.subarray(0, -4));
      await writeLog(directory, "b.log", lines.slice(300));
      expect(await rejection(fixture.job({ directory }).run(countWords))).toMatchObject({
        code: "KIT_LOGSHIP_BAD_DATA",
        file: "a.gz",
        offset: whole.length - 4,
      });
      const job = fixture.job({ directory, onBadData: "skip" });
      const damaged: string[] = [];
      job.on("damaged", ({ file }) => damaged.push(file));
      expect(await job.run(countWords)).toEqual({ files: 0, lines: 0 });
      expect(damaged).toEqual(["a.gz"]);
      await rm(join(directory, "a.gz"));
      await writeFile(join(directory, "a.gz"), whole);
      await job.run(countWords);
      expect(await job.results("words")).toEqual(wordsOf(lines));
    });

    it("is deleted with its results, not while a worker has a file, and a paused worker can store nothing after", async () => {
      const directory = await fixture.directory();
      await writeLog(directory, "a.log", logLines(0, 100));
      const job = fixture.job({ directory, leaseMs: 60_000 });
      const other = fixture.job({ directory, leaseMs: 60_000, client: fixture.connect() });
      await job.delete();
      const lost: string[] = [];
      job.on("lost", ({ file }) => lost.push(file));
      let isFirst = true;
      const summary = await job.run(async (lines, results) => {
        results.increment("lines", "all", lines.length).add("set", "m");
        if (!isFirst) return;
        isFirst = false;
        expect(await rejection(other.delete())).toMatchObject({ code: "KIT_LOGSHIP_BUSY" });
        const [claimed] = await fixture.db.zrange(fixture.keys.claims, "0", "-1");
        await fixture.db.zadd(fixture.keys.claims, 1, claimed!);
        await other.delete();
        await other.run((again, found) => void found.increment("lines", "all", again.length));
        expect(await other.results("lines")).toEqual(new Map([["all", "100"]]));
      });
      expect([summary, lost]).toEqual([{ files: 0, lines: 0 }, ["a.log"]]);
      expect(await job.results("lines")).toEqual(new Map([["all", "100"]]));
      await job.delete();
      await job.delete();
      expect(await redis.keys()).toEqual([]);
      expect(await job.run((lines, results) => void results.increment("lines", "all", lines.length))).toEqual({
        files: 1,
        lines: 100,
      });
    });

    it("ends when it is aborted or closed, releases its file, and leaves nothing behind", async () => {
      const directory = await fixture.directory();
      const lines = logLines(0, 20_000);
      await writeLog(directory, "a.log", lines);
      const job = fixture.job({ directory, flushLines: 100, leaseMs: 60_000 });
      const controller = new AbortController();
      let batches = 0;
      const running = job.run(
        (some, results, context) => {
          void countWords(some, results, context);
          if (++batches === 2) controller.abort(new Error("enough"));
        },
        { signal: controller.signal },
      );
      expect(await rejection(running)).toMatchObject({ message: "enough" });
      const closing = job.run(() => void job.close());
      expect(await rejection(closing)).toMatchObject({ code: "KIT_CLOSED" });
      expect(await rejection(job.run(countWords))).toMatchObject({ code: "KIT_CLOSED" });
      const next = fixture.job({ directory });
      await next.run(countWords);
      expect(await next.results("words")).toEqual(wordsOf(lines));
    });
  });
};
