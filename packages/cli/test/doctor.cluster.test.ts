import { slotOf } from "@kit/core/toolkit";
import { eventually, type RedisNode, type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { doctor, type Examined, soundArgs, soundPassword, started } from "./harness.js";

const idOf = async (node: RedisNode): Promise<string> => String(await node.call("CLUSTER", "MYID"));

describe("kit doctor on a Cluster", () => {
  let server: RedisServer<"cluster">;

  beforeAll(async () => {
    server = await startRedis({
      mode: "cluster",
      replicas: 1,
      persistence: "everysec",
      password: soundPassword,
      args: soundArgs,
    });
  });
  afterAll(() => server.stop());

  it("finds nothing wrong with a sound one", async () => {
    const { code, of, said, wrong } = await doctor(server.url);
    expect(wrong).toEqual(of("version").severity === "ok" ? [] : ["version"]);
    expect(said("cluster-slots")).toBe("all 16384 slots are served, and every master has a replica");
    expect(said("replication")).toBe("a master with 1 replica, all up to date");
    expect(code).toBe(0);
  });

  it("says of which node it speaks", async () => {
    const [, second] = server.nodes;
    await second!.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    const { said } = await doctor(server.url);
    expect(said("eviction-policy")).toMatch(
      new RegExp(`^127\\.0\\.0\\.1:${String(second!.port)}: allkeys-lru: a full server drops`),
    );
    await second!.call("CONFIG", "SET", "maxmemory-policy", "noeviction");
  });

  it("catches slots that migrate", async () => {
    const slot = String(slotOf("{a}"));
    const [first, second, third] = server.nodes as [RedisNode, RedisNode, RedisNode];
    const slotsOf = async (node: RedisNode): Promise<string> => String(await node.call("CLUSTER", "NODES"));
    const owner = (
      await Promise.all([first, second, third].map(async (node) => ({ node, text: await slotsOf(node) })))
    ).find(({ text }) => {
      const [low = 1, high = 0] = (/myself.* (\d+)-(\d+)$/m.exec(text) ?? []).slice(1).map(Number);
      return Number(slot) >= low && Number(slot) <= high;
    })!.node;
    const target = [first, second, third].find((node) => node !== owner)!;
    await owner.call("CLUSTER", "SETSLOT", slot, "MIGRATING", await idOf(target));
    const { of, said } = await doctor(server.url);
    expect(of("cluster-slots").severity).toBe("warning");
    expect(said("cluster-slots")).toMatch(/^slots are migrating/);
    await owner.call("CLUSTER", "SETSLOT", slot, "STABLE");
  });

  it("catches an address that speaks to one node alone", async () => {
    const { port } = server.nodes[0]!;
    const { code, said } = await doctor(`redis://:${encodeURIComponent(soundPassword)}@127.0.0.1:${String(port)}`);
    expect(said("cluster-slots")).toMatch(/^this server is a Cluster node, but the address names only this node/);
    expect(code).toBe(2);
  });

  it("catches a node that does not answer", async () => {
    const [replica] = server.replicas;
    await replica!.kill();
    const { port } = replica!;
    await eventually(async () => {
      expect(String(await server.call("CLUSTER", "NODES"))).toMatch(new RegExp(`:${String(port)}@.* slave,fail `));
    });
    const { code, said } = await doctor(server.url);
    expect(said("cluster-slots")).toMatch(
      new RegExp(`nodes that do not answer: 127\\.0\\.0\\.1:${String(port)}\nmasters without a replica: `),
    );
    expect(code).toBe(2);
  });
});

describe("kit doctor on a Cluster of which one master does not answer", () => {
  const timed = async (url: string): Promise<Examined & { readonly tookMs: number }> => {
    const startedAt = performance.now();
    return { ...(await doctor(url)), tookMs: performance.now() - startedAt };
  };
  /** The checks that look at every master. */
  const ofAll = ["version", "eviction-policy", "memory", "access", "tls", "clock-skew", "slow-log", "replication"];

  it.each([
    ["is gone", (node: RedisNode) => node.kill()],
    ["stands still", (node: RedisNode) => Promise.resolve(node.pause())],
  ])("names one that %s, calls nothing well that it has not seen, and ends in time", async (_, lose) => {
    const server = await started({ mode: "cluster", args: soundArgs });
    const [, lost] = server.nodes;
    await lose(lost!);
    const { code, of, said, tookMs } = await timed(server.url);
    const named = new RegExp(`masters that do not answer: 127\\.0\\.0\\.1:${String(lost!.port)}`);
    expect(of("reachability").severity).toBe("problem");
    expect(said("reachability")).toMatch(named);
    expect(of("cluster-slots").severity).toBe("problem");
    expect(said("cluster-slots")).toMatch(new RegExp(`do not answer: .*127\\.0\\.0\\.1:${String(lost!.port)}`));
    expect(ofAll.filter((id) => of(id).severity === "ok")).toEqual([]);
    expect(said("eviction-policy")).toContain(`127.0.0.1:${String(lost!.port)}: the check failed`);
    expect(code).toBe(2);
    // One deadline for all of them, where each check by itself would wait for its own.
    expect(tookMs).toBeLessThan(15_000);
  });
});

describe("kit doctor on a Cluster with a hole", () => {
  it("catches masters without a replica, and slots without a node", async () => {
    const server = await started({ mode: "cluster" });
    expect((await doctor(server.url)).said("cluster-slots")).toMatch(/^masters without a replica: .*, .*, /);
    await server.call("CLUSTER", "DELSLOTS", "0", "1");
    const seenByOne = await doctor(server.url);
    expect(seenByOne.of("cluster-slots").severity).toBe("problem");
    expect(seenByOne.said("cluster-slots")).toMatch(/^2 of 16384 slots have no node/);
    expect(seenByOne.code).toBe(2);
    for (const node of server.nodes.slice(1)) await node.call("CLUSTER", "DELSLOTS", "0", "1");
    for (const node of server.nodes)
      await eventually(async () => expect(String(await node.call("CLUSTER", "INFO"))).toContain("cluster_state:fail"));
    const { code, of, said } = await doctor(server.url);
    expect(said("cluster-slots")).toMatch(/^2 of 16384 slots have no node/);
    expect(of("reachability").severity).toBe("problem");
    expect(said("reachability")).toMatch(/ answers, but the Cluster cannot be used: /);
    expect(code).toBe(2);
  });
});
