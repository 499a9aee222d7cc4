import { mkdirSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { eventually, FaultProxy, type RedisNode, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import {
  type NodePersistence,
  type NodeReplication,
  persistenceReport,
  replicationReport,
} from "../src/durable/index.js";
import { connectionsNamed, own, until } from "./harness.js";

const redis = useRedis(vitest, { replicas: 2, permanentKeys: ["*"] });

const address = (node: RedisNode): string => `127.0.0.1:${String(node.port)}`;
const master = (): RedisNode => redis.server.nodes[0]!;
const replica = (index: number): RedisNode => redis.server.replicas[index]!;
const rowOf = <Row extends { readonly address: string }>(rows: readonly Row[], node: RedisNode): Row =>
  rows.find((row) => row.address === address(node))!;

const linked = (node: RedisNode): Promise<void> =>
  eventually(async () => {
    expect(String(await node.call("INFO", "replication"))).toContain("master_link_status:up");
  });

describe("replicationReport", () => {
  const report = (): Promise<NodeReplication[]> => replicationReport(redis.client);

  it("shows the master, its replicas, and how far behind they are", async () => {
    await redis.client.set(redis.prefix, "x".repeat(1_000), "PX", 60_000);
    await eventually(async () => {
      const rows = await report();
      expect(rows.map((row) => row.address).toSorted()).toEqual(
        [master(), replica(0), replica(1)].map(address).toSorted(),
      );
      expect(rowOf(rows, master())).toMatchObject({ role: "master", depth: 0, link: undefined, error: undefined });
      expect(rowOf(rows, master()).replicas).toHaveLength(2);
      for (const index of [0, 1]) {
        const row = rowOf(rows, replica(index));
        expect(row).toMatchObject({ role: "replica", link: "up", master: address(master()), depth: 1, behindBytes: 0 });
        expect(row.replid).toBe(rowOf(rows, master()).replid);
        expect(row.offset).toBe(rowOf(rows, master()).offset);
      }
    });
    expect(await connectionsNamed(redis, "kit:report")).toEqual([]);
  });

  it("shows a chain, even when asked at its end", async () => {
    await replica(1).call("REPLICAOF", "127.0.0.1", String(replica(0).port));
    await linked(replica(1));
    const client = await own(redis, { url: `redis://${address(replica(1))}` });
    await eventually(async () => {
      for (const rows of [await report(), await replicationReport(client)]) {
        expect(rows).toHaveLength(3);
        expect(rowOf(rows, replica(1))).toMatchObject({ master: address(replica(0)), depth: 2, link: "up" });
        expect(rowOf(rows, replica(0))).toMatchObject({ master: address(master()), depth: 1 });
        expect(rowOf(rows, replica(0)).replicas).toHaveLength(1);
      }
    });
    await replica(1).call("REPLICAOF", "127.0.0.1", String(master().port));
    await linked(replica(1));
  });

  it("shows a link that is down, and since when the master has not been heard", async () => {
    await replica(1).call("REPLICAOF", "127.0.0.1", String(replica(0).port));
    await linked(replica(1));
    await replica(0).call("REPLICAOF", "127.0.0.1", "1");
    const client = await own(redis, { url: `redis://${address(replica(1))}` });
    await eventually(async () => {
      const rows = await replicationReport(client);
      expect(rowOf(rows, replica(0))).toMatchObject({ link: "down", depth: undefined, master: "127.0.0.1:1" });
      expect(rowOf(rows, replica(0)).linkDownMs).toBeGreaterThanOrEqual(0);
      expect(rows.find((row) => row.address === "127.0.0.1:1")?.error).toContain("ECONNREFUSED");
    });
    for (const node of redis.server.replicas) await node.call("REPLICAOF", "127.0.0.1", String(master().port));
    for (const node of redis.server.replicas) await linked(node);
  });

  it("says of a node that is silent that it is, in its row, and of the others what they say", async () => {
    replica(0).pause();
    await redis.client.set(redis.prefix, "x".repeat(1_000), "PX", 60_000);
    const rows = await replicationReport(redis.client, { deadlineMs: 1_000 });
    expect(rowOf(rows, replica(0))).toMatchObject({ role: undefined, link: undefined });
    expect(rowOf(rows, replica(0)).error).toContain("did not answer");
    expect(rowOf(rows, replica(1))).toMatchObject({ role: "replica", error: undefined });
    const seen = rowOf(rows, master()).replicas!.find((attached) => attached.address === address(replica(0)))!;
    expect(seen.behindBytes).toBeGreaterThanOrEqual(1_000);
    replica(0).resume();
  });

  it("does not show one server twice that is known by two names", async () => {
    await using proxy = await FaultProxy.start({ port: master().port });
    const client = await own(redis, { url: proxy.url });
    const rows = await replicationReport(client);
    expect(rows).toHaveLength(3);
    expect(rows.filter(({ role }) => role === "master")).toMatchObject([
      { address: `127.0.0.1:${String(proxy.port)}` },
    ]);
    expect(rowOf(rows, replica(0))).toMatchObject({ depth: 1 });
    await client.close();
  });

  it("resolves when there is no server at all", async () => {
    const client = await own(redis);
    await master().kill();
    const rows = await replicationReport(client, { deadlineMs: 300 });
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({ role: undefined });
    expect(rows[0]!.error).toContain("did not answer");
    await master().start();
  });
});

describe("persistenceReport", () => {
  const report = async (): Promise<NodePersistence> => rowOf(await persistenceReport(redis.client), master());

  const set = async (settings: Record<string, string>): Promise<void> => {
    for (const [name, value] of Object.entries(settings)) {
      const [, before = ""] = (await master().call("CONFIG", "GET", name)) as string[];
      const node = master();
      await node.call("CONFIG", "SET", name, value);
      redis.defer(() => node.call("CONFIG", "SET", name, before));
    }
  };
  const isIdle = (): Promise<void> =>
    until(async () => {
      const info = String(await master().call("INFO", "persistence"));
      return /aof_rewrite_in_progress:0/.test(info) && /rdb_bgsave_in_progress:0/.test(info);
    });

  it("shows what is configured, on every node", async () => {
    await set({
      save: "900 1 300 10",
      rdbcompression: "no",
      "stop-writes-on-bgsave-error": "no",
      "auto-aof-rewrite-percentage": "77",
      "auto-aof-rewrite-min-size": "12345",
    });
    const rows = await persistenceReport(redis.client);
    expect(rows).toHaveLength(3);
    expect(rowOf(rows, replica(0))).toMatchObject({ role: "replica", error: undefined, snapshots: { points: [] } });
    const row = rowOf(rows, master());
    expect(row).toMatchObject({
      role: "master",
      snapshots: {
        points: [
          { afterMs: 900_000, changes: 1 },
          { afterMs: 300_000, changes: 10 },
        ],
        file: "dump.rdb",
        isCompressed: false,
        stopsWritesOnError: false,
      },
      appendOnly: {
        isOn: false,
        fsync: "everysec",
        pausesOnRewrite: false,
        rewriteAtPercent: 77,
        rewriteAtBytes: 12_345,
      },
    });
    expect(row.folder).toContain("kit-redis-");
  });

  it("counts the changes since the last snapshot, and reports its age and its result", async () => {
    await redis.client.set(redis.prefix, "x");
    // Not while a replica is being sent its first data.
    await eventually(() => master().call("SAVE"));
    expect(await report()).toMatchObject({
      snapshots: { changesSince: 0, lastOk: true, isRunning: false },
      atRisk: { kill: { changes: 0, ms: 0 }, powerCut: { changes: 0 } },
    });
    for (let number = 0; number < 7; number++) await redis.client.set(redis.prefix, number);
    const { snapshots, atRisk } = await report();
    expect(snapshots!.changesSince).toBe(7);
    expect(snapshots!.ageMs).toBeGreaterThanOrEqual(0);
    expect(snapshots!.ageMs).toBeLessThan(60_000);
    expect(atRisk!.kill).toEqual({
      text: "the 7 changes since the last snapshot; the server makes none automatically",
      changes: 7,
      ms: undefined,
    });
    // And so it is.
    await master().kill();
    await master().start();
    expect(await redis.client.get(redis.prefix)).toBe("x");
  });

  it("says what each mode of the append-only file would lose", async () => {
    await set({ appendonly: "yes", appendfsync: "everysec" });
    await isIdle();
    await redis.client.set(redis.prefix, "x", "PX", 60_000);
    const nothing = { changes: 0, ms: 0 };
    await eventually(async () =>
      expect((await report()).atRisk).toMatchObject({ kill: nothing, powerCut: { text: "up to 1 s", ms: 1_000 } }),
    );
    await master().call("CONFIG", "SET", "appendfsync", "always");
    expect((await report()).atRisk).toMatchObject({ kill: nothing, powerCut: nothing });
    await master().call("CONFIG", "SET", "appendfsync", "no");
    expect((await report()).atRisk).toMatchObject({ kill: nothing, powerCut: { changes: undefined, ms: undefined } });
    expect((await report()).appendOnly).toMatchObject({
      isOn: true,
      isRewriting: false,
      lastRewriteOk: true,
      lastWriteOk: true,
    });
  });

  it("warns while a rewrite or snapshot runs in which nothing is synced", async () => {
    await set({ appendonly: "yes", appendfsync: "always" });
    await isIdle();
    await set({ "no-appendfsync-on-rewrite": "yes", "rdb-key-save-delay": "500000" });
    await redis.client.set(redis.prefix, "x", "PX", 60_000);
    await master().call("BGSAVE");
    const { atRisk, snapshots } = await report();
    expect(snapshots!.isRunning).toBe(true);
    expect(atRisk).toMatchObject({ kill: { changes: 0 }, powerCut: { changes: undefined } });
    await isIdle();
  });

  it("reports a snapshot that failed", async () => {
    await set({ "stop-writes-on-bgsave-error": "no" });
    const { folder, snapshots } = await report();
    const file = join(folder!, snapshots!.file!);
    // A folder of that name cannot be replaced by a file.
    rmSync(file, { force: true });
    mkdirSync(file);
    await redis.client.set(redis.prefix, "x");
    await master().call("BGSAVE");
    await until(async () => !(await report()).snapshots!.lastOk);
    rmdirSync(file);
    await master().call("BGSAVE");
    await until(async () => (await report()).snapshots!.lastOk);
    expect((await report()).snapshots!.changesSince).toBe(0);
    await redis.client.del(redis.prefix);
  });

  it("shows what is in INFO where CONFIG is forbidden", async () => {
    await master().call("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-config");
    redis.defer(() => master().call("ACL", "DELUSER", "blind"));
    const client = await own(redis, { options: { username: "blind", password: "secret" } });
    const rows = await persistenceReport(client);
    const row = rowOf(rows, master());
    expect(row).toMatchObject({ error: undefined, folder: undefined, snapshots: { points: undefined } });
    expect(row.snapshots!.changesSince).toBeTypeOf("number");
    // The replicas do not know that user.
    expect(rowOf(rows, replica(0)).error).toBeDefined();
  });
});
