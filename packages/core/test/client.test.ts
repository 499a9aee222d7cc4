import { Cluster, Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { KitUnavailableError } from "../src/kernel/base/errors.js";
import {
  addressOf,
  duplicateNode,
  hasEnded,
  isReady,
  keyPrefixOf,
  nodeOfSlot,
  reachable,
} from "../src/kernel/connection/client.js";

const single = new Redis({ lazyConnect: true, host: "h", port: 7, password: "canary", keyPrefix: "app:" });
const node = { host: "10.0.0.1", port: 7001 };
const mapped = { host: "127.0.0.1", port: 17_001 };
const cluster = (natMap?: unknown): Cluster =>
  new Cluster([node], {
    lazyConnect: true,
    ...(natMap === undefined ? {} : { natMap: natMap as Record<string, never> }),
  });

describe("what core reads of a client", () => {
  it("is the address, without credentials", () => {
    expect(addressOf(single)).toBe("h:7");
    expect(addressOf(new Redis({ lazyConnect: true, path: "/run/r.sock" }))).toBe("/run/r.sock");
    expect(addressOf(cluster())).toBe("the cluster");
    const sentinels = [{ host: "s1" }, { host: "s2", port: 7 }];
    const behind = new Redis({ lazyConnect: true, sentinels, name: "main", sentinelPassword: "canary" });
    expect(addressOf(behind)).toBe('"main" at the Sentinels s1:26379, s2:7');
  });

  it("is the key prefix, wherever it stands", () => {
    expect(keyPrefixOf(single)).toBe("app:");
    expect(keyPrefixOf(new Cluster([node], { lazyConnect: true, redisOptions: { keyPrefix: "c:" } }))).toBe("c:");
    expect(keyPrefixOf(cluster())).toBe("");
  });

  it("is that a client which never connected is neither ready nor ended", () => {
    expect([single, cluster()].map((client) => [isReady(client), hasEnded(client)])).toEqual([
      [false, false],
      [false, false],
    ]);
  });

  it("is no node, of a single server and of an unknown slot", () => {
    expect([nodeOfSlot(single, 1), nodeOfSlot(cluster(), 1)]).toEqual(["", ""]);
  });

  it("is the way to a node, mapped as the caller said", () => {
    const byName = { "10.0.0.1:7001": mapped };
    const byCall = (key: string): unknown => (key === "10.0.0.1:7001" ? mapped : null);
    expect([byName, byCall].map((map) => reachable(cluster(map), node))).toEqual([mapped, mapped]);
    const other = { host: "10.0.0.2", port: 7001 };
    expect([byName, byCall, undefined].map((map) => reachable(cluster(map), other))).toEqual([other, other, other]);
    expect(reachable(single, node)).toEqual(node);
  });
});

describe("a connection next to a Cluster client that knows no master", () => {
  it("is refused as an unavailable server, which may be back at the next try", () => {
    const open = (): unknown => duplicateNode(cluster(), {});
    expect(open).toThrow(KitUnavailableError);
    expect(open).toThrow(expect.objectContaining({ address: "the cluster", retryable: true }));
  });
});
