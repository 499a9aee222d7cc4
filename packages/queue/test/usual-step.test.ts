import { defineScript } from "@kit/core";
import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { keyHead, queueKeys, takenKey } from "../src/job/keys.js";
import { step } from "../src/store/scripts/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

/** The script as it is, and the same without its usual step. */
const [whole, long] = ["", "local usual = usualStep()"].map((head) =>
  defineScript({
    name: "test.step",
    source: step.sources.map((source) => (head === "" ? source : source.replace(head, "local usual = nil"))),
    keys: step.keys,
    args: step.args,
    bytes: true,
    reply: (raw) => (raw as readonly Buffer[]).map(String),
  }),
);

const ids = Array.from({ length: 9 }, (_, index) => `AAAAAAAAA.000${String(index)}`);
const index = fc.nat({ max: ids.length - 1 });
const leaseMs = 60_000;

/** What happens to both queues before a step. */
const event = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.constant("add" as const), index) },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.constantFrom(
        "urgent" as const,
        "due" as const,
        "later" as const,
        "failed" as const,
        "deleted" as const,
        "expired" as const,
        "unlimited" as const,
        "limited" as const,
        "dead" as const,
      ),
      index,
    ),
  },
);
const call = fc.record({
  before: fc.array(event, { maxLength: 3 }),
  count: fc.nat({ max: 4 }),
  ahead: fc.nat({ max: 2 }),
  room: fc.constantFrom("", "", "4194304 2", "60 500"),
  flags: fc.constantFrom("", "look", "time", "woken look", "woken time look", "look announce"),
  /** How many of the jobs that were taken last are done; some ends are sent again. */
  done: fc.nat({ max: 3 }),
  isRepeat: fc.constantFrom(false, false, false, true),
  maintenance: fc.constantFrom("", "", "", "2"),
});

it("the usual step changes and replies what the whole script would, whatever is stored", async () => {
  let usual = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 20 }), async (calls) => {
      const { client } = redis;
      await client.flushall();
      const worlds = [whole!, long!].map((script, which) => {
        const name = `q${String(which)}`;
        const keys = queueKeys(redis.prefix, name);
        const keyOf = (takeId: string) => takenKey(keyHead(redis.prefix, name), takeId);
        return { script, keys, keyOf };
      });
      let held: string[] = [];
      let ended: string[] = [];
      let number = 0;
      for (const { before, count, ahead, room, flags, done, isRepeat, maintenance } of calls) {
        for (const { keys } of worlds)
          for (const [what, which] of before) {
            const id = ids[which]!;
            const blob = `k1 job\n"${id}${".".repeat(which * 10)}"`;
            if (what === "add") await client.multi().hset(keys.jobs, id, blob).rpush(keys.waiting, id).exec();
            if (what === "urgent") await client.multi().hset(keys.jobs, id, blob).zadd(keys.prioritised, -5, id).exec();
            if (what === "due") await client.multi().hset(keys.jobs, id, blob).zadd(keys.delayed, 1, id).exec();
            if (what === "later") await client.multi().hset(keys.jobs, id, blob).zadd(keys.delayed, 9e14, id).exec();
            if (what === "failed") await client.hset(keys.failures, id, "1\t0\t{}");
            if (what === "deleted") await client.hdel(keys.jobs, id);
            if (what === "expired" && held[which % 3]) await client.zadd(keys.leases, "XX", 1, held[which % 3]!);
            if (what === "limited") await client.hset(keys.limits, "concurrency", "2");
            if (what === "unlimited") await client.del(keys.limits);
            if (what === "dead") await client.multi().hset(keys.jobs, id, blob).zadd(keys.dead, 5, id).exec();
          }
        if (!isRepeat) number++;
        const takeId = `worker0${(3 * number).toString(36).padStart(5, "0")}`;
        const sure = Math.max(0, count - ahead);
        // Only a worker with a free handler waits.
        const flagged = count === 0 ? flags.replace("woken", "") : flags;
        // A step after a wait ends no job. No step names a job twice, even after a repeated take.
        const again = ended.slice(0, isRepeat ? 1 : 0);
        const ends = flagged.includes("woken") ? [] : [...new Set([...held.slice(0, done), ...again])];
        const args = {
          takeId,
          count,
          sure,
          room,
          leaseMs,
          flags: flagged,
          bounds: "2 9 1209600000 67108864",
          maintenance,
        };
        const replies = [];
        for (const { script, keys, keyOf } of worlds) {
          if (flagged.includes("woken")) await client.zpopmin(keys.wake);
          const own = { ...keys, taken: keyOf(takeId), replies: [] };
          replies.push(await script.run(client, own, { ...args, done: ends.join("\n"), others: [] }));
        }
        const states = await Promise.all(worlds.map(({ keys, keyOf }) => stateOf(keys, keyOf(takeId))));
        expect(masked(replies[0]!)).toEqual(masked(replies[1]!));
        expect(states[0]).toEqual(states[1]);
        if (replies[0]!.at(-1)!.endsWith(" 0 0 -2 0 0")) usual++;
        const taken = (replies[0]!.at(-5) ?? "").split("\n").filter(Boolean);
        ended = ends;
        held = [...held.filter((member) => !ends.includes(member)), ...taken.map((entry) => takeId + entry)];
      }
    }),
    { numRuns: 100 },
  );
  // Both ways were compared, not one with itself.
  expect(usual).toBeGreaterThan(100);
});

/** Without the clock: its micros, which a step without a need for the time leaves out, and when the next lease ends. */
const masked = (reply: readonly string[]): readonly string[] => {
  const [, nextDue, nextEnd, ...others] = (reply.at(-1) ?? "").split(" ");
  return [...reply.slice(0, -1), [nextDue, Number(nextEnd) > 1e12 ? "later" : nextEnd, ...others].join(" ")];
};

/** Everything that is stored; instants of the clock as `now`. */
const stateOf = async (keys: ReturnType<typeof queueKeys>, taken: string): Promise<unknown> => {
  const { client } = redis;
  const zset = async (key: string): Promise<unknown> => {
    const flat = await client.zrange(key, "0", "-1", "WITHSCORES");
    const rows = flat.flatMap((member, at) => (at % 2 === 0 ? [`${member} ${instant(flat[at + 1]!)}`] : []));
    return rows.sort((one, other) => (one < other ? -1 : 1));
  };
  const instant = (score: string): string => (Number(score) > 1e12 && Number(score) < 9e14 ? "now" : score);
  const { watchedAt: _, contactAt: __, graceUntil: ___, ...meta } = await client.hgetall(keys.meta);
  return {
    jobs: await client.hgetall(keys.jobs),
    waiting: await client.lrange(keys.waiting, 0, -1),
    failures: await client.hgetall(keys.failures),
    meta,
    limits: await client.hgetall(keys.limits),
    taken: await client.get(taken),
    zsets: await Promise.all(
      [keys.prioritised, keys.delayed, keys.leases, keys.wake, keys.dead, keys.revoked, keys.suspended].map(zset),
    ),
  };
};
