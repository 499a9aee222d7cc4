import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { setLimits } from "../src/manage/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

const groups = 30;
const perGroup = 60;
const killed = 6;

it("each group keeps its order while workers are killed and replies are lost, and every job runs", async () => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
  redis.defer(() => client.close());
  const log = `${redis.prefix}:queue:{log}:ran`;
  const worker = fixture.work(
    fixture.on(client),
    ({ data, attempt, crashes }) =>
      fixture.db
        .multi()
        .rpush(log, `${(data as { log: string }).log} ${String(attempt)} ${String(crashes)}`)
        .pexpire(log, 300_000)
        .exec(),
    { leaseMs: 1_000, maxCrashes: 1_000 },
  );
  worker.on("error", () => undefined);
  await setLimits(fixture.db, fixture.address, { groups: { g1: { weight: 3 } } });
  const queue = fixture.make();
  for (let n = 0; n < perGroup; n++)
    await queue.addAll(
      Array.from({ length: groups }, (_, group) => ({
        ...{ name: "job", group: `g${String(group)}` },
        data: { log: `${String(group)}.${String(n)}`, act: "wait", ms: 5 },
      })),
    );
  for (let n = 0; n < killed; n++) {
    const peer = await fixture.spawn({ leaseMs: 1_000, concurrency: 10, maxCrashes: 1_000 });
    const before = (await fixture.logged()).length;
    await eventually(async () => expect((await fixture.logged()).length).toBeGreaterThan(before + 20));
    proxy.down.cutNext = 1;
    await peer.kill();
  }
  await fixture.untilEmpty();
  const lines = (await fixture.logged()).map((line) => line.split(" ", 1)[0]!.split("."));
  const inOrder = Array.from({ length: perGroup }, (_, n) => String(n));
  for (let group = 0; group < groups; group++) {
    const own = lines.flatMap(([of, n]) => (of === String(group) ? [n] : []));
    // A job that lost its worker runs again, before the next one.
    expect(own.filter((n, index) => n !== own[index - 1])).toEqual(inOrder);
  }
  const { grouped, turns, held } = fixture.keysOf();
  expect(await fixture.db.exists(grouped, turns, held)).toBe(0);
}, 180_000);
