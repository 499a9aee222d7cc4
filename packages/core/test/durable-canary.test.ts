import { eventually, FaultProxy, startRedis, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { durable, persistenceReport, replicaReads, replicationReport, waitForSync } from "../src/durable/index.js";
import { exposures } from "@tooling/vitest/helpers";
import { own, rejection } from "./harness.js";

const redis = useRedis(vitest);

/** Every secret holds it: the password, and what is written. */
const canary = "CANARY";
const password = `${canary}-pass/word`;
const payload = `${canary}-payload`;

it("no error, answer or report shows password or payload", async () => {
  const server = await startRedis({ password, replicas: 1 });
  redis.defer(() => server.stop());
  const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const login = `:${encodeURIComponent(password)}@`;
  const client = await own(redis, { url: `redis://${login}127.0.0.1:${String(proxy.port)}` });
  const options = { key: "k", timeoutMs: 100, deadlineMs: 500 };
  const seen: unknown[] = [];
  const set = (command: string) => durable(client, options, (scope) => scope.call(command, "k", payload));

  seen.push(await set("SET"));
  for (const command of ["NOPE", "LPUSH", "HSET", "SUBSCRIBE"]) seen.push(await rejection(set(command)));
  seen.push(await rejection(durable(client, { ...options, fsync: payload as never }, () => Promise.resolve())));
  proxy.down.hole = true;
  seen.push(await rejection(set("SET")));
  proxy.heal();
  await eventually(() => expect(client.status).toBe("ready"));
  const cut = (): Promise<unknown> =>
    durable(client, options, (scope) => {
      proxy.down.cutNext = 1;
      return scope.call("SET", "k", payload);
    });
  // It may cut an answer to something else, which was late.
  seen.push(await eventually(() => rejection(cut())));
  await server.call("ACL", "SETUSER", "blind", "on", `>${payload}`, "~k", "&*", "+@all", "-config", "-info");
  const blind = await own(redis, { url: `redis://blind:${payload}@127.0.0.1:${String(proxy.port)}` });
  seen.push(await waitForSync(blind, options), await replicationReport(blind), await persistenceReport(blind));
  // The replica knows no such user.
  await server.call("ACL", "SETUSER", "blind", "+info");
  seen.push(await waitForSync(blind, options), await replicationReport(blind), await persistenceReport(blind));
  const near = replicaReads(client);
  redis.defer(() => near.close());
  seen.push(await rejection(near.call("SET", "k", payload)), await rejection(near.call("HGET", "k", payload)), near);
  await server.nodes[0]!.kill();
  seen.push(await rejection(set("SET")), await replicationReport(client, { deadlineMs: 200 }));

  expect(seen.map((value) => exposures(value, [canary]))).toEqual(seen.map(() => []));
  // The search has found what was put there.
  expect(exposures({ value: payload }, [canary])).not.toEqual([]);
});
