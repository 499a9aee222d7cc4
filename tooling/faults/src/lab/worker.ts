import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@kit/testing";
import { patience } from "../patience.js";
import { parseLog, type WorkerHistory } from "../records.js";
import { clock, clockOrigin } from "@tooling/lab";

/** A worker process, with a log that survives it. The process leaves when its input ends, or on SIGTERM. */
export class Worker {
  readonly id: string;
  readonly process: ChildProcess;
  readonly logFile: string;
  readonly ended: Promise<unknown>;
  killedAt: number | undefined;
  printed = "";
  /** Receives every line of its log, whenever the log is read. */
  onLine: ((kind: string, line: string) => void) | undefined;
  readonly #counts = new Map<string, number>();
  #read = 0;
  #rest = "";

  constructor(program: string, id: string, folder: string, settings: object, env: Readonly<Record<string, string>>) {
    this.id = id;
    this.logFile = join(folder, `${id}.ndjson`);
    const argument = JSON.stringify({ ...settings, id, logFile: this.logFile });
    // A worker leaves when its input ends, so none outlives this process.
    this.process = spawn(process.execPath, [program, argument], {
      stdio: ["pipe", "pipe", "pipe"],
      env: { KIT_CLOCK_ORIGIN: String(clockOrigin), ...env },
    });
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

  /** Kills the worker, and notes that it was on purpose. */
  async kill(): Promise<void> {
    this.killedAt = clock();
    this.process.kill("SIGKILL");
    await this.ended;
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.hasEnded) this.process.kill(signal);
  }

  tell(line: string): void {
    this.process.stdin?.write(`${line}\n`);
  }

  leave(): void {
    this.process.stdin?.end();
  }

  /** All that the worker has logged, and how it ended. */
  history<R extends { readonly kind: string }>(): WorkerHistory<R> {
    const { id, killedAt, printed, logFile } = this;
    const { exitCode, signalCode } = this.process;
    const end = signalCode === null ? `exit ${String(exitCode)}` : signalCode;
    return { id, killedAt, printed, end, records: parseLog<R>(readFileSync(logFile, "utf8")) };
  }

  /** Resolves once the worker has started. */
  async started(): Promise<void> {
    await eventually(
      () => {
        if (this.logged("started") === 0) throw new Error(`${this.id} has not begun: ${this.printed}`);
      },
      { timeoutMs: 20_000 * patience },
    );
  }

  /** The number of records of a kind that it has logged; reads only lines added since the last call. */
  logged(kind: string): number {
    let size = 0;
    try {
      ({ size } = statSync(this.logFile));
    } catch {
      return 0; // not yet begun
    }
    if (size > this.#read) {
      const bytes = Buffer.alloc(size - this.#read);
      const file = openSync(this.logFile, "r");
      this.#read += readSync(file, bytes, 0, bytes.length, this.#read);
      closeSync(file);
      const lines = (this.#rest + bytes.toString("utf8")).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) {
        const [, found = ""] = /^\{"kind":"(\w+)"/.exec(line) ?? [];
        this.#counts.set(found, (this.#counts.get(found) ?? 0) + 1);
        this.onLine?.(found, line);
      }
    }
    return this.#counts.get(kind) ?? 0;
  }
}
