import { join } from "node:path";
import { connect } from "@kit/core";
import { createStats } from "@kit/stats";
import { eventually } from "@kit/testing";
import { clock } from "../../lab/clock.mjs";
import { Lab, type LabOptions, type Loss, type Surroundings } from "../../lab/lab.js";
import { workspaceFolder } from "../../lab/paths.js";
import { Worker } from "../../lab/worker.js";
import type { DataLoss, Found, LogRecord, RunHistory } from "./history.js";

const prefix = "kit";
const hourMs = 3_600_000;
const precisions = [
  { stepMs: 1_000, keepMs: hourMs },
  { stepMs: 10_000, keepMs: hourMs },
];
const logName = "orders";
const deliveries = ["effectively-once", "at-least-once", "at-most-once"] as const;

/** One thing that the workers count together. */
interface Series {
  readonly name: string;
  readonly metric: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly kind: "counter" | "distribution" | "log";
  readonly delivery: Found["delivery"];
}

const some = (kind: Series["kind"], metric: string, delivery: Series["delivery"], count: number): Series[] =>
  Array.from({ length: count }, (_, index) => {
    const k = String(index);
    return { name: `${metric};k=${k}`, metric, labels: { k }, kind, delivery };
  });

const series: readonly Series[] = [
  ...deliveries.flatMap((delivery) => some("counter", `${delivery.replaceAll("-", "_")}_total`, delivery, 4)),
  ...some("distribution", "once_ms", "effectively-once", 2),
  { name: logName, metric: logName, labels: {}, kind: "log", delivery: "effectively-once" },
];

export interface StatsLabOptions extends LabOptions {
  /** What the workers import as the statistics. */
  readonly statsModule: string;
}

const sumOf = (values: Iterable<number>): number => [...values].reduce((sum, value) => sum + value, 0);

/** A server, workers that count on it, and what is done to them. */
export class StatsLab extends Lab {
  readonly leaseMs = 400;
  readonly deadlineMs = 500;
  readonly losses: DataLoss[] = [];
  readonly #options: StatsLabOptions;
  /** When the newest flush of all that went well began. */
  #flushedSince = 0;

  constructor(options: StatsLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
  }

  spawn(): Worker {
    const { seed, statsModule } = this.#options;
    const number = this.all.length + 1;
    const settings = {
      url: this.url,
      prefix,
      series,
      precisions,
      deadlineMs: this.deadlineMs,
      flushDueMs: this.deadlineMs,
      closeMs: 8_000,
      leaseMs: this.leaseMs,
      seed: seed + 1_000 * number,
      restMs: 20,
      statsModule,
    };
    const program = join(workspaceFolder, "src/workloads/stats/worker.mjs");
    const { folder, workerEnv } = this.around;
    const worker = new Worker(program, `w${String(number)}`, folder, settings, workerEnv);
    worker.onLine = (line) => this.#hear(line);
    this.all.push(worker);
    return worker;
  }

  #hear(line: string): void {
    if (!line.startsWith('{"kind":"call","what":"flush"')) return;
    const { outcome, startedAt } = JSON.parse(line) as { outcome: string; startedAt: number };
    if (outcome === "ok") this.#flushedSince = Math.max(this.#flushedSince, startedAt);
  }

  // ── what the rows ask for ─────────────────────────────────────────────────────────────────────────────────────────

  async victim(): Promise<Worker> {
    return await eventually(() => {
      const worker = this.pick(this.workers.filter((one) => one.logged("sure") > 0));
      if (!worker) throw new Error("nobody has counted anything");
      return worker;
    });
  }

  /** Nobody holds anything here; what all count together, and is more a moment later, stands for it. */
  async claimsOf(): Promise<ReadonlySet<string>> {
    return new Set([String(this.logged("sure"))]);
  }

  async died(): Promise<number> {
    return 1;
  }

  lostData(from: number, to: number, what: Loss): void {
    this.losses.push({ from, to, what });
  }

  async resumed(at: number): Promise<void> {
    await eventually(
      () => {
        this.logged("call");
        if (this.#flushedSince <= at) throw new Error("no flush goes well");
      },
      { timeoutMs: 15_000 },
    );
  }

  override async settled(): Promise<void> {
    const before = new Map(this.workers.map((worker) => [worker, worker.logged("sure")]));
    await eventually(
      () => {
        for (const [worker, count] of before)
          if (!worker.hasEnded && worker.logged("sure") <= count) throw new Error(`${worker.id} does nothing yet`);
      },
      { timeoutMs: 15_000 },
    );
  }

  // ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async begin(workers: number): Promise<void> {
    for (let i = 0; i < workers; i++) this.spawn();
    await Promise.all(this.workers.map((worker) => worker.started()));
    await this.settled();
  }

  async end(): Promise<RunHistory> {
    const workers = await this.dismiss<LogRecord>();
    return {
      workers,
      heals: this.marks.map(({ kind, at, dueMs }) => ({ kind, at, dueMs })),
      losses: this.losses,
      isWhole: this.setting !== "lost" && this.setting !== "shifted",
      found: await this.#found(),
      copied: this.#copied(),
      leftovers: await this.#leftovers(),
      echoes: this.around.tap?.echoes.length ?? 0,
    };
  }

  /** What the package itself reads, over another connection and with nothing in between. */
  async #found(): Promise<Found[]> {
    await using client = await connect({ url: this.server.url, deadlineMs: 10_000 });
    await using stats = createStats(client, { prefix, deadlineMs: 10_000 });
    // Further ahead than any worker can have been.
    const range = { fromAt: clock() - hourMs / 2, toAt: clock() + 30_000 };
    const found: Found[] = [];
    for (const { name, metric, labels, kind, delivery } of series) {
      const labelNames = Object.keys(labels);
      if (kind === "counter") {
        const one = stats.counter(metric, { labelNames, precisions }).series(labels);
        const read = async (stepMs: number): Promise<number> =>
          sumOf((await one.read({ ...range, stepMs })).map(({ value }) => value));
        const parts = { "buckets of 1 s": await read(1_000), "buckets of 10 s": await read(10_000) };
        found.push({ series: name, delivery, total: await one.total(), parts });
      } else if (kind === "distribution") {
        const one = stats.distribution(metric, { labelNames }).series(labels);
        const all = await one.total();
        const windows = (await one.summary({ ...range, stepMs: 60_000 })).count;
        const hash = (await client.call("HGETALL", `${prefix}:stats:{${name}}:dist`)) as readonly unknown[];
        const fields = hash.map(String);
        const bins = fields.filter((_, at) => at % 2 === 1 && /^(?:[pn]-?\d+|z)$/.test(fields[at - 1] ?? ""));
        const parts = { windows, bins: sumOf(bins.map(Number)) };
        found.push({ series: name, delivery, total: all.count, sum: all.sum, parts });
      } else {
        const messages = await stats.messages(metric).frequent({
          fromAt: clock() - 3 * hourMs,
          toAt: clock() + 2 * hourMs,
        });
        const total = sumOf(messages.map(({ count }) => count));
        found.push({ series: name, delivery, total, parts: { exact: total - sumOf(messages.map((m) => m.error)) } });
      }
    }
    return found;
  }

  /** Of calls without a ledger, which begin with a 0: what the copies that the tap sent have added. */
  #copied(): Record<string, number> {
    const copied: Record<string, number> = {};
    for (const { command, reply } of this.around.tap?.echoes ?? []) {
      const keys = command.slice(3, 3 + Number(command[2]));
      const plan = command.slice(3 + keys.length);
      if (plan[0] !== "0" || !Array.isArray(reply)) continue;
      // Each batch: validUntil, how many follow, seq, amount; its total is its first key.
      let at = 1;
      for (const key of keys.filter((one) => one.endsWith(":total"))) {
        const name = /\{(.*)\}/.exec(key)?.[1] ?? "";
        copied[name] = (copied[name] ?? 0) + Number(plan[at + 3]);
        at += 2 + Number(plan[at + 1]);
      }
    }
    return copied;
  }

  async #leftovers(): Promise<string[]> {
    const found: string[] = [];
    for (const node of [...this.server.nodes, ...this.server.replicas]) {
      if (!String(await node.call("INFO", "replication")).includes("role:master\r\n")) continue;
      const keys = (await node.call("KEYS", `${prefix}:*`)) as string[];
      for (const key of keys) if (Number(await node.call("PTTL", key)) === -1) found.push(`${key} stays for ever`);
      if (keys.length > 5_000) found.push(`${String(keys.length)} keys are there`);
    }
    return found;
  }
}
