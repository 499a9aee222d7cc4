import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { describeUser, expectGranted, grantedCommands, rejection, usedCommands } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createGeoIp, importGeoIp, rollbackGeoIp } from "../src/index.js";
import { geoIpKeys } from "../src/keys.js";
import { user } from "./acl.js";

const redis = useRedis(vitest, { permanentKeys: ["geoip:*"] });

describe("the ACL user of this package", () => {
  it("is granted the commands that it runs, and no other", async () => {
    const { prefix } = redis;
    await redis.client.set(geoIpKeys(prefix, "spoilt").current, "x", "PX", 60_000);
    await redis.server.nodes[0]!.call("CONFIG", "RESETSTAT");
    const client = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const ranges = (asn: number) => [{ network: "1.0.0.0/24", place: { asn } }];
    await importGeoIp(client, "city", ranges(1), { prefix });
    await importGeoIp(client, "city", ranges(2), { prefix });
    expect(
      await rejection(importGeoIp(client, "city", [...ranges(3), { network: "x", place: {} }], { prefix })),
    ).toMatchObject({
      code: "KIT_GEOIP_IMPORT",
    });
    await rollbackGeoIp(client, "city", { prefix });
    const readers = (["cached", "local", "server"] as const).map((mode) =>
      createGeoIp(client, "city", { prefix, mode, isolate: mode === "server" }),
    );
    for (const reader of readers) expect((await reader.lookup("1.0.0.1")).place).toEqual({ asn: 1 });
    expect(await rejection(createGeoIpOn(client, "spoilt").info())).toMatchObject({ code: "KIT_KEY_TYPE" });
    await eventually(async () => expect(await usedCommands(redis.server.nodes)).toContain("client|setname"));
    await eventually(async () => expect(await usedCommands(redis.server.nodes)).toContain("subscribe"));
    for (const reader of readers) await reader.close();
    const used = await usedCommands(redis.server.nodes);
    // Run only now and then: what an abandoned import leaves is removed, shards without expiry are looked at, silence is
    // probed, and INFO is for scripts of other packages.
    const seldom = ["exists", "info", "ping", "publish", "unlink", "unsubscribe"];
    expectGranted([...new Set([...used, ...seldom])].toSorted(), grantedCommands(user.grants("single")));
  });

  describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
    await importGeoIp(client, "city", [{ network: "1.0.0.0/24", place: { asn: 1 } }], { prefix: redis.prefix });
    return geoIpKeys(redis.prefix, "city").current;
  });
});

const createGeoIpOn = (client: Parameters<typeof createGeoIp>[0], name: string) => {
  const reader = createGeoIp(client, name, { prefix: redis.prefix });
  redis.defer(() => reader.close());
  return reader;
};
