import { eventually } from "@kit/testing";
import { patience } from "../patience.js";
import type { Subject } from "../lab/control.js";
import { Lab, type LabOptions, type Loss, type Surroundings } from "../lab/lab.js";
import type { Worker } from "../lab/worker.js";
import type { Call } from "../records.js";
import { anyWork, type Work } from "./checker.js";
import type { PlainHistory } from "./history.js";

export const prefix = "kit";

export interface PlainLabOptions extends LabOptions {
  /** The folder of the workload. */
  readonly workload: string;
  readonly subject: Subject;
}

/** A server and workers of a package without leases, where only the success of calls matters. */
export abstract class PlainLab<R extends { readonly kind: string }> extends Lab {
  readonly leaseMs: number = 400;
  readonly deadlineMs: number = 300;
  /** The work that has to go on after a fault. */
  protected readonly work: Work = anyWork;
  /** The kind of record that a worker writes only when it makes progress. */
  protected readonly progress: string = "saw";
  readonly #options: PlainLabOptions;
  /** By kind: the start of the newest successful call. */
  readonly #wellSince = new Map<string, number>();

  constructor(options: PlainLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
  }

  /** Further settings of the next worker. */
  protected further(): Readonly<Record<string, unknown>> {
    return { restMs: 10 };
  }

  spawn(): Worker {
    const { seed, subject, workload } = this.#options;
    const number = this.all.length + 1;
    const { deadlineMs, leaseMs, url } = this;
    const settings = {
      url,
      prefix,
      deadlineMs,
      leaseMs,
      number,
      seed: seed + 1_000 * number,
      ...this.further(),
      ...subject,
    };
    return this.hire(workload, settings, (line) => this.#hear(line));
  }

  #hear(line: string): void {
    if (!line.startsWith('{"kind":"call"')) return;
    const call = JSON.parse(line) as Call;
    const kind = this.work.kindOf(call);
    if (kind !== undefined) this.#wellSince.set(kind, Math.max(this.#wellSince.get(kind) ?? 0, call.startedAt));
  }

  async victim(): Promise<Worker> {
    return await eventually(() => {
      const worker = this.pick(this.workers.filter((one) => one.logged(this.progress) > 0));
      if (!worker) throw new Error("nobody works");
      return worker;
    });
  }

  /** Without leases, the progress of all workers takes the place of holders. */
  async claimsOf(): Promise<ReadonlySet<string>> {
    return new Set([String(this.logged(this.progress))]);
  }

  async died(): Promise<number> {
    return 1;
  }

  lostData(_from: number, _to: number, _what: Loss): void {
    // The setting decides which writes may be lost.
  }

  async resumed(at: number): Promise<void> {
    await eventually(
      () => {
        this.logged("call");
        const idle = this.work.kinds.filter((kind) => (this.#wellSince.get(kind) ?? 0) <= at);
        if (idle.length > 0) throw new Error(`no ${idle.join()} succeeds`);
      },
      { timeoutMs: 15_000 * patience },
    );
  }

  override async settled(): Promise<void> {
    const before = new Map(this.workers.map((worker) => [worker, worker.logged(this.progress)]));
    await eventually(
      () => {
        for (const [worker, count] of before)
          if (!worker.hasEnded && worker.logged(this.progress) <= count)
            throw new Error(`${worker.id} does nothing yet`);
      },
      { timeoutMs: 15_000 * patience },
    );
  }

  /** Ends the workers, and returns their records. */
  protected async plainHistory(): Promise<Omit<PlainHistory<R>, "wrong">> {
    return {
      workers: await this.dismiss<R>(),
      heals: this.marks.map(({ kind, at, dueMs }) => ({ kind, at, dueMs })),
      losesNothing: this.losesNothing,
      echoes: this.around.tap?.echoes.length ?? 0,
    };
  }

  /** All keys of the masters, with their time to live; -1: no expiry. */
  protected async lives(): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    for (const node of [...this.server.nodes, ...this.server.replicas]) {
      if (!String(await node.call("INFO", "replication")).includes("role:master\r\n")) continue;
      for (const key of (await node.call("KEYS", `${prefix}:*`)) as string[])
        found.set(key, Number(await node.call("PTTL", key)));
    }
    return found;
  }
}
