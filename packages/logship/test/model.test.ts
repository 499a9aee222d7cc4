import { appendFile, copyFile, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { useRedis } from "@kit/testing";
import * as fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("append" as const), count: fc.integer({ min: 1, max: 60 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("run" as const), count: fc.integer({ min: 1, max: 100 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("rename" as const, "copytruncate" as const, "compress" as const, "replace" as const),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
);

/** A log `a.log` with numbered rotated files, each of which begins with a header, and a job over all of them. */
class Log {
  readonly written: string[] = [];
  readonly events: string[] = [];
  readonly #directory: string;
  readonly #header: string;
  /** The names of the files, the log first. */
  #names = ["a.log"];

  constructor(directory: string, header: string) {
    this.#directory = directory;
    this.#header = header;
  }

  async begin(): Promise<void> {
    await writeFile(this.#path("a.log"), this.#header);
  }

  async append(count: number): Promise<void> {
    const lines = Array.from({ length: count }, (_, index) => `line ${String(this.written.length + index)}`);
    this.written.push(...lines);
    await appendFile(this.#path("a.log"), lines.map((line) => `${line}\n`).join(""));
  }

  /** A run whose handler throws after `count` calls; each call has few lines, and each commit few calls. */
  async run(count: number): Promise<void> {
    await using job = fixture.job({ name: "model", directory: this.#directory, flushLines: 20, match: /^a\.log/ });
    for (const event of ["gap", "copy", "again", "damaged"] as const) job.on(event, () => this.events.push(event));
    let calls = 0;
    await job
      .run((lines, results) => {
        for (const line of lines) results.increment("lines", line);
        if (++calls > count) throw new Error("killed");
      })
      .catch((error: unknown) => {
        if (!(error instanceof Error) || error.message !== "killed") throw error;
      });
  }

  async rename(): Promise<void> {
    await this.#shift();
    await rename(this.#path("a.log"), this.#path("a.log.1"));
    await writeFile(this.#path("a.log"), this.#header);
  }

  async copytruncate(): Promise<void> {
    await this.#shift();
    await copyFile(this.#path("a.log"), this.#path("a.log.1"));
    await truncate(this.#path("a.log"), 0);
    await appendFile(this.#path("a.log"), this.#header);
  }

  async compress(number: number): Promise<void> {
    const name = this.#names[number];
    if (name === undefined || name.endsWith(".gz")) return;
    await writeFile(this.#path(`${name}.gz`), gzipSync(await readFile(this.#path(name))));
    await rm(this.#path(name));
    this.#names[number] = `${name}.gz`;
  }

  /** The same text in another inode, as after `rsync`. */
  async replace(number: number): Promise<void> {
    const name = this.#names[number - 1];
    if (name === undefined) return;
    await writeFile(this.#path(".new"), await readFile(this.#path(name)));
    await rename(this.#path(".new"), this.#path(name));
  }

  async #shift(): Promise<void> {
    for (let number = this.#names.length - 1; number > 0; number--) {
      const name = this.#names[number]!;
      const next = name.replace(/\d+/, String(number + 1));
      await rename(this.#path(name), this.#path(next));
      this.#names[number] = next;
    }
    this.#names.splice(1, 0, "a.log.1");
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }
}

it("counts each line once, however its file is rotated, compressed or replaced between runs that fail", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(0, 20, 300, 1_500, 6_000),
      fc.array(step, { minLength: 4, maxLength: 14 }),
      async (headerBytes, steps) => {
        const header = headerBytes > 0 ? `${"#".repeat(headerBytes - 1)}\n` : "";
        const log = new Log(await fixture.directory(), header);
        await log.begin();
        for (const one of steps) await log[one.do](one.count);
        await log.run(Infinity);
        await using job = fixture.job({ name: "model", directory: "/" });
        const counted = await job.results("lines");
        await job.delete();
        counted.delete(header.trimEnd());
        expect([counted, log.events.filter((event) => event !== "copy")]).toEqual([
          new Map(log.written.map((line) => [line, "1"])),
          [],
        ]);
      },
    ),
    // `KIT_MODEL_RUNS=500` for a long run.
    { numRuns: Number(process.env["KIT_MODEL_RUNS"] ?? 15) },
  );
}, 600_000);
