// The built program, started like in production: in a separate process.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const atWorkMs = 90_000;

export interface RunningShop {
  readonly origin: string;
  readonly process: ChildProcess;
  readonly said: { stdout: string; stderr: string };
  /** Resolves once every process of the shop is at work. */
  isComplete(): Promise<void>;
  /** Sends the signal and resolves with the exit code. */
  stop(signal?: NodeJS.Signals): Promise<{ code: number | null }>;
}

const started = new Set<ChildProcess>();

/** Ends every shop that is still open, and removes what they left. */
export const endShops = async (): Promise<void> => {
  const ended = [...started].map((child) => once(child, "exit"));
  for (const child of started) child.kill("SIGTERM");
  await Promise.all(ended);
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  folder = undefined;
};

let folder: string | undefined;

/** A shop leaves nothing behind in here. Made for the first shop of a file, and removed with its shops. */
export const scratch = (): string => (folder ??= mkdtempSync(join(tmpdir(), "shop-tests-")));

export const spawnShop = (...args: readonly string[]): { process: ChildProcess; said: RunningShop["said"] } => {
  const env = { ...process.env, TMPDIR: scratch() };
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  started.add(child);
  child.once("exit", () => started.delete(child));
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (part: Buffer) => (said.stdout += part.toString()));
  child.stderr.on("data", (part: Buffer) => (said.stderr += part.toString()));
  return { process: child, said };
};

/** A shop on a port of its own, so that shops of several files do not meet on the usual one. */
export const startShop = async (...args: readonly string[]): Promise<RunningShop> => {
  for (let attempt = 1; ; attempt++)
    try {
      // A month of the access log keeps a processor busy for ten seconds.
      return await whenOpen(spawnShop("--port", "0", "--log-days", "1", ...args));
    } catch (error) {
      // On a busy machine Redis may answer later than the shop waits for it.
      if (attempt === 5 || !/no answer|answers too slowly/.test(String(error))) throw error;
    }
};

/** Resolves once the shop says where it is open. */
export const whenOpen = async ({ process: child, said }: ReturnType<typeof spawnShop>): Promise<RunningShop> => {
  const origin = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", () => {
      const url = /http:\/\/\S+/.exec(said.stdout)?.[0];
      if (url) resolve(url);
    });
    child.once("close", (code) => reject(new Error(`the shop ended with ${code}: ${said.stderr}`)));
  });
  return {
    origin,
    process: child,
    said,
    isComplete: async () => {
      const signal = AbortSignal.timeout(atWorkMs);
      while (!said.stderr.includes("all processes are running") && child.stderr)
        await once(child.stderr, "data", { signal });
    },
    stop: async (signal = "SIGTERM") => {
      const ended = child.exitCode === null ? once(child, "close") : Promise.resolve([child.exitCode]);
      child.kill(signal);
      const [code] = (await ended) as [number | null];
      return { code };
    },
  };
};
