import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { eventually, type RedisServer } from "@kit/testing";
import { patience } from "../../patience.js";
import type { Subject } from "../../lab/control.js";
import type { LabOptions, Surroundings } from "../../lab/lab.js";
import { type Holder as AnyHolder, LeaseLab } from "../../lab/lease-lab.js";
import type { Echo } from "../../lab/tap.js";
import type { Worker } from "../../lab/worker.js";
import { type Access, type Death, type Echoed, type LogRecord, parseAccess, type RunHistory } from "./history.js";

const queueLifeMs = 16_000;
const fenceLifeMs = 604_800_000;
const prefix = "kit";

/** The settings of the contenders. */
export interface LockLabOptions extends LabOptions {
  readonly subject: Subject;
}

interface Holder extends AnyHolder {
  readonly fence: bigint;
}

const partsOf = (name: string): string[] =>
  ["lease", "fence", "queue", "waiters"].map((part) => `${prefix}:lock:{${name}}:${part}`);

/** Reads the holder and the waiters of each name. KEYS has four keys for each name. */
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

/** A server, the workers that contend for its locks, and the injections. */
export class LockLab extends LeaseLab<Holder> {
  readonly names: readonly string[];
  readonly deaths: Death[] = [];
  override readonly claimInFile: RegExp = /:lease\r\n\$\d+\r\n([0-9A-Za-z_-]{16,})\|/g;
  readonly #options: LockLabOptions;
  readonly #lookAtRegister: ReturnType<RedisServer["client"]>;

  constructor(options: LockLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
    const names = around.server.mode === "cluster" ? 4 : 4 + Math.floor(this.random() * 30);
    this.names = Array.from({ length: names }, (_, index) => `item-${String(index + 1)}`);
    this.#lookAtRegister = around.resource.client();
  }

  spawn(): Worker {
    const { seed, subject } = this.#options;
    const number = this.all.length + 1;
    const settings = {
      url: this.url,
      registerUrl: this.around.resource.url,
      prefix,
      names: this.names,
      hotNames: 3,
      hotChance: this.server.mode === "cluster" ? 1 : 0.4,
      leaseMs: this.leaseMs,
      deadlineMs: this.deadlineMs,
      isClockTrue: this.setting !== "shifted",
      seed: seed + 1_000 * number,
      loops: 4,
      restMs: 15,
      ...subject,
    };
    return this.hire("lock", settings);
  }

  // ── the state of the servers ──────────────────────────────────────────────────────────────────────────────────────

  /** All holders and waiters, free locks included. On a single server they are read at one instant. */
  async #sight(): Promise<Holder[]> {
    const groups = this.server.mode === "cluster" ? this.names.map((name) => [name]) : [this.names];
    const found = await Promise.all(
      groups.map(async (names) => {
        const keys = names.flatMap(partsOf);
        const replies = await this.ask("EVAL", sightScript, String(keys.length), ...keys);
        return (replies as unknown[][]).map((reply) => parseHolder(names, reply));
      }),
    );
    return found.flat();
  }

  override async holders(): Promise<Holder[]> {
    return (await this.#sight()).filter(({ token }) => token !== "");
  }

  protected override async claimants(): Promise<string[]> {
    return (await this.#sight()).flatMap(({ worker, waiting }) => [worker, ...waiting]);
  }

  protected override noteDeath({ name, worker, fence, seenAt, endsAt, waiting }: Holder): void {
    this.deaths.push({ name, worker, fence, foundAt: seenAt, leaseEndsAt: endsAt, waiting });
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
          // A fencing token dates its grant only if the clock did not jump. Otherwise the first read of a lease does.
          const isNew = isClockTrue
            ? Number(fence) / 1_000 > at
            : (lines as string[]).map(parseAccess).some((access) => access.action === "read" && access.at > at);
          if (isNew) return;
        }
        throw new Error("no work goes on");
      },
      { timeoutMs: 15_000 * patience },
    );
  }

  // ── the end of a run ──────────────────────────────────────────────────────────────────────────────────────────────

  /** Ends all workers, and returns all records. `isStuck`: the workers no longer make progress. */
  async end(isStuck = false): Promise<RunHistory> {
    const workers = await this.dismiss<LogRecord>();
    const leftovers = isStuck || this.setting === "shifted" ? [] : await this.#leftovers();
    return {
      leaseMs: this.leaseMs,
      isCluster: this.server.mode === "cluster",
      isRegisterBeside: this.setting === "kept",
      isClockTrue: this.setting !== "shifted",
      registers: await this.registers(),
      workers,
      deaths: this.deaths,
      heals: this.marks.filter(({ name }) => name === undefined).map(({ at }) => at),
      outages: this.outages,
      dataLosses: this.dataLosses,
      echoes: this.around.tap?.echoes.flatMap(echoOf) ?? [],
      leftovers,
    };
  }

  /** After all workers have left: locks that are not free, and keys that live longer than documented. */
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
        const left = Number(await this.ask("PTTL", key));
        if (left === -1 || left > life) found.push(`${key} lives for ${String(left)} ms more`);
      }
    const client = await connect(this.ownUrl);
    const lock = createLock(client, { leaseMs: this.leaseMs, deadlineMs: this.deadlineMs });
    for (const name of this.names)
      try {
        const lease = await lock.acquire(name, { waitMs: Math.ceil(this.leaseMs * 1.1) + 100 });
        await lease.release();
      } catch (error) {
        found.push(`${name} cannot be acquired: ${String(error)}`);
      }
    await lock.close();
    await client.close();
    return found;
  }

  override async stop(): Promise<void> {
    this.#lookAtRegister.disconnect();
    await super.stop();
  }
}

/** The reply to a copy of an acquire; empty for other commands. */
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
