import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";

import { eventually, startRedis, type RedisServer } from "../src/index.js";

const running: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

async function start(...args: Parameters<typeof startRedis>): Promise<RedisServer> {
  const server = await startRedis(...args);
  running.push(server);
  return server;
}

const dataFolder = async (server: RedisServer) => ((await server.call("CONFIG", "GET", "dir")) as string[])[1] ?? "";

const isListening = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false)).end();
  });

const exists = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe("startRedis", () => {
  it("starts a server that answers on loopback only, as the process it names", async () => {
    const server = await start();
    const [node] = server.nodes;
    expect(server.url).toBe(`redis://127.0.0.1:${node?.port}`);
    expect(await server.call("CONFIG", "GET", "bind")).toEqual(["bind", "127.0.0.1"]);
    expect(String(await server.call("INFO", "server"))).toContain(`process_id:${node?.pid}\r\n`);
    expect(server.version.version).toMatch(/^\d+\.\d+/);
    expect(["redis", "valkey"]).toContain(server.version.server);
  });

  it("gives servers started at the same time ports of their own", async () => {
    const servers = await Promise.all([start(), start(), start(), start()]);
    expect(new Set(servers.map(({ url }) => url)).size).toBe(4);
  });

  it("keeps the port of a killed server from other processes until stop", async () => {
    const server = await start();
    const [node] = server.nodes;
    await node!.kill();
    vi.resetModules();
    // Another process has another copy of the module. Both draw this port first, and then others.
    const { freePort, returnPort } = await import("../src/ports.js");
    const drawn = (node!.port - 15_000 + 0.5) / 7_768;
    const draw = vi.spyOn(Math, "random");
    onTestFinished(() => draw.mockRestore());
    draw.mockReturnValueOnce(drawn);
    const other = await freePort(false);
    returnPort(other);
    expect(other).not.toBe(node!.port);
    await server.stop();
    draw.mockReturnValueOnce(drawn);
    expect(await freePort(false)).toBe(node!.port);
    returnPort(node!.port);
  });

  it("leaves no process and no folder after stop, which may be called twice", async () => {
    const server = await start();
    const dir = await dataFolder(server);
    const pid = server.nodes[0]?.pid ?? 0;
    expect([existsSync(dir), exists(pid)]).toEqual([true, true]);
    await server.stop();
    expect([existsSync(dir), exists(pid)]).toEqual([false, false]);
    await expect(server.stop()).resolves.toBeUndefined();
  });

  it("stops at the end of an await using block", async () => {
    let pid: number;
    {
      await using server = await startRedis();
      pid = server.nodes[0]?.pid ?? 0;
    }
    expect(exists(pid)).toBe(false);
  });

  it("disconnects the clients that it gave out when it stops", async () => {
    const server = await start();
    const client = server.client();
    await client.set("greeting", "hello");
    await server.stop();
    await eventually(() => expect(client.status).toBe("end"));
    expect(() => server.client()).toThrow("stopped");
  });

  it("passes arguments on, and a password into url and clients", async () => {
    const server = await start({ args: ["--maxmemory", "20mb"], password: "p@ss:1" });
    expect(await server.call("CONFIG", "GET", "maxmemory")).toEqual(["maxmemory", String(20 * 1024 * 1024)]);
    expect(server.url).toContain("redis://:p%40ss%3A1@127.0.0.1:");
    expect(await server.client().ping()).toBe("PONG");
    await expect(server.client({ password: "wrong", retryStrategy: () => null }).ping()).rejects.toThrow(
      /NOAUTH|WRONGPASS/,
    );
  });

  it("starts replicas that are in step, and are replicas again after a restart", async () => {
    const server = await start({ replicas: 2, password: "secret" });
    const [first] = server.replicas;
    expect([server.nodes.length, server.replicas.length, server.sentinels.length]).toEqual([1, 2, 0]);
    await server.call("SET", "a", "1");
    expect(await server.call("WAIT", "2", "5000")).toBe(2);
    expect(await first?.call("GET", "a")).toBe("1");
    await first?.kill();
    await first?.start();
    await eventually(async () => expect(await first?.call("GET", "a")).toBe("1"));
    const role = (await first?.call("ROLE")) as unknown[];
    expect(role.slice(0, 4)).toEqual(["slave", "127.0.0.1", server.nodes[0]?.port, "connected"]);
    await expect(server.master()).rejects.toThrow("This server has no Sentinels");
  });

  it("lets tests use DEBUG", async () => {
    const server = await start();
    expect(await server.call("DEBUG", "SLEEP", "0")).toBe("OK");
  });

  it("rejects error replies of raw commands and continues", async () => {
    const server = await start();
    await server.call("SET", "text", "é");
    await expect(server.call("LPUSH", "text", "1")).rejects.toThrow(/^WRONGTYPE/);
    expect(await server.call("MGET", "text", "none")).toEqual(["é", null]);
  });

  it.each([
    [{ mode: "ring" as "single" }, "Expected `mode` to be"],
    [{ persistence: "sometimes" as "none" }, "Expected `persistence` to be"],
    [{ mode: "cluster" as const, masters: 2 }, "Expected `masters` to be an integer from 3, got `2` (number)"],
    [{ replicas: -1 }, "Expected `replicas` to be an integer from 0, got `-1` (number)"],
    [{ mode: "sentinel" as const, downAfterMs: 0.5 }, "Expected `downAfterMs` to be an integer from 1"],
    [{ mode: "sentinel" as const, password: "a b" }, "Expected `password` to have no space"],
  ])("refuses %o", async (options, message) => {
    await expect(startRedis(options)).rejects.toThrow(message);
  });

  it("rejects with the last log lines when the server does not start", async () => {
    await expect(startRedis({ args: ["--maxmemory", "lots"] })).rejects.toThrow(/did not start.*\n[^]*maxmemory/);
  });

  it("names what it looked for when there is no server program", async () => {
    const { PATH, REDIS_SERVER_BIN } = process.env;
    try {
      process.env["PATH"] = "/nowhere";
      delete process.env["REDIS_SERVER_BIN"];
      await expect(startRedis()).rejects.toThrow(/redis-server.*valkey-server.*REDIS_SERVER_BIN/);
      process.env["REDIS_SERVER_BIN"] = process.execPath;
      await expect(startRedis()).rejects.toThrow("neither a Redis nor a Valkey server");
      process.env["REDIS_SERVER_BIN"] = "/nowhere/redis";
      await expect(startRedis()).rejects.toThrow("/nowhere/redis does not run");
    } finally {
      process.env["PATH"] = PATH;
      if (REDIS_SERVER_BIN !== undefined) process.env["REDIS_SERVER_BIN"] = REDIS_SERVER_BIN;
      else delete process.env["REDIS_SERVER_BIN"];
    }
  });

  it("passes environment variables on, next to those of this process, even after a restart", async () => {
    const folder = await mkdtemp(join(tmpdir(), "kit-wrapper-"));
    const { REDIS_SERVER_BIN } = process.env;
    try {
      const wrapper = join(folder, "telling-server");
      const told = join(folder, "told");
      // Redis overwrites what /proc would say of its environment.
      const tell = `echo "$KIT_SERVER_MARK $HOME" >> "${told}"`;
      await writeFile(wrapper, `#!/bin/sh\n${tell}\nexec "${REDIS_SERVER_BIN ?? "redis-server"}" "$@"\n`);
      await chmod(wrapper, 0o755);
      process.env["REDIS_SERVER_BIN"] = wrapper;
      const server = await start({ env: { KIT_SERVER_MARK: "a=b" } });
      await server.nodes[0]?.kill();
      await server.nodes[0]?.start();
      const line = `a=b ${process.env["HOME"]}`;
      const starts = readFileSync(told, "utf8").split("\n");
      expect(starts.filter((text) => text === line)).toHaveLength(2);
    } finally {
      if (REDIS_SERVER_BIN !== undefined) process.env["REDIS_SERVER_BIN"] = REDIS_SERVER_BIN;
      else delete process.env["REDIS_SERVER_BIN"];
      await rm(folder, { recursive: true });
    }
  });

  it("stops the real server behind a wrapper script", async () => {
    const folder = await mkdtemp(join(tmpdir(), "kit-wrapper-"));
    const { REDIS_SERVER_BIN } = process.env;
    try {
      const wrapper = join(folder, "wrapped-server");
      // The second command keeps the shell from becoming the server.
      await writeFile(wrapper, `#!/bin/sh\n"${REDIS_SERVER_BIN ?? "redis-server"}" "$@"\nexit 0\n`);
      await chmod(wrapper, 0o755);
      process.env["REDIS_SERVER_BIN"] = wrapper;
      const server = await startRedis();
      const { port = 0, pid = 0 } = server.nodes[0] ?? {};
      expect(String(await server.call("INFO", "server"))).toContain(`process_id:${pid}\r\n`);
      await server.stop();
      await eventually(async () => expect(await isListening(port)).toBe(false));
    } finally {
      if (REDIS_SERVER_BIN !== undefined) process.env["REDIS_SERVER_BIN"] = REDIS_SERVER_BIN;
      else delete process.env["REDIS_SERVER_BIN"];
      await rm(folder, { recursive: true });
    }
  });
});

describe("RedisNode", () => {
  it("comes back on its port after kill, without its data if nothing persists", async () => {
    const server = await start();
    const [node] = server.nodes;
    await server.call("SET", "a", "1");
    const before = node?.pid ?? 0;
    await node?.kill();
    expect([node?.state, exists(before)]).toEqual(["stopped", false]);
    await expect(server.call("PING")).rejects.toThrow("No reply from 127.0.0.1");
    await node?.start();
    expect([node?.state, node?.pid === before]).toEqual(["running", false]);
    expect(await server.call("GET", "a")).toBeNull();
  });

  it.each(["always", "everysec"] as const)("keeps data with %s through kill", async (persistence) => {
    const server = await start({ persistence });
    await server.call("SET", "a", "1");
    await server.nodes[0]?.kill();
    await server.nodes[0]?.start();
    expect(await server.call("GET", "a")).toBe("1");
  });

  it("keeps data with snapshot through kill, once the snapshot is made", async () => {
    const server = await start({ persistence: "snapshot" });
    await server.call("SET", "a", "1");
    await eventually(async () => {
      expect(String(await server.call("INFO", "persistence"))).toContain("rdb_changes_since_last_save:0\r\n");
    });
    await server.nodes[0]?.kill();
    await server.nodes[0]?.start();
    expect(await server.call("GET", "a")).toBe("1");
  });

  it("answers nothing while paused, and everything after resume", async () => {
    const server = await start();
    const [node] = server.nodes;
    await server.call("PING");
    node?.pause();
    expect(node?.state).toBe("paused");
    let isAnswered = false;
    const reply = server.call("PING").then(() => (isAnswered = true));
    await expect(eventually(() => expect(isAnswered).toBe(true), { timeoutMs: 100 })).rejects.toThrow(
      "The check did not pass",
    );
    node?.resume();
    await reply;
    expect([isAnswered, node?.state]).toEqual([true, "running"]);
  });

  it("is killed while paused", async () => {
    const server = await start();
    server.nodes[0]?.pause();
    await server.nodes[0]?.kill();
    expect(server.nodes[0]?.state).toBe("stopped");
  });

  it("notices that its process ended by itself", async () => {
    const server = await start();
    await server.call("SHUTDOWN", "NOSAVE").catch(() => {});
    await eventually(() => expect(server.nodes[0]?.state).toBe("stopped"));
    await server.nodes[0]?.start();
    expect(await server.call("PING")).toBe("PONG");
  });
});

describe("the end of the process", () => {
  const program = fileURLToPath(new URL("programs/serve.mjs", import.meta.url));

  async function serve(ending: string) {
    const child = spawn(process.execPath, [program, ending], { stdio: ["ignore", "pipe", "ignore"] });
    const ended = new Promise<number | NodeJS.Signals | null>((resolve) => {
      child.once("exit", (code, signal) => resolve(signal ?? code));
    });
    const lines = createInterface({ input: child.stdout });
    const line = await new Promise<string>((resolve, reject) => {
      lines.once("line", resolve);
      child.once("error", reject);
    });
    return { child, ended, ...(JSON.parse(line) as { port: number; dir: string }) };
  }

  async function expectNothingLeft({ port, dir }: { port: number; dir: string }) {
    await eventually(async () => expect(await isListening(port)).toBe(false));
    expect(existsSync(dir)).toBe(false);
  }

  it.each([
    ["exit", 3],
    ["throw", 1],
    ["drain", 0],
  ])("takes servers along when a program ends by %s", async (ending, code) => {
    const served = await serve(ending);
    expect(await served.ended).toBe(code);
    await expectNothingLeft(served);
  });

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "takes servers along at %s, which still ends it",
    async (signal) => {
      const served = await serve(signal);
      served.child.kill(signal);
      expect(await served.ended).toBe(signal);
      await expectNothingLeft(served);
    },
  );

  it("leaves a signal to the program that handles it", async () => {
    const served = await serve("handled");
    served.child.kill("SIGTERM");
    expect(await served.ended).toBe(7);
    await expectNothingLeft(served);
  });

  it("listens on the process only while servers run", async () => {
    const before = process.listenerCount("SIGTERM");
    const servers = await Promise.all([startRedis(), startRedis()]);
    const during = process.listenerCount("SIGTERM");
    await Promise.all(servers.map((server) => server.stop()));
    expect([during - before, process.listenerCount("SIGTERM") - before]).toEqual([1, 0]);
  });
});
