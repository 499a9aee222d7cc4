import { connect } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { inStep } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createGeoIp, importGeoIp } from "../src/index.js";

const redis = useRedis(vitest, { mode: "sentinel", permanentKeys: ["geoip:*"] });
const patience = { timeoutMs: 20_000 };

describe("a database whose master fails", () => {
  it("is answered from caches meanwhile, read and imported after it, and its readers are notified again", async () => {
    const { prefix } = redis;
    const client = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const ranges = (asn: number) => [
      { network: "1.0.0.0/24", place: { asn } },
      { network: "2001:db8::/32", place: { asn } },
    ];
    const first = await importGeoIp(client, "net", ranges(1), { prefix });
    const reader = createGeoIp(client, "net", { prefix, deadlineMs: 2_000 });
    redis.defer(() => reader.close());
    expect(await reader.lookup("1.0.0.1")).toMatchObject({ place: { asn: 1 }, version: first.version });
    const [old] = redis.server.nodes as [RedisNode];
    await inStep(old, redis.server.replicas);
    await old.kill();
    redis.defer(() => old.start());
    expect((await reader.lookup("1.0.0.2")).place).toEqual({ asn: 1 });
    await eventually(async () => expect(await redis.server.master()).not.toBe(old), patience);
    await eventually(async () => expect((await reader.lookup("2001:db8::1")).place).toEqual({ asn: 1 }), patience);
    const { version } = await importGeoIp(client, "net", ranges(2), { prefix, deadlineMs: 20_000 });
    await eventually(
      async () => expect(await reader.lookup("1.0.0.1")).toMatchObject({ place: { asn: 2 }, version }),
      patience,
    );
  });
});
