import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { eventually, type RedisServer } from "@kit/testing";
import { Lab, type LabOptions, type Surroundings, within } from "../../lab/lab.js";
import { workspaceFolder } from "../../lab/paths.js";
import type { Echo } from "../../lab/tap.js";
import { Worker } from "../../lab/worker.js";
import { parseLog, type Span } from "../../records.js";
import { type Access, type Death, type Echoed, type LogRecord, parseAccess, type RunHistory } from "./history.js";

const queueLifeMs = 16_000;
const fenceLifeMs = 604_800_000;
const prefix = "kit";

/** What the contenders are like. */
export interface LockLabOptions extends LabOptions {
  /** @default true; false is a control: the register takes whatever comes. */
  readonly isFenced?: boolean;
  /** What the workers import as the lock. @default "@kit/lock" */
  readonly lockModule?: string;
}

/** Who holds a lock, by the server's own word. */
interface Holder {
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

const partsOf = (name: string): string[] =>
  ["lease", "fence", "queue", "waiters"].map((part) => `${prefix}:lock:{${name}}:${part}`);

/** Everything that is held or waited for, of the names whose keys are given four by four. */
const sightScript = `local time = redis.call('TIME')
  local found = {}
  for at = 1, #KEYS, 4 do
    local owner = redis.call('GET', KEYS[at])
    local queue = redis.call('ZRANGE', KEYS[at + 2], 0, -1)
    if owner or #queue > 0 then
      local seen = { (at - 1) / 4, time[1], time[2], owner or '', redis.call('PTTL', KEYS[at]), redis.call('GET', KEYS[at + 1]) or '' }
      for _, token in ipairs(queue) do
        seen[#seen + 1] = redis.call('HGET', KEYS[at + 3], token) or ''
      end
      found[#found + 1] = seen
    end
  end
  return found`;

const parseHolder = (names: readonly string[], reply: readonly unknown[]): Holder => {
  const [index, seconds, micros, owner = "", msLeft, fence = "", ...records] = reply.map(String);
  const [token = "", worker = ""] = owner.split("|");
  const seenAt = Number(seconds) * 1_000 + Number(micros) / 1_000;
  return {
    name: names[Number(index)] ?? "",
    token,
    worker,
    fence: BigInt(/^\d+:(\d+)/.exec(fence)?.[1] ?? "0"),
    seenAt,
    endsAt: seenAt + Number(msLeft),
    waiting: records.map((record) => record.split(" ").at(-1) ?? ""),
  };
};

/** A server, contenders for its locks, and what is done to them. */
export class LockLab extends Lab {
  readonly leaseMs: number;
  readonly names: readonly string[];
  readonly deaths: Death[] = [];
  readonly dataLosses: Span[] = [];
  readonly #options: LockLabOptions;
  /** Shorter than a lease, so that a silent server is noticed while there is something to lose. */
  readonly #deadlineMs: number;
  readonly #look: ReturnType<RedisServer["client"]>;
  readonly #lookAtRegister: ReturnType<RedisServer["client"]>;

  constructor(options: LockLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
    this.leaseMs = [300, 400, 500][Math.floor(this.random() * 3)] ?? 400;
    this.#deadlineMs = Math.round(this.leaseMs * 0.6);
    const names = around.server.mode === "cluster" ? 4 : 4 + Math.floor(this.random() * 30);
    this.names = Array.from({ length: names }, (_, index) => `item-${String(index + 1)}`);
    this.#look = this.server.client();
    this.#lookAtRegister = this.server === around.resource ? this.#look : around.resource.client();
  }

  spawn(): Worker {
    const { seed, isFenced = true, lockModule = "@kit/lock" } = this.#options;
    const number = this.all.length + 1;
    const settings = {
      url: this.url,
      registerUrl: this.around.resource.url,
      prefix,
      names: this.names,
      hotNames: 3,
      hotChance: this.server.mode === "cluster" ? 1 : 0.4,
      leaseMs: this.leaseMs,
      deadlineMs: this.#deadlineMs,
      seed: seed + 1_000 * number,
      loops: 4,
      restMs: 15,
      fenced: isFenced,
      blockChance: 0,
      lockModule,
    };
    const program = join(workspaceFolder, "src/workloads/lock/worker.mjs");
    const { folder, workerEnv } = this.around;
    const worker = new Worker(program, `w${String(number)}`, folder, settings, workerEnv);
    this.all.push(worker);
    return worker;
  }

  // ── what the servers say ──────────────────────────────────────────────────────────────────────────────────────────

  /** Who holds what, and who waits, also for what nobody holds; on a single server at one instant. */
  async #sight(): Promise<Holder[]> {
    const groups = this.server.mode === "cluster" ? this.names.map((name) => [name]) : [this.names];
    const found = await Promise.all(
      groups.map(async (names) => {
        const keys = names.flatMap(partsOf);
        const replies = await this.#look.call("EVAL", sightScript, String(keys.length), ...keys);
        return (replies as unknown[][]).map((reply) => parseHolder(names, reply));
      }),
    );
    return found.flat();
  }

  async holders(): Promise<Holder[]> {
    return (await this.#sight()).filter(({ token }) => token !== "");
  }

  async victim({ isWaitedFor = false }: { readonly isWaitedFor?: boolean } = {}): Promise<Worker> {
    return await eventually(
      async () => {
        const living = new Map(this.workers.map((worker) => [worker.id, worker]));
        const holders = (await this.holders()).filter(
          (holder) => !isWaitedFor || holder.waiting.some((id) => id !== holder.worker && living.has(id)),
        );
        const worker = living.get(this.pick(holders)?.worker ?? "");
        if (!worker) throw new Error("nobody holds anything");
        return worker;
      },
      { intervalMs: 2 },
    );
  }

  async claimsOf({ id }: Worker): Promise<ReadonlySet<string>> {
    return new Set((await this.holders()).filter(({ worker }) => worker === id).map(({ token }) => token));
  }

  async died({ id }: Worker, kind: string): Promise<number> {
    const orphaned = (await this.holders()).filter(({ worker }) => worker === id);
    for (const { name, fence, seenAt, endsAt, waiting } of orphaned) {
      this.deaths.push({ name, worker: id, fence, foundAt: seenAt, leaseEndsAt: endsAt, waiting });
      this.marks.push({ kind, at: seenAt, name });
    }
    return orphaned.length;
  }

  lostData(from: number, to: number): void {
    this.dataLosses.push({ from, to });
  }

  async registers(): Promise<Map<string, Access[]>> {
    const found = new Map<string, Access[]>();
    for (const name of this.names) {
      const key = `${prefix}:register:{${name}}:history`;
      const lines = (await this.#lookAtRegister.call("LRANGE", key, "0", "-1")) as string[];
      found.set(name, lines.map(parseAccess));
    }
    return found;
  }

  async resumed(at: number): Promise<void> {
    const isClockTrue = this.setting !== "shifted";
    await eventually(
      async () => {
        for (const name of this.names) {
          const key = `${prefix}:register:{${name}}`;
          const [fence, lines] = await Promise.all([
            this.#lookAtRegister.call("HGET", `${key}:state`, "fence"),
            this.#lookAtRegister.call("LRANGE", `${key}:history`, "-10", "-1"),
          ]);
          // Each lease begins with a read; by its token only a clock that did not jump tells when.
          const isNew = isClockTrue
            ? Number(fence) / 1_000 > at
            : (lines as string[]).map(parseAccess).some((access) => access.action === "read" && access.at > at);
          if (isNew) return;
        }
        throw new Error("no work goes on");
      },
      { timeoutMs: 15_000 },
    );
  }

  // ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Starts the contenders; resolves when all of them work. */
  async begin(workers: number): Promise<void> {
    for (let i = 0; i < workers; i++) this.spawn();
    await Promise.all(this.workers.map((worker) => worker.started()));
    await eventually(
      () => {
        const idle = this.workers.filter((worker) => worker.logged("access") === 0);
        if (idle.length > 0)
          throw new Error(`${idle.map(({ id, printed }) => `${id} ${printed}`).join()} did nothing yet`);
      },
      { timeoutMs: 20_000 },
    );
  }

  /** Sends all contenders away, and returns all that is known; `isStuck`: they do not work any more. */
  async end(isStuck = false): Promise<RunHistory> {
    this.around.proxy?.heal();
    for (const worker of this.workers) worker.leave();
    await within(Promise.all(this.all.map(({ ended }) => ended)), 15_000);
    const leftovers = isStuck || this.setting === "shifted" ? [] : await this.#leftovers();
    return {
      leaseMs: this.leaseMs,
      isCluster: this.server.mode === "cluster",
      isRegisterBeside: this.setting === "kept",
      isClockTrue: this.setting !== "shifted",
      registers: await this.registers(),
      workers: this.all.map(({ id, killedAt, printed, logFile, process: { exitCode, signalCode } }) => ({
        id,
        killedAt,
        printed,
        end: signalCode === null ? `exit ${String(exitCode)}` : signalCode,
        records: parseLog<LogRecord>(readFileSync(logFile, "utf8")),
      })),
      deaths: this.deaths,
      heals: this.marks.filter(({ name }) => name === undefined).map(({ at }) => at),
      dataLosses: this.dataLosses,
      echoes: this.around.tap?.echoes.flatMap(echoOf) ?? [],
      leftovers,
    };
  }

  // On a Cluster nobody can see that a waiter is dead, so it may be given one lease. What is left when all have left shall
  // be theirs who left: the contenders go on until no dead waiter stands in line.
  override async finished(): Promise<void> {
    await super.finished();
    if (this.server.mode !== "cluster") return;
    const living = new Set(this.workers.map(({ id }) => id));
    await eventually(
      async () => {
        const seen = (await this.#sight()).flatMap(({ worker, waiting }) => [worker, ...waiting]);
        const dead = seen.filter((id) => id !== "" && !living.has(id));
        if (dead.length > 0) throw new Error(`${dead.join()} are dead and still in line`);
      },
      { timeoutMs: 20_000 },
    );
  }

  /** When all have left nothing may keep others out, and no key may stay longer than it is said to. */
  async #leftovers(): Promise<string[]> {
    const found: string[] = [];
    for (const name of this.names)
      for (const [last, life] of Object.entries({
        lease: this.leaseMs,
        queue: queueLifeMs,
        waiters: queueLifeMs,
        fence: fenceLifeMs,
      })) {
        const key = `${prefix}:lock:{${name}}:${last}`;
        const left = Number(await this.#look.call("PTTL", key));
        if (left === -1 || left > life) found.push(`${key} lives for ${String(left)} ms more`);
      }
    const client = await connect(this.server.url);
    const lock = createLock(client, { leaseMs: this.leaseMs, deadlineMs: this.#deadlineMs });
    for (const name of this.names)
      try {
        const lease = await lock.acquire(name, { waitMs: Math.ceil(this.leaseMs * 1.1) + 100 });
        await lease.release();
      } catch (error) {
        found.push(`${name} is out of reach: ${String(error)}`);
      }
    await lock.close();
    await client.close();
    return found;
  }

  /** Ends whatever still runs; also what would not see its input end. */
  async stop(): Promise<void> {
    for (const worker of this.workers) {
      worker.signal("SIGKILL");
      await worker.ended;
    }
    this.#look.disconnect();
    this.#lookAtRegister.disconnect();
    await this.around.close();
  }
}

/** What a copy of the lock's acquire came to; other commands say nothing. */
const echoOf = ({ command, reply }: Echo): Echoed[] => {
  const [, , count, lease = ""] = command;
  const name = /^kit:lock:\{(.*)\}:lease$/.exec(lease)?.[1];
  const [owner = "", terms = ""] = command.slice(3 + Number(count));
  if (name === undefined || !/^\d+ \d+ \d? \d+ \d+ \d+ \S*$/.test(terms)) return [];
  const [token = ""] = owner.split("|");
  if (typeof reply === "string") return [{ name, token, state: "granted", fence: reply }];
  const [code, , , fourth = ""] = (reply as unknown[]).map(String);
  if (code === "1") return [{ name, token, state: "granted", fence: fourth }];
  return [{ name, token, state: "other", owner: fourth.split("|")[0] ?? "" }];
};
