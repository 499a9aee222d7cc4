import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect, pause } from "@kit/core";
import { eventually, FaultProxy, type RedisMode, type RedisNode, type RedisServer, startRedis } from "@kit/testing";
import { createLock } from "../../src/index.js";
import { clock } from "./clock.mjs";
import { isWaitedFor, staleWrites, type Violation, violationsOf } from "./checker.js";
import { type Access, type Death, parseAccess, parseLog, type RunHistory, type WorkerHistory } from "./history.js";
import { seeded } from "./random.mjs";

export const leaseMs = 400;
/** Shorter than a lease, so that a silent server is noticed while there is something to lose. */
const deadlineMs = 250;
const names = ["item-1", "item-2", "item-3", "item-4"];
const queueLifeMs = 16_000;
const fenceLifeMs = 604_800_000;

/** One blow; resolves with how many struck home. */
export type Strike = (lab: Lab) => Promise<number>;

export interface CampaignOptions {
  readonly seed: number;
  readonly strike: Strike;
  /** @default 20 */
  readonly strikes?: number;
  /** The rest between two strikes, at most, in milliseconds. @default 300 */
  readonly gapMs?: number;
  /** @default "single" */
  readonly mode?: RedisMode;
  /** @default "none" */
  readonly persistence?: "none" | "always";
  /** Whether the workers reach the lock's server through `lab.proxy`. @default false */
  readonly isProxied?: boolean;
  /** Whether the register lives on a server of its own, which no strike meets. @default false */
  readonly isRegisterApart?: boolean;
  /** How often a holder blocks its event loop beyond its lease. @default 0 */
  readonly blockChance?: number;
  /** Whether the register refuses older fencing tokens. @default true */
  readonly isFenced?: boolean;
  /** What the workers import as the lock. @default "@kit/lock" */
  readonly lockModule?: string;
}

export interface CampaignReport {
  readonly strikes: number;
  readonly violations: readonly Violation[];
  readonly run: RunHistory;
  /** Accepted writes. */
  readonly writes: number;
  readonly refusals: number;
  readonly staleWrites: number;
  /** Deaths of holders behind whom somebody waited, so that L4 could be judged. */
  readonly judgedDeaths: number;
}

/** Who holds a lock, by the server's own word. */
export interface Holder {
  readonly name: string;
  readonly token: string;
  readonly worker: string;
  readonly fence: bigint;
  /** Server time, epoch milliseconds. */
  readonly seenAt: number;
  readonly endsAt: number;
  /** The workers in line, in order. */
  readonly waiting: readonly string[];
}

class Worker {
  readonly id: string;
  readonly process: ChildProcess;
  readonly logFile: string;
  readonly ended: Promise<unknown>;
  killedAt: number | undefined;
  printed = "";

  constructor(id: string, folder: string, settings: object) {
    this.id = id;
    this.logFile = join(folder, `${id}.ndjson`);
    const program = fileURLToPath(new URL("worker.mjs", import.meta.url));
    const argument = JSON.stringify({ ...settings, id, logFile: this.logFile });
    // A worker leaves when its input ends, so none outlives this process.
    this.process = spawn(process.execPath, [program, argument], { stdio: ["pipe", "pipe", "pipe"], env: {} });
    for (const stream of [this.process.stdout, this.process.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => (this.printed += text));
    this.process.stdin?.on("error", () => undefined);
    this.ended = once(this.process, "close");
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null;
  }

  /** Killed on purpose. */
  async kill(): Promise<void> {
    this.killedAt = clock();
    this.process.kill("SIGKILL");
    await this.ended;
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.hasEnded) this.process.kill(signal);
  }

  /** Resolves once it contends. */
  async started(): Promise<void> {
    await eventually(
      () => {
        if (!readFileSync(this.logFile, "utf8").includes(`"started"`))
          throw new Error(`${this.id} has not begun: ${this.printed}`);
      },
      { timeoutMs: 15_000 },
    );
  }

  history(): WorkerHistory {
    const { id, killedAt, printed } = this;
    const { exitCode, signalCode } = this.process;
    const end = signalCode === null ? `exit ${String(exitCode)}` : signalCode;
    return { id, killedAt, printed, end, records: parseLog(readFileSync(this.logFile, "utf8")) };
  }
}

/** `S`, `R`, `T` (stopped) and so on, as the kernel says. */
export const processState = (pid: number): string =>
  /^\d+ \(.*\) (\S)/s.exec(readFileSync(`/proc/${String(pid)}/stat`, "utf8"))?.[1] ?? "";

/** A server, its contenders, and what is done to them. */
export class Lab {
  readonly random: () => number;
  readonly server: RedisServer;
  readonly registerServer: RedisServer;
  readonly proxy: FaultProxy | undefined;
  readonly deaths: Death[] = [];
  readonly heals: number[] = [];
  readonly dataLosses: number[] = [];
  readonly #options: CampaignOptions;
  readonly #folder: string;
  readonly #workers: Worker[] = [];
  readonly #look: ReturnType<RedisServer["client"]>;
  readonly #lookAtRegister: ReturnType<RedisServer["client"]>;
  #spawned = 0;

  constructor(
    options: CampaignOptions,
    folder: string,
    server: RedisServer,
    registerServer: RedisServer,
    proxy?: FaultProxy,
  ) {
    this.random = seeded(options.seed);
    this.#options = options;
    this.#folder = folder;
    this.server = server;
    this.registerServer = registerServer;
    this.proxy = proxy;
    this.#look = server.client();
    this.#lookAtRegister = server === registerServer ? this.#look : registerServer.client();
  }

  get node(): RedisNode {
    const [node] = this.server.nodes;
    if (!node) throw new Error("There is no server");
    return node;
  }

  get workers(): readonly Worker[] {
    return this.#workers.filter(({ hasEnded }) => !hasEnded);
  }

  between(from: number, to: number): number {
    return from + this.random() * (to - from);
  }

  pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.random() * list.length)];
  }

  spawn(): Worker {
    const { seed, isFenced = true, blockChance = 0, lockModule = "@kit/lock" } = this.#options;
    const number = ++this.#spawned;
    const worker = new Worker(`w${String(number)}`, this.#folder, {
      url: this.proxy?.url ?? this.server.url,
      registerUrl: this.registerServer.url,
      prefix: "kit",
      names,
      leaseMs,
      deadlineMs,
      seed: seed + 1_000 * number,
      loops: 2,
      restMs: 40,
      fenced: isFenced,
      blockChance,
      lockModule,
    });
    this.#workers.push(worker);
    return worker;
  }

  // ── what the servers say ──────────────────────────────────────────────────────────────────────────────────────────

  /** Who holds `name`, and who waits, at one instant of the server's clock. */
  async holder(name: string): Promise<Holder | undefined> {
    const part = (last: string): string => `kit:lock:{${name}}:${last}`;
    const script = `local time = redis.call('TIME')
      local reply = { time[1], time[2], redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '' }
      for _, token in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
        reply[#reply + 1] = redis.call('HGET', KEYS[4], token) or ''
      end
      return reply`;
    const keys = [part("lease"), part("fence"), part("queue"), part("waiters")];
    const reply = (await this.#look.call("EVAL", script, "4", ...keys)) as (string | number)[];
    const [seconds, micros, owner, msLeft, fence, ...records] = reply.map(String);
    const [token = "", worker = ""] = (owner ?? "").split("|");
    if (token === "") return undefined;
    const seenAt = Number(seconds) * 1_000 + Number(micros) / 1_000;
    return {
      name,
      token,
      worker,
      fence: BigInt(/^\d+:(\d+)/.exec(fence ?? "")?.[1] ?? "0"),
      seenAt,
      endsAt: seenAt + Number(msLeft),
      waiting: records.map((record) => record.split(" ").at(-1) ?? ""),
    };
  }

  async holders(): Promise<Holder[]> {
    const all = await Promise.all(names.map((name) => this.holder(name)));
    return all.filter((holder) => holder !== undefined);
  }

  /** A holder by chance, as soon as there is one; `isWaitedFor`: behind whom another living process waits. */
  async someHolder({ isWaitedFor = false }: { readonly isWaitedFor?: boolean } = {}): Promise<{
    holder: Holder;
    worker: Worker;
  }> {
    return await eventually(
      async () => {
        const living = new Map(this.workers.map((worker) => [worker.id, worker]));
        const holders = (await this.holders()).filter(
          (holder) => !isWaitedFor || holder.waiting.some((id) => id !== holder.worker && living.has(id)),
        );
        const holder = this.pick(holders);
        const worker = living.get(holder?.worker ?? "");
        if (!holder || !worker) throw new Error("nobody holds anything");
        return { holder, worker };
      },
      { intervalMs: 2 },
    );
  }

  /** How many records of a kind the workers have logged. */
  logged(kind: string): number {
    const texts = this.#workers.map(({ logFile }) => readFileSync(logFile, "utf8"));
    return texts.reduce((sum, text) => sum + text.split(`{"kind":"${kind}"`).length - 1, 0);
  }

  /** The sum of a counter of INFO over all nodes. */
  async count(section: string, pattern: RegExp): Promise<number> {
    const infos = await Promise.all(this.server.nodes.map((node) => node.call("INFO", section)));
    return infos.reduce<number>((sum, info) => sum + Number(pattern.exec(String(info))?.[1] ?? 0), 0);
  }

  async registers(): Promise<Map<string, Access[]>> {
    const found = new Map<string, Access[]>();
    for (const name of names) {
      const lines = (await this.#lookAtRegister.call(
        "LRANGE",
        `kit:register:{${name}}:history`,
        "0",
        "-1",
      )) as string[];
      found.set(name, lines.map(parseAccess));
    }
    return found;
  }

  /** Notes that nothing is in the way any more, and waits until work goes on; how soon it had to is the checker's word. */
  async healed(): Promise<void> {
    const healedAt = clock();
    this.heals.push(healedAt);
    await eventually(async () => {
      for (const name of names) {
        const fence = await this.#lookAtRegister.call("HGET", `kit:register:{${name}}:state`, "fence");
        if (Number(fence) / 1_000 > healedAt) return;
      }
      throw new Error("no work goes on");
    });
  }

  // ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async run(): Promise<CampaignReport> {
    const { strike, strikes = 20, gapMs = 300 } = this.#options;
    for (let i = 0; i < 5; i++) this.spawn();
    await this.#allWork();
    let struck = 0;
    for (let tries = 0; struck < strikes && tries < 10 * strikes; tries++) {
      await pause(this.between(20, gapMs));
      struck += await strike(this);
    }
    this.proxy?.heal();
    await this.healed();
    await this.#deadAreGone();
    await this.#allLeave();
    const leftovers = await this.#leftovers();
    const run: RunHistory = {
      leaseMs,
      isCluster: this.server.mode === "cluster",
      isRegisterBeside: this.server === this.registerServer,
      registers: await this.registers(),
      workers: this.#workers.map((worker) => worker.history()),
      deaths: this.deaths,
      heals: this.heals,
      dataLosses: this.dataLosses,
      leftovers,
    };
    const accesses = [...run.registers.values()];
    const writes = accesses.flat().filter(({ action, accepted }) => action === "write" && accepted).length;
    return {
      strikes: struck,
      violations: violationsOf(run),
      run,
      writes,
      refusals: accesses.flat().filter(({ accepted }) => !accepted).length,
      staleWrites: accesses.reduce((sum, list) => sum + staleWrites(list), 0),
      judgedDeaths: run.deaths.filter((death) => isWaitedFor(run, death)).length,
    };
  }

  async #allWork(): Promise<void> {
    await eventually(
      async () => {
        const active = new Set([...(await this.registers()).values()].flat().map(({ worker }) => worker));
        const idle = this.workers.filter(({ id }) => !active.has(id));
        if (idle.length > 0)
          throw new Error(`${idle.map(({ id, printed }) => `${id} ${printed}`).join()} did nothing yet`);
      },
      { timeoutMs: 15_000 },
    );
  }

  /**
   * On a Cluster nobody can see that a waiter is dead, so it may be given one lease. What is left when all have left shall
   * be theirs who left: the contenders go on until no dead waiter stands in line.
   */
  async #deadAreGone(): Promise<void> {
    if (this.server.mode !== "cluster") return;
    const living = new Set(this.workers.map(({ id }) => id));
    await eventually(
      async () => {
        const seen = (await this.holders()).flatMap(({ worker, waiting }) => [worker, ...waiting]);
        const dead = seen.filter((id) => !living.has(id));
        if (dead.length > 0) throw new Error(`${dead.join()} are dead and still in line`);
      },
      { timeoutMs: 20_000 },
    );
  }

  async #allLeave(): Promise<void> {
    for (const worker of this.workers) worker.process.stdin?.end();
    await Promise.race([Promise.all(this.#workers.map(({ ended }) => ended)), pause(10_000)]);
  }

  /** When all have left nothing may keep others out, and no key may stay longer than it is said to. */
  async #leftovers(): Promise<string[]> {
    const found: string[] = [];
    for (const name of names)
      for (const [last, life] of Object.entries({
        lease: leaseMs,
        queue: queueLifeMs,
        waiters: queueLifeMs,
        fence: fenceLifeMs,
      })) {
        const key = `kit:lock:{${name}}:${last}`;
        const left = Number(await this.#look.call("PTTL", key));
        if (left === -1 || left > life) found.push(`${key} lives for ${String(left)} ms more`);
      }
    const client = await connect(this.server.url);
    const lock = createLock(client, { leaseMs, deadlineMs });
    for (const name of names)
      try {
        const lease = await lock.acquire(name, { waitMs: Math.ceil(leaseMs * 1.1) + 100 });
        await lease.release();
      } catch (error) {
        found.push(`${name} is out of reach: ${String(error)}`);
      }
    await lock.close();
    await client.close();
    return found;
  }

  /** Ends whatever still runs. */
  async stop(): Promise<void> {
    for (const worker of this.workers) {
      worker.signal("SIGKILL");
      await worker.ended;
    }
    this.#look.disconnect();
    this.#lookAtRegister.disconnect();
    await this.proxy?.close();
    await this.registerServer.stop();
    await this.server.stop();
  }
}

/** One run: a server of its own, five processes that contend for four locks, and a strike again and again. */
export const campaign = async (options: CampaignOptions): Promise<CampaignReport> => {
  const folder = mkdtempSync(join(tmpdir(), "kit-lock-faults-"));
  const server = await startRedis({ mode: options.mode ?? "single", persistence: options.persistence ?? "none" });
  const registerServer = options.isRegisterApart ? await startRedis() : server;
  const port = server.nodes[0]?.port ?? 0;
  const proxy = options.isProxied ? await FaultProxy.start({ port, seed: options.seed }) : undefined;
  const lab = new Lab(options, folder, server, registerServer, proxy);
  // A stopped worker would not see that its input ends.
  const killWorkers = (): void => {
    for (const worker of lab.workers) worker.signal("SIGKILL");
  };
  process.once("exit", killWorkers);
  try {
    return await lab.run();
  } finally {
    await lab.stop();
    process.off("exit", killWorkers);
    rmSync(folder, { recursive: true, force: true });
  }
};
