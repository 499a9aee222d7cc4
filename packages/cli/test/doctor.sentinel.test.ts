import { eventually, type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { doctor, soundArgs } from "./harness.js";

describe("kit doctor behind Sentinels", () => {
  let server: RedisServer<"sentinel">;

  beforeAll(async () => {
    server = await startRedis({
      mode: "sentinel",
      persistence: "everysec",
      password: "s0und-password",
      args: soundArgs,
    });
  });
  afterAll(() => server.stop());

  it("finds nothing wrong with a sound master", async () => {
    const { code, of, said, wrong } = await doctor(server.url);
    expect(wrong).toEqual(of("version").severity === "ok" ? [] : ["version"]);
    expect(said("sentinels")).toBe("3 Sentinels, and enough of them agree for a failover");
    expect(said("replication")).toBe("a master with 2 replicas, all up to date");
    expect(of("access").severity).toBe("ok");
    expect(code).toBe(0);
  });

  it("catches a master without a replica, and a Sentinel that is gone, and then too few of them", async () => {
    for (const replica of server.replicas) await replica.kill();
    await eventually(async () =>
      expect(String(await server.nodes[0]!.call("INFO", "replication"))).toContain("connected_slaves:0"),
    );
    const [first, second, third] = server.sentinels;
    await first!.kill();
    const { said } = await doctor(server.url);
    expect(said("replication")).toMatch(/^the master has no replica/);
    expect(said("sentinels")).toBe(`Sentinels that do not answer: 127.0.0.1:${String(first!.port)}`);
    await second!.kill();
    await eventually(async () => {
      await expect(third!.call("SENTINEL", "CKQUORUM", "kit")).rejects.toThrow("NOQUORUM");
    });
    const { code, said: saidNow } = await doctor(server.url);
    expect(saidNow("sentinels")).toMatch(/reports that too few Sentinels agree for a failover/);
    expect(code).toBe(2);
  });
});
