import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { createReadWriteLock } from "@kit/lock/read-write";
import type { RedisServer } from "@kit/testing";
import { type LabOptions, prefix } from "../../lab/lab.js";
import { LeaseLab, type Sight } from "../../lab/lease-lab.js";
import type { Surroundings } from "../../lab/surroundings.js";
import type { Echo } from "../../lab/tap.js";
import type { Progress } from "../../work.js";
import {
  type Access,
  documents,
  type Echoed,
  type Holder,
  type LogRecord,
  parseAccess,
  type RunHistory,
  setNames,
} from "./history.js";
import { parseSteps } from "./read-write/history.js";

const queueLifeMs = 16_000;
const fenceLifeMs = 604_800_000;

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

const parseSight = (names: readonly string[], reply: readonly unknown[]): Sight<Holder> => {
  const [index, seconds, micros, owner = "", msLeft, fence = "", ...records] = reply.map(String);
  const [token = "", worker = ""] = owner.split("|");
  const seenAt = Number(seconds) * 1_000 + Number(micros) / 1_000;
  const waiting = records.map((record) => record.split(" ").at(-1) ?? "");
  const holder = {
    name: names[Number(index)] ?? "",
    token,
    worker,
    fence: BigInt(/^\d+:(\d+)/.exec(fence)?.[1] ?? "0"),
    seenAt,
    endsAt: seenAt + Number(msLeft),
    waiting,
  };
  return { holders: token === "" ? [] : [holder], waiting };
};

/** A server, the workers that contend for its locks, and the injections. */
export class LockLab extends LeaseLab<LogRecord, Holder> {
  readonly names: readonly string[];
  override readonly claimInFile: RegExp = /:lease\r\n\$\d+\r\n([0-9A-Za-z_-]{16,})\|/g;
  readonly #lookAtRegister: ReturnType<RedisServer["client"]>;

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    const names = around.server.mode === "cluster" ? 4 : 4 + Math.floor(this.random() * 30);
    this.names = Array.from({ length: names }, (_, index) => `item-${String(index + 1)}`);
    this.#lookAtRegister = around.resource.client();
  }

  protected override settings(): object {
    return {
      registerUrl: this.around.resource.url,
      names: this.names,
      documents,
      setNames,
      ...this.lookSettings,
      hotNames: 3,
      hotChance: this.server.mode === "cluster" ? 1 : 0.4,
      isClockTrue: this.setting !== "shifted",
      loops: 4,
      restMs: 15,
    };
  }

  /** A fencing token dates its grant only if the clock did not jump. Otherwise the first read of a lease does. */
  protected override progressIn(record: LogRecord): readonly Progress[] {
    if (record.kind !== "access" || record.verdict !== "accepted") return [];
    const at = Number(record.micros) / 1_000;
    const isClockTrue = this.setting !== "shifted";
    const readAt = record.action === "read" ? at : -Infinity;
    return [{ what: record.name, from: isClockTrue ? Number(record.fence) / 1_000 : readAt, at }];
  }

  // ── the state of the servers ──────────────────────────────────────────────────────────────────────────────────────

  /** All holders and waiters, free locks included. On a single server they are read at one instant. */
  protected override async sights(): Promise<Sight<Holder>[]> {
    const groups = this.server.mode === "cluster" ? this.names.map((name) => [name]) : [this.names];
    const found = await Promise.all(
      groups.map(async (names) => {
        const keys = names.flatMap(partsOf);
        const replies = await this.ask("EVAL", sightScript, String(keys.length), ...keys);
        return (replies as unknown[][]).map((reply) => parseSight(names, reply));
      }),
    );
    return found.flat();
  }

  // ── the end of a run ──────────────────────────────────────────────────────────────────────────────────────────────

  async end(isStuck: boolean): Promise<RunHistory> {
    const isClockTrue = this.setting !== "shifted";
    return {
      ...(await this.facts()),
      leftovers: isStuck || !isClockTrue ? [] : await this.#leftovers(),
      isCluster: this.server.mode === "cluster",
      isRegisterBeside: this.setting === "kept",
      isClockTrue,
      registers: await this.#registers(),
      deaths: this.deaths,
      copiedAcquires: this.around.tap?.echoes.flatMap(echoOf) ?? [],
      readWriteSteps: await this.steps(documents, parseSteps),
    };
  }

  async #registers(): Promise<Map<string, Access[]>> {
    const found = new Map<string, Access[]>();
    for (const name of this.names) {
      const key = `${prefix}:register:{${name}}:history`;
      const lines = (await this.#lookAtRegister.call("LRANGE", key, "0", "-1")) as string[];
      found.set(name, lines.map(parseAccess));
    }
    return found;
  }

  /** After all workers have left: locks that are not free, and keys that live longer than documented. */
  async #leftovers(): Promise<string[]> {
    const waiting = { queue: queueLifeMs, waiters: queueLifeMs };
    const lives = { lease: this.leaseMs, fence: fenceLifeMs, ...waiting };
    const sharedLives = { leases: 2 * this.leaseMs + 1_000, fence: fenceLifeMs, ...waiting };
    const keysOf = (name: string, parts: Readonly<Record<string, number>>, kind = ""): [string, number][] =>
      Object.entries(parts).map(([part, life]) => [`${prefix}:lock:{${name}}:${kind}${part}`, life]);
    const found = await this.outliving([
      ...[...this.names, ...setNames].flatMap((name) => keysOf(name, lives)),
      ...documents.flatMap((name) => keysOf(name, sharedLives, "rw-")),
    ]);
    const client = await connect(this.ownUrl);
    // This is about what is left, not about time.
    const options = { leaseMs: this.leaseMs, deadlineMs: 10_000 };
    const lock = createLock(client, options);
    const shared = createReadWriteLock(client, options);
    const waitMs = Math.ceil(this.leaseMs * 1.1) + 100;
    for (const name of [...this.names, ...setNames, ...documents])
      try {
        const lease = await (documents.includes(name) ? shared.write : lock).acquire(name, { waitMs });
        await lease.release();
      } catch (error) {
        found.push(`${name} cannot be acquired: ${String(error)}`);
      }
    await lock.close();
    await shared.close();
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
