import { expect, it } from "vitest";
import type { Conforming } from "./description.js";
import type { Fixture, Made } from "./ground.js";

interface Warning {
  on(event: "evictable", listener: (event: { readonly policy: string }) => void): unknown;
}

/** An object warns of a server that may drop its keys. */
export const eviction = (fixture: Fixture, { make, uses }: Conforming): void => {
  const { redis, ground } = fixture;
  const set = async (policy: string, maxmemory: string): Promise<void> => {
    await redis.server.call("CONFIG", "SET", "maxmemory-policy", policy);
    await redis.server.call("CONFIG", "SET", "maxmemory", maxmemory);
  };

  it("emits `evictable` once for each policy, also of a server that it reconnects to", async () => {
    redis.defer(() => set("noeviction", "0"));
    const client = fixture.connect({ retryStrategy: () => 20 });
    const made = make(client as never, { prefix: fixture.prefix() }) as Made & Warning;
    redis.defer(() => made.close({ timeoutMs: 0 }));
    const policies: string[] = [];
    made.on("evictable", ({ policy }) => policies.push(policy));
    // As after a failover. A call that was under way may be sent again without a further look.
    const reconnected = async (expected: readonly string[]): Promise<void> => {
      await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
      await ground.eventually(async () => {
        await uses!(made as never);
        expect(policies).toEqual(expected);
      });
    };
    await uses!(made as never);
    await set("volatile-lru", "1gb");
    await reconnected(["volatile-lru"]);
    await reconnected(["volatile-lru"]);
    await set("allkeys-lfu", "1gb");
    await reconnected(["volatile-lru", "allkeys-lfu"]);
  });
};
