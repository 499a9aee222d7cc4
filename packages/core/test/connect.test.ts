import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import { Redis } from "ioredis";
import { eventually, FaultProxy, startRedis, useRedis } from "@kit/testing";
import { aMonitor } from "@tooling/vitest/helpers";
import { connect, type Connection, type ConnectOptions } from "../src/connect/connect.js";
import { KitClosedError, KitError, KitUnavailableError } from "../src/kernel/base/errors.js";
import { defineScript } from "../src/kernel/script/script.js";
import { bare, connectionsNamed, deadPort, own, proxied, rejection, runProgram, timed, until } from "./harness.js";
import { append } from "./scripts.js";
import { tlsServer } from "./tls-servers.js";

const redis = useRedis(vitest);

const echo = defineScript({
  name: "test.echo",
  source: "local value = ARGV[1]\nreturn value",
  keys: [],
  args: ["value"],
  readonly: true,
  reply: String,
});

describe("connect: targets", () => {
  it("takes a URL, a URL object, options, or the environment's REDIS_URL", async () => {
    const former = process.env["REDIS_URL"];
    redis.defer(() => {
      if (former === undefined) delete process.env["REDIS_URL"];
      else process.env["REDIS_URL"] = former;
    });
    process.env["REDIS_URL"] = redis.url;
    for (const target of [redis.url, new URL(redis.url), { url: redis.url }, {}, undefined, "", { url: "" }]) {
      // With the default deadline, which a busy machine may miss.
      const client = await eventually(() => connect(target));
      expect(await client.ping()).toBe("PONG");
      await client.close();
    }
  });

  it("selects the database of the path, and names the connection", async () => {
    const client = await own(redis, { url: `${redis.url}/3`, connectionName: "shop" });
    expect(await client.client("INFO")).toMatch(/ name=shop .*db=3 /);
  });

  it("passes further ioredis options on, which win", async () => {
    const client = await own(redis, { options: { db: 2, keyPrefix: "pre:" } });
    await client.set(redis.prefix, "1", "PX", 60_000);
    expect(await client.client("INFO")).toContain(" db=2 ");
    expect(await client.call("EXISTS", redis.prefix)).toBe(1);
    await client.call("DEL", redis.prefix);
  });

  it("refuses a second argument, where other clients have their options", async () => {
    const asOthers = connect as (...args: unknown[]) => Promise<unknown>;
    expect(await rejection(asOthers(redis.url, { keyPrefix: "pre:" }))).toBeInstanceOf(TypeError);
  });

  it("names the server that the options lead to", async () => {
    const port = await deadPort();
    const error = await rejection(connect({ url: redis.url, deadlineMs: 100, options: { port } }));
    expect(error).toMatchObject({ address: `127.0.0.1:${String(port)}` });
    expect(error.message).toContain(`Cannot reach Redis at 127.0.0.1:${String(port)} `);
  });

  it("reaches a server on a unix socket", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kit-core-"));
    const path = join(folder, "r.sock");
    const server = await startRedis({ args: ["--unixsocket", path] });
    redis.defer(async () => {
      await server.stop();
      rmSync(folder, { recursive: true });
    });
    for (const url of [`unix:${path}`, `unix://${path}`, `unix://${path}?db=4`]) {
      const client = await connect({ url, deadlineMs: 30_000 });
      expect(await client.client("INFO")).toContain(url.includes("db=4") ? " db=4 " : " db=0 ");
      await client.close();
    }
    await server.stop();
    const { message } = await rejection(connect({ url: `unix:${path}`, deadlineMs: 100 }));
    expect(message).toMatch(new RegExp(`${path} after \\d+\\.\\d s \\(E`));
  });

  it("reaches a master through Sentinel", async () => {
    const sentinel = await startSentinel(redis.server.nodes[0]!.port);
    const client = await connect(
      `redis+sentinel://127.0.0.1:${String(sentinel.port)},127.0.0.1:${String(await deadPort())}/shop/5`,
    );
    expect(await client.client("INFO")).toContain(" db=5 ");
    await client.close();
    const error = await rejection(
      connect({ url: `redis+sentinel://127.0.0.1:${String(sentinel.port)}/nobody`, deadlineMs: 300 }),
    );
    expect(error).toBeInstanceOf(KitUnavailableError);
    expect(error.message).toContain(`127.0.0.1:${String(sentinel.port)}`);
  });

  it.each([
    ["no scheme", "localhost:6379"],
    ["another scheme", "http://canary.example"],
    ["an unencoded @ in the password", "redis://:p@canary@127.0.0.1"],
    ["an unencoded / in the password", "redis://u:12/canary@127.0.0.1"],
    ["the same towards Sentinel", "redis+sentinel://u:12/canary@127.0.0.1"],
    ["a broken escape", "redis://:canary%zz@127.0.0.1"],
    ["a port that is none", "redis://canary:port"],
    ["a port too large", "redis://canary:65536"],
    ["port zero", "redis://canary:0"],
    ["a database that is none", "redis://127.0.0.1/canary"],
    ["two hosts of a single server", "redis://canary,b"],
    ["a Cluster with a database", "redis+cluster://canary/3"],
    ["Sentinel without a master's name", "redis+sentinel://canary"],
    ["options behind a question mark", "redis://127.0.0.1?password=canary"],
    ["a control character", "redis://canary\u0000"],
    ["a space", "redis://canary .example"],
  ])("refuses a URL with %s, without repeating it", async (_, url) => {
    const error = await rejection(connect(url));
    expect(error).toMatchObject({ code: "KIT_TARGET", name: "KitError" });
    expect(bare(error)).not.toMatch(/canary[^-]|u:12/);
    expect(error.message).toContain("Example: redis://127.0.0.1:6379");
  });

  it.each([
    ["a number", 6379, TypeError],
    ["null", null, TypeError],
    ["a name that means nothing here", { host: "127.0.0.1", port: 6379 }, TypeError],
    ["a URL of five thousand characters", { url: `redis://${"h".repeat(5_000)}` }, RangeError],
    ["a deadline of 0", { deadlineMs: 0 }, RangeError],
    ["a deadline as text", { deadlineMs: "2s" }, TypeError],
    ["a signal that is none", { signal: {} }, TypeError],
    ["an empty connection name", { connectionName: "" }, RangeError],
  ])("refuses %s", async (_, target, kind) => {
    expect(await rejection(connect(target as ConnectOptions))).toBeInstanceOf(kind);
  });
});

describe("connect: a database", () => {
  it("is the one that was asked for", async () => {
    const client = await own(redis, { url: `${redis.url}/3` });
    await client.set(`${redis.prefix}:here`, "3", "PX", 60_000);
    const first = await own(redis);
    expect(await first.exists(`${redis.prefix}:here`)).toBe(0);
    await client.del(`${redis.prefix}:here`);
  });

  it("that is still asked for when the signal aborts is not waited for", async () => {
    const proxy = await proxied(redis);
    const controller = new AbortController();
    const monitor = await aMonitor(redis);
    let selects = 0;
    // The first is ioredis' own.
    monitor.on("monitor", (_: unknown, [command]: string[]) => {
      if (command?.toLowerCase() === "select" && ++selects === 2) controller.abort(new Error("enough"));
    });
    proxy.down.latencyMs = 300;
    const connecting = connect({ url: `${proxy.url}/1`, deadlineMs: 20_000, signal: controller.signal });
    await expect(connecting).rejects.toThrow("enough");
  });

  it("that the server does not have is refused, and not silently exchanged for database 0", async () => {
    const error = await rejection(connect(`${redis.url}/99`));
    expect(error).toMatchObject({ code: "KIT_TARGET" });
    expect(error.message).toMatch(/has no database 99\. /);
  });
});

describe("connect: TLS", () => {
  it("trusts the authority that it is given, and says why it does not trust another", async () => {
    const { port, secure } = await tlsServer(redis);
    const url = `rediss://127.0.0.1:${String(port)}`;
    const client = await connect({ url, options: { tls: secure }, deadlineMs: 30_000 });
    expect(await client.ping()).toBe("PONG");
    await client.close();

    // At once: the deadline is longer than a test may take.
    const error = await rejection(connect({ url, deadlineMs: 600_000 }));
    expect(error).toBeInstanceOf(KitUnavailableError);
    expect(error.message).toMatch(
      new RegExp(`127\\.0\\.0\\.1:${String(port)} failed \\(DEPTH_ZERO_SELF_SIGNED_CERT\\)`),
    );

    // A plain server where TLS was asked for.
    const plain = await rejection(connect({ url: redis.url.replace("redis:", "rediss:"), deadlineMs: 500 }));
    expect(plain).toBeInstanceOf(KitUnavailableError);
  });
});

describe("connect: no server", () => {
  it("rejects with host, port and cause, by its default deadline", async () => {
    const port = await deadPort();
    const startedAt = performance.now();
    const error = await rejection(connect(`redis://127.0.0.1:${String(port)}`));
    const took = performance.now() - startedAt;
    expect(error).toBeInstanceOf(KitUnavailableError);
    expect(error.message.replace(/after \d+\.\d s/, "after S")).toBe(
      `Cannot reach Redis at 127.0.0.1:${String(port)} after S (ECONNREFUSED). Check that it is running.`,
    );
    expect(error).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true, address: `127.0.0.1:${String(port)}` });
    expect((error.cause as Error).message).toContain("ECONNREFUSED");
    expect(took).toBeGreaterThan(1_800);
  });

  it("asks for the host's name where there is no such host, and says where the address came from", async () => {
    const noHost = await rejection(connect("redis://no-such-host.invalid"));
    expect(noHost.message).toMatch(/ \((ENOTFOUND|EAI_AGAIN)\)\. Check the host name\.$/);
    vi.stubEnv("REDIS_URL", `redis://127.0.0.1:${String(await deadPort())}`);
    redis.defer(() => vi.unstubAllEnvs());
    const unset = await rejection(connect());
    expect(unset.message).toMatch(/ \(ECONNREFUSED.*\)\. Check that it is running\. The address is from REDIS_URL\.$/);
    for (const options of [{ host: "127.0.0.1", port: await deadPort() }, { path: "/nowhere/r.sock" }])
      expect((await rejection(connect({ options, deadlineMs: 300 }))).message).not.toContain("REDIS_URL");
  });

  it("says how long it took where the event loop stood still at its deadline", async () => {
    const retryStrategy = (): number => {
      const end = performance.now() + 900;
      while (performance.now() < end);
      return 60_000;
    };
    const url = `redis://127.0.0.1:${String(await deadPort())}`;
    const { message } = await rejection(connect({ url, deadlineMs: 200, options: { retryStrategy } }));
    const [, seconds] = / after (\d+\.\d) s \(/.exec(message) ?? [];
    expect(Number(seconds)).toBeGreaterThan(0.8);
  });

  it("names the cause even when the deadline is short", async () => {
    const port = await deadPort();
    for (const url of [`redis://127.0.0.1:${String(port)}`, `redis+cluster://127.0.0.1:${String(port)}`])
      // It may be over before the refusal has come.
      await eventually(async () =>
        expect((await rejection(connect({ url, deadlineMs: 100 }))).message).toContain("(ECONNREFUSED)"),
      );
  });

  it("rejects in time when the server accepts and says nothing", async () => {
    const server = createServer((socket) => socket.on("error", () => undefined)).listen(0, "127.0.0.1");
    const open = new Set<{ destroy(): void }>();
    server.on("connection", (socket) => open.add(socket));
    await new Promise((resolve) => server.once("listening", resolve));
    redis.defer(() => {
      for (const socket of open) socket.destroy();
      return new Promise((resolve) => server.close(resolve));
    });
    const { port } = server.address() as AddressInfo;
    const url = `redis://127.0.0.1:${String(port)}`;
    const { message } = await rejection(connect({ url, deadlineMs: 300 }));
    expect(message.replace(/after \d+\.\d s/, "after S")).toBe(
      `Cannot reach Redis at 127.0.0.1:${String(port)} after S (no answer). Check that it is running.`,
    );
  });

  it("speaks of TLS where it is asked for and the server never answers", async () => {
    // Redis without TLS waits for the end of what it takes for a line.
    const plain = redis.url.replace("redis:", "rediss:");
    expect((await rejection(connect({ url: plain, deadlineMs: 300 }))).message).toMatch(/Check the port, TLS/);
  });

  it("prints nothing and exits by itself, whatever the kind of target", async () => {
    const port = await deadPort();
    const targets = [
      "redis://127.0.0.1:P",
      "rediss://127.0.0.1:P",
      "unix:/nowhere/r.sock",
      "redis+sentinel://127.0.0.1:P/m",
      "redis+cluster://127.0.0.1:P",
    ];
    const source = `
      import { connect } from "./dist/index.js";
      const results = await Promise.allSettled(${JSON.stringify(targets.map((target) => target.replace("P", String(port))))}.map((url) => connect({ url, deadlineMs: 700 })));
      process.exitCode = results.every(({ reason }) => reason?.code === "KIT_UNAVAILABLE") ? 7 : 1;
      process.on("exit", () => process.exitCode);`;
    const { stdout, stderr, code } = await runProgram(source);
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: "", code: 7 });
  });

  it("does not count the time in which ioredis is loaded", async () => {
    const { stdout, stderr, code } = await runProgram(`
      import { register } from "node:module";
      process.noDeprecation = true; // Node 26 has another way, which cannot wait.
      register("data:text/javascript," + encodeURIComponent(\`export const resolve = async (name, context, next) => {
        if (name === "ioredis") await new Promise((resolve) => setTimeout(resolve, 1_500));
        return next(name, context);
      }\`));
      const { connect } = await import("./dist/index.js");
      const client = await connect({ url: "${redis.url}", deadlineMs: 1_000 });
      await client.close();`);
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: "", code: 0 });
  });

  it("waits for a server that comes up meanwhile", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const [node] = server.nodes;
    await node!.kill();
    const connecting = connect({ url: server.url, deadlineMs: 10_000 });
    await node!.start();
    const client = await connecting;
    expect(await client.ping()).toBe("PONG");
    await client.close();
  });

  it("rejects with the signal's reason, before and while it waits", async () => {
    const url = `redis://127.0.0.1:${String(await deadPort())}`;
    await expect(connect({ url, signal: AbortSignal.abort(new Error("early")) })).rejects.toThrow("early");
    const controller = new AbortController();
    const connecting = connect({ url, deadlineMs: 600_000, signal: controller.signal });
    setImmediate(() => controller.abort(new Error("late")));
    await expect(connecting).rejects.toThrow("late");
  });

  it("says that a server is loading its data, and waits for it when there is time", async () => {
    const server = await startRedis({
      persistence: "snapshot",
      args: ["--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024"],
    });
    redis.defer(() => server.stop());
    await server.call("EVAL", "for i = 1, 8000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end", "0");
    await server.call("SAVE");
    await server.nodes[0]!.kill();
    const starting = server.nodes[0]!.start();
    let loading: (KitError & Record<string, unknown>) | undefined;
    await eventually(
      async () => {
        const error = await rejection(connect({ url: server.url, deadlineMs: 150 }));
        if (!error.message.includes("loading")) throw new Error(error.message);
        loading = error;
      },
      { intervalMs: 1 },
    );
    expect(loading).toBeInstanceOf(KitUnavailableError);
    const client = await connect({ url: server.url, deadlineMs: 20_000 });
    expect(await client.dbsize()).toBe(8_000);
    await client.close();
    await starting;
  });
});

describe("connect: credentials", () => {
  it("logs in by password, by name and password, and by an escaped one", async () => {
    const server = await startRedis({ password: "pa:ss/w@rd" });
    redis.defer(() => server.stop());
    await server.call("ACL", "SETUSER", "ada", "on", ">s?cret", "~*", "&*", "+@all");
    const host = `127.0.0.1:${String(server.nodes[0]!.port)}`;
    for (const [login, user] of [
      [":pa%3Ass%2Fw%40rd", "default"],
      ["default:pa%3Ass%2Fw%40rd", "default"],
      ["ada:s%3Fcret", "ada"],
    ]) {
      const client = await connect({ url: `redis://${login!}@${host}`, deadlineMs: 30_000 });
      expect(await client.acl("WHOAMI")).toBe(user);
      await client.close();
    }
  });

  it("rejects wrong or missing credentials at once, and typed", async () => {
    const server = await startRedis({ password: "right" });
    redis.defer(() => server.stop());
    const host = `127.0.0.1:${String(server.nodes[0]!.port)}`;
    for (const login of [":canary-password@", "canary-user:canary-password@", ""]) {
      const error = await rejection(connect({ url: `redis://${login}${host}`, deadlineMs: 600_000 }));
      expect(error).toMatchObject({ code: "KIT_AUTH", retryable: false });
      expect(error.message).toContain(host);
      expect(error.message).toContain(
        login === "" ? "Set it in the address: redis://:PASSWORD@HOST:PORT" : "the server rejected the credentials",
      );
      expect(bare(error)).not.toContain("canary");
    }
  });

  it("prints nothing in this process either, with either major of ioredis, where no password is wanted", async () => {
    const spies = (["log", "warn", "error"] as const).map((method) => vi.spyOn(console, method));
    const client = await connect({ url: redis.url.replace("redis://", "redis://:secret@"), deadlineMs: 30_000 });
    expect(await client.ping()).toBe("PONG");
    await client.close();
    expect(spies.flatMap((spy) => spy.mock.calls)).toEqual([]);
    vi.restoreAllMocks();
  });

  it("prints nothing where a password is given and none is wanted, nor where INFO is forbidden", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    await server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
    const host = `127.0.0.1:${String(server.nodes[0]!.port)}`;
    for (const login of [":secret@", "default:secret@", "ada:pw@"]) {
      const { stdout, stderr, code } = await runProgram(`
        import { connect } from "./dist/index.js";
        const client = await connect({ url: "redis://${login}${host}", deadlineMs: 30_000 });
        if ((await client.ping()) === "PONG") await client.close();`);
      expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: "", code: 0 });
    }
  });
});

describe("connect: close", () => {
  it("lets what is in flight finish, is idempotent, and leaves no connection", async () => {
    const client = await connect({ url: redis.url, connectionName: "closing", deadlineMs: 30_000 });
    const replies = Array.from({ length: 200 }, (_, index) => client.call("ECHO", String(index)));
    await Promise.all([client.close(), client.close(), client[Symbol.asyncDispose]()]);
    expect(await Promise.all(replies)).toEqual(replies.map((_, index) => String(index)));
    await until(() => client.status === "end");
    await until(async () => (await connectionsNamed(redis, "closing")).length === 0);
  });

  it("lets gathered commands finish too", async () => {
    const client = await connect({ url: redis.url, options: { enableAutoPipelining: true }, deadlineMs: 30_000 });
    const replies = Array.from({ length: 20 }, (_, index) => client.echo(String(index)));
    await client.close();
    expect(await Promise.all(replies)).toHaveLength(20);
  });

  it("gives up on a silent server after two seconds", async () => {
    const proxy = await proxied(redis);
    const client = await connect({ url: proxy.url, deadlineMs: 30_000 });
    proxy.down.hole = true;
    expect(await timed(client.close())).toBeGreaterThan(1_900);
  });

  it("does not come back after the caller's own quit or disconnect", async () => {
    for (const ending of ["quit", "disconnect"] as const) {
      const client = await connect({ url: redis.url, connectionName: "ending", deadlineMs: 30_000 });
      await client[ending]();
      await until(() => client.status === "end");
      const error = await rejection(echo.run(client, {}, { value: "x" }));
      expect(error.message).toMatch(/ was not sent: the client for \S+ was closed$/);
      expect(error).toBeInstanceOf(KitUnavailableError);
      expect(await connectionsNamed(redis, "ending")).toEqual([]);
      await client.close();
    }
  });

  it("is named by a call that is under way, and by one that waits for the connection", async () => {
    const proxy = await proxied(redis);
    const client = await connect({ url: proxy.url, deadlineMs: 30_000 });
    const waiting = await connect({ url: proxy.url, deadlineMs: 30_000 });
    const run = (on: Connection): Promise<Error> =>
      rejection(append.run(on, { key: redis.prefix }, { value: "x" }, { deadlineMs: 600_000 }));
    proxy.down.hole = true;
    const sent = run(client);
    client.disconnect();
    expect((await sent).message).toMatch(
      / the reply was lost \(the client was closed\): the change may or may not have been made$/,
    );
    await proxy.close();
    await until(() => waiting.status !== "ready");
    const unsent = run(waiting);
    waiting.disconnect();
    expect((await unsent).message).toMatch(/ was not sent: the client for \S+ was closed$/);
  });

  it("is for good while it waits to connect again: for whom has waited too, and for every timer of ioredis", async () => {
    const server = await startRedis();
    const cluster = await startRedis({ mode: "cluster" });
    redis.defer(() => Promise.all([server.stop(), cluster.stop()]));
    const clients = await Promise.all([server, cluster].map(({ url }) => connect({ url, deadlineMs: 30_000 })));
    await Promise.all([...server.nodes, ...cluster.nodes].map((node) => node.kill()));
    for (const client of clients) {
      // A Cluster client notices only when it is asked, of each node.
      await until(async () => {
        await client.get(String(Math.random())).catch(() => undefined);
        return client.status === "reconnecting";
      });
      // As when Sentinels name another master: from now on two timers are under way, and ioredis knows of one.
      await rejection(client.connect());
      await until(() => client.status === "reconnecting");
      const waiting = rejection(client.get("x"));
      await client.close();
      expect(await waiting).toBeInstanceOf(KitClosedError);
      expect(await rejection(client.connect())).toBeInstanceOf(KitClosedError);
      expect((await rejection(client.get("x"))).message).toContain("closed");
      expect(client.status).toBe("end");
    }
    await Promise.all([...server.nodes, ...cluster.nodes].map((node) => node.start()));
  });

  it("lets the process exit by itself, at once, also with Redis gone or silent", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const program = (before: string): string => `
      import { connect } from "./dist/index.js";
      const client = await connect({ url: "${server.url}", deadlineMs: 60_000 });
      ${before}
      await client.close();
      // The handles that keep the process alive. ioredis' pause before its next try is 100 ms, its other timers are seconds.
      const kept = () => process.getActiveResourcesInfo().filter((kind) => /^(Timeout|TCP)/.test(kind));
      for (let look = 0; look < 100 && kept().length > 0; look++) await new Promise((resolve) => setTimeout(resolve, 10));
      process.stdout.write(JSON.stringify(kept()));`;
    const { port, pid } = server.nodes[0]!;
    expect(port).toBeGreaterThan(0);
    for (const before of [
      "await client.ping();",
      "process.kill(PID, 'SIGSTOP');",
      "process.kill(PID, 'SIGKILL'); await new Promise((resolve) => client.once('reconnecting', resolve));",
    ]) {
      const { stdout, stderr, code } = await runProgram(program(before.replace("PID", String(pid))));
      expect({ stdout, stderr, code }).toEqual({ stdout: "[]", stderr: "", code: 0 });
      if (before.includes("SIGSTOP")) server.nodes[0]!.resume();
    }
  });
});

describe("connect: supervision", () => {
  it("connects a client again that ended without us", async () => {
    const client = await own(redis);
    Redis.prototype.disconnect.call(client as unknown as Redis);
    await until(() => client.status === "end");
    expect(await echo.run(client, {}, { value: "again" })).toBe("again");
    expect(await client.ping()).toBe("PONG");
  });

  it("waits between two connections as the caller's retryStrategy says", async () => {
    const retryStrategy = vi.fn<() => number>(() => 1);
    const client = await own(redis, { options: { retryStrategy } });
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(async () => expect(await client.ping()).toBe("PONG"));
    expect(retryStrategy).toHaveBeenCalled();
  });

  it("works again after the server was killed and came back", async () => {
    const client = await own(redis);
    const [node] = redis.server.nodes;
    await node!.kill();
    await until(() => client.status !== "ready");
    await node!.start();
    expect(await echo.run(client, {}, { value: "x" }, { deadlineMs: 20_000 })).toBe("x");
  });

  it("rejects a caller's own command whose reply is lost, and runs it once", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    proxy.down.cutNext = 1;
    await expect(client.incr(redis.prefix)).rejects.toThrow("max retries per request");
    await until(() => client.status === "ready");
    expect(await client.get(redis.prefix)).toBe("1");
    await client.del(redis.prefix);
  });

  it("replaces the socket of a silent server, so that the next call after it heals works", async () => {
    const client = await own(redis, { connectionName: "silent" });
    const [before] = await connectionsNamed(redis, "silent");
    const [node] = redis.server.nodes;
    node!.pause();
    const calls = Array.from({ length: 5 }, () => rejection(echo.run(client, {}, { value: "x" }, { deadlineMs: 700 })));
    for (const error of await Promise.all(calls)) expect(error).toBeInstanceOf(KitUnavailableError);
    node!.resume();
    expect(await echo.run(client, {}, { value: "x" })).toBe("x");
    await until(async () => {
      const now = await connectionsNamed(redis, "silent");
      return now.length === 1 && now[0] !== before;
    });
  });

  it("replaces a half-open link, also one that fell silent during the handshake", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    proxy.down.hole = true;
    // The first call finds the link silent; the second one's link is silent from its first word.
    for (const deadlineMs of [600, 600]) {
      const error = await rejection(echo.run(client, {}, { value: "x" }, { deadlineMs }));
      expect(error).toBeInstanceOf(KitUnavailableError);
    }
    await until(() => client.status === "connect");
    // Only new connections work: nobody resets the silent ones, as heal() would.
    const other = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => other.close());
    (client as unknown as Redis).options.port = other.port;
    expect(await echo.run(client, {}, { value: "x" }, { deadlineMs: 20_000 })).toBe("x");
  });

  it("keeps a socket whose server is merely slow when the deadline was short", async () => {
    const client = await own(redis, { connectionName: "slow" });
    const [node] = redis.server.nodes;
    // On a busy machine a pause may last until the server does count as silent.
    await eventually(async () => {
      await echo.run(client, {}, { value: "x" });
      const before = await connectionsNamed(redis, "slow");
      node!.pause();
      const error = await rejection(echo.run(client, {}, { value: "x" }, { deadlineMs: 20 }));
      node!.resume();
      expect(error).toMatchObject({ code: "KIT_UNAVAILABLE" });
      expect(await echo.run(client, {}, { value: "x" })).toBe("x");
      expect(await connectionsNamed(redis, "slow")).toEqual(before);
    });
  });
});

describe("connect: secrets", () => {
  it("leaks neither password nor payload into any error", async () => {
    const server = await startRedis({ password: "canary-password" });
    redis.defer(() => server.stop());
    const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect({
      url: `redis://:canary-password@127.0.0.1:${String(proxy.port)}`,
      deadlineMs: 2_000,
    });
    redis.defer(() => client.close());
    const failing = (source: string): Promise<unknown> =>
      defineScript({ name: "test.fail", source, keys: ["a"], args: ["b"], reply: String }).run(
        client,
        { a: "k" },
        { b: "canary-payload" },
        { deadlineMs: 300 },
      );
    const errors = [
      await rejection(failing("return redis.call('NOPE', ARGV[1])")),
      await rejection(failing("return redis.call('INCRBY', KEYS[1], 'x')")),
      await rejection(failing("this is no lua")),
    ];
    proxy.down.cutNext = 1;
    errors.push(await rejection(failing("return redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)")));
    proxy.down.hole = true;
    errors.push(await rejection(failing("return redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)")));
    proxy.heal();
    await server.call("CONFIG", "SET", "requirepass", "other");
    proxy.resetAll();
    errors.push(await rejection(failing("return 1")));
    errors.push(
      await rejection(connect({ url: `redis://:canary-password@127.0.0.1:${String(proxy.port)}`, deadlineMs: 300 })),
    );
    for (const error of errors) {
      expect(KitError.is(error)).toBe(true);
      expect(bare(error)).not.toContain("canary");
    }
  });
});

/** A Sentinel that watches the master `shop`. */
const startSentinel = async (masterPort: number): Promise<{ port: number }> => {
  const { spawn } = await import("node:child_process");
  const { writeFileSync } = await import("node:fs");
  const folder = mkdtempSync(join(tmpdir(), "kit-sentinel-"));
  const port = await deadPort();
  const config = join(folder, "sentinel.conf");
  writeFileSync(
    config,
    `port ${String(port)}\nbind 127.0.0.1\ndir ${folder}\nsentinel monitor shop 127.0.0.1 ${String(masterPort)} 1\n`,
  );
  const child = spawn(process.env["REDIS_SERVER_BIN"] ?? "redis-server", [config, "--sentinel"], { stdio: "ignore" });
  redis.defer(async () => {
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(folder, { recursive: true });
  });
  const probe = new Redis(port, "127.0.0.1", { retryStrategy: () => 20 });
  probe.on("error", () => undefined);
  await eventually(() => probe.ping());
  probe.disconnect();
  return { port };
};
