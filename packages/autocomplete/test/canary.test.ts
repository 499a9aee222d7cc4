import { connect, KitError } from "@kit/core";
import { eventually, FaultProxy, startRedis, useRedis } from "@kit/testing";
import { exposures, recordTold, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { createContactBook, createPrefixIndex } from "../src/index.js";
import { named, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

/** Every password, text, payload and query holds it. Ids and names of indexes are for people to see: they do not. */
const canary = "CANARY";

it("neither texts nor payloads nor queries are shown by any error, event or trace", async () => {
  const password = `${canary}-pass`;
  const server = await startRedis({ password });
  redis.defer(() => server.stop());
  const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const url = `redis://:${password}@127.0.0.1:${String(proxy.port)}`;
  const client = await connect({ url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  const index = createPrefixIndex(client, "shown", { order: "weight", deadlineMs: 400, maxPayloadBytes: 100 });
  const plain = createPrefixIndex(client, "plain", { deadlineMs: 400 });
  const book = createContactBook(client, "shown", { deadlineMs: 400, maxPayloadBytes: 100 });
  for (const one of [index, plain, book]) redis.defer(() => one.close({ timeoutMs: 0 }));
  const traces = ["put", "delete", "touch", "suggest", "rebuild"].map((what) => `kit:autocomplete.${what}`);
  const told = recordTold(redis, index as Parameters<typeof recordTold>[1], ["mismatch", "error"], traces);
  const raised = new Set<string>();
  const raises = async (code: string, promise: Promise<unknown>): Promise<void> => {
    const error = (await rejection(promise)) as Error;
    expect(KitError.is(error) ? error.code : error).toBe(code);
    raised.add(code);
    told.push(error);
  };
  const text = `${canary} Ann`;
  const entry = { id: "1", text, payload: { note: canary } };
  // Numbers and words of options are shown, objects are not.
  const secret = { toString: () => canary, toJSON: () => canary };
  const circle: Record<string, unknown> = { note: canary };
  circle["self"] = circle;

  await index.put(entry);
  await plain.put(entry);
  for (const bad of [
    { id: "2", text: `${text}\0` },
    { id: "2", text: `${text}\ud800` },
    { id: "2", text: canary.repeat(100) },
    { id: `${canary}`.repeat(100), text },
    { id: "2", text, payload: canary.repeat(20) },
    { id: "2", text, payload: circle },
  ]) {
    await raises("KIT_AUTOCOMPLETE_ENTRY", index.put(bad));
    const { id, ...card } = bad;
    await raises("KIT_AUTOCOMPLETE_ENTRY", book.record(id, card));
  }
  for (const call of [
    () => index.suggest(text, { limit: secret as never }),
    () => index.put({ ...entry, weight: secret as never }),
    () => index.put(entry, { op: `${canary} ` }),
  ])
    told.push((await rejection((async () => await call())())) as Error);

  const source = async function* () {
    yield* named(text);
    await index.rebuild(named(text));
    yield* named(text);
  };
  await raises("KIT_AUTOCOMPLETE_REBUILD", index.rebuild(source()));
  // Records that are gone are an event.
  await server.call("DEL", "kit:autocomplete:{shown}:items");
  await index.suggest(canary.slice(0, 2));
  for (const part of ["rows", "index"]) {
    const key = `kit:autocomplete:{plain}:${part}`;
    await server.call("DEL", key, "kit:autocomplete:{plain}:rows");
    await server.call("RPUSH", key, canary);
    await raises("KIT_KEY_TYPE", plain.suggest(canary));
    await raises("KIT_KEY_TYPE", plain.put(entry));
    await server.call("DEL", key);
  }
  await server.call("HSET", "kit:autocomplete:{plain}:index", "layout", canary);
  await raises("KIT_LAYOUT", plain.suggest(canary));
  await server.call("HSET", "kit:autocomplete:{plain}:index", "layout", "1", "settings", canary);
  await raises("KIT_LAYOUT", plain.put(entry));
  await server.call("CONFIG", "SET", "maxmemory", "1");
  await raises("KIT_SERVER_FULL", index.put({ ...entry, id: "3" }));
  await server.call("CONFIG", "SET", "maxmemory", "0");
  proxy.down.hole = true;
  await raises("KIT_UNKNOWN_OUTCOME", index.put(entry));
  await raises("KIT_UNKNOWN_OUTCOME", book.record("1", { text }));
  await raises("KIT_UNAVAILABLE", index.suggest(text));
  await raises("KIT_UNAVAILABLE", plain.suggest(text));
  proxy.heal();
  await eventually(async () => void (await index.suggest(text)));
  await index.close();
  await raises("KIT_CLOSED", index.put(entry));

  // Only as an event.
  const events = told.flatMap((one) => (Array.isArray(one) ? (one as unknown[]) : []));
  expect(events.map((one) => KitError.is(one) && one.code)).toContain("KIT_AUTOCOMPLETE_DAMAGED");
  expect(raised.size).toBe(8);
  for (const one of told) expect(exposures(one, [canary])).toEqual([]);
  for (const one of [index, plain, book]) expect(exposures(one, [canary])).toEqual([]);
});
