import { type RedisServer, startRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { classicKeys, waitForSync } from "../src/index.js";

let server: RedisServer<"single">;
let master: Redis;
let replica: Redis;

beforeAll(async () => {
  server = await startRedis({ replicas: 1, persistence: "everysec" });
});
afterAll(() => server.stop());
beforeEach(() => {
  master = server.client();
  replica = server.client({ port: server.replicas[0]!.port });
});
afterEach(() => {
  master.disconnect();
  replica.disconnect();
});

describe("the classic wait for a replica", () => {
  it("ends when the replica has all earlier writes, and leaves no token", async () => {
    for (let round = 0; round < 5; round += 1) {
      await master.set("key", round);
      await waitForSync(master, replica);
      expect(await replica.get("key")).toBe(String(round));
    }
    expect(await master.exists(classicKeys().syncWait)).toBe(0);
  });

  it("removes the tokens of waits that crashed a day ago", async () => {
    await master.zadd(classicKeys().syncWait, 1, "old");
    await waitForSync(master, replica);
    expect(await master.exists(classicKeys().syncWait)).toBe(0);
  });
});
