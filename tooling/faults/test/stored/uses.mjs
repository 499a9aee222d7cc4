// One process that fills a package's keys, and reads them as its users do. The test changes a stored number in between.
import { Readable } from "node:stream";
import { createContactBook, createPrefixIndex } from "@kit/autocomplete";
import { createChat } from "@kit/chat";
import { connect, KitError } from "@kit/core";
import { createConfig } from "@kit/core/config";
import { createGeoIp, importGeoIp, rollbackGeoIp } from "@kit/geoip";
import { createLimiter } from "@kit/limiter";
import { createLock } from "@kit/lock";
import { createLogJob, createReceiver, createShipper } from "@kit/logship";
import { createQueue } from "@kit/queue";
import { inspectJob, inspectQueue, listJobs, setLimits } from "@kit/queue/manage";
import { createSchedules } from "@kit/queue/schedules";
import { createSemaphore } from "@kit/semaphore";
import { createStats } from "@kit/stats";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [, , url, name] = process.argv;
const redis = await connect({ url, deadlineMs: 2_000 });
const options = { deadlineMs: 1_000 };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A package's objects, which are closed after each use. */
const withAll = async (made, use) => {
  for (const one of made) one.on?.("error", () => undefined);
  try {
    return await use(...made);
  } finally {
    await Promise.allSettled(made.map((one) => one.close({ timeoutMs: 0 })));
  }
};

/** One of each algorithm. */
const limiters = (use) => {
  const limits = { each: { count: 9, perMs: 60_000 }, all: { count: 90, perMs: 60_000, shared: true } };
  const all = ["gcra", "sliding-window", "fixed-window"].map((algorithm) =>
    createLimiter(redis, algorithm, { ...options, limits: { each: { ...limits.each, algorithm } }, rememberMs: 0 }),
  );
  return withAll(all, () => use(limits, ...all));
};
const chats = (use) => withAll([createChat(redis, options)], use);
const handlers = { mail: () => undefined };
const mails = { queue: "mails" };
const queues = (use) =>
  withAll([createQueue(redis, "mails", { ...options, maxAttempts: 3 }), createSchedules(redis, "mails", options)], use);
const folder = name === "logship" ? mkdtempSync(join(tmpdir(), "stored-")) : "";
const jobOptions = { ...options, directory: folder };

const packages = {
  lock: {
    fill: () =>
      withAll([createLock(redis, options)], async (lock) => {
        await lock.acquire("item", { leaseMs: 600_000, renew: false });
        void lock.acquire("item", { waitMs: 300 }).catch(() => undefined);
        await pause(50);
      }),
    use: (step) =>
      withAll([createLock(redis, options)], (lock) =>
        Promise.all([
          step("inspect", () => lock.inspect("item")),
          step("tryAcquire", () => lock.tryAcquire("item")),
          step("acquire", () => lock.acquire("item", { waitMs: 50 })),
          step("forceRelease", () => lock.forceRelease("item")),
        ]),
      ),
  },
  semaphore: {
    fill: () =>
      withAll([createSemaphore(redis, "seats", { ...options, permits: 2, permitsPerTenant: 1 })], async (seats) => {
        await seats.acquire({ tenant: "ann", leaseMs: 600_000, renew: false });
        void seats.acquire({ tenant: "ann", waitMs: 300 }).catch(() => undefined);
        await pause(50);
      }),
    use: (step) =>
      withAll([createSemaphore(redis, "seats", { ...options, permits: 2, permitsPerTenant: 1 })], (seats) =>
        Promise.all([
          step("inspect", () => seats.inspect({ tenant: "ann" })),
          step("tryAcquire", () => seats.tryAcquire({ tenant: "ann" })),
          step("acquire", () => seats.acquire({ tenant: "bob", waitMs: 50 })),
          step("setPermits", () => seats.setPermits(3)),
        ]),
      ),
  },
  limiter: {
    fill: () =>
      limiters(async (limits, ...all) => {
        for (const limiter of all) for (let at = 0; at < 4; at++) await limiter.consume("ann");
        await all[0].block("bob", 600_000);
        void all[0].wait("ann", { waitMs: 300 }).catch(() => undefined);
        await all[0].setLimits(limits);
        await pause(50);
      }),
    use: (step) =>
      limiters(async (limits, ...all) => {
        for (const [at, limiter] of all.entries())
          await Promise.all([
            step(`${at} consume`, () => limiter.consume("ann")),
            step(`${at} check`, () => limiter.check("bob")),
            step(`${at} wait`, () => limiter.wait("ann", { waitMs: 50 })),
            step(`${at} penalize`, () => limiter.penalize("bob", 2)),
            step(`${at} reward`, () => limiter.reward("ann")),
            step(`${at} setLimits`, () => limiter.setLimits(limits)),
          ]);
      }),
  },
  chat: {
    fill: () =>
      chats(async (chat) => {
        await chat.create("order", { members: ["ann", "bob"], receipts: true });
        for (const body of ["one", "two", "three"]) await chat.send("order", { from: "ann", body });
        await chat.ack("bob", { chat: "order", seq: 1 });
        const box = chat.mailbox("bills", { retain: { count: 100 } });
        await box.send({ from: "shop", body: "bill" });
        await box.send({ from: "shop", body: "bill 2" });
        await box.take({ leaseMs: 100 });
      }),
    use: (step) =>
      chats((chat) =>
        Promise.all([
          step("send", () => chat.send("order", { from: "ann", body: "four" })),
          step("fetch", () => chat.fetch("bob", { positions: true })),
          step("unread", () => chat.unread("bob")),
          step("history", () => chat.history("order", { before: 4, limit: 10, member: "ann" })),
          step("ack", () => chat.ack("bob", { chat: "order", seq: 2 })),
          step("wait", () => chat.wait("bob", { waitMs: 50 })),
          step("join", () => chat.join("order", "eve")),
          step("mailbox", async () => {
            const box = chat.mailbox("bills", { retain: { count: 100 } });
            await box.stats();
            const taken = await box.take({ waitMs: 20 });
            await taken?.ack?.();
            await box.send({ from: "shop", body: "bill 3" });
          }),
        ]),
      ),
  },
  queue: {
    fill: () =>
      queues(async (queue, schedules) => {
        await queue.add("mail", { to: "ann" }, { id: "first", priority: 3 });
        await queue.add("mail", { to: "bob" }, { delayMs: 500, unique: { key: "bob" } });
        await setLimits(redis, mails, { concurrency: 5, rate: { count: 100, perMs: 1_000 } });
        await schedules.upsert("often", { everyMs: 200, name: "mail", data: { to: "eve" }, count: 5 });
        await schedules.upsert("nightly", { cron: "0 3 * * *", name: "mail", data: { to: "eve" } });
        const run = queue.work({
          mail: () => {
            throw new Error("no");
          },
        });
        run.on("error", () => undefined);
        await pause(100);
        await run.close({ timeoutMs: 200 });
        schedules.run();
        await pause(100);
      }),
    use: (step) =>
      queues((queue, schedules) =>
        Promise.all([
          step("add", () => queue.add("mail", { to: "joe" }, { unique: { key: "bob" } })),
          step("inspectQueue", () => inspectQueue(redis, mails)),
          step("listJobs", () => listJobs(redis, mails, { state: "delayed" })),
          step("inspectJob", () => inspectJob(redis, mails, "first")),
          step("list", () => schedules.list()),
          step("next", () => schedules.next("often", 3)),
          step("upsert", () => schedules.upsert("often", { everyMs: 300, name: "mail", data: { to: "eve" } })),
          step("work", async () => {
            const worker = queue.work(handlers);
            worker.on("error", () => undefined);
            schedules.run();
            await pause(60);
            await worker.close({ timeoutMs: 100 });
          }),
        ]),
      ),
  },
  stats: {
    fill: () =>
      withAll([createStats(redis, options)], async (stats) => {
        stats.counter("views", { labelNames: ["of"] }).inc({ of: "hats" });
        const ms = stats.distribution("ms", { labelNames: ["of"], slowest: 3 });
        for (let at = 1; at < 40; at++) ms.observe({ of: "a" }, at, { subject: String(at) });
        await stats.flush();
      }),
    use: (step) =>
      withAll([createStats(redis, options)], (stats) => {
        const views = stats.counter("views", { labelNames: ["of"] });
        const ms = stats.distribution("ms", { labelNames: ["of"], slowest: 3 });
        const hour = { lastMs: 3_600_000 };
        return Promise.all([
          step("total", () => views.total({ of: "hats" })),
          step("read", () => views.read({ of: "hats" }, { ...hour, stepMs: 60_000 })),
          step("summary", async () => (await ms.summary({ of: "a" }, hour)).quantile(0.9)),
          step("slowest", () => ms.slowest({ of: "a" }, hour)),
          step("flush", () => {
            views.inc({ of: "hats" });
            ms.observe({ of: "a" }, 5, { subject: "x" });
            return stats.flush();
          }),
        ]);
      }),
  },
  autocomplete: {
    fill: () =>
      withAll(
        [
          createPrefixIndex(redis, "cities", { ...options, order: "weight" }),
          createContactBook(redis, "user", { ...options, ranking: "frecent" }),
        ],
        async (cities, book) => {
          await cities.putMany([
            { id: "1", text: "Berlin", weight: 5 },
            { id: "2", text: "Bern", weight: 3, payload: { a: 1 } },
          ]);
          for (const id of ["7", "8", "7"]) await book.record(id, { text: `Piper ${id}` });
        },
      ),
    use: (step) =>
      withAll(
        [
          createPrefixIndex(redis, "cities", { ...options, order: "weight" }),
          createContactBook(redis, "user", { ...options, ranking: "frecent" }),
        ],
        (cities, book) =>
          Promise.all([
            step("suggest", () => cities.suggest("be")),
            step("put", () => cities.putMany([{ id: "1", text: "Bonn", weight: 6 }])),
            step("book", () => book.suggest("pi")),
            step("list", () => book.list()),
            step("record", () => book.record("9", { text: "Piper 9" })),
          ]),
      ),
  },
  geoip: {
    fill: async () => {
      for (const country of ["XA", "XB"])
        await importGeoIp(
          redis,
          "city",
          [
            { network: "192.0.2.0/25", place: { country }, names: { en: { cityName: "Harbor" } } },
            { network: "2001:db8::/32", place: { country } },
          ],
          options,
        );
    },
    use: (step) =>
      Promise.all([
        ...["cached", "server", "local"].map((mode) =>
          withAll([createGeoIp(redis, "city", { ...options, mode })], (geo) =>
            step(mode, async () => {
              if (mode === "local") await geo.ready();
              await geo.lookup("192.0.2.1");
              await geo.lookup("2001:db8::1");
            }),
          ),
        ),
        step("rollback", () => rollbackGeoIp(redis, "city", options)),
      ]),
  },
  logship: {
    fill: async () => {
      writeFileSync(join(folder, "a.log"), "one\ntwo\n");
      await withAll(
        [
          createShipper(redis, "web", { ...options, limitBytes: 1_000_000, consumers: ["a", "b"] }),
          createReceiver(redis, "web", { ...options, consumer: "a" }),
          createLogJob(redis, "sums", jobOptions),
        ],
        async (shipper, receiver, job) => {
          await shipper.send("a.log", Readable.from(["one\n", "two\n"]));
          const end = new AbortController();
          await receiver
            .run(
              (lines, results) => {
                results.increment("n", "n", lines.length);
                end.abort();
              },
              { signal: end.signal },
            )
            .catch(() => undefined);
          await job.run((lines, results) => {
            results.increment("n", "n", lines.length);
          });
        },
      );
      writeFileSync(join(folder, "a.log"), "one\ntwo\nthree\n");
    },
    use: (step) =>
      withAll(
        [
          createShipper(redis, "web", { ...options, limitBytes: 1_000_000, consumers: ["a", "b"] }),
          createReceiver(redis, "web", { ...options, consumer: "b" }),
          createLogJob(redis, "sums", jobOptions),
        ],
        (shipper, receiver, job) =>
          Promise.all([
            step("status", () => shipper.status()),
            step("send", () => shipper.send("b.log", Readable.from(["three\n"]), { signal: AbortSignal.timeout(300) })),
            step("receive", () => receiver.run(() => undefined, { signal: AbortSignal.timeout(100) })),
            step("job", () => job.run(() => undefined, { signal: AbortSignal.timeout(300) })),
            step("files", () => job.files()),
          ]),
      ),
  },
  config: {
    fill: () =>
      withAll([createConfig(redis, "search", { ...options, default: { limit: 1 } })], async (config) => {
        await config.set({ limit: 2 });
        await config.set({ limit: 3 });
      }),
    use: (step) =>
      withAll([createConfig(redis, "search", { ...options, default: { limit: 1 } })], (config) =>
        Promise.all([
          step("ready", () => config.ready()),
          step("history", () => config.history({ limit: 2 })),
          step("set", () => config.set({ limit: 4 })),
          step("rollback", () => config.rollback(1)),
        ]),
      ),
  },
};

const ends = (reason) => ["AbortError", "TimeoutError"].includes(reason?.name);
const failures = [];
const step = async (what, run) => {
  try {
    await run();
  } catch (error) {
    if (!KitError.is(error) && !ends(error)) failures.push(`${what}: ${error?.stack ?? error}`);
  }
};
process.on("unhandledRejection", (error) => failures.push(`unhandled: ${error?.stack ?? error}`));
process.on("uncaughtException", (error) => failures.push(`uncaught: ${error?.stack ?? error}`));

const run = async (task) => {
  failures.length = 0;
  if (task === "fill") await packages[name].fill().catch((error) => failures.push(error.stack));
  else await packages[name].use(step);
  process.send({ failures, megabytes: process.memoryUsage.rss() / 1e6 });
};
process.on("message", (task) => void run(task));
process.on("disconnect", () => process.exit());
process.send("ready");
