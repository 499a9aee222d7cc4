// The shop as its visitors get it: the built program, in a process of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eventually } from "@kit/testing";
import { afterAll, afterEach, expect } from "vitest";
import { ask, field, type Reply } from "../src/http-client.js";

const program = fileURLToPath(new URL("../dist/main.js", import.meta.url));

export interface RunningShop {
  readonly origin: string;
  readonly process: ChildProcess;
  readonly said: { stdout: string; stderr: string };
  /** Resolves once every process of the shop is at work. */
  isComplete(): Promise<void>;
  /** Sends the signal and resolves with exit code and time. */
  stop(signal?: NodeJS.Signals): Promise<{ code: number | null }>;
}

const started = new Set<ChildProcess>();
// A test that failed half-way leaves its shop to us.
afterAll(async () => {
  const ended = [...started].map((child) => once(child, "exit"));
  for (const child of started) child.kill("SIGTERM");
  await Promise.all(ended);
  rmSync(scratch, { recursive: true, force: true });
});

/** What a shop leaves behind would be in here. */
export const scratch: string = mkdtempSync(join(tmpdir(), "shop-tests-"));

export const spawnShop = (...args: readonly string[]): { process: ChildProcess; said: RunningShop["said"] } => {
  const env = { ...process.env, TMPDIR: scratch };
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
  started.add(child);
  child.once("exit", () => started.delete(child));
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (part: Buffer) => (said.stdout += part.toString()));
  child.stderr.on("data", (part: Buffer) => (said.stderr += part.toString()));
  return { process: child, said };
};

/** A port that is free at this moment, so that tests of several workspaces do not share one. */
export const freePort = async (): Promise<string> => {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return String(port);
};

/** Resolves once the shop says where it is open. */
export const startShop = async (...args: readonly string[]): Promise<RunningShop> => {
  const { process: child, said } = spawnShop(...args);
  const origin = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", () => {
      const url = /http:\/\/\S+/.exec(said.stdout)?.[0];
      if (url) resolve(url);
    });
    child.once("exit", (code) => reject(new Error(`the shop ended with ${code}: ${said.stderr}`)));
  });
  return {
    origin,
    process: child,
    said,
    isComplete: async () => {
      await eventually(() => expect(said.stderr).toContain("are at work"), { timeoutMs: 60_000 });
    },
    stop: async (signal = "SIGTERM") => {
      const ended = child.exitCode === null ? once(child, "exit") : Promise.resolve([child.exitCode]);
      child.kill(signal);
      const [code] = (await ended) as [number | null];
      return { code };
    },
  };
};

/** Those who are signed in: at most five sessions of one persona may be open, so each test leaves none behind. */
const present = new Set<Visitor>();
afterEach(async () => {
  await Promise.all([...present].map((visitor) => visitor.leave().catch(() => undefined)));
  present.clear();
});

/** A visitor with a cookie, as a browser without JavaScript. */
export class Visitor {
  readonly origin: string;
  cookie: string | undefined;
  #csrf = "";

  constructor(origin: string) {
    this.origin = origin;
  }

  async get(path: string, accept = "text/html"): Promise<Reply> {
    return this.#keep(await ask(this.origin, path, { cookie: this.cookie, accept }));
  }

  async post(path: string, form: Readonly<Record<string, string>>, accept = "text/html"): Promise<Reply> {
    return this.#keep(await ask(this.origin, path, { cookie: this.cookie, form, accept }));
  }

  /** Becomes `user`; returns the token of this session's forms. */
  async signIn(user: string): Promise<string> {
    const page = await this.get("/personas");
    const entered = await this.post("/login", { user, csrf: field(page.body, "csrf") });
    if (entered.status !== 303) throw new Error(`${user} was not let in: ${entered.status}`);
    present.add(this);
    this.#csrf = field((await this.get("/")).body, "csrf");
    return this.#csrf;
  }

  async leave(): Promise<void> {
    await this.post("/logout", { csrf: this.#csrf });
  }

  #keep(reply: Reply): Reply {
    if (reply.cookie !== undefined) this.cookie = reply.cookie;
    return reply;
  }
}
