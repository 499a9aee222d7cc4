import { join } from "node:path";
import { pause } from "@kit/core/toolkit";
import { eventually, type FaultProxy, type RedisNode, type RedisServer } from "@kit/testing";
import { patience } from "../patience.js";
import { type DataLoss, type Loss, type Mark, type Run, type Span, type WorkerHistory } from "../records.js";
import { anyWork, isPartOf, type Progress } from "../work.js";
import { type ClientName, clock, seeded } from "@tooling/lab";
import type { Subject } from "./control.js";
import { workspaceFolder } from "./paths.js";
import type { Setting } from "./setting.js";
import { password, type Surroundings, user } from "./surroundings.js";
import type { Tap } from "./tap.js";
import { within } from "./waits.js";
import { Worker } from "./worker.js";

export const prefix = "kit";

/** The kernel retries a connection whose packets were dropped after a second. */
const reconnectMs = 1_500;

export interface LabOptions {
  readonly seed: number;
  readonly setting: Setting;
  /** The folder of the workload, which has the program of its workers. */
  readonly workload: string;
  readonly subject: Subject;
  /** The client on which the packages run. */
  readonly client: ClientName;
}

const missing = (what: string): never => {
  throw new Error(`There is no ${what} in this run`);
};

/** The targets of a fault: servers, and workers of a package. Each workload has a subclass. */
export abstract class Lab<R extends { readonly kind: string } = { readonly kind: string }> {
  random: () => number;
  readonly around: Surroundings;
  readonly setting: Setting;
  readonly marks: Mark[] = [];
  /** The outages, each from its injection to its end. */
  readonly outages: (Span & { readonly kind: string })[] = [];
  /** The spans in which acknowledged data was lost, or claims ended. */
  readonly losses: DataLoss[] = [];
  /** The longest life of a claim without a renewal, in milliseconds. */
  readonly leaseMs: number = 400;
  readonly deadlineMs: number = 300;
  /** The kinds of records that the lab reads while the workers run. */
  protected readonly heard: readonly string[] = ["call"];
  readonly all: Worker[] = [];
  readonly #options: LabOptions;
  /** Of each worker, by the name of the work: when the newest that succeeded began. */
  readonly #newest = new Map<Worker, Map<string, number>>();
  #done = 0;
  /** The lab's own connection, which closes with the server. */
  #client: ReturnType<RedisServer["client"]> | undefined;
  #node: RedisNode | undefined;

  constructor(options: LabOptions, around: Surroundings) {
    this.#options = options;
    this.random = seeded(options.seed);
    this.setting = options.setting;
    this.around = around;
  }

  /** The client on which the packages run. */
  get clientName(): ClientName {
    return this.#options.client;
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

  /** The worker whose event loop is to be blocked; any by default. */
  toBlock?(): Worker | undefined;

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

  /** Further settings of the next worker. */
  protected settings(): object {
    return {};
  }

  /** Starts a worker. */
  spawn(): Worker {
    const { seed, workload, subject, client } = this.#options;
    const number = this.all.length + 1;
    const { url, leaseMs, deadlineMs } = this;
    const common = { url, client, setting: this.setting, prefix, leaseMs, deadlineMs, number, restMs: 10 };
    const program = join(workspaceFolder, "src/workloads", workload, "worker.mjs");
    const { folder, workerEnv } = this.around;
    const settings = { ...common, seed: seed + 1_000 * number, ...this.settings(), ...subject };
    const worker = new Worker(program, `w${String(number)}`, folder, settings, workerEnv);
    worker.onLine = (kind, line) => {
      if (this.heard.includes(kind)) this.hear(JSON.parse(line) as R, worker);
    };
    this.all.push(worker);
    return worker;
  }

  /** The work that a record shows to be done. */
  protected progressIn(record: R): readonly Progress[] {
    return anyWork(record);
  }

  /** The work that has to go on before the next fault. */
  protected awaited(): readonly string[] {
    return [""];
  }

  /** Called for each record of a kind in `heard`, whenever the logs are read. */
  protected hear(record: R, worker: Worker): void {
    const newest = this.#newest.get(worker) ?? new Map<string, number>();
    for (const { what, from } of this.progressIn(record)) {
      this.#done++;
      this.#newest.set(worker, newest.set(what, Math.max(newest.get(what) ?? 0, from)));
    }
  }

  /** The masters of the moment. */
  protected async masters(): Promise<RedisNode[]> {
    const nodes = [...this.server.nodes, ...this.server.replicas];
    const infos = await Promise.all(nodes.map((node) => node.call("INFO", "replication")));
    return nodes.filter((_, at) => String(infos[at]).includes("role:master\r\n"));
  }

  /** All keys of the masters, with their time to live in milliseconds; -1: no expiry. */
  protected async lives(): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (const node of await this.masters())
      for (const key of (await node.call("KEYS", `${prefix}:*`)) as string[])
        found.set(key, Number(await node.call("PTTL", key)));
    return found;
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

  /**
   * Resolves with a worker that holds a claim, once there is one. `isWaitedFor`: a claim that another worker wants. Without
   * claims, a worker that has done something.
   */
  async victim(_options?: { readonly isWaitedFor?: boolean }): Promise<Worker> {
    return await eventually(() => {
      this.logged("started");
      const worker = this.pick(this.workers.filter((one) => this.#newest.has(one)));
      if (!worker) throw new Error("nobody works");
      return worker;
    });
  }

  /** The current claims of this worker, according to the server. Without claims, the progress of all workers takes their place. */
  async claimsOf(_worker: Worker): Promise<ReadonlySet<string>> {
    this.logged("started");
    return new Set([String(this.#done)]);
  }

  /** Records the claims that a killed worker leaves behind. Resolves with their number. */
  async died(_worker: Worker, _kind: string): Promise<number> {
    return 1;
  }

  /** Records that acknowledged data was lost, or claims ended, between two instants. */
  lostData(from: number, to: number, what: Loss): void {
    this.losses.push({ from, to, what });
  }

  /** Resolves when work that began after `at` has succeeded. */
  protected async resumed(at: number): Promise<void> {
    await eventually(
      () => {
        this.logged("started");
        const resumed = [...this.#newest.values()].flatMap((newest) => [...newest].filter(([, from]) => from > at));
        const idle = this.awaited().filter((wanted) => !resumed.some(([what]) => isPartOf(wanted, what)));
        if (idle.length > 0) throw new Error(`no work goes on: ${idle.join()}`);
      },
      { timeoutMs: 25_000 * patience },
    );
  }

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
    const at = clock();
    await eventually(
      () => {
        this.logged("started");
        for (const worker of this.workers)
          if (Math.max(0, ...(this.#newest.get(worker)?.values() ?? [])) <= at)
            throw new Error(`${worker.id} does nothing yet`);
      },
      { timeoutMs: 60_000 },
    );
  }

  /** Ends the workers, and resolves with the facts of any run. */
  protected async facts(): Promise<Run<R>> {
    const { leaseMs, losesNothing, marks: heals, outages, losses } = this;
    const workers = await this.#dismiss();
    return { leaseMs, losesNothing, workers, heals, outages, losses, echoes: this.around.tap?.echoes.length ?? 0 };
  }

  async #dismiss(): Promise<WorkerHistory<R>[]> {
    this.around.proxy?.heal();
    for (const worker of this.workers) worker.leave();
    await within(Promise.all(this.all.map(({ ended }) => ended)), 15_000);
    return this.all.map((worker) => worker.history<R>());
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
