import { firstServing } from "@tooling/vitest/helpers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, startRedis, type RedisNode, type RedisServer } from "../src/index.js";

let server: RedisServer<"cluster">;
beforeAll(async () => {
  server = await startRedis({ mode: "cluster", persistence: "always", password: "secret" });
});
afterAll(async () => {
  await server.stop();
});

describe("startRedis in cluster mode", () => {
  it("covers all slots with masters that agree", async () => {
    expect(server.nodes).toHaveLength(3);
    const list = server.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
    expect(server.url).toBe(`redis+cluster://:secret@${list}`);
    for (const node of server.nodes) {
      const info = String(await node.call("CLUSTER", "INFO"));
      expect(info).toContain("cluster_state:ok");
      expect(info).toContain("cluster_slots_ok:16384");
    }
    const slots = (await server.call("CLUSTER", "SLOTS")) as [number, number, [string, number]][];
    const ranges = slots.map(([from, to, [, port]]) => [from, to, port]).sort(([a = 0], [b = 0]) => a - b);
    expect(ranges).toEqual([
      [0, 5460, server.nodes[0]?.port],
      [5461, 10921, server.nodes[1]?.port],
      [10922, 16383, server.nodes[2]?.port],
    ]);
  });

  it("has replies ready for keys of every node from the start", async () => {
    const client = server.client();
    const keys = Array.from({ length: 30 }, (_, index) => `key:${index}`);
    await Promise.all(keys.map((key) => client.set(key, key)));
    expect(await Promise.all(keys.map((key) => client.get(key)))).toEqual(keys);
    const held = await Promise.all(server.nodes.map((node) => node.call("DBSIZE")));
    expect(held.reduce<number>((sum, size) => sum + Number(size), 0)).toBe(30);
    expect(held.every((size) => Number(size) > 0)).toBe(true);
  });

  it("is whole again after a killed master starts", async () => {
    const client = server.client();
    await client.set("survivor", "1");
    await server.nodes[1]?.kill();
    await server.nodes[1]?.start();
    await eventually(async () => expect(String(await server.call("CLUSTER", "INFO"))).toContain("cluster_state:ok"), {
      timeoutMs: 15_000,
    });
    await eventually(async () => expect(await client.get("survivor")).toBe("1"), { timeoutMs: 15_000 });
  });
});

it("starts a Cluster of more masters", async () => {
  await using bigger = await startRedis({ mode: "cluster", masters: 5 });
  expect(bigger.nodes).toHaveLength(5);
  expect(await bigger.client().set("a", "1")).toBe("OK");
});

it("gives each master of a Cluster its replicas, one of which takes over when it dies", async () => {
  await using served = await startRedis({ mode: "cluster", replicas: 1, password: "secret" });
  expect([served.nodes.length, served.replicas.length]).toEqual([3, 3]);
  const masterPorts = await Promise.all(
    served.replicas.map(async (node) => ((await node.call("ROLE")) as unknown[])[2]),
  );
  expect(masterPorts).toEqual(served.nodes.map(({ port }) => port));
  const client = served.client();
  await client.set("survivor", "0");
  const index = firstServing(Number(await served.call("CLUSTER", "KEYSLOT", "survivor")));
  const [master, replica] = [served.nodes[index], served.replicas[index]] as [RedisNode, RedisNode];
  await master.call("SET", "survivor", "1");
  await master.call("WAIT", "1", "5000");
  await master.kill();
  await eventually(async () => expect(((await replica.call("ROLE")) as unknown[])[0]).toBe("master"), {
    timeoutMs: 15_000,
  });
  await eventually(async () => expect(await client.get("survivor")).toBe("1"), { timeoutMs: 15_000 });
});
