import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { RedisMode, RedisNode, TestRedis } from "@kit/testing";
import { clientsOf, type Login, nodeOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import {
  createLogJob,
  createReceiver,
  createShipper,
  type JobOptions,
  type LinesHandler,
  type LogJob,
  type Receiver,
  type ReceiverOptions,
  type Shipper,
  type ShipperOptions,
} from "../src/index.js";
import { type LogshipKeys, logshipKeys } from "../src/keys.js";

/** The job or channel of a test, unless it has several. */
export const name = "web";

/** The task of another process, and the number of the command at which it dies. */
interface MortalTask {
  readonly options: object;
  readonly name?: string;
  readonly files?: readonly string[];
  readonly killAt?: number;
}

/** On which client, and under which name. */
interface OnClient {
  readonly name?: string;
  readonly client?: Parameters<typeof createLogJob>[0];
}

/** The fixture of this package's tests. */
export interface Fixture {
  connect: TestRedis<RedisMode>["connect"];
  readonly shared: Parameters<typeof createLogJob>[0];
  readonly db: Redis;
  readonly mode: RedisMode;
  readonly keys: LogshipKeys;
  keysOf(name: string): LogshipKeys;
  nodeOf(name: string): Promise<RedisNode>;
  /** An empty directory, gone after the test. */
  directory(): Promise<string>;
  job(options: JobOptions & OnClient): LogJob;
  shipper(options?: ShipperOptions & OnClient): Shipper;
  /** Of consumer `c` unless the options name another. */
  receiver(options?: Partial<ReceiverOptions> & OnClient): Receiver;
  /** Runs a task in another process; resolves with whether it came to its end or was killed. */
  mortal(what: "job" | "ship" | "receive", task: MortalTask): Promise<"done" | "killed">;
  /** Lets all keys of this test stay without expiry. */
  permanent(): void;
}

const program = new URL("programs/mortal.mjs", import.meta.url);

export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): Fixture => {
  const clients = clientsOf(redis, login);
  const keysOf = (own: string): LogshipKeys => logshipKeys(redis.prefix, own);
  const db = (): Redis => redis.client as Redis;
  return {
    connect: clients.connect,
    get shared() {
      return clients.shared();
    },
    get mode() {
      return redis.server.mode;
    },
    get db() {
      return db();
    },
    get keys() {
      return keysOf(name);
    },
    keysOf,
    nodeOf: (own) => nodeOf(redis.server.nodes, keysOf(own).channel),
    directory: async () => {
      const path = await mkdtemp(join(tmpdir(), "logship-"));
      redis.defer(() => rm(path, { recursive: true, force: true }));
      return path;
    },
    job: ({ name: own = name, client = clients.shared(), ...options }) => {
      const job = createLogJob(client, own, {
        prefix: redis.prefix,
        deadlineMs: 10_000,
        leaseMs: 400,
        isolate: false,
        ...options,
      });
      redis.defer(() => job.close({ timeoutMs: 1_000 }));
      return job;
    },
    shipper: ({ name: own = name, client = clients.shared(), ...options } = {}) => {
      const shipper = createShipper(client, own, {
        prefix: redis.prefix,
        deadlineMs: 10_000,
        isolate: false,
        ...options,
      });
      redis.defer(() => shipper.close({ timeoutMs: 1_000 }));
      return shipper;
    },
    receiver: ({ name: own = name, client = clients.shared(), ...options } = {}) => {
      const receiver = createReceiver(client, own, {
        prefix: redis.prefix,
        deadlineMs: 10_000,
        isolate: false,
        consumer: "c",
        ...options,
      });
      redis.defer(() => receiver.close({ timeoutMs: 1_000 }));
      return receiver;
    },
    mortal: async (what, { options, ...task }) => {
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const whole = { name, options: { prefix: redis.prefix, deadlineMs: 10_000, ...options }, ...task };
      const args = [redis.server.mode, ports, what, JSON.stringify(whole), JSON.stringify(login ?? {})];
      const child = fork(program, args, { execArgv: [], silent: true });
      redis.defer(() => child.kill("SIGKILL"));
      let printed = "";
      for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (printed += String(chunk)));
      let isDone = false;
      child.on("message", () => (isDone = true));
      const [code, signal] = (await once(child, "close")) as [number | null, string | null];
      if (signal === "SIGKILL") return "killed";
      if (code !== 0 || !isDone) throw new Error(`the process ended with ${String(code)}: ${printed}`);
      return "done";
    },
    permanent: () => redis.permanent("*"),
  };
};

/** Lines whose first words are counted: `w<n % 7> …`, each of another length. */
export const logLines = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, index) => {
    const number = from + index;
    return `w${String(number % 7)} line ${String(number)} ${"é😀x".repeat(number % 5)}`;
  });

export const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");

/** How often each first word stands in lines. */
export const wordsOf = (lines: readonly string[]): Map<string, string> => {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const word = line.split(" ", 1)[0]!;
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return new Map([...counts].map(([word, count]) => [word, String(count)]));
};

/** Counts first words into the result `words`. */
export const countWords: LinesHandler = (lines, results) => {
  for (const line of lines) results.increment("words", line.split(" ", 1)[0]!);
};

/** Writes lines into a file, as gzip where its name says so: then in members of 100 lines each. */
export const writeLog = async (directory: string, file: string, lines: readonly string[]): Promise<string> => {
  const path = join(directory, file);
  const members: Buffer[] = [];
  for (let from = 0; from < lines.length; from += 100) members.push(gzipSync(textOf(lines.slice(from, from + 100))));
  await writeFile(path, file.endsWith(".gz") ? Buffer.concat(members) : textOf(lines));
  return path;
};

/**
 * The commands after which another process is killed: each of the first ones, then fewer and fewer, until one process
 * completes. The fault lab kills after each. On a Cluster the same code runs.
 */
export function* killPoints({ mode }: Fixture): Generator<number, void, undefined> {
  if (mode === "cluster") yield 5;
  else for (const point of [1, 3, 8, 21, 55]) yield point;
  yield Infinity;
}

/** Blocks of the given sizes, over and over. */
export async function* inBlocks(bytes: Uint8Array, ...sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let from = 0, index = 0; from < bytes.length; index++) {
    const size = sizes[index % sizes.length]!;
    yield bytes.subarray(from, from + size);
    from += size;
  }
}
