import { connect } from "@kit/core";
import { createSemaphore } from "@kit/semaphore";
import { type LabOptions, prefix } from "../../lab/lab.js";
import { type Holder, LeaseLab, type Sight } from "../../lab/lease-lab.js";
import type { Surroundings } from "../../lab/surroundings.js";
import type { Echo } from "../../lab/tap.js";
import type { Progress } from "../../work.js";
import { lastingNames, progressIn } from "./checker.js";
import { type Echoed, type LogRecord, parsePermitRecord, parseSteps, type RunHistory, type Spec } from "./history.js";

const metaLifeMs = 604_800_000;
const queueLifeMs = 16_000;

const keyOf = (name: string, part: string): string => `${prefix}:semaphore:{${name}}:${part}`;

const sightScript = `return { redis.call('TIME'), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('ZRANGE', KEYS[2], 0, -1) }`;

/** A server, the workers that contend for permits on it, and the injections. */
export class SemaphoreLab extends LeaseLab<LogRecord, Holder> {
  readonly specs: readonly Spec[];
  override readonly claimInFile: RegExp =
    /:permits\r\n(?:\$\d+\r\n(?:XX|\d+)\r\n){1,2}\$\d+\r\n([0-9A-Za-z_-]{16,})\|/g;

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    const some = (from: number, to: number): number => Math.floor(this.between(from, to + 1));
    const plain = { tenants: 0, weights: 1, hasPriorities: false };
    this.specs = [
      { ...plain, name: "narrow", permits: some(1, 2) },
      { ...plain, name: "wide", permits: some(3, 20) },
      { ...plain, name: "weighed", permits: some(5, 9), weights: 5, hasPriorities: true },
      { ...plain, name: "shared", permits: some(3, 6), permitsPerTenant: some(1, 2), tenants: 4 },
      { ...plain, name: "resized", permits: some(1, 8), weights: 3, resizedTo: 8 },
    ];
  }

  protected override settings(): object {
    const { specs } = this;
    return { ...this.lookSettings, specs, isClockTrue: this.setting !== "shifted", loops: 7, restMs: 15 };
  }

  protected override progressIn(record: LogRecord): readonly Progress[] {
    return progressIn(record);
  }

  protected override awaited(): readonly string[] {
    // A failover may concern one slot only, so every semaphore must go on.
    return this.server.mode === "single" ? [""] : lastingNames(this.specs);
  }

  // ── the state of the server ───────────────────────────────────────────────────────────────────────────────────────

  async #sight(name: string): Promise<Sight<Holder>> {
    const keys = [keyOf(name, "permits"), keyOf(name, "queue")];
    const reply = await this.ask("EVAL", sightScript, String(keys.length), ...keys);
    const [[seconds, micros] = [], permits = [], rows = []] = reply as string[][];
    const seenAt = Number(seconds) * 1_000 + Number(micros) / 1_000;
    const waiting = rows.map((row) => parsePermitRecord(row.slice(row.lastIndexOf(" ") + 1)).worker);
    const holders = permits.flatMap((text, index): Holder[] => {
      const endsAt = Number(permits[index + 1]);
      if (index % 2 === 1 || endsAt <= seenAt) return [];
      const { token, worker } = parsePermitRecord(text);
      return [{ name, token, worker, seenAt, endsAt, waiting }];
    });
    return { holders, waiting };
  }

  protected override async sights(): Promise<Sight<Holder>[]> {
    return await Promise.all(this.specs.map(({ name }) => this.#sight(name)));
  }

  // ── the end of a run ──────────────────────────────────────────────────────────────────────────────────────────────

  async end(isStuck: boolean): Promise<RunHistory> {
    const facts = await this.facts();
    const isLookedAt = !isStuck && this.setting !== "shifted";
    return {
      ...facts,
      specs: this.specs,
      lookedAt: isLookedAt ? this.specs.length : 0,
      leftovers: isLookedAt ? await this.#leftovers() : [],
      steps: await this.steps(
        this.specs.map(({ name }) => name),
        parseSteps,
      ),
      deaths: this.deaths,
      copiedAcquires: this.around.tap?.echoes.flatMap(echoOf) ?? [],
    };
  }

  /** After all workers have left: permits that cannot be acquired, and keys that live longer than documented. */
  async #leftovers(): Promise<string[]> {
    const found: string[] = [];
    const { leaseMs, deadlineMs } = this;
    const lives = {
      permits: 2 * leaseMs + 1_000,
      queue: queueLifeMs,
      ready: queueLifeMs,
      waiters: queueLifeMs,
      meta: metaLifeMs,
    };
    await using client = await connect(this.ownUrl);
    for (const { name, permits, permitsPerTenant, tenants } of this.specs) {
      found.push(...(await this.outliving(Object.entries(lives).map(([part, life]) => [keyOf(name, part), life]))));
      const semaphore = createSemaphore(client, name, { permits, permitsPerTenant, prefix, leaseMs, deadlineMs });
      try {
        await semaphore.setPermits(permits);
        const tenant = tenants > 0 ? "tenant 1" : undefined;
        // The permit of a holder killed last may still have its whole lease left.
        const waitMs = Math.ceil(leaseMs * 1.1) + 100;
        const permit = await semaphore.acquire({ weight: permitsPerTenant ?? permits, tenant, waitMs });
        await permit.release();
        const { used } = await semaphore.inspect();
        if (used > 0) found.push(`${name}: ${String(used)} are in use after all workers have left`);
      } catch (error) {
        found.push(`${name}: not all permits can be acquired: ${String(error)}`);
      }
      await semaphore.close();
    }
    return found;
  }
}

/** The reply to a copy of an acquire; empty for other commands. */
const echoOf = ({ command, reply }: Echo): Echoed[] => {
  const [, , count, permits = ""] = command;
  const name = /^kit:semaphore:\{(.*)\}:permits$/.exec(permits)?.[1];
  const [permitRecord = "", terms = ""] = command.slice(3 + Number(count));
  if (name === undefined || !/^\d+ \d+ \d+ \d* /.test(terms)) return [];
  const [code, at] = typeof reply === "number" ? [1, reply] : (reply as unknown[]).map(Number);
  return [{ name, token: parsePermitRecord(permitRecord).token, at: at ?? 0, isDenied: code === 0 || code === 3 }];
};
