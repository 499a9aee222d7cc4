import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { patience } from "./patience.js";
import { AdminConnection } from "./resp.js";

// The slowest start loads a large data set on a busy machine.
const START_TIMEOUT_MS = 30_000;
// A start takes about 25 ms. A check every 2 ms adds little to it, and costs one refused connection each.
const START_POLL_MS = 2;
const LOG_LINES = 15;

/** Whether a node's process answers, is stopped by SIGSTOP, or is gone. */
export type RedisNodeState = "running" | "paused" | "stopped";

/** One server process, into which a test may inject faults. */
export interface RedisNode {
  /** Always 127.0.0.1. */
  readonly host: string;
  /** The same through every restart. */
  readonly port: number;
  /** The process now, or the last one if it is stopped. */
  readonly pid: number;
  /** The state, by the calls of this object. */
  readonly state: RedisNodeState;
  /** Sends one raw command over the test kit's own connection, once. Error replies reject. Texts are UTF-8. */
  call(...command: string[]): Promise<unknown>;
  /** Sends a signal to the process. */
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL, and waits until the process is gone. Does nothing if it is. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay open and get no replies. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
  /**
   * Starts the process again, with the same port and data folder, and waits until it answers (a Cluster may need
   * longer to be whole). Does nothing if it runs.
   */
  start(): Promise<void>;
}

export interface NodeOptions {
  readonly binary: string;
  readonly port: number;
  readonly dir: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly password: string | undefined;
  /**
   * Its configuration file before its first start; the server may rewrite the file. Without one the process has only its
   * arguments.
   */
  readonly config?: string | undefined;
  readonly isSentinel?: boolean;
}

/** A start that failed because another process took the port first: worth another try. */
export class PortTakenError extends Error {
  override readonly name = "PortTakenError";
}

export class ServerNode implements RedisNode {
  readonly host = "127.0.0.1";
  readonly port: number;
  readonly #options: NodeOptions;
  readonly #admin: AdminConnection;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #pid = 0;
  #state: RedisNodeState = "stopped";

  constructor(options: NodeOptions) {
    this.#options = options;
    this.port = options.port;
    this.#admin = new AdminConnection(this.host, this.port, options.password);
  }

  get pid(): number {
    return this.#pid;
  }

  get state(): RedisNodeState {
    return this.#state;
  }

  call(...command: string[]): Promise<unknown> {
    return this.#admin.call(command);
  }

  signal(signal: NodeJS.Signals): void {
    if (this.#state === "stopped") return;
    process.kill(this.#pid, signal);
    if (signal === "SIGSTOP") this.#state = "paused";
    if (signal === "SIGCONT") this.#state = "running";
  }

  async kill(): Promise<void> {
    this.killNow();
    // Otherwise a process with nothing else to do would end here, before the server has.
    this.#child?.ref();
    await this.#ended;
    this.#child?.unref();
  }

  /** The part of `kill` that a process can run while it exits. */
  killNow(): void {
    if (!this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    // The child is the server, or a wrapper script around it that outlives it by a moment.
    for (const pid of new Set([this.#pid, this.#child.pid ?? 0])) {
      try {
        if (pid > 0) process.kill(pid, "SIGKILL");
      } catch {
        // gone already
      }
    }
  }

  pause(): void {
    this.signal("SIGSTOP");
  }

  resume(): void {
    this.signal("SIGCONT");
  }

  async start(): Promise<void> {
    if (this.#state !== "stopped") return;
    const deadline = performance.now() + START_TIMEOUT_MS * patience();
    for (;;) {
      try {
        return await this.launch();
      } catch (error) {
        // A foreign connection may hold the port for a moment; a node's port cannot change any more.
        if (!(error instanceof PortTakenError) || performance.now() > deadline) throw error;
        await delay(50);
      }
    }
  }

  /** One try to start. */
  async launch(): Promise<void> {
    const { binary, port, dir, args, env, isSentinel = false } = this.#options;
    await mkdir(dir, { recursive: true });
    const file = await this.#writeConfig();
    const log = openSync(join(dir, "server.log"), "a");
    const base = [...file, "--bind", this.host, "--port", String(port), "--dir", dir, "--daemonize", "no"];
    const mode = isSentinel ? ["--sentinel"] : [];
    const child = spawn(binary, [...base, ...args, ...mode], {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...env },
    });
    closeSync(log);
    child.unref();
    this.#child = child;
    this.#pid = child.pid ?? 0;
    let spawnError: Error | undefined;
    this.#ended = new Promise((resolve) => {
      const end = () => {
        if (this.#child === child) this.#state = "stopped";
        resolve();
      };
      child.once("exit", end);
      child.once("error", (error) => {
        spawnError = error;
        end();
      });
    });
    let hasEnded = false;
    void this.#ended.then(() => (hasEnded = true));
    const timeoutMs = START_TIMEOUT_MS * patience();
    const deadline = performance.now() + timeoutMs;
    // A foreign process on the port may never reply.
    const ended = this.#ended.then(() => false);
    while (!(await Promise.race([this.#answers(), ended]))) {
      if (hasEnded) throw await this.#startError(spawnError?.message ?? `it exited with code ${child.exitCode}`);
      if (performance.now() > deadline) {
        await this.kill();
        throw await this.#startError(`it did not answer within ${timeoutMs} ms`);
      }
      await delay(START_POLL_MS);
    }
    this.#state = "running";
  }

  close(): void {
    this.#admin.close();
  }

  get #configFile(): string {
    return join(this.#options.dir, "server.conf");
  }

  /** Writes the configuration file unless there is one. Returns the argument that names it. */
  async #writeConfig(): Promise<string[]> {
    const { config } = this.#options;
    if (config === undefined) return [];
    await writeFile(this.#configFile, config, { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
    return [this.#configFile];
  }

  /** Whether *our* server replies: another one may have taken the port, but it has another folder. */
  async #answers(): Promise<boolean> {
    try {
      const info = String(await this.call("INFO", "server"));
      // A Sentinel has no CONFIG to ask for its folder.
      const isOurs = this.#options.isSentinel
        ? info.includes(`\nconfig_file:${this.#configFile}\r\n`)
        : ((await this.call("CONFIG", "GET", "dir")) as string[])[1] === this.#options.dir;
      if (!isOurs) return false;
      this.#pid = Number(/process_id:(\d+)/.exec(info)?.[1] ?? this.#pid);
      return (await this.call("PING")) === "PONG";
    } catch {
      return false;
    }
  }

  async #startError(reason: string): Promise<Error> {
    this.#admin.close();
    const log = await readFile(join(this.#options.dir, "server.log"), "utf8").catch(() => "");
    const tail = log.trimEnd().split("\n").slice(-LOG_LINES).join("\n");
    const message = `${this.#options.binary} did not start on ${this.host}:${this.port}: ${reason}\n${tail}`;
    return /already in use|Failed listening/i.test(tail) ? new PortTakenError(message) : new Error(message);
  }
}
