import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { eventually, startRedis, type RedisNode, type RedisServer } from "../src/index.js";

/** The longest time of a failover: two seconds of silence, an election, a promotion; and a busy machine. */
const FAILOVER_MS = 15_000;

let server: RedisServer<"sentinel">;
beforeEach(async () => {
  server = await startRedis({ mode: "sentinel", password: "p@ss:1", persistence: "everysec", downAfterMs: 1_000 });
});
afterEach(async () => {
  await server.stop();
});

const isGone = (pid: number) => {
  try {
    return !process.kill(pid, 0);
  } catch {
    return true;
  }
};

const roleOf = async (node: RedisNode) => ((await node.call("ROLE")) as unknown[])[0];

describe("startRedis in sentinel mode", () => {
  it("starts a master, two replicas in step and three Sentinels that all know each other", async () => {
    const [master] = server.nodes;
    expect([server.nodes.length, server.replicas.length, server.sentinels.length]).toEqual([1, 2, 3]);
    const doors = server.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
    expect(server.url).toBe(`redis+sentinel://:p%40ss%3A1@${doors}/kit`);
    expect(await server.master()).toBe(master);
    expect(await Promise.all(server.replicas.map(roleOf))).toEqual(["slave", "slave"]);
    for (const sentinel of server.sentinels) {
      expect(await sentinel.call("SENTINEL", "CKQUORUM", "kit")).toMatch(/^OK 3 usable Sentinels/);
      expect(await sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "kit")).toEqual([
        "127.0.0.1",
        String(master?.port),
      ]);
    }
    expect(await server.client().set("a", "0")).toBe("OK");
    await master?.call("SET", "a", "1");
    expect(await master?.call("WAIT", "2", "5000")).toBe(2);
    expect(await server.replicas[1]?.call("GET", "a")).toBe("1");
  });

  it("fails over when the master is killed, and its clients follow", async () => {
    const client = server.client();
    const [old] = server.nodes as [RedisNode];
    await client.ping();
    await old.call("SET", "a", "1");
    await old.call("WAIT", "2", "5000");
    await old.kill();
    await eventually(async () => expect(server.replicas).toContain(await server.master()), { timeoutMs: FAILOVER_MS });
    await eventually(async () => expect(await client.set("b", "2")).toBe("OK"), { timeoutMs: FAILOVER_MS });
    expect(await (await server.master()).call("MGET", "a", "b")).toEqual(["1", "2"]);
  });

  it("lets a Sentinel be killed and started: it still knows the others", async () => {
    const [first] = server.sentinels as [RedisNode];
    await first.kill();
    expect(first.state).toBe("stopped");
    await first.start();
    await eventually(async () => {
      expect(await first.call("SENTINEL", "CKQUORUM", "kit")).toMatch(/^OK 3 usable Sentinels/);
    });
    expect(await server.master()).toBe(server.nodes[0]);
  });

  it("names the new master even while one Sentinel has not seen it", async () => {
    const [paused, ...others] = server.sentinels as [RedisNode, RedisNode, RedisNode];
    paused.pause();
    await server.nodes[0]?.kill();
    await eventually(async () => expect(server.replicas).toContain(await server.master()), { timeoutMs: FAILOVER_MS });
    const master = await server.master();
    paused.resume();
    for (let looks = 0; looks < 20; looks += 1) expect(await server.master()).toBe(master);
    expect(others.map(({ state }) => state)).toEqual(["running", "running"]);
  });

  it("leaves no process and no folder after stop", async () => {
    const all = [...server.nodes, ...server.replicas, ...server.sentinels];
    const [, dir] = (await server.call("CONFIG", "GET", "dir")) as [string, string];
    await server.stop();
    expect(all.map(({ pid }) => isGone(pid))).toEqual(all.map(() => true));
    expect(existsSync(dir)).toBe(false);
  });
});
