import { connect, type KitUnknownOutcomeError, retry } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf, name, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys });
const fixture = fixtureOf(redis);

it("a weight that some shards have is not added again under retry() while another shard refuses it", async () => {
  // A client of ours does not send a refused command again.
  const client = await connect(redis.url);
  redis.defer(() => client.close());
  const index = fixture.indexOn(client, { order: "weight", shards: 2, deadlineMs: 500 });
  await index.put({ id: "1", text: "Alfa", weight: 5 });
  const shards = [0, 1].map((shard) => fixture.keysOf(name, shard, 2));
  const empty = (await fixture.db.exists(shards[0]!.items)) === 1 ? shards[1]! : shards[0]!;
  const slot = String(await fixture.db.cluster("KEYSLOT", empty.index));
  const from = await fixture.nodeOf(empty.index);
  const to = redis.server.nodes.find((node) => node !== from)!;
  const nodes: readonly (typeof from)[] = [from, to];
  redis.defer(() => Promise.all(nodes.map((node) => node.call("CLUSTER", "SETSLOT", slot, "STABLE"))));
  const [fromId, toId] = await Promise.all(nodes.map(async (node) => String(await node.call("CLUSTER", "MYID"))));
  await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId!);
  // Keys that are not there are refused: they may have moved.
  await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId!);

  let tries = 0;
  const touching = retry(() => (tries++, index.touch("1")), { waitMs: 20_000 });
  const error = (await rejection(touching)) as KitUnknownOutcomeError;
  expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", retryable: false, cause: { code: "KIT_CLUSTER" } });
  for (const node of nodes) await node.call("CLUSTER", "SETSLOT", slot, "STABLE");
  await eventually(() => index.touch("1", { op: error.op }));
  expect([tries, (await index.suggest("al")).items[0]?.weight]).toEqual([1, 6]);
});
