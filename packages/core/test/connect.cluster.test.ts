import { readFileSync } from "node:fs";
import { once } from "node:events";
import { type AddressInfo, connect as dial, type LookupFunction, type Socket } from "node:net";
import { createServer, type Server } from "node:tls";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { connect } from "../src/connect/connect.js";
import { Deadline } from "../src/kernel/base/deadline.js";
import { attach } from "../src/kernel/context/context.js";
import { own, rejection } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster" });

const pem = (name: string): string => readFileSync(new URL(`tls/${name}`, import.meta.url), "utf8");
const certificates = [0, 1, 2].map((n) => ({ cert: pem(`node${String(n)}.crt`), key: pem(`node${String(n)}.key`) }));

interface Door {
  readonly name: string;
  readonly port: number;
  readonly server: Server;
  readonly sockets: Set<Socket>;
}

/** A door that speaks TLS in front of each node, with a certificate for that node's name alone. */
const tlsDoors = (): Promise<Door[]> =>
  Promise.all(
    redis.server.nodes.map(async ({ port }, n) => {
      const sockets = new Set<Socket>();
      const server = createServer(certificates[n]!, (near) => {
        const far = dial(port, "127.0.0.1");
        for (const socket of [near, far]) socket.on("error", () => undefined);
        near.pipe(far).pipe(near);
        sockets.add(near).add(far);
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      redis.defer(() => {
        server.close();
        for (const socket of sockets) socket.destroy();
      });
      return { name: `node${String(n)}.test`, port: (server.address() as AddressInfo).port, server, sockets };
    }),
  );

const lookup: LookupFunction = (name, { all }, found) => {
  if (!/^node\d\.test$/.test(name)) found(new Error(`${name} is not known`), "");
  else if (all) found(null, [{ address: "127.0.0.1", family: 4 }]);
  else found(null, "127.0.0.1", 4);
};

/** How a client reaches the doors: only the names of the certificates lead there. */
const wayTo = (doors: readonly Door[]) => ({
  url: `rediss+cluster://${doors[0]!.name}:${String(doors[0]!.port)}`,
  cluster: {
    natMap: Object.fromEntries(
      redis.server.nodes.map(({ port }, n) => [
        `127.0.0.1:${String(port)}`,
        { host: doors[n]!.name, port: doors[n]!.port },
      ]),
    ),
  },
  tls: {
    ca: certificates.map(({ cert }) => cert),
    lookup,
  },
});

describe("connect to a Cluster over TLS", () => {
  it("keeps names, for which the certificates are, also for connections of our own", async () => {
    const doors = await tlsDoors();
    const { url, cluster, tls } = wayTo(doors);
    const client = await own(redis, { url, cluster, options: { tls } });
    const values = Array.from({ length: 20 }, (_, n) => `${redis.prefix}:${String(n)}`);
    expect(await Promise.all(values.map((key) => client.set(key, key, "PX", 60_000)))).toEqual(values.map(() => "OK"));
    const context = attach(client);
    redis.defer(() => context.detach());
    expect(await context.inbox.open(Deadline.in(10_000))).toBe(true);
    const connection = await context.pool("test").checkOut(values[0]!, Deadline.in(10_000), undefined);
    expect(await connection.call("GET", [values[0]!], 10_000)).toBe(values[0]);
    connection.returnToPool(false);
  });

  it("does not take the certificate of another name", async () => {
    const doors = await tlsDoors();
    const { cluster, tls } = wayTo(doors);
    const url = `rediss+cluster://node1.test:${String(doors[0]!.port)}`;
    const error = await rejection(connect({ url, cluster, options: { tls }, deadlineMs: 20_000 }));
    expect(error.message).toContain("ERR_TLS_CERT_ALTNAME_INVALID");
  });

  it("follows certificates that are replaced, by the object that it was given", async () => {
    const doors = await tlsDoors();
    const { url, cluster, tls } = wayTo(doors);
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
  it("passes the options of `cluster` on", async () => {
    const roles: string[] = [];
    const scaleReads = (nodes: unknown[]): never => (roles.push(String(nodes.length)), nodes[0] as never);
    const client = await own(redis, { cluster: { scaleReads } });
    await client.get(redis.prefix);
    expect(roles).toEqual(["1"]);
  });
});
