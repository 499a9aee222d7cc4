// The operations, stored objects and idle objects of the page "At scale".
import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { createPrefixIndex } from "@kit/autocomplete";
import { type Chat, createChat } from "@kit/chat";
import { optimistic } from "@kit/core";
import { createConfig } from "@kit/core/config";
import { durable } from "@kit/core/durable";
import { createGeoIp, importGeoIp } from "@kit/geoip";
import { createLock, type Lock } from "@kit/lock";
import { createReceiver, createShipper, type Shipper } from "@kit/logship";
import { createQueue, type Job, type Queue, type QueueOptions } from "@kit/queue";
import { keepHistory } from "@kit/queue/history";
import { pauseQueue, resumeQueue } from "@kit/queue/manage";
import { reportProgress } from "@kit/queue/progress";
import { createSchedules, type Schedules } from "@kit/queue/schedules";
import { createSemaphore, type Semaphore } from "@kit/semaphore";
import { createStats, type Stats } from "@kit/stats";
import { now, seededBelow } from "@tooling/lab";
import { namesOf, queriesOf } from "../suites/autocomplete/names.js";
import { addressText, networksOf } from "../suites/geoip/data.js";
import { logBlocks } from "../suites/logship/log-text.js";
import { calls, type CostedOperation, type IdleObject, inGroups, manyCallers, on, oneByOne } from "./scene.js";
import { type Opened, type Run, type Scene, type StoredObject, work } from "./scene.js";

/** About 200 bytes as JSON, which the server can neither compress nor share. */
const someData = (): { readonly text: string } => ({ text: randomBytes(141).toString("base64") });
/** 100 bytes. */
const someText = (): string => randomBytes(75).toString("base64");
const bulk = 1_000;
/** Neither ends nor is renewed while it is measured. */
const longLease = { leaseMs: 3_600_000 };

/** Five callers of each process. */
const contended = <One>(processes: readonly One[], pair: (one: One) => Promise<unknown>): Opened => {
  const callers = processes.flatMap((one) => Array.from({ length: 5 }, () => oneByOne(() => pair(one))));
  return { run: (count) => Promise.all(callers.map((run) => run(count / callers.length))) };
};
/** Ten callers of one process. */
const wait = (acquire: () => Promise<unknown>): void => {
  for (let caller = 0; caller < 10; caller++) void acquire().catch(() => undefined);
};

// ── lock and semaphore ──────────────────────────────────────────────────────────────────────────────────────────────

const lockOn = on((redis) => createLock(redis));
const locked = async (lock: Lock, name: string): Promise<void> => void (await (await lock.acquire(name)).release());
const orderOf = (index: number): string => `order:${String(10_000_000 + index)}`;

const semaphoreOn = (scene: Scene, name: string, permits: number): Promise<Semaphore> =>
  on((redis) => createSemaphore(redis, name, { permits }))(scene);
const permitted = async (semaphore: Semaphore): Promise<void> => void (await (await semaphore.acquire()).release());

// ── queue ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const queueName = "mail";
type Jobs = { job: (data: object) => unknown };
interface Settings {
  readonly options?: QueueOptions;
  readonly handler?: (job: Job) => unknown;
}

const queueOn = (scene: Scene, options: QueueOptions = {}, name = queueName): Promise<Queue<Jobs>> =>
  on((redis) => createQueue<Jobs>(redis, name, options))(scene);

const addMany = async (queue: Queue<Jobs>, count: number): Promise<void> => {
  for (let left = count; left > 0; left -= bulk)
    await queue.addAll(Array.from({ length: Math.min(bulk, left) }, () => ({ name: "job", data: someData() })));
};

/** A worker with a separate client, as in a separate process. Returns a wait for so many more jobs. */
const workerOn = async (
  scene: Scene,
  concurrency: number,
  { options, handler = () => undefined }: Settings = {},
): Promise<(count: number) => Promise<void>> => {
  const queue = await queueOn(scene, options);
  const worker = scene.own(queue.work({ job: (job) => handler(job as unknown as Job) }, { concurrency }));
  let ended = 0;
  let wanted: { readonly count: number; readonly resolve: () => void } | undefined;
  worker.on("completed", () => {
    if (++ended === wanted?.count) wanted.resolve();
  });
  return (count) => {
    ended = 0;
    return new Promise((resolve) => (wanted = { count, resolve }));
  };
};

/** Jobs that all wait before the worker starts. */
const processing = (concurrency: number, about: string, settings: Settings = {}, what = "", count = 10_000) =>
  work(`queue: process, c=${String(concurrency)}${what}`, about, count, async (scene) => {
    const redis = await scene.client();
    const queue = await queueOn(scene, settings.options);
    const completed = await workerOn(scene, concurrency, settings);
    return {
      prepare: async (jobs) => {
        await pauseQueue(redis, { queue: queueName });
        await addMany(queue, jobs);
      },
      run: async (jobs) => {
        const all = completed(jobs);
        await resumeQueue(redis, { queue: queueName });
        await all;
      },
    };
  });

/** Jobs from the first add until all have ended. */
const untilEnded = async (scene: Scene, produce: Run): Promise<Opened> => {
  const completed = await workerOn(scene, 100);
  const run: Run = async (count) => {
    const all = completed(count);
    await produce(count);
    await all;
  };
  return { run };
};

/** Jobs that are added at even distances. */
const arriving = (what: string, about: string, count: number, perSecond: number, delayMs?: number): CostedOperation => {
  const open = async (scene: Scene): Promise<Opened> => {
    const queue = await queueOn(scene);
    return await untilEnded(scene, async (jobs) => {
      const startedAt = now();
      const adds: Promise<unknown>[] = [];
      for (let index = 0; index < jobs; index++) {
        const earlyMs = startedAt + (index * 1_000) / perSecond - now();
        if (earlyMs > 0) await sleep(earlyMs);
        adds.push(queue.add("job", someData(), { delayMs }));
      }
      await Promise.all(adds);
    });
  };
  const name = `queue: ${what}, ${perSecond.toLocaleString("en-US")} a second`;
  return work(name, about, count, open, { isOnCluster: false });
};

/** Jobs that producers add one by one as fast as they can. */
const busy = async (scene: Scene): Promise<Opened> => {
  const producers: Run[] = [];
  while (producers.length < manyCallers) {
    const queue = await queueOn(scene);
    producers.push(oneByOne(() => queue.add("job", someData())));
  }
  return await untilEnded(scene, (count) => Promise.all(producers.map((add) => add(count / manyCallers))));
};

const schedulesOn = (scene: Scene, name: string): Promise<Schedules> =>
  on((redis) => createSchedules(redis, name))(scene);
const storeSchedules = async (schedules: Schedules, count: number): Promise<void> => {
  const due = { name: "job", data: {}, everyMs: 60_000, startAt: Date.now() + 3e11 };
  await inGroups(500, (index) => schedules.upsert(`s${String(index)}`, due))(count);
};

// ── chat, logship, stats ────────────────────────────────────────────────────────────────────────────────────────────

const from = "sender";
const readerOf = ({ index }: Scene): string => `reader ${String(index)}`;
const chatName = (scene: Scene, index = 0): string => `order:${String(scene.index)}:${String(index)}`;

const bareChatOn = on((redis) => createChat<string>(redis));
/** So many chats of ten members. */
const chatOn = async (scene: Scene, chats = 1): Promise<Chat<string>> => {
  const chat = await bareChatOn(scene);
  const members = [readerOf(scene), from, ...Array.from({ length: 8 }, (_, index) => `member ${String(index)}`)];
  await inGroups(500, (index) => chat.create(chatName(scene, index), { members }))(chats);
  return chat;
};
const sendTo = (chat: Chat<string>, scene: Scene): Promise<unknown> =>
  chat.send(chatName(scene), { from, body: someText() });

/** A reader with a token that has read everything. */
const readerOn = async (scene: Scene, chats?: number) => {
  const chat = await chatOn(scene, chats);
  let token: string | undefined;
  const next = async () => {
    const page = await chat.fetch(readerOf(scene), { token });
    ({ token } = page);
    return page;
  };
  while ((await next()).more);
  return { chat, next };
};

const listen = (scene: Scene, chat: Chat<string>, members: readonly string[]): void => {
  const end = new AbortController();
  const all = members.map((member) => chat.listen(member, { signal: end.signal }).each(() => undefined));
  scene.atEnd(() => {
    end.abort();
    return Promise.allSettled(all);
  });
};

const channel = "web";
const shipperOn = on((redis) => createShipper(redis, channel, { limitBytes: 2 ** 30, consumers: ["stats"] }));
let files = 0;
const ship = (shipper: Shipper, mebibytes: number): Promise<unknown> =>
  shipper.send(`access-${String(++files)}.log`, Readable.from(logBlocks(mebibytes * 2 ** 20)));

const statsOn = on((redis) => createStats(redis));
const routesOf = (stats: Stats) => stats.counter("hits_total", { labelNames: ["route"] });
const routeOf = (index: number) => ({ route: `/route/${String(index)}` });

// ── autocomplete, geoip, core ───────────────────────────────────────────────────────────────────────────────────────

const nameCount = 10_000;
const indexOn = (scene: Scene, name = "sellers") => on((redis) => createPrefixIndex(redis, name))(scene);

const rangeCount = 20_000;
const loadRanges = async (scene: Scene, count: number): Promise<void> => {
  const ranges = [...networksOf(count)].map(({ first, bits, place }) => ({
    network: `${addressText(first)}/${String(bits)}`,
    place: { country: "XA", cityName: `City ${String(place % 5_000)}` },
  }));
  await importGeoIp(await scene.client(), "city", ranges);
};
const geoOn = async (scene: Scene, cachePages?: number) => {
  if (scene.index === 0) await loadRanges(scene, rangeCount);
  return await on((redis) => createGeoIp(redis, "city", { cachePages }))(scene);
};
const someAddresses = (): ((index: number) => string) => {
  const networks = [...networksOf(rangeCount)];
  const random = seededBelow(3);
  const all = Array.from({ length: 2_000 }, () => addressText(networks[random(rangeCount)]!.first + 1));
  return (index) => all[index % all.length]!;
};

const configOn = async (scene: Scene, name: string) => {
  const config = await on((redis) => createConfig(redis, name, { default: { limit: 50 } }))(scene);
  await config.ready();
  return config;
};

export const operations: readonly CostedOperation[] = [
  calls("lock: acquire and release, free", "no other callers", 2_000, async (scene) => {
    const lock = await lockOn(scene);
    return (index) => locked(lock, `item:${String(scene.index)}:${String(index % 100)}`);
  }),
  work("lock: acquire and release, contended", "10 callers of two processes, one name", 500, async (scene) => {
    const locks = [await lockOn(scene), await lockOn(scene)];
    return contended(locks, (lock) => locked(lock, "hot"));
  }),
  calls("lock: renewal of one lease", "on one server, up to 100 leases of a process share it", 500, async (scene) => {
    const lease = await (await lockOn(scene)).acquire(`held:${String(scene.index)}`);
    return () => lease.extend();
  }),
  calls("semaphore: acquire and release, room", "", 2_000, async (scene) => {
    const semaphore = await semaphoreOn(scene, `render ${String(scene.index)}`, 5);
    return () => permitted(semaphore);
  }),
  work("semaphore: acquire and release, contended", "two permits, 10 callers of two processes", 500, async (scene) => {
    const semaphores = [await semaphoreOn(scene, "hot", 2), await semaphoreOn(scene, "hot", 2)];
    return contended(semaphores, permitted);
  }),
  calls("queue: add", "data of 200 bytes", 2_000, async (scene) => {
    const queue = await queueOn(scene);
    return () => queue.add("job", someData());
  }),
  work("queue: add, 100 at a time", "concurrent adds", 20_000, async (scene) => {
    const queue = await queueOn(scene);
    return { run: inGroups(100, () => queue.add("job", someData())) };
  }),
  work("queue: addAll of 1,000", "", 20_000, async (scene) => {
    const queue = await queueOn(scene);
    return { run: (count) => addMany(queue, count) };
  }),
  arriving("a job", "add and run, evenly spaced, one worker", 30, 10),
  arriving("a job", "the same", 2_000, 1_000),
  work("queue: a job, of busy producers", "add and run; 16 processes add thousands a second", 6_400, busy),
  arriving("a delayed job", "evenly spaced, due after half a second", 200, 100, 500),
  processing(1, "a backlog of jobs whose handler does nothing, without adds"),
  processing(10, "the same"),
  processing(100, "the same"),
  processing(100, "the last 1,000 jobs kept", { options: { history: keepHistory() } }, ", with history"),
  processing(
    100,
    "one progress report a job",
    { handler: (job) => void reportProgress(job, { done: 1 }) },
    ", with progress",
    1_000,
  ),
  calls("chat: send", "100 bytes, any number of members", 2_000, async (scene) => {
    const chat = await chatOn(scene);
    return () => sendTo(chat, scene);
  }),
  work("chat: send, 100 at a time", "concurrent messages to one chat", 5_000, async (scene) => {
    const chat = await chatOn(scene);
    return { run: inGroups(100, () => sendTo(chat, scene)) };
  }),
  calls("chat: fetch, nothing new", "a member's 100 chats, by token", 480, async (scene) => {
    const { next } = await readerOn(scene, 100);
    return next;
  }),
  calls("chat: send, fetch and ack", "one reader", 320, async (scene) => {
    const { chat, next } = await readerOn(scene, 1);
    return async () => {
      await sendTo(chat, scene);
      const { chats } = await next();
      await chat.ack(readerOf(scene), chats[0]?.messages.slice(-1) ?? []);
    };
  }),
  work("logship: upload of 1 MiB", "lines that compress to a fifth", 32, async (scene) => {
    const shipper = await shipperOn(scene);
    return { run: (count) => ship(shipper, count) };
  }),
  work("logship: receipt of 1 MiB", "one consumer, one commit", 32, async (scene) => {
    const shipper = await shipperOn(scene);
    const receiver = scene.own(createReceiver(await scene.client(), channel, { consumer: "stats" }));
    return {
      prepare: (count) => ship(shipper, count),
      run: async () => {
        for await (const file of receiver.files({ until: "empty" })) {
          for await (const { lines } of file.batches()) void lines;
          await file.commit();
        }
      },
    };
  }),
  calls(
    "stats: flush of one counter",
    "of any number of `inc()`; up to four a second by default",
    1_000,
    async (scene) => {
      const stats = await statsOn(scene);
      const counter = stats.counter("hits_total");
      return () => {
        counter.inc();
        return stats.flush();
      };
    },
  ),
  calls("stats: flush of 64 counters", "of one process", 64, async (scene) => {
    const stats = await statsOn(scene);
    const counter = routesOf(stats);
    return () => {
      for (let one = 0; one < 64; one++) counter.inc(routeOf(one));
      return stats.flush();
    };
  }),
  calls("stats: flush of one distribution", "of 100 values", 160, async (scene) => {
    const stats = await statsOn(scene);
    const latency = stats.distribution("request_ms");
    return () => {
      for (let value = 1; value <= 100; value++) latency.observe(value);
      return stats.flush();
    };
  }),
  calls("stats: add, awaited", "", 1_000, async (scene) => {
    const counter = (await statsOn(scene)).counter("hits_total");
    return () => counter.add();
  }),
  calls("stats: read of an hour by minutes", "of one series", 320, async (scene) => {
    const counter = (await statsOn(scene)).counter("hits_total");
    await counter.add();
    return () => counter.read({ lastMs: 3_600_000, stepMs: 60_000 });
  }),
  calls("autocomplete: suggest", "ten of 10,000 names of two words", 1_000, async (scene) => {
    const index = await indexOn(scene);
    const all = namesOf(nameCount, 2);
    if (scene.index === 0) await index.putMany(all);
    const queries = queriesOf(all, 2, 5);
    return (at) => index.suggest(queries[(at * manyCallers + scene.index) % queries.length] ?? "", { limit: 10 });
  }),
  calls("autocomplete: put", "a new name of two words", 1_000, async (scene) => {
    const index = await indexOn(scene, "new sellers");
    const all = namesOf(nameCount, 2);
    let next = scene.index * (nameCount / manyCallers);
    return () => index.put(all[next++ % nameCount]!);
  }),
  calls("geoip: look-up, cached", "page and place seen before", 1_000, async (scene) => {
    const geo = await geoOn(scene);
    const address = addressText([...networksOf(1)][0]!.first);
    await geo.lookup(address);
    return () => geo.lookup(address);
  }),
  calls("geoip: look-up, not cached", "addresses in different pages", 1_000, async (scene) => {
    const geo = await geoOn(scene, 1);
    const address = someAddresses();
    return (index) => geo.lookup(address(index * manyCallers + scene.index));
  }),
  work("core: read of a configuration", "`config.current`", 1_000, async (scene) => {
    const config = await configOn(scene, "search");
    return { run: oneByOne(() => Promise.resolve(config.current)) };
  }),
  calls("core: change of a configuration", "and its read by one process", 500, async (scene) => {
    const config = await configOn(scene, `search ${String(scene.index)}`);
    return (limit) => config.set({ limit });
  }),
  calls("core: transaction (`optimistic`)", "one read, one write, no conflict", 1_000, async (scene) => {
    const redis = await scene.client();
    const stock = `stock:${String(scene.index)}`;
    return () =>
      optimistic(redis, [stock], async (tx) => {
        await tx.call("GET", stock);
        tx.queue("INCR", stock);
      });
  }),
  calls(
    "core: durable write",
    "confirmed by one replica",
    100,
    async (scene) => {
      const redis = await scene.client();
      return async () => {
        const write = await durable(redis, { key: "order:7", replicas: 1, timeoutMs: 5_000 }, (order) =>
          order.call("SET", "order:7", "paid"),
        );
        if (write.outcome !== "safe") throw new Error(`The write is ${write.outcome}: ${String(write.why)}`);
      };
    },
    { callers: 1, replicas: 1, isOnCluster: false },
  ),
];

const object = (name: string, about: string, count: number, store: StoredObject["store"]): StoredObject => ({
  name,
  about,
  count,
  store,
});

export const stored: readonly StoredObject[] = [
  object("lock: a held lock", "", 10_000, async (scene, count) => {
    const lock = await lockOn(scene);
    await inGroups(bulk, (index) => lock.acquire(orderOf(index), longLease))(count);
  }),
  object("lock: a name that was released", "for a week, or `keepMs`", 10_000, async (scene, count) => {
    const lock = await lockOn(scene);
    await inGroups(bulk, (index) => locked(lock, orderOf(index)))(count);
  }),
  object("semaphore: a held permit", "", 10_000, async (scene, count) => {
    const semaphore = await semaphoreOn(scene, "wide", count);
    await inGroups(bulk, () => semaphore.acquire(longLease))(count);
  }),
  object("queue: a waiting job", "data of 200 bytes", 20_000, async (scene, count) =>
    addMany(await queueOn(scene), count),
  ),
  object("queue: a delayed job", "data of 200 bytes", 20_000, async (scene, count) => {
    const queue = await queueOn(scene);
    await inGroups(bulk, () => queue.add("job", someData(), { delayMs: 3_600_000 }))(count);
  }),
  object("queue: a job in the history", "", 10_000, async (scene, count) => {
    const options = { history: keepHistory({ maxCount: count }) };
    const all = (await workerOn(scene, 100, { options }))(count);
    await addMany(await queueOn(scene, options), count);
    await all;
  }),
  object("queue: a schedule", "", 10_000, async (scene, count) =>
    storeSchedules(await schedulesOn(scene, queueName), count),
  ),
  object("chat: a chat of ten members", "no messages", 2_000, chatOn),
  object("chat: a message", "100 bytes, until all have read it", 10_000, async (scene, count) => {
    const chat = await chatOn(scene);
    await inGroups(bulk, () => sendTo(chat, scene))(count);
  }),
  object("logship: 1 MiB of lines", "until all consumers have it", 32, async (scene, count) =>
    ship(await shipperOn(scene), count),
  ),
  object("stats: a series of a counter", "counted once; grows with its buckets", 5_000, async (scene, count) => {
    const counter = routesOf(await statsOn(scene));
    await inGroups(500, (index) => counter.add(routeOf(index)))(count);
  }),
  object("autocomplete: a name of two words", "alphabetical, no payload", nameCount, async (scene, count) =>
    (await indexOn(scene)).putMany(namesOf(count, 2)),
  ),
  object("geoip: a range", "with its place; an import holds two versions", rangeCount, loadRanges),
];

const alone = (name: string, about: string, open: IdleObject["open"]): IdleObject => ({ name, about, open });

export const idle: readonly IdleObject[] = [
  alone("lock: a held lock", "lease of 10 s", async (scene) => (await lockOn(scene)).acquire("held")),
  alone("lock: 1,000 held locks of one process", "lease of 10 s", async (scene) => {
    const lock = await lockOn(scene);
    await inGroups(100, (index) => lock.acquire(`one of many:${String(index)}`))(1_000);
  }),
  alone("lock: a held lock, leaseMs 60,000", "", async (scene) =>
    (await lockOn(scene)).acquire("held longer", { leaseMs: 60_000 }),
  ),
  alone("lock: callers that wait for one name", "ten of one process", async (scene) => {
    const lock = await lockOn(scene);
    await (await lockOn(scene)).acquire("waited for", longLease);
    wait(() => lock.acquire("waited for"));
  }),
  alone("semaphore: a held permit", "lease of 10 s", async (scene) => (await semaphoreOn(scene, "held", 5)).acquire()),
  alone("semaphore: callers that wait for a permit", "ten of one process", async (scene) => {
    const semaphore = await semaphoreOn(scene, "full", 1);
    await (await semaphoreOn(scene, "full", 1)).acquire(longLease);
    wait(() => semaphore.acquire());
  }),
  alone("queue: a queue object that adds nothing", "", async (scene) =>
    (await queueOn(scene, {}, "idle objects")).add("job", {}),
  ),
  alone("queue: a worker without jobs", "any number of handlers", async (scene) => {
    const queue = await queueOn(scene, {}, "no jobs");
    scene.own(queue.work({ job: () => undefined }, { concurrency: 100 }));
  }),
  alone("queue: a worker with one long job", "lease of 10 s", async (scene) => {
    const queue = await queueOn(scene, {}, "a long job");
    let end: (() => void) | undefined;
    scene.own(queue.work({ job: () => new Promise<void>((resolve) => (end = resolve)) }));
    scene.atEnd(() => end?.());
    await queue.add("job", {});
  }),
  alone("queue: 10,000 schedules, none due", "", async (scene) => {
    const schedules = await schedulesOn(scene, "idle schedules");
    await storeSchedules(schedules, 10_000);
    schedules.run();
  }),
  alone("chat: a listener of one member", "in 10 chats", async (scene) =>
    listen(scene, await chatOn(scene, 10), [readerOf(scene)]),
  ),
  alone("chat: listeners of 100 members", "of one process", async (scene) => {
    const chat = await bareChatOn(scene);
    const members = Array.from({ length: 100 }, (_, index) => `one of many ${String(index)}`);
    for (const name of members) await chat.create(name, { members: [name] });
    listen(scene, chat, members);
  }),
  alone("logship: a receiver that waits for files", "", async (scene) => {
    const receiver = scene.own(createReceiver(await scene.client(), "no files", { consumer: "stats" }));
    void receiver.run(() => undefined).catch(() => undefined);
  }),
  alone("stats: counters that count nothing", "", async (scene) => (await statsOn(scene)).counter("hits_total").add()),
  alone("stats: a counter that counts all the time", "`flushMs` of 250", async (scene) => {
    const counter = (await statsOn(scene)).counter("busy_total");
    const timer = setInterval(() => counter.inc(), 20);
    scene.atEnd(() => clearInterval(timer));
  }),
  alone("autocomplete: an index without queries", "", async (scene) => (await indexOn(scene)).suggest("a")),
  alone("geoip: a reader without lookups", "", async (scene) => (await geoOn(scene)).lookup(someAddresses()(0))),
  alone("core: a client of `connect()`", "", (scene) => scene.client()),
  alone("core: a configuration that is followed", "`pollMs` of 30 s", (scene) => configOn(scene, "idle")),
];
