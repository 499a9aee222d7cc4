// One process that fills a package's keys, and reads them as its users do. The test changes a stored number in between.
// What fills them is cut off in the middle, so that leases, waiters and staged data stay.
import { Readable } from "node:stream";
import { createContactBook, createPrefixIndex } from "@kit/autocomplete";
import { createChat } from "@kit/chat";
import { connect, KitError } from "@kit/core";
import { createConfig } from "@kit/core/config";
import { createGeoIp, importGeoIp, rollbackGeoIp } from "@kit/geoip";
import { createLimiter } from "@kit/limiter";
import { createLock } from "@kit/lock";
import { createQuorumLock } from "@kit/lock/quorum";
import { createReadWriteLock } from "@kit/lock/read-write";
import { createLogJob, createReceiver, createShipper } from "@kit/logship";
import { createQueue } from "@kit/queue";
import { createQueueEvents } from "@kit/queue/events";
import { addFlow, inspectFlow } from "@kit/queue/flows";
import { keepHistory } from "@kit/queue/history";
import {
  cancelJob,
  inspectJob,
  inspectQueue,
  listGroups,
  listJobs,
  listWorkers,
  pauseQueue,
  readLog,
  repairQueue,
  resumeQueue,
  setLimits,
} from "@kit/queue/manage";
import { reportProgress, saveCheckpoint, writeLog } from "@kit/queue/progress";
import { createSchedules } from "@kit/queue/schedules";
import { createSemaphore } from "@kit/semaphore";
import { createStats } from "@kit/stats";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [, , url, name] = process.argv;
let redis = await connect({ url, deadlineMs: 2_000 });
let isFilling = false;
const options = { deadlineMs: 1_000 };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A package's objects, which are closed after each use. Those that fill lose their connection first, as in a crash. */
const withAll = async (made, use) => {
  for (const one of made) one.on?.("error", () => undefined);
  try {
    return await use(...made);
  } finally {
    if (isFilling) redis.disconnect();
    await Promise.allSettled(made.map((one) => one.close({ timeoutMs: 0 })));
  }
};

const locks = (use) => {
  const several = createQuorumLock([redis], { ...options, restartGuardMs: 0 });
  return withAll([createLock(redis, options), createReadWriteLock(redis, options), several], use);
};
/** One of each algorithm. */
const limiters = (use) => {
  const limits = { each: { count: 9, perMs: 60_000 }, all: { count: 90, perMs: 60_000, shared: true } };
  const all = ["gcra", "sliding-window", "fixed-window"].map((algorithm) =>
    createLimiter(redis, algorithm, {
      ...options,
      limits: { each: { ...limits.each, algorithm }, all: { ...limits.all, algorithm } },
      rememberMs: 0,
    }),
  );
  return withAll(all, () => use(limits, ...all));
};
const chats = (use) => withAll([createChat(redis, options)], use);
const handlers = { "*": () => undefined };
const mails = { queue: "mails" };
const queueOptions = { ...options, maxAttempts: 1, history: keepHistory({ maxCount: 10 }) };
const queues = (use) =>
  withAll([createQueue(redis, "mails", queueOptions), createSchedules(redis, "mails", options)], use);
const happens = (emitter, event) => new Promise((resolve) => void emitter.once(event, resolve));
const forever = () => new Promise(() => undefined);
const endless = async function* (one, count) {
  for (let at = 0; at < count; at++) yield one(at);
  await forever();
};
const folder = name === "logship" ? mkdtempSync(join(tmpdir(), "stored-")) : "";
const jobOptions = { ...options, directory: folder };

const packages = {
  lock: {
    fill: () =>
      locks(async (lock, { read, write }, several) => {
        await lock.acquire("item", { leaseMs: 600_000, renew: false });
        await several.acquire("item", { leaseMs: 600_000 });
        await write.using("other", () => undefined);
        await read.acquire("item", { leaseMs: 600_000, renew: false });
        for (const waiting of [lock, write, read]) void waiting.acquire("item").catch(() => undefined);
        await pause(50);
      }),
    use: (step) =>
      locks((lock, shared, several) =>
        Promise.all([
          step("inspect", () => lock.inspect("item")),
          step("tryAcquire", () => lock.tryAcquire("item")),
          step("acquire", () => lock.acquire("item", { waitMs: 50 })),
          step("forceRelease", () => lock.forceRelease("item")),
          step("read/write: inspect", () => shared.inspect("item")),
          step("read", () => shared.read.acquire("item", { waitMs: 50 })),
          step("write", () => shared.write.acquire("item", { waitMs: 50 })),
          step("next write", () => shared.write.tryAcquire("other")),
          step("quorum: inspect", () => several.inspect("item")),
          step("quorum: acquire", () => several.acquire("item", { waitMs: 50 })),
        ]),
      ),
  },
  semaphore: {
    fill: () =>
      withAll([createSemaphore(redis, "seats", { ...options, permits: 3, permitsPerTenant: 2 })], async (seats) => {
        await seats.acquire({ tenant: "ann", weight: 2, leaseMs: 600_000, renew: false });
        void seats.acquire({ tenant: "ann" }).catch(() => undefined);
        await seats.acquire({ tenant: "bob", leaseMs: 600_000, renew: false });
        void seats.acquire({ tenant: "eve", weight: 2 }).catch(() => undefined);
        await pause(50);
      }),
    use: (step) =>
      withAll([createSemaphore(redis, "seats", { ...options, permits: 3, permitsPerTenant: 2 })], (seats) =>
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
        const limits = { concurrency: 5, rate: { count: 100, perMs: 1_000 }, names: { hang: { concurrency: 3 } } };
        await setLimits(redis, mails, {
          ...limits,
          groupConcurrency: 2,
          groups: { shop: { concurrency: 1, weight: 2 } },
        });
        await pauseQueue(redis, mails, { name: "later" });
        void createQueueEvents(redis, "mails", options)
          [Symbol.asyncIterator]()
          .next()
          .catch(() => undefined);
        await schedules.upsert("often", { everyMs: 200, name: "later", data: { to: "eve" }, count: 5 });
        await schedules.upsert("nightly", { cron: "0 3 * * *", name: "mail", data: { to: "eve" } });
        schedules.run();
        let nowHangs;
        const hangs = new Promise((resolve) => (nowHangs = resolve));
        const hang = async (job) => {
          await reportProgress(job, 50);
          await writeLog(job, "half of it");
          await saveCheckpoint(job, { page: 7 });
          if (job.id === "first") nowHangs();
          await forever();
        };
        const fail = () => Promise.reject(new Error("no"));
        const worker = queue.work({ mail: () => "sent", fail, hang }, { concurrency: 9 });
        worker.on("error", () => undefined);
        void queue.call("hang", { to: "eve" }).catch(() => undefined);
        await queue.addAll([
          { name: "mail", data: { to: "ann" } },
          { name: "fail", data: { to: "ann" } },
          { name: "fail", data: { to: "bob" }, maxAttempts: 3, backoff: { firstMs: 60_000 } },
          { name: "hang", data: { to: "ann" }, id: "first" },
          { name: "hang", data: { to: "bob" }, group: "shop" },
          { name: "later", data: { to: "ann" } },
        ]);
        await Promise.all([hangs, ...["completed", "dead", "failed"].map((event) => happens(worker, event))]);
        await pauseQueue(redis, mails);
        await queue.addAll([
          { name: "mail", data: { to: "ann" } },
          { name: "mail", data: { to: "bob" }, priority: 3 },
          { name: "mail", data: { to: "eve" }, group: "shop" },
          { name: "mail", data: { to: "joe" }, delayMs: 500, unique: { key: "joe" } },
        ]);
        const child = { name: "mail", data: { to: "bob" } };
        await addFlow(queue, { id: "root", name: "mail", data: { to: "ann" }, children: [child] });
        await cancelJob(redis, mails, "first");
        await pause(50);
      }),
    use: (step) =>
      queues((queue, schedules) =>
        Promise.all([
          step("add", () => queue.add("mail", { to: "jim" }, { unique: { key: "joe" } })),
          step("add to a group", () => queue.add("mail", { to: "jim" }, { group: "shop" })),
          step("inspectQueue", () => inspectQueue(redis, mails)),
          ...["waiting", "prioritised", "delayed", "active", "dead", "suspended", "grouped", "completed"].map((state) =>
            step(`listJobs ${state}`, () => listJobs(redis, mails, { state })),
          ),
          step("inspectJob", () => inspectJob(redis, mails, "first")),
          step("readLog", () => readLog(redis, mails, "first")),
          step("inspectFlow", () => inspectFlow(redis, mails, "root")),
          step("listGroups", () => listGroups(redis, mails)),
          step("listWorkers", () => listWorkers(redis, mails)),
          step("repairQueue", () => repairQueue(redis, mails, { run: true })),
          step("setLimits", () => setLimits(redis, mails, { groups: { shop: { concurrency: 2 } } })),
          step("deadLetters", async () => {
            const letters = await queue.deadLetters();
            await queue.redrive(letters.map(({ id }) => id));
          }),
          step("list", () => schedules.list()),
          step("next", () => schedules.next("often", 3)),
          step("upsert", () => schedules.upsert("often", { everyMs: 300, name: "mail", data: { to: "eve" } })),
          step("work", async () => {
            await resumeQueue(redis, mails);
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
        const log = stats.messages("shop");
        for (const text of ["no stock", "no stock", "late", "no route"]) log.log("warn", text);
        await stats.flush();
      }),
    use: (step) =>
      withAll([createStats(redis, options)], (stats) => {
        const views = stats.counter("views", { labelNames: ["of"] });
        const ms = stats.distribution("ms", { labelNames: ["of"], slowest: 3 });
        const log = stats.messages("shop");
        const hour = { lastMs: 3_600_000 };
        return Promise.all([
          step("total", () => views.total({ of: "hats" })),
          step("read", () => views.read({ of: "hats" }, { ...hour, stepMs: 60_000 })),
          step("summary", async () => (await ms.summary({ of: "a" }, hour)).quantile(0.9)),
          step("slowest", () => ms.slowest({ of: "a" }, hour)),
          step("recent", () => log.recent({ level: "warn" })),
          step("frequent", () => log.frequent({ ...hour, level: "warn" })),
          step("flush", () => {
            views.inc({ of: "hats" });
            ms.observe({ of: "a" }, 5, { subject: "x" });
            log.log("warn", "one more");
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
          for (const id of ["7", "8", "7", "9"]) await book.record(id, { text: `Piper ${id}` });
          await book.block("9");
          void cities.rebuild(endless((at) => ({ id: `n${at}`, text: `Bonn ${at}` }), 2_000)).catch(() => undefined);
          await pause(100);
          await cities.put({ id: "3", text: "Bielefeld" });
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
            step("put", async () => {
              await cities.putMany([{ id: "1", text: "Bonn", weight: 6 }]);
              await cities.rebuild([{ id: "1", text: "Berne" }]);
            }),
            step("book", () => book.suggest("pi")),
            step("list", () => book.list()),
            step("record", async () => {
              await book.record("5", { text: "Piper 5" });
              await book.unblock("9");
            }),
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
          createShipper(redis, "web", { ...options, limitBytes: 10_000_000, consumers: ["a", "b"], flushMs: 10 }),
          createReceiver(redis, "web", { ...options, consumer: "a" }),
          createReceiver(redis, "web", { ...options, consumer: "b" }),
          createLogJob(redis, "sums", jobOptions),
        ],
        async (shipper, ...readers) => {
          const [ann, bob, job] = readers;
          const count = (lines, results) => results.increment("n", "n", lines.length);
          await shipper.send("a.log", Readable.from(["one\n", "two\n"]));
          await Promise.all([ann, bob].map((one) => one.run(count, { until: "empty" })));
          await shipper.send("b.log", Readable.from(["three\n"]));
          await ann.run(count, { until: "empty" });
          await job.run(count);
          const sink = { apply: () => Promise.reject(new Error("away")) };
          for (const one of [ann, job]) await one.forward("n", sink).catch(() => undefined);
          const live = endless((at) => `line ${at}\n`, 9);
          void shipper.send("live.log", Readable.from(live)).catch(() => undefined);
          writeFileSync(join(folder, "b.log"), "one\ntwo\nthree\n");
          void job.run(forever).catch(() => undefined);
          await pause(100);
        },
      );
      writeFileSync(join(folder, "a.log"), "one\ntwo\nthree\n");
    },
    use: (step) =>
      withAll(
        [
          createShipper(redis, "web", { ...options, limitBytes: 10_000_000, consumers: ["a", "b"] }),
          createReceiver(redis, "web", { ...options, consumer: "b" }),
          createLogJob(redis, "sums", jobOptions),
        ],
        (shipper, receiver, job) =>
          Promise.all([
            step("status", () => shipper.status()),
            step("send", () => shipper.send("b.log", Readable.from(["three\n"]), { signal: AbortSignal.timeout(100) })),
            step("receive", () => receiver.run(() => undefined, { signal: AbortSignal.timeout(100) })),
            step("job", () => job.run(() => undefined, { signal: AbortSignal.timeout(100) })),
            step("files", () => job.files()),
            step("forward", () => job.forward("n", { apply: () => undefined })),
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

/** The arguments of inspectors and of commands that only read, by the thing or the path. */
const looks = {
  ...{ lock: ["item"], limiter: ["gcra"], semaphore: ["seats"], chat: ["order"], "contact-book": ["user"] },
  ...{ autocomplete: ["cities"], geoip: ["city"], logship: ["web"], stats: ["ms"], queue: ["mails"] },
  ...{ job: ["mails", "first"], flow: ["mails", "root"], schedule: ["mails", "often"] },
  ...{ "queue workers": ["mails"], "queue schedules": ["mails"], "queue list": ["mails"] },
  ...{ "queue groups": ["mails"], "queue show": ["mails", "first"], "stats show": ["views"], "stats top": ["shop"] },
};
const given = { key: "ann", tenant: "ann" };
/** The package on the command line: what it shows, and the checks of `kit doctor`. */
const useTools = async (step) => {
  if (name === "config") return;
  const { inspectors = [], commands = [], checks = [] } = (await import(`@kit/${name}/descriptor`)).descriptor;
  const call = {
    ...{ redis, prefix: "kit", text: (option) => given[option], integer: () => undefined, isSet: () => false },
    ...{ output: { report: () => undefined, line: () => undefined }, signal: AbortSignal.timeout(1_000) },
  };
  await Promise.all([
    ...inspectors.map(({ thing, look }) => step(`kit inspect ${thing}`, () => look(call, ...looks[thing]))),
    ...commands.flatMap(({ path, run }) => (path in looks ? step(`kit ${path}`, () => run(call, ...looks[path])) : [])),
    ...checks.map(({ id, look }) => step(`check ${id}`, () => look(call))),
  ]);
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
  isFilling = task === "fill";
  if (isFilling) {
    await packages[name].fill().catch((error) => failures.push(error.stack));
    redis.disconnect();
    redis = await connect({ url, deadlineMs: 2_000 });
  } else {
    await useTools(step);
    await packages[name].use(step);
  }
  process.send({ failures, megabytes: process.memoryUsage.rss() / 1e6 });
};
process.on("message", (task) => void run(task));
process.on("disconnect", () => process.exit());
process.send("ready");
