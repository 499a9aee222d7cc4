import { readFileSync } from "node:fs";
import { once } from "node:events";
import { type AddressInfo, connect as dial, type Socket } from "node:net";
import { createServer } from "node:tls";
import { inspect } from "node:util";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { RedisOptions } from "ioredis";
import { startRedis, useRedis } from "@kit/testing";
import { connect } from "../src/connect/connect.js";
import { health } from "../src/connect/health.js";
import { bare, own, rejection } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel" });

const pem = (name: string): string => readFileSync(new URL(`tls/loopback.${name}`, import.meta.url), "utf8");

/** A door that speaks TLS in front of a server that does not. */
const tlsDoor = async (port: number): Promise<number> => {
  const sockets: Socket[] = [];
  const door = createServer({ cert: pem("crt"), key: pem("key") }, (near) => {
    const far = dial(port, "127.0.0.1");
    sockets.push(near, far);
    for (const socket of [near, far]) socket.on("error", () => undefined);
    near.pipe(far).pipe(near);
  }).listen(0, "127.0.0.1");
  await once(door, "listening");
  redis.defer(() => {
    door.close();
    for (const socket of sockets) socket.destroy();
  });
  return (door.address() as AddressInfo).port;
};

describe("connect behind Sentinels", () => {
  it("speaks TLS to them and to their master, and learns of failovers by it", async () => {
    const { nodes, sentinels } = redis.server;
    const doors = await Promise.all(sentinels.map(({ port }) => tlsDoor(port)));
    const master = { host: "127.0.0.1", port: await tlsDoor(nodes[0]!.port) };
    const client = await own(redis, {
      url: `rediss+sentinel://${doors.map((port) => `127.0.0.1:${String(port)}`).join(",")}/kit`,
      options: {
        tls: { ca: pem("crt") },
        natMap: { [`127.0.0.1:${String(nodes[0]!.port)}`]: master },
        updateSentinels: false,
      },
    });
    expect(await client.ping()).toBe("PONG");
    for (const sentinel of sentinels)
      await expect.poll(async () => String(await sentinel.call("CLIENT", "LIST"))).toContain("name=kit:sentinel");
  });

  it("never speaks in the clear when the address says TLS", async () => {
    const url = redis.url.replace("redis+", "rediss+");
    expect(await rejection(connect({ url, deadlineMs: 1_000 }))).toMatchObject({ code: "KIT_UNAVAILABLE" });
  });

  it("says where the master is, and while there is none which Sentinels are asked", async () => {
    const server = await startRedis({ mode: "sentinel", replicas: 0 });
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    const address = `127.0.0.1:${String(server.nodes[0]!.port)}`;
    expect((await health(client)).address).toBe(address);
    expect(inspect(client)).toContain(address);
    await server.nodes[0]!.kill();
    const sentinels = server.sentinels.map(({ port }) => `127.0.0.1:${String(port)}`).join(", ");
    const { error, address: last } = await health(client, 1_000);
    // Where the connection led, until the Sentinels were asked again.
    expect([address, `"kit" at the Sentinels ${sentinels}`]).toContain(last);
    expect(error).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(error?.message).not.toContain("localhost");
  });

  it("names the credentials when the Sentinels want a password, and takes it", async () => {
    const server = await startRedis({ mode: "sentinel", replicas: 0 });
    redis.defer(() => server.stop());
    for (const sentinel of server.sentinels) await sentinel.call("ACL", "SETUSER", "default", "resetpass", ">canary");
    const refused = async (options: RedisOptions): Promise<void> => {
      const error = await rejection(connect({ url: server.url, deadlineMs: 20_000, options }));
      expect(error).toMatchObject({ code: "KIT_AUTH", retryable: false });
      expect(bare(error)).not.toMatch(/canary|wrong/);
    };
    await refused({});
    await refused({ sentinelPassword: "wrong" });
    const client = await own(redis, { url: server.url, options: { sentinelPassword: "canary" } });
    expect(await client.ping()).toBe("PONG");
  });
});
