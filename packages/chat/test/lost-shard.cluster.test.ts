import { eventually, startRedis, useRedis } from "@kit/testing";
import { nodeOf, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { layoutKey } from "../src/keys.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys });
const fixture = fixtureOf(redis);

describe("a lost node that has the number of shards", () => {
  it("stops its own chats only, and gets back the number in use when it comes back empty", async () => {
    const server = await startRedis({ mode: "cluster", args: ["--cluster-require-full-coverage", "no"] });
    redis.defer(() => server.stop());
    const client = server.client({ maxRetriesPerRequest: 0 });
    const lost = await nodeOf(server.nodes, layoutKey(redis.prefix));
    const chat = fixture.on(client, { deadlineMs: 1_000, shards: 9 });
    const other = fixture.on(server.client({ maxRetriesPerRequest: 0 }), { deadlineMs: 1_000 });
    const rooms = Array.from({ length: 9 }, (_, n) => `room${String(n)}`);
    const homes = new Map<string, number>();
    for (const name of rooms) {
      await chat.create(name, { members: ["ann", "bob"] });
      for (const node of server.nodes)
        if (((await node.call("KEYS", `*meta:${name}`)) as string[]).length > 0) homes.set(name, node.port);
    }
    const here = rooms.filter((name) => homes.get(name) !== lost.port);
    await lost.kill();
    await eventually(async () => {
      expect(String(await server.nodes.find((node) => node !== lost)!.call("CLUSTER", "NODES"))).toMatch(
        /master,fail /,
      );
    });
    // The client has noticed, and asks for the number again.
    const gone = rooms.find((name) => homes.get(name) === lost.port)!;
    await rejection(chat.send(gone, { from: "ann", body: "x" }));
    for (const name of here) expect((await chat.send(name, { from: "ann", body: "x" })).seq).toBe(1);
    await lost.start();
    await eventually(async () => {
      await chat.send(here[0]!, { from: "ann", body: "x" });
      expect(await lost.call("HGET", layoutKey(redis.prefix), "shards")).toBe("9");
    });
    expect((await other.send(here[0]!, { from: "ann", body: "x" })).seq).toBeGreaterThan(1);
  });
});
