import { eventually, type RedisNode, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { replicaReads, type ReplicaReads, type ReplicaReadsOptions } from "../src/durable/index.js";
import { attach } from "../src/kernel/context/context.js";
import { connectionsNamed, own, proxied, rejection, timed, until } from "./harness.js";

const redis = useRedis(vitest, { replicas: 2, permanentKeys: ["*"] });

const open = (options: ReplicaReadsOptions = {}): ReplicaReads => {
  const near = replicaReads(redis.client, options);
  redis.defer(() => near.close());
  return near;
};
const replicas = (): readonly RedisNode[] => redis.server.replicas;
const address = (node: RedisNode): string => `127.0.0.1:${String(node.port)}`;
const inStep = (): Promise<void> =>
  eventually(async () => {
    // WAIT speaks of what this connection has sent.
    await redis.server.call("PUBLISH", "in-step", "");
    expect(await redis.server.call("WAIT", "2", "10")).toBe(2);
  });

describe("replicaReads", () => {
  it("writes nothing, even where the server may not be asked which commands only read", async () => {
    await redis.server.call("ACL", "SETUSER", "plain", "on", ">pw", "~*", "&*", "+@all", "-command");
    for (const node of replicas()) await node.call("ACL", "SETUSER", "plain", "on", ">pw", "~*", "&*", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "plain"));
    const client = redis.connect({ username: "plain", password: "pw" });
    const near = replicaReads(client);
    redis.defer(() => near.close());
    await client.set(redis.prefix, "1", "PX", 60_000);
    await inStep();
    expect(await near.call("GET", redis.prefix)).toMatchObject({ value: "1" });
    for (const command of ["INCR", "incr", "GETDEL", "NOSUCHCOMMAND"])
      expect(await rejection(near.call(command, redis.prefix))).toBeInstanceOf(RangeError);
    expect(await client.get(redis.prefix)).toBe("1");
  });

  it("answers from the replicas in turn, and says who did and how stale it is at most", async () => {
    const maxStaleMs = 20_000;
    const near = open({ maxStaleMs });
    await redis.client.set(redis.prefix, "x", "PX", 60_000);
    await inStep();
    // The first read of all may come before a replica has reached the master's offset.
    await near.call("GET", redis.prefix);
    const reads = [];
    for (let round = 0; round < 10; round++) reads.push(await near.call("GET", redis.prefix));
    expect(new Set(reads.map(({ from }) => from))).toEqual(new Set(replicas().map(address)));
    for (const { value, staleMs } of reads) {
      expect(value).toBe("x");
      expect(staleMs).toBeGreaterThanOrEqual(0);
      expect(staleMs).toBeLessThanOrEqual(maxStaleMs);
    }
  });

  it("never leaves out what was written longer ago than it says", async () => {
    const near = open({ maxStaleMs: 100 });
    const writes: { readonly value: number; readonly at: number }[] = [];
    const key = redis.prefix;
    let isOver = false;
    const writing = (async () => {
      for (let value = 1; !isOver; value++) {
        await redis.client.set(key, value, "PX", 60_000);
        writes.push({ value, at: performance.now() });
      }
    })();
    let fromReplicas = 0;
    for (let round = 0; round < 300 || fromReplicas < 100; round++) {
      // One of them falls behind and catches up again.
      if (round % 60 === 20) replicas()[0]!.pause();
      if (round % 60 === 40) replicas()[0]!.resume();
      const askedAt = performance.now();
      const { value, staleMs, from } = await near.call("GET", redis.prefix);
      const due = writes.findLast(({ at }) => at < askedAt - staleMs)?.value ?? 0;
      expect(staleMs).toBeLessThanOrEqual(100);
      expect(Number(value)).toBeGreaterThanOrEqual(due);
      if (from !== "master") fromReplicas++;
    }
    isOver = true;
    await writing;
    replicas()[0]!.resume();
  });

  it("says how stale the answer of a replica is that falls behind, and leaves it out when that is too much", async () => {
    const proxy = await proxied(redis);
    for (const node of replicas()) await node.call("REPLICAOF", "127.0.0.1", String(proxy.port));
    await redis.client.set(redis.prefix, "old", "PX", 60_000);
    await inStep();
    const [patient, strict] = [open({ maxStaleMs: 60_000 }), open({ maxStaleMs: 200 })];
    await eventually(async () => {
      for (const near of [patient, strict]) expect((await near.call("GET", redis.prefix)).from).not.toBe("master");
    });
    // The link stays open, and nothing more comes over it.
    proxy.down.hole = true;
    await redis.client.set(redis.prefix, "new", "PX", 60_000);
    const writtenAt = performance.now();
    await eventually(() => expect(performance.now() - writtenAt).toBeGreaterThan(250));
    for (let round = 0; round < 10; round++) {
      const ageMs = performance.now() - writtenAt;
      const { value, staleMs, from } = await patient.call("GET", redis.prefix);
      expect(value).toBe(from === "master" ? "new" : "old");
      expect(from === "master" || staleMs >= ageMs).toBe(true);
      expect((await strict.call("GET", redis.prefix)).value).toBe("new");
    }
    for (const node of replicas()) await node.call("REPLICAOF", "127.0.0.1", String(redis.server.nodes[0]!.port));
    await inStep();
  });

  it("asks the master where no replica is fresh enough", async () => {
    const near = open({ maxStaleMs: 50 });
    await inStep();
    await eventually(async () => {
      expect((await near.call("EXISTS", redis.prefix)).from).not.toBe("master");
    });
    for (const node of replicas()) await node.call("REPLICAOF", "127.0.0.1", "1");
    await redis.client.set(redis.prefix, "new", "PX", 60_000);
    await eventually(async () => {
      expect(await near.call("GET", redis.prefix)).toEqual({ value: "new", staleMs: 0, from: "master" });
    });
    for (const node of replicas()) await node.call("REPLICAOF", "127.0.0.1", String(redis.server.nodes[0]!.port));
    await eventually(async () => {
      expect((await near.call("GET", redis.prefix)).from).not.toBe("master");
    });
    await inStep();
  });

  it("keeps no connection for replicas that are gone, so that there is one for those that come", async () => {
    const [one, other] = [replicas()[0]!, replicas()[1]!];
    // So that one that is kept is one too many.
    const context = attach(redis.client);
    redis.defer(() => context.detach());
    context.pool("replicas", 1);
    const port = String(redis.server.nodes[0]!.port);
    const attached = (count: number): Promise<void> =>
      eventually(async () => {
        const info = String(await redis.server.call("INFO", "replication"));
        expect(info).toContain(`connected_slaves:${String(count)}`);
        expect(info).not.toMatch(/state=(?!online)/);
      });
    await other.call("REPLICAOF", "NO", "ONE");
    await attached(1);
    const near = open({ maxStaleMs: 300 });
    await eventually(async () => expect((await near.call("GET", redis.prefix)).from).toBe(address(one)));
    const readAt = performance.now();
    await one.kill();
    await attached(0);
    await other.call("REPLICAOF", "127.0.0.1", port);
    await attached(1);
    // So that the next read asks the master first who its replicas are.
    await eventually(() => expect(performance.now() - readAt).toBeGreaterThan(300));
    await eventually(async () => expect((await near.call("GET", redis.prefix)).from).toBe(address(other)));
    await one.start();
    await one.call("REPLICAOF", "127.0.0.1", port);
    await inStep();
  });

  it("continues without a replica that is silent", async () => {
    const near = open({ deadlineMs: 1_000 });
    await redis.client.set(redis.prefix, "x", "PX", 60_000);
    await inStep();
    for (let round = 0; round < 4; round++) await near.call("GET", redis.prefix);
    replicas()[0]!.pause();
    for (let round = 0; round < 4; round++) expect((await near.call("GET", redis.prefix)).value).toBe("x");
    replicas()[0]!.resume();
  });

  it("asks the master where it stands twice in maxStaleMs, and not for every read", async () => {
    const near = open({ maxStaleMs: 2_000 });
    await inStep();
    const infos = async (): Promise<number> => {
      const stats = String(await redis.server.call("INFO", "commandstats"));
      return Number(/cmdstat_info:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    await near.call("GET", redis.prefix);
    const before = await infos();
    const took = await timed(
      (async () => {
        for (let round = 0; round < 50; round++) await near.call("GET", redis.prefix);
      })(),
    );
    // The test's own look is one.
    expect((await infos()) - before).toBeLessThanOrEqual(2 + took / 1_000);
  });

  it("refuses what may write, types the errors of reads, and ends with close", async () => {
    const near = open();
    await inStep();
    for (const [command, ...rest] of [["SET", "x"], ["DEL"], ["INCR"], ["NOSUCH"]] as const)
      expect(await rejection(near.call(command, redis.prefix, ...rest))).toBeInstanceOf(RangeError);
    expect(await redis.client.exists(redis.prefix)).toBe(0);
    await redis.client.rpush(redis.prefix, "x");
    await redis.client.pexpire(redis.prefix, 60_000);
    await inStep();
    expect(await rejection(near.call("GET", redis.prefix))).toMatchObject({ name: "KitError", code: "KIT_SERVER" });
    near.close();
    near.close();
    expect(await rejection(near.call("GET", redis.prefix))).toMatchObject({ code: "KIT_CLOSED" });
    await until(async () => {
      for (const node of replicas()) if (String(await node.call("CLIENT", "LIST")).includes("name=kit:")) return false;
      return (await connectionsNamed(redis, "kit:")).length === 0;
    });
  });

  it("says that nobody answers when nobody does", async () => {
    const client = await own(redis);
    const near = replicaReads(client, { deadlineMs: 400 });
    redis.defer(() => near.close());
    for (const node of redis.server.replicas) node.pause();
    redis.server.nodes[0]!.pause();
    expect(await rejection(near.call("GET", redis.prefix))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    redis.server.nodes[0]!.resume();
    for (const node of redis.server.replicas) node.resume();
  });

  it("checks its options", () => {
    expect(() => replicaReads(redis.client, { maxStaleMs: 0 })).toThrow(RangeError);
    expect(() => replicaReads(redis.client, { stale: 1 } as never)).toThrow(TypeError);
  });
});
