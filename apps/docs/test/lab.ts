import { type ChildProcess, spawn } from "node:child_process";
import { createSocket as createDatagramSocket, type Socket as DgramSocket } from "node:dgram";
import { once } from "node:events";
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { eventually, type RedisClientOptions } from "@kit/testing";
import { Redis } from "ioredis";
import type { Page, Step } from "./page.js";

const START_TIMEOUT_MS = 30_000;

/** Replaces the functions of these names on a page. */
const SHELL_FUNCTIONS = `
order() { echo "$*" >&3; local answer; read -r answer <&4; [ "$answer" = done ]; }
start() { order start "$@"; }
stop() { order stop "$@"; }
kill9() { order kill9 "$@"; }
on() { bash -c "$3"; }`;

/** A server that ended instead of starting; the message is its log. */
class StartError extends Error {}

/** A machine with a server on it: a configuration file, a data folder, a log, and a process that comes and goes. */
export class Machine {
  readonly host = "127.0.0.1";
  readonly port: number;
  readonly conf: string;
  readonly data: string;
  readonly log: string;
  readonly #lab: Lab;
  readonly #role: "server" | "sentinel";
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;

  constructor(lab: Lab, folder: string, port: number, conf: string, { role = "server", env = {} }: MachineOptions) {
    this.#lab = lab;
    this.port = port;
    this.#role = role;
    this.#env = env;
    this.data = join(folder, "data");
    this.conf = join(folder, "redis.conf");
    this.log = join(folder, "redis.log");
    mkdirSync(this.data, { recursive: true });
    writeFileSync(this.conf, `bind ${this.host}\nport ${port}\ndir ${this.data}\n${conf}`);
    writeFileSync(this.log, "");
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves when the server answers and has loaded its data. */
  async start(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (!this.isRunning) {
      try {
        await this.#launch();
      } catch (error) {
        // A killed server's child, which was saving, may hold the port for a moment.
        const isTaken = error instanceof StartError && error.message.includes("Address already in use");
        if (!isTaken || performance.now() > deadline) throw error;
      }
    }
  }

  async #launch(): Promise<void> {
    const log = openSync(this.log, "a");
    const logged = fstatSync(log).size;
    const mode = this.#role === "sentinel" ? ["--sentinel"] : [];
    const env = { ...process.env, ...this.#env };
    const child = spawn(this.#lab.program("redis-server"), [this.conf, ...mode], { stdio: ["ignore", log, log], env });
    closeSync(log);
    this.#child = child;
    await eventually(
      async () => {
        if (!this.isRunning) return;
        // A connection for each try: one that was accepted and then forgotten must not hold up the others.
        const probe = this.client({ lazyConnect: true });
        try {
          await probe.connect();
        } finally {
          probe.disconnect();
        }
      },
      { timeoutMs: START_TIMEOUT_MS, intervalMs: 5 },
    );
    if (!this.isRunning) throw new StartError(readFileSync(this.log, "utf8").slice(logged));
  }

  /** A client that does not reconnect, so that a lost connection stays lost. */
  client(options: RedisClientOptions = {}): Redis {
    const client = new Redis({ host: this.host, port: this.port, retryStrategy: () => null, ...options });
    client.on("error", () => {});
    this.#lab.onClose(() => client.disconnect());
    return client;
  }

  /** Sends a signal, and waits for the end of the process if the signal ends it. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || !this.isRunning) return;
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Waits for a process that another one has ended. */
  async ended(): Promise<void> {
    await eventually(() => {
      if (this.isRunning) throw new Error(`The server on port ${this.port} runs on`);
    });
  }
}

export interface MachineOptions {
  readonly role?: "server" | "sentinel";
  /** More environment for the server process. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Machines and a shell on them, in a folder that is removed with them. */
export class Lab implements AsyncDisposable {
  readonly folder: string = realpathSync(mkdtempSync(join(tmpdir(), "kit-runbook-")));
  readonly #machines: Machine[] = [];
  readonly #closers: (() => unknown)[] = [];
  readonly #shells: Set<ChildProcess> = new Set();
  readonly #killAll = (): void => {
    this.#killShells();
    for (const machine of this.#machines) machine.signal("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10 });
  };

  constructor() {
    // Pages use `redis-cli`, whatever the program's name is here.
    mkdirSync(join(this.folder, "bin"));
    for (const [name, path] of programs()) {
      // Not a link, since some of them are scripts that look for files in their own folder.
      writeFileSync(this.program(name), `#!/bin/sh\nexec ${quoted(path)} "$@"\n`, { mode: 0o755 });
    }
    process.on("exit", this.#killAll);
  }

  program(name: string): string {
    return join(this.folder, "bin", name);
  }

  onClose(close: () => unknown): void {
    this.#closers.push(close);
  }

  /** A machine that is not yet started. */
  async machine(conf: string, options: MachineOptions = {}): Promise<Machine> {
    const { port, claim } = await claimPort();
    this.onClose(() => claim.close());
    const machine = new Machine(this, join(this.folder, `machine-${port}`), port, conf, options);
    this.#machines.push(machine);
    return machine;
  }

  /**
   * Types a step of a page into a shell, with these settings in the place of the page's own, and returns what is
   * printed. Output that the page shows is checked. The steps of an init system (`start`, `stop`, `kill9`)
   * are done to the machine that is named by `host port`, or to the only one; a command for another host runs here.
   */
  async type(page: Page, step: Step, machines: readonly Machine[], settings: Settings): Promise<string> {
    const { code, printed } = await this.shell(page, step, machines, settings);
    const isShown = step.shows === undefined || patternOf(step.shows).test(printed);
    if (code !== 0) throw new Error(`"${step.name}" ended with ${code}, and showed:\n${printed}`);
    if (!isShown) throw new Error(`"${step.name}" shows:\n${printed}and not, as the page says:\n${step.shows}`);
    return printed;
  }

  /** Like `type`, for a step that may fail. */
  async shell(
    page: Page,
    step: Step,
    machines: readonly Machine[],
    settings: Settings,
  ): Promise<{ readonly code: number | null; readonly printed: string }> {
    const unknown = Object.keys(settings).filter((name) => !new RegExp(`^${name}=`, "m").test(page.settings));
    if (unknown.length > 0) throw new Error(`The page has no settings ${unknown.join(", ")}`);
    const assign = Object.entries(settings).map(([name, value]) => `${name}=${quoted(value)}`);
    const script = ["set -u", page.settings, ...assign, SHELL_FUNCTIONS, step.code].join("\n");
    const child = spawn("bash", ["-c", script], {
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
      // A process group of its own, so that a step that waits for ever can be ended with all its children.
      detached: true,
      env: { ...process.env, PATH: `${join(this.folder, "bin")}${delimiter}${process.env["PATH"] ?? ""}`, LC_ALL: "C" },
    });
    this.#shells.add(child);
    let printed = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (printed += String(chunk)));
    const [orders, answers] = [child.stdio[3] as Readable, child.stdio[4] as Writable];
    answers.on("error", () => {});
    orders.on("data", (chunk) => {
      const [verb, , port] = String(chunk).trim().split(" ");
      const machine = port === undefined ? machines[0] : machines.find((one) => String(one.port) === port);
      this.#obey(verb, machine).then(
        () => answers.write("done\n"),
        () => answers.write("failed\n"),
      );
    });
    const [code] = (await once(child, "close")) as [number | null];
    this.#shells.delete(child);
    return { code, printed };
  }

  #killShells(): void {
    for (const { pid } of this.#shells) {
      try {
        if (pid !== undefined) process.kill(-pid, "SIGKILL");
      } catch {
        // It has just ended.
      }
    }
  }

  async #obey(verb: string | undefined, machine: Machine | undefined): Promise<void> {
    if (!machine) throw new Error("No such machine");
    if (verb === "start") await machine.start();
    else await machine.end(verb === "kill9" ? "SIGKILL" : "SIGTERM");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off("exit", this.#killAll);
    this.#killShells();
    for (const close of this.#closers) await close();
    await Promise.all(this.#machines.map((machine) => machine.end("SIGKILL")));
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** Values for the names in a page's settings. */
export type Settings = Readonly<Record<string, string | number>>;

const quoted = (value: string | number): string => `'${String(value).replaceAll("'", `'\\''`)}'`;

/** Lines that must appear in this order, with or without others between them. */
const patternOf = (shows: string): RegExp => {
  const lines = shows.trimEnd().split("\n");
  return new RegExp(
    lines
      .map((line) =>
        line
          .trim()
          .split("…")
          .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"))
          .join(".*"),
      )
      .join("[^]*"),
  );
};

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

const onPath = (name: string): string | undefined =>
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find(isProgram);

/** The server that the test kit finds, and its tools: beside it, or on PATH. */
function programs(): [name: string, path: string][] {
  const server = process.env["REDIS_SERVER_BIN"] || onPath("redis-server") || onPath("valkey-server");
  if (!server) throw new Error("No Redis server to start: REDIS_SERVER_BIN is not set, and none is on PATH");
  const tools = ["redis-cli", "redis-check-aof", "redis-check-rdb"].map((name): [string, string] => {
    const own = basename(server).startsWith("valkey") ? name.replace("redis", "valkey") : name;
    const path = [join(dirname(server), own), onPath(own), onPath(name)].find(
      (one) => one !== undefined && isProgram(one),
    );
    if (path === undefined) throw new Error(`${own} is neither beside ${server} nor on PATH`);
    return [name, path];
  });
  return [["redis-server", server], ...tools];
}

// Below the ports of outgoing connections (a client that dials a dead server there can be connected to itself), above
// those that the test kit gives out, and below the bus ports of its Clusters.
const FIRST_PORT = 22_800;
const PORTS = 2_000;
let nextPort = Math.floor(Math.random() * PORTS);

/** Makes the socket listen, by `begin`; false if the port is taken. */
const take = async (socket: DgramSocket | Server, begin: () => unknown): Promise<boolean> => {
  const listening = once(socket, "listening").then(
    () => true,
    () => false,
  );
  begin();
  return await listening;
};

/**
 * A port that no other lab of this machine has until `claim` is closed: a server comes and goes on it, and is away for
 * long. The claim is the datagram port of the same number, which goes with its process.
 */
const claimPort = async (): Promise<{ port: number; claim: DgramSocket }> => {
  for (;;) {
    const place = { port: FIRST_PORT + (nextPort++ % PORTS), exclusive: true };
    const claim = createDatagramSocket("udp4").unref();
    const probe = createServer();
    const isFree =
      (await take(claim, () => claim.bind({ ...place, address: "127.0.0.1" }))) &&
      (await take(probe, () => probe.listen({ ...place, host: "127.0.0.1" })));
    if (probe.listening) await new Promise((resolve) => probe.close(resolve));
    if (isFree) return { port: place.port, claim };
    claim.close();
  }
};

/** The parts of the append-only file, as the manifest of `machine` names them. */
export const appendOnlyParts = ({ data }: Machine): { readonly base: string; readonly incr: string } => {
  const folder = join(data, "appendonlydir");
  const manifest = readFileSync(join(folder, "appendonly.aof.manifest"), "utf8");
  const part = (type: string): string => {
    const name = [...manifest.matchAll(/^file (\S+) seq \d+ type (\w)/gm)].findLast(([, , kind]) => kind === type)?.[1];
    return name === undefined ? "" : join(folder, name);
  };
  return { base: part("b"), incr: part("i") };
};
