import { connect } from "@kit/core";
import { eventually, type RedisNode, startRedis, useRedis } from "@kit/testing";
import { nodeOf, removeNode } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf, permanentKeys, room } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys });
const fixture = fixtureOf(redis);

it("a listener whose client sends nothing else leaves a node that was removed from the Cluster", async () => {
  const server = await startRedis({ mode: "cluster", masters: 4 });
  redis.defer(() => server.stop());
  const victim = (await nodeOf(server.nodes, fixture.keysOf(room).meta)) as RedisNode;
  const others = server.nodes.filter((node) => node !== victim);
  const url = `redis+cluster://127.0.0.1:${String(others[0]!.port)}`;
  const [idle, active] = await Promise.all([
    connect({ url, deadlineMs: 10_000 }),
    connect({ url, deadlineMs: 10_000 }),
  ]);
  for (const client of [idle, active]) redis.defer(() => client.close());
  const [reader, sender] = [fixture.on(idle), fixture.on(active)];
  await sender.create(room, { members: ["ann", "bob"] });
  const bodies: unknown[] = [];
  const ending = new AbortController();
  const listening = reader
    .listen("bob", { signal: ending.signal })
    .each(({ body }) => void bodies.push(body))
    .catch(() => undefined);
  await sender.send(room, { from: "ann", body: "before" });
  await eventually(() => expect(bodies).toContain("before"));
  await eventually(async () => expect(String(await victim.call("CLIENT", "LIST"))).toMatch(/cmd=xread/));
  await removeNode(server.nodes, victim, others[2]!);
  // The data of the node are gone with it.
  await eventually(() => sender.create(room, { members: ["ann", "bob"] }), { timeoutMs: 20_000 });
  await sender.send(room, { from: "ann", body: "after" });
  await eventually(() => expect(bodies).toContain("after"), { timeoutMs: 60_000 });
  ending.abort();
  await listening;
});
