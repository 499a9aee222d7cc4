import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { setLimits } from "../src/manage/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

const isLarge = process.env["KIT_LARGE"] !== undefined;
const groups = isLarge ? 200 : 30;
const perGroup = isLarge ? 500 : 60;
const most = isLarge ? Infinity : 6;
/**
 * The most and the fewest turns of two groups with the same weight, and how far the turns of one with the double weight may be from that. In a
 * short run single crashes decide these.
 */
const shares = isLarge ? { spread: 1.2, off: 0.1 } : { spread: Infinity, off: Infinity };

it(`each group keeps its order${isLarge ? " and its share" : ""} while workers are killed and replies are lost, and every job runs`, async () => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
  redis.defer(() => client.close());
  const log = `${redis.prefix}:queue:{log}:ran`;
  await setLimits(fixture.db, fixture.address, { groups: { g1: { weight: 2 } } });
  const queue = fixture.make();
  for (let n = 0; n < perGroup; n++)
    await queue.addAll(
      Array.from({ length: groups }, (_, group) => ({
        ...{ name: "job", group: `g${String(group)}` },
        data: { log: `${String(group)}.${String(n)}`, act: "wait", ms: 5 },
      })),
    );
  const total = groups * perGroup;
  let isKilling = !isLarge;
  const worker = fixture.work(
    fixture.on(client),
    async ({ data, attempt, crashes }) => {
      const line = `${(data as { log: string }).log} ${String(attempt)} ${String(crashes)}`;
      await fixture.db.multi().rpush(log, line).pexpire(log, 300_000).exec();
      // oxlint-disable-next-line kit/no-sleep -- It leaves enough jobs for those that are killed.
      if (isKilling) await new Promise((resolve) => setTimeout(resolve, 20));
    },
    { leaseMs: 1_000, maxCrashes: 1_000, concurrency: isLarge ? 10 : 2 },
  );
  worker.on("error", () => undefined);
  const ran = (): Promise<number> => fixture.db.llen(log);
  let kills = 0;
  while (kills < most && (await ran()) < 0.9 * total) {
    const peer = await fixture.spawn({ leaseMs: 1_000, concurrency: 10, maxCrashes: 1_000 });
    const before = Math.min(await ran(), total - 21);
    await eventually(async () => expect(await ran()).toBeGreaterThan(before + 20));
    proxy.down.cutNext = 1;
    await peer.kill();
    kills++;
  }
  expect(kills).toBeGreaterThan(0);
  isKilling = false;
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
  // Until the first group ends, all of them have jobs.
  const until = lines.findIndex(([, n]) => n === String(perGroup - 1));
  const turnsOf = new Map<string, number>();
  for (const [of = ""] of lines.slice(0, until)) turnsOf.set(of, (turnsOf.get(of) ?? 0) + 1);
  const double = turnsOf.get("1") ?? 0;
  turnsOf.delete("1");
  const others = [...turnsOf.values()];
  const spread = Math.max(...others) / Math.min(...others);
  const weight = double / (others.reduce((sum, one) => sum + one, 0) / others.length);
  if (isLarge)
    process.stdout.write(`${JSON.stringify({ groups, perGroup, kills, starts: lines.length, spread, weight })}\n`);
  expect(others).toHaveLength(groups - 1);
  expect(spread).toBeLessThanOrEqual(shares.spread);
  expect(Math.abs(weight / 2 - 1)).toBeLessThanOrEqual(shares.off);
}, 600_000);
