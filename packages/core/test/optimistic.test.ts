import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { startRedis, useRedis } from "@kit/testing";
import { KitUnavailableError, KitUnknownOutcomeError } from "../src/kernel/base/errors.js";
import { optimistic } from "../src/transaction/optimistic.js";
import { callsOf, connectionsNamed, own, proxied, rejection, runProgram, until } from "./harness.js";
import { increment, optimisticBehaviour } from "./optimistic-behaviour.js";

const redis = useRedis(vitest);

optimisticBehaviour(redis);

/** Ends the connections that WATCH, as an administrator would. */
const killExclusive = async (): Promise<void> => {
  for (const id of await connectionsNamed(redis, "kit:exclusive"))
    await redis.server.call("CLIENT", "KILL", "ID", id.split("#")[1]!);
};

it("gives replies in the form of the client's", async () => {
  const client = redis.connect({ replyMapping: "resp3" } as object);
  await client.call("HSET", redis.prefix, "field", "value");
  const onClient = await client.call("HGETALL", redis.prefix);
  const { value } = await optimistic(client, [redis.prefix], (tx) => tx.call("HGETALL", redis.prefix));
  expect(value).toEqual(onClient);
  await client.del(redis.prefix);
});

describe("optimistic: processes", () => {
  it("loses no update of eight processes on one key", async () => {
    const source = `
      import { connect, optimistic } from "./dist/index.js";
      const client = await connect({ url: "${redis.url}", deadlineMs: 20_000 });
      const key = "${redis.prefix}";
      for (let round = 0; round < 40; round++)
        await optimistic(client, [key], async (tx) => {
          const next = Number(await tx.call("GET", key)) + 1;
          tx.queue("SET", key, next, "PX", 60_000);
        }, { waitMs: 60_000 });
      await client.close();`;
    const finished = await Promise.all(Array.from({ length: 8 }, () => runProgram(source)));
    expect(finished.map(({ stdout, stderr, code }) => ({ stdout, stderr, code }))).toEqual(
      Array(8).fill({ stdout: "", stderr: "", code: 0 }),
    );
    expect(await redis.client.get(redis.prefix)).toBe("320");
  });
});

describe("optimistic: refusals that pass by themselves", () => {
  /** How the server is made to refuse, and to serve again. */
  const faults: Record<string, readonly [begin: string[][], end: string[][]]> = {
    READONLY: [[["REPLICAOF", "127.0.0.1", "1"]], [["REPLICAOF", "NO", "ONE"]]],
    MASTERDOWN: [
      [
        ["CONFIG", "SET", "replica-serve-stale-data", "no"],
        ["REPLICAOF", "127.0.0.1", "1"],
      ],
      [["REPLICAOF", "NO", "ONE"]],
    ],
    NOREPLICAS: [[["CONFIG", "SET", "min-replicas-to-write", "1"]], [["CONFIG", "SET", "min-replicas-to-write", "0"]]],
  };

  it("cost a try, whichever command they meet, and end the call only at waitMs", async () => {
    for (const [code, [begin, end]] of Object.entries(faults)) {
      const server = await startRedis();
      redis.defer(() => server.stop());
      const client = await own(redis, { url: server.url });
      const send = async (commands: string[][]): Promise<void> => {
        for (const [command = "", ...args] of commands) await server.call(command, ...args);
      };
      const refused = async (): Promise<number> =>
        Number(
          new RegExp(`errorstat_${code}:count=(\\d+)`).exec(String(await server.call("INFO", "errorstats")))?.[1] ?? 0,
        );
      await increment(client, "k");
      let tries = 0;
      const begun = optimistic(
        client,
        ["k"],
        async (tx) => {
          if (++tries === 1) await send(begin);
          const value = Number(await tx.call("GET", "k")) + 1;
          tx.queue("SET", "k", value);
          return value;
        },
        { waitMs: 600_000 },
      );
      await until(async () => (await refused()) >= 2);
      expect((await rejection(increment(client, "k", 200))).retryable).toBe(true);
      await send(end);
      expect((await begun).value).toBe(2);
    }
  });

  it("are also those of a server that is busy with a script", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    await server.call("CONFIG", "SET", "lua-time-limit", "10");
    let endless: Promise<unknown> | undefined;
    const { value, attempts } = await optimistic(
      client,
      [redis.prefix],
      async (tx) => {
        if (endless) return tx.call("GET", redis.prefix);
        endless = server
          .client()
          .eval("while true do end", 0)
          .catch(() => undefined);
        await until(() =>
          server.call("PING").then(
            () => false,
            (error: unknown) => String(error).includes("BUSY"),
          ),
        );
        return tx.call("GET", redis.prefix).catch(async (error: unknown) => {
          await server.call("SCRIPT", "KILL");
          throw error;
        });
      },
      { waitMs: 600_000 },
    );
    expect([value, attempts]).toEqual([null, 2]);
    await endless;
  });
});

describe("optimistic: broken connections", () => {
  it("tries again when the connection is killed between WATCH and EXEC, and applies nothing unguarded", async () => {
    const client = await own(redis);
    await redis.client.set(redis.prefix, "0", "PX", 60_000);
    let runs = 0;
    const { value, attempts } = await optimistic(client, [redis.prefix], async (tx) => {
      const seen = Number(await tx.call("GET", redis.prefix));
      if (++runs <= 5) {
        // Both: what was watched changes, and who watched it is gone.
        await redis.client.incr(redis.prefix);
        await killExclusive();
        if (runs % 2 === 0) await until(async () => (await connectionsNamed(redis, "kit:exclusive")).length === 0);
      }
      tx.queue("SET", redis.prefix, seen + 100, "PX", 60_000);
      return seen;
    });
    expect({ value, attempts }).toEqual({ value: 5, attempts: 6 });
    expect(await redis.client.get(redis.prefix)).toBe("105");
  });

  it("tries again when the connection is killed under a read of the attempt", async () => {
    const client = await own(redis);
    let runs = 0;
    const { attempts } = await optimistic(client, [redis.prefix], async (tx) => {
      if (++runs === 1) await killExclusive();
      await tx.call("GET", redis.prefix);
      tx.queue("SET", redis.prefix, "x", "PX", 60_000);
    });
    expect(attempts).toBe(2);
  });

  it("says that another call may succeed when every connection of its own broke, since the client has not ended", async () => {
    const client = await own(redis);
    const failing = optimistic(
      client,
      [redis.prefix],
      async (tx) => {
        await killExclusive();
        const look = async (): Promise<unknown> => await tx.call("GET", redis.prefix).catch((error: unknown) => error);
        await until(async () => (await look()) instanceof KitUnavailableError);
        // Now it has ended for certain.
        await look();
      },
      { waitMs: 50 },
    );
    const error = await rejection(failing);
    expect(error).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true });
    expect(error.message).not.toContain("has ended");
  });

  it("loses no update through a storm of CLIENT KILL", async () => {
    const client = await own(redis);
    let isOver = false;
    let unknown = 0;
    let done = 0;
    const storm = (async () => {
      while (!isOver) {
        await killExclusive();
        const ended = done + unknown;
        // Without it the transactions would have no chance on a busy machine.
        await until(() => isOver || done + unknown > ended);
      }
    })();
    const worker = async (): Promise<void> => {
      for (let round = 0; round < 20; round++)
        await increment(client, redis.prefix).then(
          () => done++,
          (error: unknown) => {
            if (!(error instanceof KitUnknownOutcomeError)) throw error;
            unknown++;
          },
        );
    };
    await Promise.all(Array.from({ length: 6 }, worker));
    isOver = true;
    await storm;
    const total = Number(await redis.client.get(redis.prefix));
    expect(done + unknown).toBe(120);
    expect(total).toBeGreaterThanOrEqual(done);
    expect(total).toBeLessThanOrEqual(done + unknown);
  });

  it("calls the outcome unknown when EXEC's reply is lost", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const losing = optimistic(client, [redis.prefix], async (tx) => {
      await tx.call("GET", redis.prefix);
      proxy.down.cutNext = 1;
      tx.queue("SET", redis.prefix, "x", "PX", 60_000);
    });
    const error = await rejection(losing);
    expect(error).toBeInstanceOf(KitUnknownOutcomeError);
    expect(error).toMatchObject({ retryable: false, op: undefined });
    expect(error.message).toBe(
      `The transaction on ${redis.prefix} was sent, but the reply was lost: the change may or may not have been made`,
    );
    expect(await redis.client.get(redis.prefix)).toBe("x");
  });

  it("tries again on a fresh connection when its own goes silent before EXEC", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await increment(client, redis.prefix);
    let runs = 0;
    const result = await optimistic(
      client,
      [redis.prefix],
      async (tx) => {
        if (++runs === 1) proxy.down.hole = true;
        const reading = tx.call("GET", redis.prefix);
        if (runs === 1) setTimeout(() => proxy.heal(), 300);
        await reading;
        tx.queue("SET", redis.prefix, "x", "PX", 60_000);
      },
      { waitMs: 10_000 },
    );
    expect(result.attempts).toBeGreaterThan(1);
    expect(await redis.client.get(redis.prefix)).toBe("x");
  });

  it("makes no second try of a command that the client cannot take, and passes its error on", async () => {
    let attempts = 0;
    const error = await rejection(
      optimistic(redis.client, [redis.prefix], (tx) => {
        attempts++;
        return tx.call("DEL", ...Array<string>(100_000).fill(redis.prefix));
      }),
    );
    expect(error).toBeInstanceOf(RangeError);
    expect(attempts).toBe(1);
  });

  it("says that no server answered when there is none, within waitMs", async () => {
    const client = await own(redis);
    const [node] = redis.server.nodes;
    await node!.kill();
    expect(await rejection(increment(client, redis.prefix, 300))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    await node!.start();
  });

  it("does not give a dead idle connection out", async () => {
    const client = await own(redis);
    await increment(client, redis.prefix);
    await killExclusive();
    await until(async () => (await connectionsNamed(redis, "kit:exclusive")).length === 0);
    expect((await increment(client, redis.prefix)).value).toBe(2);
  });
});

describe("optimistic against the classic loop", () => {
  /** A key that somebody else writes between every WATCH and EXEC. */
  const busyFor = 400;

  const kitTries = async (key: string): Promise<number> => {
    const client = await own(redis);
    const before = await callsOf(redis, "watch");
    const losing = optimistic(
      client,
      [key],
      async (tx) => {
        await redis.client.set(key, Math.random(), "PX", 60_000);
        tx.queue("SET", key, "ours", "PX", 60_000);
      },
      { waitMs: busyFor },
    );
    await rejection(losing);
    return (await callsOf(redis, "watch")) - before;
  };

  it("the tries on a busy key are bounded by the back-off", async () => {
    expect(await kitTries(redis.prefix)).toBeLessThan(40);
  });

  it("work whose every try had a conflict is reported, where the classic loop drops it", async () => {
    const key = redis.prefix;
    const client = await own(redis);
    const losing = optimistic(
      client,
      [key],
      async (tx) => {
        await redis.client.set(key, Math.random(), "PX", 60_000);
        tx.queue("SET", key, "ours", "PX", 60_000);
      },
      { waitMs: 50 },
    );
    expect(await rejection(losing)).toMatchObject({ code: "KIT_CONFLICT" });
  });

  it("writes of neighbours on the shared connection do not slip in", async () => {
    const client = await own(redis);
    await redis.client.set(redis.prefix, "0", "PX", 60_000);
    const neighbours = Array.from({ length: 200 }, () => client.call("INCR", `${redis.prefix}:other`));
    const [results] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, () => increment(client, redis.prefix))),
      ...neighbours,
    ]);
    expect(new Set(results.map(({ value }) => value)).size).toBe(20);
    await redis.client.pexpire(`${redis.prefix}:other`, 60_000);
  });
});
