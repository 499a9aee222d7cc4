import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { connect, KitUnavailableError } from "@kit/core";
import { eventually, startRedis, useRedis } from "@kit/testing";
import { freePort, rejection } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createLock } from "../src/index.js";
import { user } from "./acl.js";
import { enqueue } from "./harness.js";

const redis = useRedis(vitest);

const file = (name: string): string => fileURLToPath(new URL(`../../core/test/tls/${name}`, import.meta.url));
const ca = readFileSync(file("loopback.crt"));
const prefix = "t-tls";

/** A server whose default user is off, with a port for TLS. */
const startTls = async (certificate: string) => {
  const port = await freePort();
  const tls = [
    ...["--tls-port", String(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", file(`${certificate}.crt`)],
    ...["--tls-cert-file", file(`${certificate}.crt`), "--tls-key-file", file(`${certificate}.key`)],
  ];
  const server = await startRedis({
    args: [...tls, "--user", user.login.username, ...user.rulesOf("single", prefix), "+acl|whoami"],
  });
  redis.defer(() => server.stop());
  await server.call("ACL", "SETUSER", "default", "off");
  const login = `${user.login.username}:${user.login.password}`;
  return { server, port, url: `rediss://${login}@127.0.0.1:${String(port)}` };
};

describe("a lock over TLS, with a password, as its ACL user", () => {
  it.each(["a client of connect()", "a client of ioredis"])("works on %s", async (kind) => {
    const { server, port, url } = await startTls("loopback");
    const client =
      kind === "a client of ioredis"
        ? new Redis({ port, host: "127.0.0.1", tls: { ca }, disconnectTimeout: 50, ...user.login })
        : await connect({ url, deadlineMs: 10_000, options: { tls: { ca } } });
    redis.defer(() => client.disconnect());
    expect(await client.call("ACL", "WHOAMI")).toBe(user.login.username);
    const lock = createLock(client, { prefix });
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    const lease = await lock.acquire("chest");
    const waiter = await enqueue(lock, "chest");
    // The connection for what is pushed speaks TLS, too.
    const own = await eventually(async () => {
      const clients = String(await server.call("CLIENT", "LIST")).split("\n");
      const found = clients.filter((line) => line.includes(` user=${user.login.username} `));
      expect(found).toHaveLength(2);
      return found;
    });
    for (const line of own) expect(line).toContain(` laddr=127.0.0.1:${String(port)} `);
    expect(await lease.release()).toBe("released");
    const next = await waiter.promise;
    await next.extend();
    expect(await next.release()).toBe("released");
    expect(await server.call("ACL", "LOG")).toEqual([]);
  });

  it.each([
    ["an authority that it does not know", "loopback", "127.0.0.1", {}, "DEPTH_ZERO_SELF_SIGNED_CERT"],
    [
      "another authority",
      "loopback",
      "127.0.0.1",
      { ca: readFileSync(file("expired.crt")) },
      "DEPTH_ZERO_SELF_SIGNED_CERT",
    ],
    ["another name", "loopback", "localhost", { ca }, "ERR_TLS_CERT_ALTNAME_INVALID"],
    [
      "a certificate that has expired",
      "expired",
      "127.0.0.1",
      { ca: readFileSync(file("expired.crt")) },
      "CERT_HAS_EXPIRED",
    ],
  ])("is refused for %s, and says so", async (_, certificate, host, tls, reason) => {
    const { url } = await startTls(certificate);
    const at = url.replace("127.0.0.1", host);
    const refused = await rejection(connect({ url: at, deadlineMs: 3_000, options: { tls } }));
    expect(refused).toBeInstanceOf(KitUnavailableError);
    expect((refused as Error).message).toContain(`(${reason})`);

    const { hostname, port } = new URL(at);
    const client = new Redis({ host: hostname, port: Number(port), tls, disconnectTimeout: 50, ...user.login });
    redis.defer(() => client.disconnect());
    const lock = createLock(client, { prefix, deadlineMs: 1_500 });
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    const unavailable = await rejection(lock.acquire("chest"));
    expect(unavailable).toBeInstanceOf(KitUnavailableError);
    expect((unavailable as Error).message).toContain(`(${reason})`);
    expect(String((unavailable as Error).message)).not.toContain(user.login.password);
  });

  it.each([
    // ioredis 5 calls itself ready before the server has said anything.
    ["TLS is spoken to a plain port", "rediss", false, /\(no answer\)/],
    ["a TLS port is spoken to without TLS", "redis", true, /\(ECONNRESET\)|did not answer/],
  ])("is refused when %s", async (_, scheme, isTlsPort, reason) => {
    const { server, url, port } = await startTls("loopback");
    const plainPort = server.nodes[0]!.port;
    const at = url.replace("rediss", scheme).replace(String(port), String(isTlsPort ? port : plainPort));
    const refused = (await rejection(
      connect({ url: at, deadlineMs: 500, options: scheme === "rediss" ? { tls: { ca } } : {} }),
    )) as Error;
    expect(refused).toBeInstanceOf(KitUnavailableError);
    expect(refused.message).toMatch(reason);
  });
});
