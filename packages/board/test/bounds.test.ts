import { createChat } from "@kit/chat";
import { createLimiter } from "@kit/limiter";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { createQueueEvents } from "@kit/queue/events";
import { queueMetrics } from "@kit/queue/metrics";
import { createSemaphore } from "@kit/semaphore";
import { createStats } from "@kit/stats";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fill, packages, permanentKeys, thing, visit } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

/** How many commands the server runs for clients meanwhile, without those inside scripts. */
const commandsOf = async (work: () => Promise<unknown>): Promise<number> => {
  const seen: string[] = [];
  const monitor = await redis.connect().monitor();
  monitor.on("monitor", (_time: string, [command = ""]: string[], source: string) => {
    if (source !== "lua") seen.push(command.toLowerCase());
  });
  await work();
  const end = `end-${String(seen.length)}`;
  await redis.client.echo(end);
  await vitest.vi.waitUntil(() => seen.includes("echo"), { timeout: 30_000 });
  monitor.disconnect();
  return seen.filter((command) => command !== "echo").length;
};

/** A waiting list as a million adds leave it, made by few commands. */
const crowd = async (name: string, jobs: number): Promise<void> => {
  const queue = createQueue(redis.client, name, { prefix: redis.prefix });
  redis.defer(() => queue.close());
  await queue.add("slow", {}, { id: "first" });
  const head = `${redis.prefix}:queue:{${name}}:`;
  const script = `local blob = redis.call('HGET', KEYS[1], 'first')
    for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
      redis.call('HSET', KEYS[1], 'j' .. n, blob)
      redis.call('RPUSH', KEYS[2], 'j' .. n)
    end`;
  for (let from = 0; from < jobs; from += 50_000)
    await redis.client.eval(script, 2, `${head}jobs`, `${head}waiting`, from, Math.min(jobs, from + 50_000) - 1);
};

/** Things of a queue whose worker has closed: its own commands would be counted, or arrive while a monitor starts. */
const fillQuietly = async (): Promise<void> => {
  const { finish, worker } = await fill(redis);
  finish();
  await worker.close();
};

describe("the work of a page", () => {
  it("stays within 100 commands with 300,000 waiting jobs, 3,000 locks and 1,000 series", async () => {
    await crowd("big", 300_000);
    await fillQuietly();
    const { client, prefix } = redis;
    // Many calls at the same time, on a machine that may be busy.
    const patient = { prefix, deadlineMs: 30_000 };
    const lock = createLock(client, patient);
    const stats = createStats(client, patient);
    redis.defer(async () => {
      await lock.close({ timeoutMs: 0 });
      await stats.close();
    });
    for (let from = 0; from < 3_000; from += 100) {
      const some = Array.from({ length: 100 }, (_, n) => `item:${String(from + n)}`);
      await Promise.all(some.map((name) => lock.acquire(name, { leaseMs: 600_000 })));
    }
    const hits = stats.counter("hits", { labelNames: ["path"] });
    for (let n = 0; n < 1_000; n++) void hits.add({ path: `/p${String(n)}` });
    await stats.flush();

    const crowded = createQueue(client, "crowded", { prefix });
    const events = createQueueEvents(client, "crowded", { prefix });
    const metrics = queueMetrics(client, { queue: "crowded", prefix }, { countNames: 1_000 });
    redis.defer(async () => {
      metrics.close();
      await events.close();
      await crowded.close();
    });
    await events.ready();
    for (let n = 0; n < 250; n++) await crowded.add("slow", n, { id: `g${String(n)}`, group: `tenant-${String(n)}` });

    const visitor = visit(redis, { metrics: (name) => (name === "crowded" ? metrics : undefined) });
    const pages = [
      "",
      "list=queues",
      "list=locks",
      "list=metrics",
      "page=health",
      "page=health&part=act",
      thing("queue", ["big"]),
      thing("queue", ["big"], ["state", "waiting"], ["start", "250000"]),
      thing("queue", ["big"], ["state", "waiting"], ["job", "rare"]),
      thing("queue", ["big"], ["keys", "1"]),
      thing("queue", ["big"], ["do", "queue pause"]),
      thing("queue", ["big"], ["do", "queue purge"]),
      thing("job", ["big", "j299999"]),
      thing("job", ["big", "j299999"], ["do", "queue remove"]),
      thing("lock", ["item:7"], ["keys", "1"]),
      thing("queue", ["crowded"]),
      thing("queue", ["crowded"], ["groups", "tenant-150"]),
      thing("job", ["crowded", "g7"]),
    ];
    // The first page after the start of a server also loads scripts, and calls at the same time load the same ones.
    await visitor.get("");
    for (const query of pages) {
      let status = 0;
      const commands = await commandsOf(async () => ({ status } = await visitor.get(query)));
      expect([query, status]).toEqual([query, 200]);
      expect([query, commands <= 100 || commands]).toEqual([query, true]);
    }
  });

  it("lets no inspector of a listed thing send more commands than it says", async () => {
    await fillQuietly();
    const { client, prefix } = redis;
    const lock = createLock(client, { prefix });
    const semaphore = createSemaphore(client, "payments", { permits: 2, prefix });
    const chat = createChat(client, { prefix });
    const limiter = createLimiter(client, "logins", { limits: { hourly: { count: 5, perMs: 3_600_000 } }, prefix });
    const stats = createStats(client, { prefix });
    redis.defer(async () => {
      await Promise.all([
        lock.close({ timeoutMs: 0 }),
        semaphore.close({ timeoutMs: 0 }),
        chat.close(),
        limiter.close(),
        stats.close(),
      ]);
    });
    await lock.acquire("item");
    await semaphore.acquire();
    await limiter.setLimits({ hourly: { count: 6, perMs: 3_600_000 } });
    void stats.counter("hits").add(1);
    await stats.flush();
    const names = { queue: "mail", lock: "item", semaphore: "payments", limiter: "logins", stats: "hits" };
    for (const [kind, name] of Object.entries(names)) {
      const inspector = packages.flatMap(({ inspectors = [] }) => inspectors).find((one) => one.thing === kind)!;
      const call = {
        redis: client as never,
        prefix,
        text: () => undefined,
        integer: () => undefined,
        isSet: () => false,
      };
      // The first call also loads scripts and asks the server about itself.
      await inspector.look(call, name);
      const commands = await commandsOf(() => inspector.look(call, name));
      expect([kind, commands, commands <= (inspector.cost ?? 10)]).toEqual([kind, commands, true]);
    }
  });
});
