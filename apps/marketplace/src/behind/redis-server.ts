// Starts a throw-away Redis server for the shop: on the loopback, without persistence, in a temporary folder.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const startLimitMs = 5_000;
const stopLimitMs = 1_500;
const tries = 5;

export interface PrivateRedis {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Rejects when the server ends and `stop` was not called. */
  readonly lost: Promise<never>;
  stop(): Promise<void>;
}

/** The file of the first of these programs that is found on PATH. */
export const findProgram = (...names: readonly string[]): string | undefined => {
  for (const name of names)
    for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
      const file = join(folder, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        continue;
      }
    }
  return undefined;
};

/** `REDIS_SERVER_BIN`, or the first of redis-server and valkey-server on PATH. */
const findServer = (): string => {
  const found = process.env["REDIS_SERVER_BIN"] || findProgram("redis-server", "valkey-server");
  if (found) return found;
  throw new Error("No Redis server found. Set REDIS_SERVER_BIN, or put redis-server or valkey-server on PATH");
};

/** A port that is free now. Another program may still take it before the server does. */
const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("the system assigned no port");
  return address.port;
};

const answers = (port: number, mark: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let heard = "";
    socket.setTimeout(500, () => socket.destroy());
    socket.on("connect", () => socket.write("CONFIG GET dir\r\n"));
    socket.on("data", (part) => {
      heard += part.toString();
      // Only our server has this folder. Another program may have taken the port first.
      if (heard.includes(mark)) {
        resolve(true);
        socket.destroy();
      }
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(false));
  });

const startOnce = async (file: string, home: string): Promise<PrivateRedis | string> => {
  const folder = mkdtempSync(join(home, "redis-"));
  const port = await freePort();
  const args = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder];
  // In a process group of its own, so Ctrl-C reaches only the shop. The shop then stops its Redis in order.
  const child: ChildProcess = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  let log = "";
  const keep = (part: Buffer): void => {
    log = (log + part.toString()).slice(-2_000);
  };
  child.stdout?.on("data", keep);
  child.stderr?.on("data", keep);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("exit", (code, signal) =>
      resolve(`it exited (${signal ?? `code ${code}`}): ${log.trim().split("\n").at(-1) ?? ""}`),
    );
  });
  // Removes the server and its folder even if this process exits without calling `stop`.
  const remove = (): void => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", remove);

  const deadline = performance.now() + startLimitMs;
  const isOver = ended.then(() => true);
  while (performance.now() < deadline) {
    if (await answers(port, folder)) {
      let isStopping = false;
      const lost = ended.then((why) =>
        isStopping ? new Promise<never>(() => undefined) : Promise.reject(new Error(`Redis stopped: ${why}`)),
      );
      const stop = async (): Promise<void> => {
        isStopping = true;
        child.kill("SIGTERM");
        const timer = setTimeout(() => child.kill("SIGKILL"), stopLimitMs);
        await ended;
        clearTimeout(timer);
        process.off("exit", remove);
        rmSync(folder, { recursive: true, force: true });
      };
      return { url: `redis://127.0.0.1:${port}`, port, pid: child.pid ?? 0, lost, stop };
    }
    if (await Promise.race([isOver, sleep(15, false)])) break;
  }
  process.off("exit", remove);
  remove();
  return await Promise.race([ended, sleep(500, "it does not reply")]);
};

/**
 * Starts a server with a temporary folder inside `home`.
 *
 * @throws {Error} there is no server program, or the server did not start; the message gives the reason.
 */
export const startRedis = async (home: string): Promise<PrivateRedis> => {
  const file = findServer();
  let why = "";
  for (let attempt = 0; attempt < tries; attempt++) {
    const started = await startOnce(file, home);
    if (typeof started !== "string") return started;
    why = started;
    if (!/in use|bind/i.test(why)) break;
  }
  throw new Error(`${file} did not start: ${why}`);
};
