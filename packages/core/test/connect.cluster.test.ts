import { inspect } from "node:util";
import type { Cluster } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { connect } from "../src/connect/connect.js";
import { Deadline } from "../src/kernel/base/deadline.js";
import { attach } from "../src/kernel/context/context.js";
import { opened, own, rejection } from "./harness.js";
import { type Door, pem, tlsDoors, wayTo } from "./tls-servers.js";

const redis = useRedis(vitest, { mode: "cluster" });

/** How `connect()` reaches the doors. */
const optionsFor = (doors: readonly Door[]) => {
  const { natMap, secure } = wayTo(redis, doors);
  return { url: `rediss+cluster://${doors[0]!.name}:${String(doors[0]!.port)}`, cluster: { natMap }, tls: secure };
};

describe("connect to a Cluster over TLS", () => {
  it("keeps names, for which the certificates are, also for connections of our own", async () => {
    const doors = await tlsDoors(redis);
    const { url, cluster, tls } = optionsFor(doors);
    const client = await own(redis, { url, cluster, options: { tls } });
    const values = Array.from({ length: 20 }, (_, n) => `${redis.prefix}:${String(n)}`);
    expect(await Promise.all(values.map((key) => client.set(key, key, "PX", 60_000)))).toEqual(values.map(() => "OK"));
    const context = attach(client);
    redis.defer(() => context.detach());
    expect(await opened(context.inbox, 10_000)).toBe(true);
    const connection = await context.pool("test").checkOut(values[0]!, Deadline.in(10_000), undefined);
    expect(await connection.call("GET", [values[0]!], 10_000)).toBe(values[0]);
    connection.returnToPool(false);
  });

  it("does not take the certificate of another name", async () => {
    const doors = await tlsDoors(redis);
    const { cluster, tls } = optionsFor(doors);
    const url = `rediss+cluster://node1.test:${String(doors[0]!.port)}`;
    const error = await rejection(connect({ url, cluster, options: { tls }, deadlineMs: 20_000 }));
    expect(error.message).toContain("ERR_TLS_CERT_ALTNAME_INVALID");
  });

  it("follows certificates that are replaced, by the object that it was given", async () => {
    const doors = await tlsDoors(redis);
    const { url, cluster, tls } = optionsFor(doors);
    const given = { ...tls, ca: tls.ca };
    const client = await own(redis, { url, cluster, options: { tls: given } });
    await client.ping();
    // All proxies have new certificates; the client gets them, and its connections are cut.
    const old = pem("loopback.crt");
    for (const door of doors) door.server.setSecureContext({ cert: old, key: pem("loopback.key") });
    Object.assign(given, { ca: old, checkServerIdentity: () => undefined });
    for (const door of doors) for (const socket of door.sockets) socket.destroy();
    const set = (): Promise<string> => client.set(redis.prefix, "1", "PX", 60_000);
    expect(await eventually(set, { timeoutMs: 20_000 })).toBe("OK");
  });
});

describe("connect to a Cluster", () => {
  it("makes a client that shows no password when it is logged, and nodes and duplicates that show none", async () => {
    const url = redis.url.replace("//", "//default:canary@");
    const client = (await own(redis, { url })) as unknown as Cluster;
    const copy = client.duplicate([], { lazyConnect: true });
    for (const one of [client, copy, ...client.nodes("all")])
      expect(inspect(one, { depth: 9, showHidden: true }) + JSON.stringify(one)).not.toContain("canary");
    expect(client.nodes("all")).not.toEqual([]);
  });

  it("passes the options of `cluster` on", async () => {
    const roles: string[] = [];
    const scaleReads = (nodes: unknown[]): never => (roles.push(String(nodes.length)), nodes[0] as never);
    const client = await own(redis, { cluster: { scaleReads } });
    await client.get(redis.prefix);
    expect(roles).toEqual(["1"]);
  });
});
