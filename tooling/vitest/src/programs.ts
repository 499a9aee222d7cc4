import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";

/** A peer's reply. */
interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly name: string; readonly code?: string; readonly reason?: string };
}

/** Another process, which runs commands by `obey()` of `@tooling/vitest/peer` and can be killed. */
export class Peer {
  readonly ready: Promise<void>;
  readonly #child: ChildProcess;
  readonly #open = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #last = 0;

  constructor(program: URL, args: readonly string[], execArgv: readonly string[] = []) {
    this.#child = fork(program, args, { execArgv: [...execArgv] });
    this.#child.on("message", (answer: Answer) => {
      const asked = this.#open.get(answer.id);
      this.#open.delete(answer.id);
      if (answer.error) asked?.reject(Object.assign(new Error(answer.error.name), answer.error));
      else asked?.resolve(answer.value);
    });
    const exited = once(this.#child, "exit").then(() => {
      throw new Error(`${program.pathname} ended by itself`);
    });
    this.ready = Promise.race([this.ask<void>("ready"), exited]);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Kills the process by SIGKILL. Its leases and waiters stay in Redis. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }

  ask<T>(...command: readonly unknown[]): Promise<T> {
    const id = ++this.#last;
    const answer = new Promise<T>((resolve, reject) =>
      this.#open.set(id, { resolve: resolve as (value: unknown) => void, reject }),
    );
    this.#child.send([id, ...command]);
    return answer;
  }
}

/** A process that runs a program. */
export class Program {
  readonly #child: ChildProcess;
  readonly #texts: string[] = [];
  #rest = "";

  constructor(program: URL, env: Readonly<Record<string, string>>, execArgv: readonly string[] = []) {
    this.#child = fork(program, [], { silent: true, execArgv: [...execArgv], env: { ...process.env, ...env } });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (chunk) => {
        const lines = (this.#rest + String(chunk)).split("\n");
        this.#rest = lines.pop() ?? "";
        this.#texts.push(...lines);
      });
  }

  /** All that it has printed, by lines. */
  get printed(): string {
    return this.#texts.join("\n");
  }

  /** What it has printed after `start: `, in order. */
  said(start: string): readonly string[] {
    return this.#texts.filter((text) => text.startsWith(`${start}: `)).map((text) => text.slice(start.length + 2));
  }

  get pid(): string {
    return String(this.#child.pid);
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves with its exit code, or the signal that ended it. */
  async ended(): Promise<number | NodeJS.Signals | null> {
    if (!this.hasEnded) await once(this.#child, "close");
    return this.#child.exitCode ?? this.#child.signalCode;
  }

  /** Ends it, and resolves as {@link ended}. */
  async end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null> {
    if (!this.hasEnded) this.signal(signal);
    return await this.ended();
  }
}

/** Runs a program to its end. Resolves with its output and its exit. */
export const runProgram = async (
  redis: { defer(close: () => unknown): void },
  program: URL,
  args: readonly string[],
): Promise<{ readonly printed: string; readonly code: number | null }> => {
  const child = fork(program, args, { silent: true, execArgv: [] });
  redis.defer(() => child.kill("SIGKILL"));
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (printed += String(chunk)));
  const [code] = (await once(child, "close")) as [number | null];
  return { printed, code };
};
