import { median } from "../../statistics.js";
import { atLeast, atMost, type Case, type Entry, type Measurement, type Suite } from "../../suite.js";
import type { Lab, Team } from "../../lab.js";
import { implementations, type LogshipSetup } from "./implementations.js";
import type { FileTask, LargeTask, ManyTask, ReadTask, Shipped, Took } from "./jobs.js";

const mebibyte = 1_048_576;

const plain: LogshipSetup = { codec: "none", passThrough: false };

interface CarrySettings {
  readonly ids: readonly string[];
  readonly setup?: LogshipSetup;
  readonly mebibytes?: number;
  readonly isGzip?: boolean;
}

/** A local file of log text, which a measurement may upload and read. */
const carryCase = (
  entry: Entry,
  { ids, setup = plain, mebibytes = 64, isGzip = false }: CarrySettings,
  measure: (team: Team, bytes: number, lab: Lab) => Promise<Measurement>,
): Case => {
  const bytesOf = (scale: number): number => Math.ceil(mebibytes * mebibyte * scale);
  return {
    entries: [entry],
    ...implementations.pick(ids, setup),
    prepare: (team, _lab, scale) => team.ask("file", { bytes: bytesOf(scale), isGzip } satisfies FileTask),
    measure: (team, lab, scale) => measure(team, bytesOf(scale), lab),
  };
};

const rate = (bytes: number, ...all: readonly Took[]): number => bytes / 1e3 / all.reduce((sum, { ms }) => sum + ms, 0);

/** Megabytes of text per second, for the name of an entry. */
const unit = "MB/s of text";

const readCase = (entry: Omit<Entry, "unit">, how: "download" | "lines" | "eachLine", settings: CarrySettings): Case =>
  carryCase({ ...entry, unit }, settings, async (team, bytes) => {
    await team.ask("uploadIfAny");
    const took = await team.ask<Took>("read", { how } satisfies ReadTask);
    if (took.count === 0) throw new Error("nothing came");
    return { values: [rate(bytes, took)], details: { count: took.count } };
  });

const withRaw = ["kit", "classic", "raw SET and GETRANGE", "raw with checksums"];

const uploadCase = carryCase(
  { name: "upload raw", unit, about: "64 MiB of a local file, as they are", goal: atLeast({ classic: 5 }) },
  { ids: withRaw },
  async (team, bytes) => ({ values: [rate(bytes, await team.ask<Took>("upload"))] }),
);

const slowCase = carryCase(
  {
    name: "upload and download at 1 ms round trip",
    unit,
    about: "8 MiB of a local file, there and back, through a proxy that holds everything up for 0.5 ms each way",
    goal: atLeast({ classic: 5 }),
  },
  { ids: withRaw, setup: { ...plain, latencyMs: 1 }, mebibytes: 8 },
  async (team, bytes) => {
    const up = await team.ask<Took>("upload");
    const down = await team.ask<Took>("read", { how: "download" } satisfies ReadTask);
    return { values: [rate(2 * bytes, up, down)], details: { upMs: up.ms, downMs: down.ms } };
  },
);

const heldCase = carryCase(
  {
    name: "bytes held framed gzip",
    unit: "bytes per byte of text",
    about: "growth of the server's data, 16 MiB of log text",
    goal: atLeast({ classic: 4 }),
  },
  { ids: ["kit", "classic"], setup: { codec: "gzip", passThrough: false }, mebibytes: 16 },
  async (team, bytes, lab) => {
    const before = await dataBytes(lab);
    await team.ask("upload");
    return { values: [((await dataBytes(lab)) - before) / bytes] };
  },
);

const overheadCase = carryCase(
  {
    name: "commit overhead",
    unit: "%",
    about:
      "64 MiB of plain chunks counted by status: time added by a commit every 10,000 lines, compared with one at the end",
    goal: atMost(5),
  },
  { ids: ["kit"] },
  async (team) => {
    await team.ask("upload");
    const run = async (flushLines?: number): Promise<number> =>
      (await team.ask<Took>("read", { how: "counted", flushLines } satisfies ReadTask)).ms;
    // The first passes are compiled while they run, which takes longer than all commits.
    for (let warmUp = 0; warmUp < 4; warmUp++) await run(warmUp % 2 ? 10_000 : undefined);
    // The two alternate, so that a busy moment hits both.
    const [without, withCommits]: [number[], number[]] = [[], []];
    for (let turn = 0; turn < 15; turn++) {
      withCommits.push(await run(10_000));
      without.push(await run());
    }
    const [withMs, withoutMs] = [median(withCommits), median(without)];
    return { values: [100 * (withMs / withoutMs - 1)], details: { withMs, withoutMs } };
  },
);

const manyFilesCase = carryCase(
  {
    name: "400 files with one header",
    unit: "× the time without it",
    about: "a job over 400 files of two lines, each after the same header of 1.1 KiB, compared with other headers",
    goal: atMost(2),
  },
  { ids: ["kit"], mebibytes: 1 },
  async (team) => {
    const [withMs, withoutMs]: [number[], number[]] = [[], []];
    for (let turn = 0; turn < 5; turn++) {
      withMs.push((await team.ask<Took>("manyFiles", { isShared: true } satisfies ManyTask)).ms);
      withoutMs.push((await team.ask<Took>("manyFiles", { isShared: false } satisfies ManyTask)).ms);
    }
    return {
      values: [median(withMs) / median(withoutMs)],
      details: { withMs: median(withMs), withoutMs: median(withoutMs) },
    };
  },
);

const dataBytes = (lab: Lab): Promise<number> => lab.info("memory", "used_memory_dataset");

const largeCase: Case = {
  entries: [
    {
      name: "2 GiB under 64 MiB: highest use",
      unit: "MiB",
      about: "the highest use and reservation that the channel reported, polled throughout",
      goal: atMost(64, "max"),
    },
    {
      name: "2 GiB under 64 MiB: waits",
      unit: "times",
      better: "higher",
      about: "how often the shipper waited at the limit; the case fails if it never did",
    },
    {
      name: "2 GiB under 64 MiB",
      unit,
      about:
        "2 GiB of log lines shipped by one process and counted by another; the sums must equal those of a local pass",
    },
  ],
  ...implementations.pick(["kit"], plain),
  rounds: 1,
  processes: 2,
  measure: async (team, lab, scale) => {
    const [shipping, receiving] = [team.worker(0), team.worker(1)];
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
        memory = Math.max(memory, await dataBytes(lab));
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
    return {
      values: [(highest / mebibyte) * Math.max(1, 1 / scale), waits, task.bytes / 1e3 / ms],
      details: { lines, looks, memoryMiB: memory / mebibyte },
    };
  },
};

export const suite: Suite = {
  package: "logship",
  cases: [
    uploadCase,
    slowCase,
    readCase(
      { name: "download raw", about: "64 MiB of plain chunks as bytes", goal: atLeast({ floor: 0.8 }) },
      "download",
      { ids: ["kit", "raw SET and GETRANGE", "raw with checksums", "classic"] },
    ),
    readCase(
      {
        name: "lines plain batch",
        about: "64 MiB of plain chunks, cut into lines, by batches",
        goal: atLeast({ readline: 1.5 }),
      },
      "lines",
      { ids: ["kit", "readline"] },
    ),
    readCase(
      { name: "lines per-line iterator", about: "the same, one line at a time", goal: atLeast({ readline: 1 }) },
      "eachLine",
      { ids: ["kit", "readline"] },
    ),
    readCase(
      {
        name: "lines gz",
        about: "64 MiB of text, a gzip file of one member that is passed through, by batches",
        goal: atLeast({ "zcat | wc -l": 1 }),
      },
      "lines",
      { ids: ["kit", "zcat | wc -l"], setup: { codec: "gzip", passThrough: true }, isGzip: true },
    ),
    heldCase,
    overheadCase,
    manyFilesCase,
    largeCase,
  ],
};
