import type { Lab, Team, Worker } from "../../lab.js";
import { median } from "../../statistics.js";
import type { Case, Entry, Measurement, Suite } from "../../suite.js";
import { logshipImplementation, type LogshipSetup } from "./implementations.js";
import type { FileTask, LargeTask, ReadTask, Shipped, Took } from "./jobs.js";

const mebibyte = 1_048_576;

const firstOf = ({ workers }: Team): Worker => {
  const [worker] = workers;
  if (!worker) throw new Error("no process");
  return worker;
};

const plain: LogshipSetup = { codec: "none", passThrough: false };

interface CarryCase {
  readonly implementations: readonly string[];
  readonly setup: LogshipSetup & { readonly latencyMs?: number };
  readonly mebibytes: number;
  readonly isGzip?: boolean;
  readonly measure: (
    worker: Worker,
    lab: Lab,
    bytes: number,
  ) => Promise<Omit<Measurement, "operations"> & { readonly values: Readonly<Record<string, number>> }>;
}

/** A local file of log text, which a measurement may upload and read. */
const carryCase = (
  entries: readonly Entry[],
  { implementations, setup, mebibytes, isGzip = false, measure }: CarryCase,
): Case => ({
  entries,
  implementations: implementations.map(logshipImplementation),
  rounds: Infinity,
  processes: 1,
  setup,
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const worker = firstOf(team);
      const bytes = Math.ceil(mebibytes * mebibyte * scale);
      await worker.ask("file", { bytes, isGzip } satisfies FileTask);
      return { ...(await measure(worker, lab, bytes)), operations: 0 };
    },
  },
});

const rate = (bytes: number, ...all: readonly Took[]): number => bytes / 1e3 / all.reduce((sum, { ms }) => sum + ms, 0);

const megabytesEntry = (name: string, about: string, goal: Entry["goal"]): Entry => ({
  name,
  unit: "MB/s of text",
  better: "higher",
  about,
  ...(goal && { goal }),
});

const readCase = (entry: Entry, how: "download" | "lines" | "eachLine", carry: Omit<CarryCase, "measure">): Case =>
  carryCase([entry], {
    ...carry,
    measure: async (worker, _lab, bytes) => {
      await worker.ask("uploadIfAny");
      const took = await worker.ask<Took>("read", { how } satisfies ReadTask);
      if (took.count === 0) throw new Error("nothing came");
      return { values: { [entry.name]: rate(bytes, took) }, details: { count: took.count } };
    },
  });

const uploadName = "upload raw";
const slowName = "upload and download at 1 ms round trip";
const heldName = "bytes held framed gzip";
const overheadName = "commit overhead";
const [highestName, waitsName, largeName] = [
  "2 GiB under 64 MiB: highest use",
  "2 GiB under 64 MiB: waits",
  "2 GiB under 64 MiB",
];

const usedBytes = async ({ server }: Lab): Promise<number> =>
  Number(/^used_memory_dataset:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);

const largeCase: Case = {
  entries: [
    {
      name: highestName,
      unit: "MiB",
      better: "lower",
      about: "the highest use and reservation that the channel reported, polled throughout",
      goal: { text: "cap never exceeded: ≤ 64 MiB", checks: [{ atMost: 64, of: "max" }] },
    },
    {
      name: waitsName,
      unit: "times",
      better: "higher",
      about: "how often the shipper waited at the limit; the case fails if it never did",
    },
    megabytesEntry(
      largeName,
      "2 GiB of log lines shipped by one process and counted by another; the sums must equal those of a local pass",
      undefined,
    ),
  ],
  implementations: [logshipImplementation("kit")],
  rounds: 1,
  processes: 2,
  setup: plain,
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const [shipping, receiving] = team.workers as readonly [Worker, Worker];
      const task: LargeTask = {
        bytes: Math.ceil(2_048 * mebibyte * scale),
        limitBytes: Math.ceil(64 * mebibyte * Math.min(1, scale)),
      };
      let [highest, memory, looks, isOver] = [0, 0, 0, false];
      const look = async (): Promise<void> => {
        while (!isOver) {
          const [used, reserved] = (
            (await lab.server.call("HMGET", "kit:logship:{large}:channel", "used", "reserved")) as (string | null)[]
          ).map(Number);
          highest = Math.max(highest, (used ?? 0) + (reserved ?? 0));
          memory = Math.max(memory, await usedBytes(lab));
          looks++;
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
      };
      const looking = look();
      const startedAt = performance.now();
      const ship = shipping.ask<Shipped>("shipLarge", task);
      // The consumer begins when the channel is nearly full, so that the shipper waits at least once.
      while (highest < task.limitBytes * 0.9) await new Promise((resolve) => setTimeout(resolve, 10));
      const sums = await receiving.ask<Readonly<Record<string, string>>>("receiveLarge", task);
      const { waits, lines } = await ship;
      const ms = performance.now() - startedAt;
      isOver = true;
      await looking;
      const local = await receiving.ask<Readonly<Record<string, string>>>("passLocally", task);
      const isSame = [...new Set([...Object.keys(sums), ...Object.keys(local)])].every(
        (status) => sums[status] === local[status],
      );
      if (!isSame)
        throw new Error(`the sums are not those of a local pass: ${JSON.stringify(sums)}, ${JSON.stringify(local)}`);
      if (waits === 0) throw new Error("the shipper never waited");
      const values = {
        [highestName]: (highest / mebibyte) * Math.max(1, 1 / scale),
        [waitsName]: waits,
        [largeName]: task.bytes / 1e3 / ms,
      };
      return { values, operations: 0, details: { lines, looks, memoryMiB: memory / mebibyte } };
    },
  },
};

export const suite: Suite = {
  package: "logship",
  cases: [
    carryCase(
      [
        megabytesEntry(uploadName, "64 MiB of a local file, as they are", {
          text: "≥ 5 × classic",
          checks: [{ than: "classic", atLeast: 5 }],
        }),
      ],
      {
        implementations: ["kit", "classic", "raw SET and GETRANGE", "raw with checksums"],
        setup: plain,
        mebibytes: 64,
        measure: async (worker, _lab, bytes) => ({
          values: { [uploadName]: rate(bytes, await worker.ask<Took>("upload")) },
        }),
      },
    ),
    carryCase(
      [
        megabytesEntry(
          slowName,
          "8 MiB of a local file, there and back, through a proxy that holds everything up for 0.5 ms each way",
          { text: "≥ 5 × classic", checks: [{ than: "classic", atLeast: 5 }] },
        ),
      ],
      {
        implementations: ["kit", "classic", "raw SET and GETRANGE", "raw with checksums"],
        setup: { ...plain, latencyMs: 1 },
        mebibytes: 8,
        measure: async (worker, _lab, bytes) => {
          const up = await worker.ask<Took>("upload");
          const down = await worker.ask<Took>("read", { how: "download" } satisfies ReadTask);
          return { values: { [slowName]: rate(2 * bytes, up, down) }, details: { upMs: up.ms, downMs: down.ms } };
        },
      },
    ),
    readCase(
      megabytesEntry("download raw", "64 MiB of plain chunks as bytes", {
        text: "≥ 0.8 × raw pipelined GETRANGE",
        checks: [{ than: "floor", atLeast: 0.8 }],
      }),
      "download",
      {
        implementations: ["kit", "raw SET and GETRANGE", "raw with checksums", "classic"],
        setup: plain,
        mebibytes: 64,
      },
    ),
    readCase(
      megabytesEntry("lines plain batch", "64 MiB of plain chunks, cut into lines, by batches", {
        text: "≥ 1.5 × readline events on the local file",
        checks: [{ than: "readline", atLeast: 1.5 }],
      }),
      "lines",
      { implementations: ["kit", "readline"], setup: plain, mebibytes: 64 },
    ),
    readCase(
      megabytesEntry("lines per-line iterator", "the same, one line at a time", {
        text: "≥ 1.0 × readline for-await",
        checks: [{ than: "readline", atLeast: 1 }],
      }),
      "eachLine",
      { implementations: ["kit", "readline"], setup: plain, mebibytes: 64 },
    ),
    readCase(
      megabytesEntry("lines gz", "64 MiB of text, a gzip file of one member that is passed through, by batches", {
        text: "≥ 1.0 × zcat | wc -l",
        checks: [{ than: "zcat | wc -l", atLeast: 1 }],
      }),
      "lines",
      {
        implementations: ["kit", "zcat | wc -l"],
        setup: { codec: "gzip", passThrough: true },
        mebibytes: 64,
        isGzip: true,
      },
    ),
    carryCase(
      [
        {
          name: heldName,
          unit: "bytes per byte of text",
          better: "lower",
          about: "growth of the server's data, 16 MiB of log text",
          goal: { text: "≥ 4 × less than classic", checks: [{ than: "classic", atLeast: 4 }] },
        },
      ],
      {
        implementations: ["kit", "classic"],
        setup: { codec: "gzip", passThrough: false },
        mebibytes: 16,
        measure: async (worker, lab, bytes) => {
          const before = await usedBytes(lab);
          await worker.ask("upload");
          return { values: { [heldName]: ((await usedBytes(lab)) - before) / bytes } };
        },
      },
    ),
    carryCase(
      [
        {
          name: overheadName,
          unit: "%",
          better: "lower",
          about:
            "64 MiB of plain chunks counted by status: time added by a commit every 10,000 lines, compared with one at the end",
          goal: { text: "≤ 5 %", checks: [{ atMost: 5 }] },
        },
      ],
      {
        implementations: ["kit"],
        setup: plain,
        mebibytes: 64,
        measure: async (worker) => {
          await worker.ask("upload");
          const run = async (flushLines?: number): Promise<number> =>
            (await worker.ask<Took>("read", { how: "counted", flushLines } satisfies ReadTask)).ms;
          // The first passes are compiled while they run, which takes longer than all commits.
          for (let warmUp = 0; warmUp < 4; warmUp++) await run(warmUp % 2 ? 10_000 : undefined);
          // The two alternate, so that a busy moment hits both.
          const [without, withCommits]: [number[], number[]] = [[], []];
          for (let turn = 0; turn < 15; turn++) {
            withCommits.push(await run(10_000));
            without.push(await run());
          }
          const [withMs, withoutMs] = [median(withCommits), median(without)];
          return { values: { [overheadName]: 100 * (withMs / withoutMs - 1) }, details: { withMs, withoutMs } };
        },
      },
    ),
    largeCase,
  ],
};
