import { readFileSync, rmSync } from "node:fs";
import { connect as connectSocket } from "node:net";
import { eventually, FaultProxy, startRedis, type RedisServer } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { judgeVersion } from "../src/doctor/version.js";
import { doctor, type Examined, ids, installed, soundArgs, soundPassword, started } from "./harness.js";

/** A machine whose clock is an hour slow. */
const slowClock = `data:text/javascript,${encodeURIComponent("const { now } = Date; Date.now = () => now() - 3_600_000;")}`;

describe("kit doctor on a sound server", () => {
  let server: RedisServer;
  let sound: Examined;

  beforeAll(async () => {
    server = await startRedis({ persistence: "everysec", password: soundPassword, args: soundArgs });
    const redis = server.client();
    await redis.set("kit:lock:{a}:lease", "x", "PX", 60_000);
    await redis.hset("kit:config:{a}:entry", "layout", "1");
    await redis.rpush("kit:config:{a}:history", "1");
    await redis.set("theirs", "1");
    const cwd = installed({ "node_modules/ioredis": "6.0.0", "node_modules/@kit/core": "1.0.0" });
    sound = await doctor(server.url, [], { cwd, measures: true });
  });
  afterAll(() => server.stop());

  const judgedElsewhere = ["version", "round-trip", "throughput", "cluster-slots", "sentinels"];

  it.each(ids.filter((id) => !judgedElsewhere.includes(id)))("finds nothing wrong: %s", (id) => {
    expect(sound.of(id)).toMatchObject({ severity: "ok", findings: [{ severity: "ok" }] });
  });

  it("measures how fast it answers, whatever else the machine does", () => {
    expect(sound.said("round-trip")).toMatch(/^p50 [\d.]+ ms, p99 [\d.]+ ms over \d+ PINGs/);
    expect(sound.said("throughput")).toMatch(/one client without pipelining \S+\/s \(\d+ %\); a connection per call/);
  });

  it("judges the version by the number that the server reports", () => {
    const { server: kind, version } = server.version;
    expect(sound.of("version").findings).toEqual([judgeVersion(kind, version)]);
  });

  it("says why it has not looked at what is not there", () => {
    expect(sound.said("cluster-slots")).toBe("not a Cluster");
    expect(sound.said("sentinels")).toBe("the address names no Sentinels");
    expect(sound.of("sentinels").severity).toBe("skipped");
  });

  it("exits 0, with --strict only without a warning", async () => {
    expect(sound.code).toBe(0);
    const { code, report } = await doctor(server.url, ["--strict"]);
    expect(code).toBe(report.summary["warning"] === 0 ? 0 : 1);
  });

  it("prints JSON of one stable form", () => {
    const { report } = sound;
    expect(Object.keys(report)).toEqual(["version", "url", "checks", "summary"]);
    expect(report.version).toBe(1);
    expect(report.url).toBe(server.url.replace(/:[^/@]*@/, ""));
    expect(report.checks.map(({ id }) => id)).toEqual(ids);
    for (const check of report.checks) {
      expect(Object.keys(check)).toEqual(["id", "severity", "findings", "docs"]);
      expect(check.docs).toBe(`kit help ${check.id}`);
      for (const finding of check.findings) {
        const isBad = finding.severity === "warning" || finding.severity === "problem";
        expect(Object.keys(finding)).toEqual(isBad ? ["severity", "text", "fix"] : ["severity", "text"]);
      }
    }
    expect(Object.keys(report.summary)).toEqual(["ok", "warning", "problem", "skipped", "exitCode"]);
    const { ok = 0, warning = 0, problem = 0, skipped = 0 } = report.summary;
    expect(ok + warning + problem + skipped).toBe(ids.length);
  });

  it("explains each check in the documentation", () => {
    const page = readFileSync(new URL("../docs/doctor.md", import.meta.url), "utf8");
    expect([...page.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)).toEqual(ids);
  });

  it("changes nothing", async () => {
    const keys = (await server.client().keys("*")).toSorted();
    expect(keys).toEqual(["kit:config:{a}:entry", "kit:config:{a}:history", "kit:lock:{a}:lease", "theirs"]);
  });
});

describe("kit doctor on a server with many faults", () => {
  let faulty: Examined;

  beforeAll(async () => {
    const server = await startRedis({
      args: [
        ...["--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru", "--maxclients", "50"],
        ...["--protected-mode", "no", "--lua-time-limit", "50"],
      ],
    });
    const stop: (() => unknown)[] = [() => server.stop()];
    try {
      const redis = server.client();
      for (let at = 0; !(await redis.info("memory")).includes("used_memory_human:17."); at++)
        await redis.set(`theirs:${String(at)}`, "x".repeat(200_000));
      await redis.set("kit:stray", "1");
      await redis.set("kit:lock:{stuck}:lease", "token|web-1");
      await server.call("DEBUG", "SLEEP", "0.15");
      await redis.config("SET", "min-replicas-to-write", "1");
      for (let count = 0; count < 40; count++) await server.client().ping();
      const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
      stop.push(() => proxy.close());
      proxy.down.latencyMs = 10;
      let isOver = false;
      const perCall = async (): Promise<void> => {
        while (!isOver)
          await new Promise<void>((resolve) => {
            const socket = connectSocket(server.nodes[0]!.port, "127.0.0.1", () => socket.end("PING\r\n"));
            socket.on("error", () => undefined);
            socket.on("close", () => resolve());
            socket.resume();
          });
      };
      const churn = perCall();
      stop.unshift(() => ((isOver = true), churn));
      const cwd = installed({
        "node_modules/ioredis": "6.0.0",
        "node_modules/old-library/node_modules/ioredis": "5.4.1",
        "node_modules/@kit/core": "1.0.0",
        "node_modules/.pnpm/@kit+core@0.9.0/node_modules/@kit/core": "0.9.0",
      });
      faulty = await doctor(`redis://127.0.0.1:${String(proxy.port)}`, [], {
        cwd,
        env: { NODE_OPTIONS: `--import=${slowClock}` },
      });
    } finally {
      for (const end of stop) await end();
    }
  });

  it.each([
    ["round-trip", "warning", /p50 \d+\.\d+ ms.*too far from this machine/],
    ["eviction-policy", "problem", /allkeys-lru: a full server drops locks.*\. Queues reject adds and workers/],
    ["persistence", "warning", /a restart loses all data/],
    ["memory", "warning", /1\d MB of 20 MB \(maxmemory\) used, (8\d|9[0-4]) %/],
    [
      "keys-without-expiry",
      "problem",
      /held locks without an expiry: kit:lock:\{stuck\}:lease\nkeys without an expiry.*: kit:stray$/,
    ],
    ["replication", "problem", /min-replicas-to-write is 1 with 0 replicas in sync/],
    ["clock-skew", "warning", /server's clock is at least 3[56]\d\d\.\d s ahead/],
    ["connections", "warning", /4\d of 50 connections are open/],
    ["slow-log", "warning", /1 command took over 100 ms in the last hour, up to \d{3} ms: DEBUG/],
    ["script-limits", "warning", /scripts over 50 ms make the server reply BUSY/],
    ["access", "warning", /no password, and protected-mode is off/],
    ["connection-churn", "warning", /a client opens a connection per call/],
    ["duplicate-copies", "warning", /2 copies of ioredis: .*6\.0\.0 in .*\n2 copies of @kit\/core: /],
  ])("catches %s", (id, severity, words) => {
    expect(faulty.of(id).severity).toBe(severity);
    expect(faulty.said(id)).toMatch(words);
    const { fix = "" } = faulty.of(id).findings[0]!;
    expect(fix).toMatch(/^\S.*[.\d]$/);
  });

  it("exits 2", () => {
    expect(faulty.code).toBe(2);
    expect(faulty.report.summary["exitCode"]).toBe(2);
  });
});

describe("kit doctor on a server with one fault", () => {
  it("catches a policy that evicts nothing yet", async () => {
    const server = await started({ args: ["--maxmemory-policy", "volatile-lru"] });
    const { of, said } = await doctor(server.url);
    expect(of("eviction-policy").severity).toBe("warning");
    expect(said("eviction-policy")).toBe(
      "volatile-lru: once you set maxmemory, a full server drops locks and other data of kit",
    );
    expect(said("memory")).toMatch(/^maxmemory is not set/);
  });

  it("tells a stopped process from a server that is not there", async () => {
    const server = await started();
    const [node] = server.nodes;
    node!.pause();
    const stopped = await doctor(server.url);
    node!.resume();
    expect(stopped.code).toBe(3);
    expect(stopped.of("reachability").findings[0]!.fix).toMatch(/^It accepts connections but does not answer\. /);
    const absent = await doctor("redis://127.0.0.1:1");
    expect(absent.of("reachability").findings[0]!.fix).toMatch(/^Start the server/);
  });

  it("catches snapshots that fail, while the server refuses writes", async () => {
    const server = await started({ persistence: "snapshot" });
    const [, dir] = (await server.call("CONFIG", "GET", "dir")) as [string, string];
    rmSync(dir, { recursive: true });
    await server.call("BGSAVE");
    await eventually(async () =>
      expect(String(await server.call("INFO", "persistence"))).toContain("rdb_last_bgsave_status:err"),
    );
    const { code, of, said } = await doctor(server.url);
    expect(of("persistence").severity).toBe("problem");
    expect(said("persistence")).toBe("the last snapshot failed; the server rejects writes until a snapshot succeeds");
    expect(of("permissions").severity).toBe("ok");
    expect(code).toBe(2);
  });

  it("catches snapshots whose failure nobody would notice", async () => {
    const server = await started({ persistence: "snapshot", args: ["--stop-writes-on-bgsave-error", "no"] });
    const { said } = await doctor(server.url);
    expect(said("persistence")).toMatch(/^stop-writes-on-bgsave-error is off/);
  });

  it("catches a server that is nearly full, and one that is full", async () => {
    const server = await started({ args: ["--maxmemory-policy", "noeviction"] });
    const redis = server.client();
    for (let at = 0; at < 400; at++) await redis.set(`theirs:${String(at)}`, "x".repeat(50_000));
    const used = Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]);
    await redis.config("SET", "maxmemory", String(Math.round(used / 0.97)));
    const nearly = await doctor(server.url);
    expect(nearly.of("memory").severity).toBe("problem");
    expect(nearly.said("memory")).toMatch(/, 9[5-9] %: the server is almost full/);
    await redis.config("SET", "maxmemory", "1500kb");
    expect((await doctor(server.url)).said("memory")).toMatch(
      /^2\d MB of 1\.5 MB \(maxmemory\) used, 1\d{3} %: the server is full and rejects writes/,
    );
  });

  it("catches a replica, and its link that is down", async () => {
    const server = await started();
    const gone = await started();
    const [node] = gone.nodes;
    await server.call("REPLICAOF", "127.0.0.1", String(node!.port));
    await eventually(async () =>
      expect(String(await server.call("INFO", "replication"))).toContain("master_link_status:up"),
    );
    const following = await doctor(server.url);
    expect(following.of("replication").findings).toHaveLength(1);
    expect(following.said("replication")).toMatch(/^this server is a replica of 127\.0\.0\.1:\d+: it rejects writes/);
    await node!.kill();
    await eventually(async () =>
      expect(String(await server.call("INFO", "replication"))).toContain("master_link_status:down"),
    );
    const { code, said } = await doctor(server.url);
    expect(said("replication")).toMatch(/its link to 127\.0\.0\.1:\d+ is down/);
    expect(code).toBe(2);
  });

  it("catches connections that were refused for want of room", async () => {
    const server = await started({ args: ["--maxclients", "12"] });
    const redis = server.client();
    for (let count = 0; count < 14; count++)
      await server
        .client({ retryStrategy: () => null, enableOfflineQueue: true })
        .ping()
        .catch(() => undefined);
    expect(await redis.info("stats")).not.toContain("rejected_connections:0");
    await server.call("CONFIG", "SET", "maxclients", "100");
    const { said } = await doctor(server.url);
    expect(said("connections")).toMatch(/^\d connections? rejected since the server started/);
  });

  it("catches scripts that could block the server for good", async () => {
    const server = await started({ args: ["--lua-time-limit", "0"] });
    const { said } = await doctor(server.url);
    expect(said("script-limits")).toMatch(/blocks the server permanently/);
  });

  it("catches a default user that is open next to the application's own", async () => {
    const rules = ["~*", "&*", "+@all"];
    const server = await started({ args: ["--user", "app", "on", ">secret", ...rules, "--protected-mode", "no"] });
    const { port } = server.nodes[0]!;
    const url = `redis://app:secret@127.0.0.1:${String(port)}`;
    expect((await doctor(url)).said("access")).toMatch(/^no password, and protected-mode is off/);
    await server.client().call("ACL", "SETUSER", "default", "off");
    expect((await doctor(url)).said("access")).toBe("clients must authenticate");
  });

  it("catches an only allowed command that was renamed", async () => {
    const server = await started({ args: ["--rename-command", "EVALSHA", ""] });
    const { code, said } = await doctor(server.url);
    expect(said("permissions")).toMatch(/^this user cannot run EVALSHA: no kit package works/);
    expect(code).toBe(2);
  });
});
