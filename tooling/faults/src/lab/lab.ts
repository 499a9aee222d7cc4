import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pause } from "@kit/core/toolkit";
import { eventually, FaultProxy, type RedisMode, type RedisNode, type RedisServer, startRedis } from "@kit/testing";
import { parseLog, type Span, type WorkerHistory } from "../records.js";
import type { Setting } from "./setting.js";
import { clock, seeded } from "@tooling/lab";
import { ControlFile, shims } from "./shims.js";
import { Tap } from "./tap.js";
import { workspaceFolder } from "./paths.js";
import { Worker } from "./worker.js";

/** The user that workers log in as, so that it can be deleted. */
const user = "worker";
const password = "fault-lab";
const logins = ["--user", user, "on", `>${password}`, "~*", "&*", "+@all"];

/** The kernel retries a connection whose packets were dropped after a second. */
const reconnectMs = 1_500;

/** The end of an outage. From here on work is possible again. */
export interface Mark {
  readonly kind: string;
  readonly at: number;
  /** The only object concerned, if there is just one. */
  readonly name?: string;
  /** Milliseconds within which work must continue, where servers need a part of that time. */
  readonly dueMs?: number;
}

/** The acknowledged writes that a server has lost: all, the newest, the unsynced or the unreplicated ones. */
export type Loss = "all" | "newest" | "unsynced" | "unreplicated";

export interface LabOptions {
  readonly seed: number;
  readonly setting: Setting;
  readonly mode: RedisMode;
}

/** The options of a setting. */
export const modeOf: Readonly<Record<LabOptions["setting"], RedisMode>> = {
  kept: "single",
  lost: "single",
  shifted: "single",
  failover: "sentinel",
  cluster: "cluster",
  address: "single",
  resharded: "cluster",
};

/** Settings with the register beside the servers that are concerned, so that it loses nothing and does not move. */
const hasOwnResource: readonly Setting[] = ["lost", "shifted", "address", "resharded"];

/** The arguments of a server that has no Cluster yet. */
const clusterArgs = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];

/** Everything around the workers of one run. */
export interface Surroundings {
  readonly folder: string;
  readonly server: RedisServer;
  /** Where the guarded resource lives. */
  readonly resource: RedisServer;
  /** A server that joins the Cluster and leaves it again. */
  readonly spare: RedisNode | undefined;
  readonly proxy: FaultProxy | undefined;
  readonly tap: Tap | undefined;
  /** Undefined if there are no shims. */
  readonly clientClock: ControlFile | undefined;
  readonly serverClock: ControlFile | undefined;
  readonly syncDelay: ControlFile | undefined;
  /** The synced writes. */
  readonly notes: string;
  readonly workerEnv: Readonly<Record<string, string>>;
  readonly close: () => Promise<void>;
}

/** Starts the servers, and the proxies between them and the workers. */
export const surround = async ({ seed, setting, mode }: LabOptions): Promise<Surroundings> => {
  const folder = mkdtempSync(join(tmpdir(), "kit-faults-"));
  // A process that was just killed may still be writing to the folder.
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  process.once("exit", removeFolder);
  const notes = join(folder, "synced");
  mkdirSync(notes);
  const isSingle = mode === "single";
  const isAlone = isSingle && setting !== "address";
  const built = isAlone ? shims() : "several servers run as they are";
  const hasShims = typeof built !== "string";
  const control = (name: string): ControlFile | undefined =>
    hasShims ? new ControlFile(join(folder, name)) : undefined;
  const [clientClock, serverClock] = [control("client-clock"), control("server-clock")];
  const syncDelay = control("synced/delay");
  const preload = hasShims ? `${built.clockJump}:${built.powerCut}` : "";
  const serverEnv = serverClock && { LD_PRELOAD: preload, KIT_CLOCK_JUMP: serverClock.path, KIT_POWER_CUT: notes };
  const ends: (() => Promise<void>)[] = [];
  // Each is closed even if closing another fails, since any open one keeps this process alive.
  const close = async (): Promise<void> => {
    const ended = await Promise.allSettled(ends.map((end) => end()));
    process.off("exit", removeFolder);
    removeFolder();
    for (const one of ended) if (one.status === "rejected") throw one.reason;
  };
  try {
    const server = await startRedis({
      mode,
      persistence: isAlone ? "always" : "none",
      ...((setting === "cluster" || setting === "address") && { replicas: 1 }),
      ...(isSingle && { args: logins }),
      ...(serverEnv && { env: serverEnv }),
    });
    ends.push(() => server.stop());
    const resource = hasOwnResource.includes(setting) ? await startRedis() : server;
    ends.push(() => resource.stop());
    const spare = setting === "resharded" ? await startRedis({ args: clusterArgs }) : undefined;
    ends.push(async () => await spare?.stop());
    const again = server.client({ enableAutoPipelining: false });
    const port = server.nodes[0]?.port ?? 0;
    const tap = isSingle ? await Tap.start(port, (command, args) => again.call(command, ...args)) : undefined;
    ends.push(async () => await tap?.close());
    const proxy = tap && (await FaultProxy.start({ port: tap.port, seed }));
    ends.push(async () => await proxy?.close());
    return {
      folder,
      server,
      resource,
      spare: spare?.nodes[0],
      proxy,
      tap,
      clientClock,
      serverClock,
      syncDelay,
      notes,
      workerEnv: hasShims && clientClock ? { LD_PRELOAD: built.clockJump, KIT_CLOCK_JUMP: clientClock.path } : {},
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
};

const missing = (what: string): never => {
  throw new Error(`There is no ${what} in this run`);
};

/** The targets of a fault. Each workload has a subclass. */
export abstract class Lab {
  random: () => number;
  readonly around: Surroundings;
  readonly setting: Setting;
  readonly marks: Mark[] = [];
  /** The outages, each from its injection to its end. */
  readonly outages: (Span & { readonly kind: string })[] = [];
  /** The longest life of a claim without a renewal, in milliseconds. */
  abstract readonly leaseMs: number;
  readonly all: Worker[] = [];
  /** The lab's own connection, which closes with the server. */
  #client: ReturnType<RedisServer["client"]> | undefined;
  #node: RedisNode | undefined;

  constructor(options: LabOptions, around: Surroundings) {
    this.random = seeded(options.seed);
    this.setting = options.setting;
    this.around = around;
  }

  get server(): RedisServer {
    return this.around.server;
  }

  /** The server, or the one that the address leads to. */
  get node(): RedisNode {
    return this.#node ?? this.server.nodes[0] ?? missing("server");
  }

  /** From now on the address leads to this server. Open links stay where they are. */
  leadTo(node: RedisNode): void {
    this.#node = node;
    this.tap.target = node.port;
  }

  /** Whether no fault of this setting makes a server forget what it acknowledged. */
  get losesNothing(): boolean {
    return ["kept", "address", "resharded"].includes(this.setting);
  }

  get proxy(): FaultProxy {
    return this.around.proxy ?? missing("proxy");
  }

  get tap(): Tap {
    return this.around.tap ?? missing("tap");
  }

  /** The address by which workers reach the server. */
  get url(): string {
    const { proxy } = this.around;
    return proxy ? `redis://${user}:${password}@127.0.0.1:${String(proxy.port)}` : this.server.url;
  }

  /** The address of the servers themselves, with nothing in between. */
  get ownUrl(): string {
    return this.setting === "address" ? `redis://${this.node.host}:${String(this.node.port)}` : this.server.url;
  }

  /** The settings of a worker that looks at the server's data over a connection without faults. */
  get lookSettings(): { readonly lookUrl: string; readonly looksByWrite: boolean } {
    const isMoving = this.setting === "address";
    return { lookUrl: isMoving ? this.url : this.server.url, looksByWrite: isMoving };
  }

  get workers(): readonly Worker[] {
    return this.all.filter(({ hasEnded }) => !hasEnded);
  }

  between(from: number, to: number): number {
    return from + this.random() * (to - from);
  }

  pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.random() * list.length)];
  }

  /** A random length of 0.5 to 2 leases, which some claims survive and others do not. */
  outageMs(): number {
    return this.leaseMs * this.between(0.5, 2);
  }

  /**
   * Matches the token of a claim in the server's append-only file, in the first group; undefined if there are no
   * tokens.
   */
  readonly claimInFile: RegExp | undefined = undefined;

  abstract spawn(): Worker;

  /** Starts a process of a workload's program; `onLine` receives every line of its log. */
  protected hire(workload: string, settings: object, onLine?: (line: string) => void): Worker {
    const { folder, workerEnv } = this.around;
    const program = join(workspaceFolder, "src/workloads", workload, "worker.mjs");
    const worker = new Worker(program, `w${String(this.all.length + 1)}`, folder, settings, workerEnv);
    worker.onLine = onLine;
    this.all.push(worker);
    return worker;
  }

  /** Sends a command to the server that serves the keys now. */
  protected async ask(command: string, ...args: string[]): Promise<unknown> {
    if (this.server.mode === "sentinel") return await (await this.server.master()).call(command, ...args);
    if (this.setting === "address") return await this.node.call(command, ...args);
    const client = (this.#client ??= this.server.client());
    if (this.server.mode === "single") return await client.call(command, ...args);
    // After a failover the client's commands are refused until it has found the new master.
    return await eventually(() => client.call(command, ...args));
  }

  /** Resolves with a worker that holds a claim, once there is one. `isWaitedFor`: a claim that another worker wants. */
  abstract victim(options?: { readonly isWaitedFor?: boolean }): Promise<Worker>;

  /** The current claims of this worker, according to the server. */
  abstract claimsOf(worker: Worker): Promise<ReadonlySet<string>>;

  /** Records the claims that a killed worker leaves behind. Resolves with their number. */
  abstract died(worker: Worker, kind: string): Promise<number>;

  /** Records that acknowledged data was lost, or claims ended, between two instants. */
  abstract lostData(from: number, to: number, what: Loss): void;

  /** Resolves when work that began after `at` has succeeded. */
  abstract resumed(at: number): Promise<void>;

  /** Starts the workers; resolves when all of them work. */
  async begin(workers: number): Promise<void> {
    for (let i = 0; i < workers; i++) this.spawn();
    await Promise.all(this.workers.map((worker) => worker.started()));
    await this.settled();
  }

  /** Records that work was interrupted at an instant, and must continue within `dueMs`. */
  interrupted(kind: string, at: number, dueMs: number): void {
    this.marks.push({ kind, at, dueMs });
  }

  /** Records the end of an outage, and waits until work continues. The checker judges how soon that was. */
  async healed(kind: string): Promise<void> {
    const at = clock();
    this.marks.push({ kind, at });
    await this.resumed(at);
  }

  /** Resolves once work has continued after every interruption, so that the workers can end. */
  async finished(): Promise<void> {
    await this.healed("end");
  }

  /** Resolves when every worker, not only the first, has recovered from the earlier faults. */
  async settled(): Promise<void> {
    const cutAt = this.marks.findLast(({ kind }) => kind.includes("packets dropped"))?.at ?? -Infinity;
    await pause(Math.max(0, cutAt + reconnectMs - clock()));
    const before = new Map(this.workers.map((worker) => [worker, worker.logged("access")]));
    await eventually(
      () => {
        for (const [worker, count] of before)
          if (!worker.hasEnded && worker.logged("access") <= count) throw new Error(`${worker.id} does nothing yet`);
      },
      { timeoutMs: 60_000 },
    );
  }

  /** Ends all workers, and returns their records. */
  async dismiss<R extends { readonly kind: string }>(): Promise<WorkerHistory<R>[]> {
    this.around.proxy?.heal();
    for (const worker of this.workers) worker.leave();
    await within(Promise.all(this.all.map(({ ended }) => ended)), 15_000);
    return this.all.map(({ id, killedAt, printed, logFile, process: { exitCode, signalCode } }) => ({
      id,
      killedAt,
      printed,
      end: signalCode === null ? `exit ${String(exitCode)}` : signalCode,
      records: parseLog<R>(readFileSync(logFile, "utf8")),
    }));
  }

  /** Ends everything that still runs, including processes that do not react to the end of their input. */
  async stop(): Promise<void> {
    for (const worker of this.workers) worker.signal("SIGKILL");
    try {
      await Promise.all(this.all.map(({ ended }) => ended));
    } finally {
      await this.around.close();
    }
  }

  /** How many records of a kind the workers have logged. */
  logged(kind: string): number {
    return this.all.reduce((sum, worker) => sum + worker.logged(kind), 0);
  }

  /** The sum of a counter of INFO over all nodes. */
  async count(section: string, pattern: RegExp): Promise<number> {
    const infos = await Promise.all(this.server.nodes.map((node) => node.call("INFO", section)));
    return infos.reduce<number>((sum, info) => sum + Number(pattern.exec(String(info))?.[1] ?? 0), 0);
  }

  /** The number of error replies of a kind that the server has sent. */
  errors(code: string): Promise<number> {
    return this.count("errorstats", new RegExp(`errorstat_${code}:count=(\\d+)`));
  }

  async set(...settings: readonly (readonly [name: string, value: string | number])[]): Promise<void> {
    for (const [name, value] of settings)
      await Promise.all(this.server.nodes.map((node) => node.call("CONFIG", "SET", name, String(value))));
  }
}

/** Resolves with the work, or after this many milliseconds; leaves no timer behind. */
export const within = async (work: Promise<unknown>, ms: number): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
};

/** Resolves when `count` exceeds `before`. */
export const grows = async (count: () => number | Promise<number>, before: number): Promise<void> => {
  await eventually(async () => {
    if ((await count()) <= before) throw new Error("the fault had no effect");
  });
};

/** Stores the facts of a run that broke an invariant; returns the file. */
export const keepRun = (folder: string, name: string, run: unknown): string => {
  const plain = (_: string, value: unknown): unknown =>
    typeof value === "bigint" ? String(value) : value instanceof Map ? Object.fromEntries(value) : value;
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify(run, plain, 1));
  return file;
};
