import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { capture } from "../run.mjs";
import { childEnv } from "../repo.mjs";
import { alone } from "../steps.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const folder = join(import.meta.dirname, "..");

/** Starts a program that hosts another, which starts a third; resolves when all are up. */
async function startHost(manners: "polite" | "unresponsive" | "forking") {
  const host = spawn(process.execPath, [join(import.meta.dirname, "fixtures", "host.mjs"), manners], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void host.kill("SIGKILL"));
  const lines: string[] = [];
  const read = createInterface({ input: host.stdout }).on("line", (line) => lines.push(line));
  // Its last lines may be read after its end.
  const ended = Promise.all([once(host, "close"), once(read, "close")]).then(([[code]]) => code as number | null);
  // Lines of the program and of the processes that it starts come in any order.
  const isUp = (line: string): boolean => /^up \d+ \d+$/.test(line);
  await expect.poll(() => lines.filter(isUp), { timeout: 20_000 }).toHaveLength(1);
  const [up = ""] = lines.splice(lines.findIndex(isUp), 1);
  const pids = up.split(" ").slice(1).map(Number);
  return { host, ended, pids, lines };
}

/** A zombie, which has ended but has not been reaped by its new parent, does not run. */
const isRunning = (pid: number) => {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc/self") || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};

describe("a hosted program", () => {
  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "receives %s once and ends with all its children",
    async (signal) => {
      const { host, ended, pids, lines } = await startHost("polite");
      host.kill(signal);
      expect(await ended).toBe({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }[signal]);
      expect(pids.filter(isRunning)).toEqual([]);
      expect(lines).toEqual([`heard ${signal}`]);
    },
  );

  it("is killed with all its children if it ignores the signal", async () => {
    const { host, ended, pids } = await startHost("unresponsive");
    host.kill("SIGTERM");
    await ended;
    await expect.poll(() => pids.filter(isRunning), { timeout: 20_000 }).toEqual([]);
  });

  it("forks and starts threads as it would without a leash", async () => {
    const { host, ended, lines } = await startHost("forking");
    await expect.poll(() => lines.sort(), { timeout: 20_000 }).toEqual(["the fork works", "the thread works"]);
    host.kill("SIGTERM");
    await ended;
  });

  it("ends when its host is killed outright", async () => {
    const { host, ended, pids } = await startHost("polite");
    host.kill("SIGKILL");
    await ended;
    await expect.poll(() => pids.filter(isRunning), { timeout: 20_000 }).toEqual([]);
  });
});

describe("the bootstrap", () => {
  const start = (task: string, ...flags: string[]) =>
    capture(process.execPath, [...flags, join(folder, "bootstrap.mjs"), task], { cwd: tempFolder() });

  it("names the version of Node that it needs on an older one", async () => {
    const pretend = 'Object.defineProperty(process, "versions", { value: { node: "20.18.3" } })';
    const { code, output } = await start("setup", `--import=data:text/javascript,${encodeURIComponent(pretend)}`);
    expect(output).toContain("kit needs Node 20.19 or newer");
    expect(code).toBe(1);
  });

  it("lists its tasks for an unknown one", async () => {
    const { code, output } = await start("toString");
    expect(output).toContain('Unknown task "toString". There are: setup, build,');
    expect(code).toBe(1);
  });
});

describe("the lock on a checkout", () => {
  it("runs one after the other", async () => {
    const cache = tempFolder();
    const events: string[] = [];
    const work = (name: string) => async () => {
      events.push(`${name} in`);
      await new Promise((resolve) => setImmediate(resolve));
      events.push(`${name} out`);
    };
    await Promise.all([alone(work("a"), cache), alone(work("b"), cache)]);
    expect(events).toEqual(["a in", "a out", "b in", "b out"]);
  });

  it("is taken over at once from a run that died", { timeout: 14_000 }, async () => {
    const cache = tempFolder();
    const dead = spawn(process.execPath, ["--version"], { stdio: "ignore" });
    await once(dead, "exit");
    writeFiles(cache, { "setup.lock": String(dead.pid) });
    expect(await alone(async () => "done", cache)).toBe("done");
  });

  it("is released when the work fails", { timeout: 14_000 }, async () => {
    const cache = tempFolder();
    const failing = alone(() => Promise.reject(new Error("no disk")), cache);
    await expect(failing).rejects.toThrow("no disk");
    expect(await alone(async () => "done", cache)).toBe("done");
  });
});

describe("the environment of children", () => {
  it("keeps a writable home", () => {
    const home = tempFolder();
    expect(childEnv({ HOME: home })["HOME"]).toBe(home);
  });

  it.each([undefined, "", "/nonexistent"])("has another home for HOME=%s", (home) => {
    expect(childEnv({ HOME: home })["HOME"]).toMatch(/^\/(?!nonexistent)/);
  });
});
