import { spawnSync } from "node:child_process";
import { type AddressInfo, createServer } from "node:net";
import { now } from "@tooling/lab";
import { implementations, type Reader, unheardTracing } from "./implementations.js";
import { sent } from "../../sent.js";
import type { OpenJobs } from "../../suite.js";

export interface ReadTask {
  readonly ms: number;
}

export interface ReadResult {
  readonly reads: number;
  readonly elapsedMs: number;
  /** Commands that the process sent during the reads. */
  readonly commands: number;
}

export interface SeeTask {
  readonly changes: number;
  readonly first: number;
}

export interface AbsenceTask {
  /** Whether the port accepts connections and never replies, instead of refusing them. */
  readonly isSilent: boolean;
}

/** Reads between two readings of the clock; enough to make the cost of the clock negligible. */
const batch = 1_000;

/** A port without a Redis. `close` frees it. */
const deadEnd = async (isSilent: boolean): Promise<{ readonly url: string; readonly close: () => void }> => {
  const server = createServer((socket) => void socket.on("error", () => undefined));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `redis://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  if (!isSilent) await new Promise((resolve) => server.close(resolve));
  return { url, close: () => void (isSilent && server.close()) };
};

/** The milliseconds that one import takes in a new process. */
const importMs = (module: string): number => {
  const program = `const at = performance.now(); await import(${JSON.stringify(module)}); console.log(performance.now() - at); process.exit()`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    cwd: new URL("..", import.meta.url),
    encoding: "utf8",
  });
  return Number(stdout);
};

export const jobs: OpenJobs = async (opening) => {
  const { url } = opening;
  const { absence, module, reader } = await implementations.open(opening);
  let opened: Promise<Reader> | undefined;
  let readings = 0;
  const theReader = (): Promise<Reader> => {
    if (!reader) throw new Error("the implementation reads no configuration");
    opened ??= reader(url);
    return opened;
  };
  return {
    read: async ({ ms }: ReadTask): Promise<ReadResult> => {
      const { read, write, seen } = await theReader();
      // The configuration of earlier rounds was deleted with their data.
      const limit = -++readings;
      const written = seen(limit);
      await write({ limit });
      await written;
      const [startedAt, before] = [now(), sent()];
      let [reads, sum] = [0, 0];
      while (now() - startedAt < ms) {
        for (let i = 0; i < batch; i++) {
          const settings = read();
          sum += settings instanceof Promise ? (await settings).limit : settings.limit;
        }
        reads += batch;
      }
      if (!Number.isFinite(sum)) throw new Error("nothing was read");
      return { reads, elapsedMs: now() - startedAt, commands: sent() - before };
    },
    see: async ({ changes, first }: SeeTask): Promise<readonly number[]> => {
      const { seen, write } = await theReader();
      const waits: number[] = [];
      for (let limit = first; limit < first + changes; limit++) {
        const seenAt = seen(limit);
        const writtenAt = now();
        await write({ limit });
        waits.push((await seenAt) - writtenAt);
      }
      return waits;
    },
    absence: async ({ isSilent }: AbsenceTask): Promise<number> => {
      if (!absence) throw new Error("the implementation does not connect");
      const { url: nobody, close } = await deadEnd(isSilent);
      try {
        return await absence(nobody);
      } finally {
        close();
      }
    },
    load: ({ name }: { readonly name: string }): number => {
      if (!module) throw new Error("the implementation is no module");
      return importMs(module(name));
    },
    trace: ({ ms }: { readonly ms: number }): Promise<number> => unheardTracing(url, ms),
  };
};
