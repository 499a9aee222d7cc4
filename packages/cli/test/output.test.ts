import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { factLines, tableLines, wrap } from "../src/print.js";
import { kit, programBeside } from "./harness.js";

describe("a table", () => {
  const id = "nightly-digest-of-sales@1795917600000";
  const rows = [
    ["1", "-", "email", id, "3 of 3", "a sentence that is longer than what is left of the page"],
    ["2", "urgent", "report", "short", "1 of 3", "no"],
  ];

  it("keeps a word that is wider than its column whole, and apart from the next column", () => {
    const lines = tableLines(["#", "priority", "name", "id", "attempts", "error"], rows, 80);
    expect(lines.filter((line) => line.includes(id))).toEqual([expect.stringMatching(`  ${id}  3 of 3`)]);
  });

  it("has one line for each row on a page of any width", () => {
    const lines = tableLines(["#", "priority", "name", "id", "attempts", "error"], rows, Infinity);
    expect(lines).toHaveLength(4);
    expect(lines[2]).toMatch(/ {2}a sentence that is longer than what is left of the page$/);
  });
});

it("a text of two megabytes is broken whatever it holds", () => {
  for (const text of ["/".repeat(2_000_000), "ab cd ".repeat(350_000), "x".repeat(2_000_000)]) {
    const lines = wrap(text, 80);
    expect(lines.join("").replaceAll(" ", "")).toBe(text.replaceAll(" ", ""));
    expect(factLines([["data", text]], 80).length).toBeGreaterThan(1_000_000);
    expect(tableLines(["a", "b"], [[text, "x"]], 80).length).toBeGreaterThan(2);
  }
});

describe("the program", () => {
  const program = programBeside("lock", "queue");
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());
  const run = (...args: string[]) => kit([...args, "--url", server.url], { program });

  it("writes JSON without characters that act on a terminal", async () => {
    await using redis = await connect(server.url);
    await using lock = createLock(redis);
    const name = "a\u009b31m\u202eb\u2028c\u{e0041}\u007f😀";
    await using lease = await lock.acquire(name);
    expect(lease.isHeld).toBe(true);
    const { stdout } = await run("list", "locks", "--json");
    expect(stdout.trim()).toMatch(/^[\P{C}]+$/u);
    expect(stdout).not.toMatch(/\p{Zl}/u);
    expect(JSON.parse(stdout)).toMatchObject({ locks: [{ lock: name }] });
  });

  it("writes each fact of a job on one line into a pipe", async () => {
    await using redis = await connect(server.url);
    await using queue = createQueue<{ email: (data: string) => void }>(redis, "mail");
    const text = "a word and another ".repeat(20).trim();
    const id = await queue.add("email", text);
    const { stdout } = await run("queue", "show", "mail", id);
    expect(stdout.split("\n").filter((line) => line.includes(text))).toHaveLength(1);
  });

  it("ends with 2 when an adoption leaves jobs at BullMQ", async () => {
    await using redis = await connect(server.url);
    const job = { data: "1", opts: "{}", timestamp: 1, delay: 0, priority: 0 };
    await redis.call("HSET", "bull:old:meta", "opts.maxLenEvents", 10_000);
    await redis.call("HSET", "bull:old:1", ...Object.entries({ ...job, name: "x".repeat(129) }).flat());
    await redis.call("HSET", "bull:old:2", ...Object.entries({ ...job, name: "email" }).flat());
    await redis.call("SET", "bull:old:id", 2);
    await redis.call("RPUSH", "bull:old:wait", 1, 2);
    for (const run of [[], ["--run"], ["--run", "--json"]]) {
      const { code, stdout, stderr } = await kit(["queue", "adopt", "old", "mail", ...run, "--url", server.url], {
        program,
      });
      expect([code, stderr]).toEqual([2, ""]);
      expect(stdout).toContain("refused");
    }
    await redis.call("LREM", "bull:old:wait", 0, "1");
    expect((await run("queue", "adopt", "old", "mail", "--run")).code).toBe(0);
  });
});
