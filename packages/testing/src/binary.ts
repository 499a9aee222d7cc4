import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** A server program found on this machine. */
export interface ServerBinary {
  readonly path: string;
  /** DEBUG is off by default, and can be switched on, since Redis 7.0 and in every Valkey. */
  readonly canEnableDebug: boolean;
}

const known = new Map<string, Promise<ServerBinary>>();

/** Finds the server program: `REDIS_SERVER_BIN`, else `redis-server`, else `valkey-server` on PATH. */
export async function findServer(): Promise<ServerBinary> {
  const path = process.env["REDIS_SERVER_BIN"] || (await onPath("redis-server")) || (await onPath("valkey-server"));
  if (!path) {
    throw new Error(
      "Cannot start Redis: neither redis-server nor valkey-server is on PATH. Install one, or set REDIS_SERVER_BIN to its path",
    );
  }
  let binary = known.get(path);
  if (!binary) known.set(path, (binary = examine(path)));
  return binary;
}

async function onPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const path = join(folder, name);
    const isRunnable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (folder && isRunnable) return path;
  }
  return undefined;
}

async function examine(path: string): Promise<ServerBinary> {
  const { stdout } = await promisify(execFile)(path, ["--version"]).catch((cause: unknown) => {
    throw new Error(`${path} does not run: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  });
  const version = /^(Redis|Valkey) server v=(\d+)\./.exec(stdout);
  if (!version)
    throw new Error(`${path} is neither a Redis nor a Valkey server: "--version" prints "${stdout.trim()}"`);
  return { path, canEnableDebug: version[1] === "Valkey" || Number(version[2]) >= 7 };
}
