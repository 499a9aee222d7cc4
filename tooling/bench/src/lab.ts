// The servers, and the processes that are their clients.
import { type ChildProcess, fork } from "node:child_process";
import {
  eventually,
  FaultProxy,
  type RedisNode,
  type RedisServer,
  startRedis,
  type StartRedisOptions,
} from "@kit/testing";
import { end } from "@tooling/lab";
import type { Implementation } from "./implementation.js";

/** The checkout whose build of our packages is loaded, if it is not this one, and the client that they run on, if it is not ioredis. */
type Side = Pick<Implementation, "checkout" | "client">;

/** The parent's first message to a worker. */
export interface Opening {
  readonly package: string;
  readonly implementation: string;
  /** What our packages are on each side. */
  readonly sides: readonly Side[];
  readonly url: string;
  /** Of the further servers. */
  readonly urlsBeside: readonly string[];
  readonly setup: unknown;
  /** Its number within its team, from 0. */
  readonly index: number;
}

/** The following messages, one at a time or several. */
export interface Order {
  readonly id: number;
  /** The number of the side that does it. */
  readonly side: number;
  readonly job: string;
  readonly task: unknown;
}

export type Answer =
  { readonly id: number; readonly result: unknown } | { readonly id: number; readonly error: string };

const patienceMs = 120_000;
const failoverPatienceMs = 30_000;

/** One client process. */
export class Worker {
  readonly #child: ChildProcess;
  readonly #asked = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
  #last = 0;

  constructor(opening: Opening) {
    this.#child = fork(new URL("./worker.js", import.meta.url), {
      serialization: "advanced",
      // stdout belongs to the table, or to the one object of --json.
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#child.on("message", (answer: Answer) => {
      const asked = this.#asked.get(answer.id);
      this.#asked.delete(answer.id);
      if ("error" in answer) asked?.reject(new Error(answer.error));
      else asked?.resolve(answer.result);
    });
    this.#child.on("error", (error) => this.#fail(error));
    this.#child.on("exit", (code, signal) =>
      this.#fail(new Error(`A client process ended early (${signal ?? `code ${String(code)}`})`)),
    );
    this.#child.send(opening);
  }

  async ask<Result>(job: string, task: unknown = {}, side = 0): Promise<Result> {
    const id = ++this.#last;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Result>((resolve, reject) => {
        this.#asked.set(id, { resolve: (result) => resolve(result as Result), reject });
        timer = setTimeout(
          () => reject(new Error(`${job} gave no answer within ${String(patienceMs / 1_000)} s`)),
          patienceMs,
        );
        this.#child.send({ id, side, job, task } satisfies Order, (error) => error && reject(error));
      });
    } finally {
      clearTimeout(timer);
      this.#asked.delete(id);
    }
  }

  /** SIGKILL: a client process needs no cleanup, since its server is flushed. */
  async kill(): Promise<void> {
    await end(this.#child);
  }

  #fail(error: Error): void {
    for (const { reject } of this.#asked.values()) reject(error);
    this.#asked.clear();
  }
}

/** The processes of one implementation, or of one of its sides. */
export class Team {
  /** The implementation's id. */
  readonly implementation: string;
  /** The same for both sides of one implementation. */
  readonly opened: string;
  readonly workers: readonly Worker[];
  readonly #side: number;

  constructor({ id, opens = id }: Implementation, workers: readonly Worker[], side = 0) {
    this.implementation = id;
    this.opened = opens;
    this.workers = workers;
    this.#side = side;
  }

  /** Sends a request to the first process, or to another one. */
  ask<Result>(job: string, task?: unknown, index = 0): Promise<Result> {
    return this.worker(index).ask<Result>(job, task, this.#side);
  }

  worker(index: number): Worker {
    const worker = this.workers[index];
    if (!worker) throw new Error(`There is no process ${String(index)}`);
    return worker;
  }

  /** Sends a request to all at once. */
  all<Result>(job: string, task: object | ((index: number) => object) = {}): Promise<Result[]> {
    return Promise.all(
      this.workers.map((_, index) =>
        this.ask<Result>(job, typeof task === "function" ? (task as (index: number) => object)(index) : task, index),
      ),
    );
  }
}

/** The difference of the server's counters between two readings. */
export interface ServerWork {
  /** Every command that it ran, including those inside scripts and excluding the readings themselves. */
  readonly commands: number;
  readonly cpuMicros: number;
}

/** The commands of a reading; no implementation uses them. */
const ours = /^cmdstat_(info|config|flushall|ping|debug|time)\b/;

/** One Redis server of the run's own, further ones for a case that needs them, and client processes on demand. */
export class Lab implements AsyncDisposable {
  readonly package: string;
  readonly server: RedisServer;
  /** The server that clients use. */
  node: RedisNode;
  /** With Sentinels: the address of the master through all failovers. Most services offer one, and not every library has Sentinels. */
  #address: FaultProxy | undefined;
  readonly #beside: RedisServer[] = [];
  readonly #workers = new Set<Worker>();

  private constructor(packageName: string, server: RedisServer, node: RedisNode) {
    this.package = packageName;
    this.server = server;
    this.node = node;
  }

  static async open(packageName: string, options: StartRedisOptions = {}): Promise<Lab> {
    const server: RedisServer = await startRedis(options);
    const [node] = server.nodes;
    if (!node) throw new Error("There is no server");
    const lab = new Lab(packageName, server, node);
    if (server.mode === "sentinel") lab.#address = await FaultProxy.start(node);
    return lab;
  }

  /** Starts the processes of an implementation, or of two sides of one: they share the processes, and each is a team. */
  async start(
    builds: readonly Implementation[],
    {
      processes = 1,
      servers = 1,
      setup,
    }: { readonly processes?: number; readonly servers?: number; readonly setup?: unknown },
  ): Promise<Team[]> {
    while (this.#servers.length < servers) this.#beside.push(await startRedis());
    const [{ id, opens = id } = { id: "" }] = builds;
    const sides = builds.map(({ checkout, client }): Side => ({
      ...(checkout !== undefined && { checkout }),
      ...(client !== undefined && { client }),
    }));
    const urlsBeside = this.#beside.slice(0, servers - 1).map(({ url }) => url);
    const url = this.#address ? `redis://127.0.0.1:${String(this.#address.port)}` : this.server.url;
    const opening = { package: this.package, implementation: opens, sides, url, urlsBeside, setup };
    const workers = Array.from({ length: processes }, (_, index) => new Worker({ ...opening, index }));
    for (const worker of workers) this.#workers.add(worker);
    return builds.map((build, side) => new Team(build, workers, side));
  }

  async dismiss({ workers }: Team): Promise<void> {
    await Promise.all(
      workers.map(async (worker) => {
        this.#workers.delete(worker);
        await worker.kill();
      }),
    );
  }

  /** Kills the master, and resolves when its address leads to the replica that the Sentinels have promoted. */
  async failOver(): Promise<void> {
    const [old, listenPort] = [this.node, this.#address?.port ?? 0];
    await old.kill();
    await this.#address?.close();
    const promoted = async (): Promise<RedisNode> => {
      const master = await this.server.master();
      const [role] = (await master.call("ROLE")) as string[];
      if (master === old || role !== "master") throw new Error("No replica has been promoted yet");
      return master;
    };
    this.node = await eventually(promoted, { timeoutMs: failoverPatienceMs });
    this.#address = await FaultProxy.start({ port: this.node.port, listenPort });
  }

  get #servers(): readonly Pick<RedisNode, "call">[] {
    return [this.node, ...this.#beside];
  }

  /** A number of INFO, the sum of all servers. */
  async info(section: string, name: string): Promise<number> {
    let sum = 0;
    for (const server of this.#servers) {
      const info = String(await server.call("INFO", section));
      sum += Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(info)?.[1]);
    }
    return sum;
  }

  /** The bytes that the server has allocated. */
  usedBytes(): Promise<number> {
    return this.info("memory", "used_memory");
  }

  /** Empty servers with their counters at zero. */
  async clear(): Promise<void> {
    for (const server of this.#servers) {
      await server.call("FLUSHALL");
      await server.call("CONFIG", "RESETSTAT");
    }
  }

  /** Starts to measure the servers' work; the returned function ends it. */
  async watch(): Promise<() => Promise<ServerWork>> {
    const cpuBefore = await this.#cpuMicros();
    const before = await this.#commands();
    return async () => ({
      commands: (await this.#commands()) - before,
      cpuMicros: (await this.#cpuMicros()) - cpuBefore,
    });
  }

  async #commands(): Promise<number> {
    const infos = await Promise.all(this.#servers.map((server) => server.call("INFO", "commandstats")));
    let sum = 0;
    for (const line of infos.join("\r\n").split("\r\n"))
      if (!ours.test(line)) sum += Number(/calls=(\d+)/.exec(line)?.[1] ?? 0);
    return sum;
  }

  async #cpuMicros(): Promise<number> {
    const [user, system] = [await this.info("cpu", "used_cpu_user"), await this.info("cpu", "used_cpu_sys")];
    return (user + system) * 1e6;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.kill()));
    await this.#address?.close();
    await Promise.all([this.server, ...this.#beside].map((server) => server.stop()));
  }
}
