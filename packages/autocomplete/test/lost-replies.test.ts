import { type KitUnknownOutcomeError, retry } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { losingOnce, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

it("a change counts once under retry() when its reply is lost: by an op of its caller, or else it rejects with one", async () => {
  await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  const client = fixture.connect({ port: proxy.port });
  const index = fixture.indexOn(client, { order: "weight", shards: 2, deadlineMs: 300 });
  const book = fixture.bookOn(client, { halfLifeMs: 3_600_000, deadlineMs: 300 });
  await index.put({ id: "1", text: "Alfa", weight: 5 });
  await index.touch("1");
  await book.record("ann");
  const scoreOf = async (): Promise<number> => Number(await fixture.db.zscore(fixture.bookKeysOf().contacts, "ann"));
  const before = await scoreOf();

  const changes = [(op?: string) => index.touch("1", { op }), (op?: string) => book.record("ann", {}, { op })];
  for (const change of changes) {
    const bare = losingOnce(proxy, () => change());
    const error = (await rejection(retry(bare.attempt, { waitMs: 20_000 }))) as KitUnknownOutcomeError;
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: expect.any(String) as unknown, retryable: false });
    await eventually(() => change(error.op));
    const named = losingOnce(proxy, () => change("mine"));
    await retry(named.attempt, { waitMs: 20_000 });
    expect([bare.tries(), named.tries() > 1]).toEqual([1, true]);
  }
  expect((await index.suggest("al")).items[0]?.weight).toBe(8);
  // Each event of three moves the score by less than a half-life.
  expect((await scoreOf()) - before).toBeLessThan(2 * 3_600_000);

  const put = losingOnce(proxy, () => index.put({ id: "2", text: "Alpha", weight: 1 }));
  await retry(put.attempt, { waitMs: 20_000 });
  expect([put.tries() > 1, (await index.suggest("alp")).items.map(({ weight }) => weight)]).toEqual([true, [1]]);
});
