import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@kit/core";
import { createLogJob, createReceiver, createShipper } from "@kit/logship";
import { eventually } from "@kit/testing";
import { patience } from "../../patience.js";
import { clock } from "@tooling/lab";
import { Lab, type LabOptions } from "../../lab/lab.js";
import { workspaceFolder } from "../../lab/paths.js";
import type { Surroundings } from "../../lab/surroundings.js";
import type { Progress } from "../../work.js";
import { type FileTruth, type Had, type LogRecord, type MemoryLook, progressIn, type RunHistory } from "./checker.js";
import { chained, collector, containedOf, isPassedThrough, linesOf, noChain, parseChain, wordsOf } from "./sources.mjs";

const scripts = ["open", "reserve", "commit", "seal", "leave", "join", "look", "advance", "free", "progress"];

/** Names of the keys that a script always has, by its header. */
const keysOf = (script: string): string => {
  const source = readFileSync(join(workspaceFolder, `../../packages/logship/src/scripts/${script}.lua`), "utf8");
  return [...source.matchAll(/^-- KEYS\[\d+\]\s+(\w+)/gm)].map(([, name]) => name).join();
};

/** Steps at which a process dies: commands and scripts. Scripts are recognised by their first keys. */
export const points: readonly { readonly point: string; readonly keys?: string }[] = [
  ...["set", "mget", "claim"].map((point) => ({ point })),
  ...scripts.map((point) => ({ point, keys: keysOf(point) })),
];

const limitBytes = 98_304;
/** Finishing the files that workers left takes a second or two. */
const finishMs = 60_000;
const key = (name: string, part: string): string => `kit:logship:{${name}}:${part}`;

/** Reads the memory that chunks take in the server and, at the same instant, the channel's own count of it. */
const memoryScript = `
local sum, count = 0, 0
for _, chunk in ipairs(redis.call('KEYS', ARGV[1])) do
  sum, count = sum + (redis.call('MEMORY', 'USAGE', chunk) or 0), count + 1
end
local state = redis.call('HMGET', KEYS[1], 'used', 'reserved')
return { tonumber(state[1] or '0'), tonumber(state[2] or '0'), sum, count }`;

/** A server, workers that ship, receive and process, and the injections. */
export class LogshipLab extends Lab<LogRecord> {
  override readonly deadlineMs = 1_000;
  protected override readonly heard = ["access"];
  readonly #seed: number;
  readonly #looks: MemoryLook[] = [];
  readonly #folders: { readonly ship: string; readonly job: string };
  #looking: NodeJS.Timeout | undefined;

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    this.#seed = options.seed;
    this.#folders = { ship: join(around.folder, "ship"), job: join(around.folder, "job") };
    for (const folder of Object.values(this.#folders)) mkdirSync(folder);
  }

  protected override settings(): object {
    const { ship: shipFolder, job: jobFolder } = this.#folders;
    return { filesSeed: this.#seed, limitBytes, points, shipFolder, jobFolder };
  }

  protected override progressIn(record: LogRecord): readonly Progress[] {
    return progressIn(record);
  }

  protected override awaited(): readonly string[] {
    return ["ship", "receive", "job"];
  }

  /** Samples the memory of the chunks repeatedly. */
  #watch(): void {
    const client = this.server.client();
    client.on("error", () => undefined);
    const look = async (): Promise<void> => {
      const pattern = key("logs", "chunk:*");
      const command = ["EVAL", memoryScript, "1", key("logs", "channel"), pattern] as const;
      const asked = this.setting === "address" ? this.node.call(...command) : client.call(...command);
      const reply = await asked.catch(() => undefined);
      if (!reply) return;
      const [used = 0, reserved = 0, memory = 0, chunks = 0] = reply as number[];
      this.#looks.push({ at: clock(), used, reserved, memory, chunks });
    };
    this.#looking = setInterval(() => void look(), 40);
  }

  override async begin(workers: number): Promise<void> {
    this.#watch();
    await super.begin(workers);
  }

  /** Ends the workers, finishes the remaining files, and returns all records. */
  async end(isStuck: boolean): Promise<RunHistory> {
    const facts = { ...(await this.facts()), limitBytes, looks: this.#looks };
    if (isStuck) return { ...facts, shipped: [], processed: [], had: [], unsealed: [], leftovers: [], odd: [] };
    return { ...facts, ...(await this.#finish(facts.workers.flatMap(({ records }) => records))) };
  }

  #truths(folder: string): FileTruth[] {
    return readdirSync(folder)
      .filter((name) => /\.(log|gz)$/.test(name))
      .map((name) => {
        const lines = linesOf(name, this.#seed);
        return { name, chain: chained(noChain, lines), words: Object.fromEntries(wordsOf(lines)), lines: lines.length };
      });
  }

  /** Ships, receives and processes the remaining files, without faults. */
  async #finish(
    records: readonly LogRecord[],
  ): Promise<Pick<RunHistory, "shipped" | "processed" | "had" | "unsealed" | "leftovers" | "odd">> {
    await using client = await connect(this.ownUrl);
    const own = { prefix: "kit", deadlineMs: 5_000 };
    await using shipper = createShipper(client, "logs", { ...own, leaseMs: this.leaseMs, chunkBytes: 2_048 });
    await using job = createLogJob(client, "sums", { ...own, directory: this.#folders.job, match: /\.(log|gz)$/ });
    const receivers = ["a", "b"].map((consumer) => createReceiver(client, "logs", { ...own, consumer }));
    const odd: string[] = [];
    const [shipped, processed] = [this.#truths(this.#folders.ship), this.#truths(this.#folders.job)];
    // A call that never ends is aborted and reported with all records, so that the campaign goes on.
    const signal = AbortSignal.timeout(finishMs);
    const running = receivers.map(async (receiver, index) => {
      const consumer = ["a", "b"][index] ?? "";
      const stored = (): Promise<Map<string, string>> => receiver.results(`chain-${consumer}`);
      await receiver
        .run(
          collector(consumer, stored, (what) => odd.push(what)),
          { signal },
        )
        .catch((error: unknown) => odd.push(`${consumer}: ${String(error)}`));
    });
    const acknowledged = new Set(records.flatMap((record) => (record.kind === "shipped" ? [record.name] : [])));
    const unsealed: string[] = [];
    // All at once, since an open file holds up the files behind it.
    const finishing = shipped.map(async ({ name }) => {
      const own = { id: name, passThrough: isPassedThrough(name), signal };
      const { wasShipped } = await shipper.add(join(this.#folders.ship, name), own).catch((error: unknown) => {
        odd.push(`${name}: ${String(error)}`);
        return { wasShipped: true };
      });
      if (!wasShipped && acknowledged.has(name)) unsealed.push(name);
    });
    await Promise.all(finishing);
    await shipper.closeChannel();
    await Promise.all(running);
    // Some are there in part.
    for (const { name } of processed) {
      const path = join(this.#folders.job, name);
      writeFileSync(`${path}.part`, containedOf(name, this.#seed, false, false));
      renameSync(`${path}.part`, path);
    }
    await job.run(
      collector(
        "job",
        () => job.results("chain-job"),
        (what) => odd.push(what),
      ),
    );
    const had: Had[] = [];
    for (const [index, name] of ["a", "b", "job"].entries()) {
      const from = receivers[index] ?? job;
      const chains = Object.fromEntries(await from.results(`chain-${name}`));
      const numbers = async (result: string): Promise<Record<string, number>> =>
        mapped(Object.fromEntries(await from.results(`${result}-${name}`)), Number);
      const [words, lines] = [await numbers("words"), await numbers("lines")];
      had.push({ consumer: name, chains: mapped(chains, parseChain), words, lines });
    }
    for (const receiver of receivers) await receiver.close();
    return { shipped, processed, had, unsealed, odd, leftovers: await this.#leftovers(shipper) };
  }

  /** After every consumer has read everything, the channel must be empty. Chunks of killed shippers expire. */
  async #leftovers(shipper: {
    status(): Promise<{ usedBytes: number; reservedBytes: number; fileCount: number } | null>;
  }): Promise<string[]> {
    const look = async (): Promise<string[]> => {
      const { usedBytes = -1, reservedBytes = -1, fileCount = -1 } = (await shipper.status()) ?? {};
      const chunks = (
        (await this.ask("EVAL", memoryScript, "1", key("logs", "channel"), key("logs", "chunk:*"))) as number[]
      )[3];
      const found = { usedBytes, reservedBytes, fileCount, chunks };
      return Object.entries(found).flatMap(([what, count]) => (count === 0 ? [] : [`${what}: ${String(count)}`]));
    };
    return await eventually(
      async () => {
        const found = await look();
        if (found.length > 0) throw new Error(found.join());
        return found;
      },
      { timeoutMs: 5_000 * patience },
    ).catch(look);
  }

  override async stop(): Promise<void> {
    clearInterval(this.#looking);
    await super.stop();
  }
}

const mapped = <T, U>(record: Readonly<Record<string, T>>, map: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
