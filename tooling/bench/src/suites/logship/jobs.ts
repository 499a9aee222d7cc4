import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { createReadStream, createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createLogJob, createReceiver, createShipper, readLines } from "@kit/logship";
import { FaultProxy } from "@kit/testing";
import { now } from "@tooling/lab";
import { connected } from "../../clients.js";
import type { OpenJobs } from "../../suite.js";
import { implementations, type LogshipSetup, type Source } from "./implementations.js";
import { logBlocks, writeLog } from "./log-text.js";

export interface FileTask {
  readonly bytes: number;
  readonly isGzip: boolean;
}

export type ReadTask =
  | { readonly how: "download" | "lines" | "eachLine" }
  | { readonly how: "counted"; readonly flushLines?: number | undefined };

/** Whether all files have one header, or each its own. */
export interface ManyTask {
  readonly isShared: boolean;
}

/** The time taken and the bytes or lines received. */
export interface Took {
  readonly ms: number;
  readonly count: number;
}

export interface LargeTask {
  readonly bytes: number;
  readonly limitBytes: number;
}

export interface Shipped {
  readonly waits: number;
  readonly lines: number;
}

/** Lines by status code, as summed by the consumer and by the local pass. */
type Sums = Readonly<Record<string, string>>;
const statusOf = /" (\d{3}) /;
const count = (sums: Map<string, number>, lines: readonly string[]): void => {
  for (const line of lines) {
    const status = statusOf.exec(line)?.[1] ?? "none";
    sums.set(status, (sums.get(status) ?? 0) + 1);
  }
};

export const jobs: OpenJobs = async (opening) => {
  const { latencyMs = 0 } = opening.setup as LogshipSetup;
  let { url } = opening;
  if (latencyMs > 0) {
    // The proxy runs in this process for every implementation.
    const proxy = await FaultProxy.start({ port: Number(new URL(url).port) });
    for (const side of ["up", "down"] as const) Object.assign(proxy[side], { latencyMs: latencyMs / 2 });
    url = `redis://127.0.0.1:${String(proxy.port)}`;
  }
  const carrier = await implementations.open({ ...opening, url });
  const folder = mkdtempSync(join(tmpdir(), "bench-logship-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  let source: Source | undefined;
  const timed = async (run: (() => Promise<number | void>) | undefined): Promise<Took> => {
    if (!run) throw new Error("the implementation has no such operation");
    const startedAt = now();
    const found = await run();
    return { ms: now() - startedAt, count: Number(found ?? 0) };
  };
  return {
    /** Writes the local file that the later calls use; the same in every round. */
    file: async ({ bytes, isGzip }: FileTask): Promise<void> => {
      if (source) return;
      const path = join(folder, "access.log");
      await writeLog(path, bytes);
      source = { path, isGzip };
      if (!isGzip) return;
      await pipeline(createReadStream(path), createGzip({ level: 6 }), createWriteStream(`${path}.gz`));
      rmSync(path);
      source = { path: `${path}.gz`, isGzip };
    },

    upload: () => timed(carrier.upload && (() => carrier.upload!(source!))),

    /** An implementation without Redis has nothing to upload. */
    uploadIfAny: async (): Promise<void> => {
      await carrier.upload?.(source!);
    },

    read: (task: ReadTask) =>
      timed(() =>
        task.how === "counted"
          ? carrier.counted!(task.flushLines)
          : task.how === "download"
            ? carrier.download!()
            : carrier[task.how]!(source!),
      ),

    manyFiles: async ({ isShared }: ManyTask): Promise<Took> => {
      const directory = mkdtempSync(join(folder, "many-"));
      for (let file = 0; file < 400; file++) {
        const header = `${isShared ? "" : String(file)}#`.padEnd(1_100, "h");
        writeFileSync(
          join(directory, `${String(file)}.log`),
          `${header}\nfirst ${String(file)}\nlast ${String(file)}\n`,
        );
      }
      await using job = createLogJob(await connected(url), "many", { directory });
      const took = await timed(async () => (await job.run(() => undefined)).lines);
      if (took.count !== 1_200) throw new Error(`${String(took.count)} lines came, of 1200`);
      await job.delete();
      rmSync(directory, { recursive: true });
      return took;
    },

    shipLarge: async ({ bytes, limitBytes }: LargeTask): Promise<Shipped> => {
      const shipper = createShipper(await connected(url), "large", { limitBytes, consumers: ["sums"] });
      let waits = 0;
      shipper.on("waiting", () => waits++);
      const { lines } = await shipper.send("access.log", Readable.from(logBlocks(bytes)));
      await shipper.closeChannel();
      await shipper.close();
      return { waits, lines };
    },

    receiveLarge: async (): Promise<Sums> => {
      const receiver = createReceiver(await connected(url), "large", { consumer: "sums" });
      await receiver.run((lines, results) => {
        const sums = new Map<string, number>();
        count(sums, lines);
        for (const [status, by] of sums) results.increment("statuses", status, by);
      });
      const sums = Object.fromEntries(await receiver.results("statuses"));
      await receiver.close();
      return sums;
    },

    /** Computes the same sums from the local file, without Redis. */
    passLocally: async ({ bytes }: LargeTask): Promise<Sums> => {
      const sums = new Map<string, number>();
      for await (const { lines } of readLines(Readable.from(logBlocks(bytes)))) count(sums, lines);
      return Object.fromEntries([...sums].map(([status, sum]) => [status, String(sum)]));
    },
  };
};
