import type { Redis } from "ioredis";
import { afterEach, describe, expect, it, vi } from "vitest";
import { watchLoop, type WatchOutcome } from "../src/index.js";
import { useClassic } from "./harness.js";

const classic = useClassic();

function increment(redis: Redis, key: string, timeoutMs?: number): Promise<WatchOutcome<number>> {
  return watchLoop(
    redis,
    [key],
    async () => {
      const value = Number(await redis.get(key)) + 1;
      return { value, transaction: redis.multi().set(key, value) };
    },
    timeoutMs,
  );
}

/** `contenders` clients increment one number five times each. Resolves to the attempts per commit. */
async function attemptsPerCommit(contenders: number, key: string): Promise<number> {
  const clients = await classic.connectMany(contenders);
  const retries = await Promise.all(
    clients.map(async (redis) => {
      let sum = 0;
      for (let round = 0; round < 5; round += 1) sum += (await increment(redis, key)).retries;
      return sum;
    }),
  );
  const commits = contenders * 5;
  expect(await clients[0]!.get(key)).toBe(String(commits));
  return (commits + retries.reduce((sum, count) => sum + count, 0)) / commits;
}

describe("watchLoop, the classic port", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("commits once when nobody interferes", async () => {
    const redis = await classic.connect();
    const key = `${classic.prefix}n`;
    expect(await increment(redis, key)).toEqual({ done: true, value: 1, retries: 0 });
    expect(await redis.get(key)).toBe("1");
  });

  it("starts over when a watched key changes before EXEC", async () => {
    const { redis, proxy } = await classic.connectThroughProxy();
    const other = await classic.connect();
    const key = `${classic.prefix}n`;
    const held = proxy.hold(/exec/i);
    const result = increment(redis, key);
    await held.reached;
    await other.incr(key);
    held.release();
    expect(await result).toEqual({ done: true, value: 2, retries: 1 });
  });

  it("writes nothing and leaves no WATCH behind when the attempt refuses", async () => {
    const redis = await classic.connect();
    const other = await classic.connect();
    const key = `${classic.prefix}n`;
    expect(await watchLoop(redis, [key], async () => ({ value: "no" }))).toEqual({
      done: true,
      value: "no",
      retries: 0,
    });
    await other.set(key, 1);
    expect(await redis.multi().get(key).exec()).toEqual([[null, "1"]]);
  });

  it("no back-off: attempts per commit soar with the number of contenders", async () => {
    const alone = await attemptsPerCommit(1, `${classic.prefix}1`);
    const four = await attemptsPerCommit(4, `${classic.prefix}4`);
    const sixteen = await attemptsPerCommit(16, `${classic.prefix}16`);
    expect(alone).toBe(1);
    expect(four).toBeGreaterThan(1.5);
    expect(sixteen).toBeGreaterThan(2 * four);
  });

  it("no back-off: attempts follow each other without a pause on a busy key, then the work is dropped", async () => {
    const { redis, proxy } = await classic.connectThroughProxy();
    const other = await classic.connect();
    const key = `${classic.prefix}n`;
    const now = Date.now.bind(Date);
    let tries = 0;
    proxy.before = async (text) => {
      if (!/exec/i.test(text)) return;
      await other.set(key, "theirs");
      // The time limit passes during the last attempt.
      if (++tries === 100) vi.spyOn(Date, "now").mockImplementation(() => now() + 3_600_000);
    };
    expect(await increment(redis, key, 60_000)).toEqual({ done: false, retries: 100 });
    expect(await other.get(key)).toBe("theirs");
  });
});
