import { readFileSync } from "node:fs";
import { once } from "node:events";
import { type AddressInfo, connect as dial, type Socket } from "node:net";
import { createServer } from "node:tls";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { connect } from "../src/connect/connect.js";
import { own, rejection } from "./harness.js";

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
  it("speaks TLS to them and to their master, and hears of failovers by it", async () => {
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
});
