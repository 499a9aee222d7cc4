import { connect, type RedisLike } from "@kit/core";
import { createSemaphore, type Permit, type Semaphore, type SemaphoreOptions } from "@kit/semaphore";
import { type RedisServer, startRedis } from "@kit/testing";
import {
  type Findings,
  newerLayout,
  oddNames,
  refusedNames,
  refusedTexts,
  refusedUnsent,
  spoiltKeys,
  type Subject,
} from "../../edges.js";
import type { Edge } from "../../workload.js";

const settings = { permits: 2, leaseMs: 60_000, deadlineMs: 1_000 };
const tenant = "one";

/** A group with one held permit, whose keys can be spoilt. */
interface Scene {
  readonly keys: Readonly<Record<string, string>>;
  readonly semaphore: Semaphore;
  readonly permit: Permit;
  readonly text: string;
}

const keysOf = (name: string): Record<string, string> =>
  Object.fromEntries(
    ["permits", "meta", "queue", "ready", "waiters"].map((part) => [part, `kit:semaphore:{${name}}:${part}`]),
  );

type Maker = (name: string, options?: Partial<SemaphoreOptions>) => Semaphore;

/** Runs `work` with a server and a factory, and closes every semaphore that the factory made. */
const withSemaphores = async (work: (server: RedisServer, make: Maker) => Promise<void>): Promise<void> => {
  await using server = await startRedis();
  await using client = await connect(server.url);
  const made: Semaphore[] = [];
  const make: Maker = (name, options) => {
    const semaphore = createSemaphore(client as RedisLike, name, { ...settings, ...options });
    made.push(semaphore);
    return semaphore;
  };
  try {
    await work(server, make);
  } finally {
    await Promise.all(made.map((semaphore) => semaphore.close({ timeoutMs: 0 })));
  }
};

const ask = { tenant, renew: false };

const subject: Subject<Scene> = {
  calls: {
    tryAcquire: ({ semaphore }) => semaphore.tryAcquire(ask),
    acquire: ({ semaphore }) => semaphore.acquire({ ...ask, waitMs: 30 }),
    using: ({ semaphore }) => semaphore.using(() => undefined, { ...ask, waitMs: 30 }),
    setPermits: ({ semaphore }) => semaphore.setPermits(3),
    inspect: ({ semaphore }) => semaphore.inspect(),
    extend: ({ permit }) => permit.extend(),
    release: ({ permit }) => permit.release(),
    resume: ({ semaphore, text }) => semaphore.resume(text),
  },
  answers: ["KIT_SEMAPHORE_TIMEOUT", "KIT_SEMAPHORE_WEIGHT"],
  stage: (work) =>
    withSemaphores((server, make) =>
      work(server, async (name) => {
        const semaphore = make(name, { permitsPerTenant: 2 });
        const permit = await semaphore.acquire(ask);
        return { keys: keysOf(name), semaphore, permit, text: permit.serialise() };
      }),
    ),
};

const spoilt = (): Promise<Findings> =>
  spoiltKeys(subject, {
    permits: {
      "malformed permit records": (server, key) => server.call("ZADD", key, "9999999999999", "nobody", "inf", "|||"),
      "an invalid weight": (server, key) => server.call("ZADD", key, "9999999999999", "a|x||b", "0", "c|-1||d"),
    },
    meta: {
      "invalid limits": (server, key) =>
        server.call("HSET", key, "layout", "1", "permits", "x", "perTenant", "y", "extra", "z"),
      "no limits": (server, key) => server.call("HSET", key, "layout", "1"),
      "counts that are no numbers": (server, key) =>
        server.call("HSET", key, "layout", "1", "permits", "2", "perTenant", "2", `u:${tenant}`, "x"),
    },
    queue: { "malformed rows": (server, key) => server.call("ZADD", key, "0", "x y z", "0", "|", "0", " ") },
    ready: { "tenants without a waiter": (server, key) => server.call("ZADD", key, "-1", "nobody", "inf", tenant) },
    waiters: {
      "a counter that is no number": (server, key) => server.call("HSET", key, "#", "x"),
      "malformed records": (server, key) => server.call("HSET", key, "a", "", "b", "1", "c", "x y z"),
    },
  });

// `extend` and `resume` touch only their own permit while the queue is empty, so they do not read `meta`.
const newer = (): Promise<Findings> =>
  newerLayout(subject, "meta", (server, key) => server.call("HSET", key, "layout", "2"), ["extend", "resume"]);

const refusals = (make: Maker): Readonly<Record<string, () => Promise<unknown>>> => {
  const semaphore = make("x");
  const inGroup = make("y", { permitsPerTenant: 1 });
  return {
    // The factory throws synchronously, so it is wrapped in an async function.
    ...Object.fromEntries(Object.entries(refusedNames).map(([what, name]) => [what, async () => make(name)])),
    ...Object.fromEntries(Object.entries(refusedTexts).map(([what, text]) => [what, () => semaphore.resume(text)])),
    "no limit": async () => make("x", { permits: Number.NaN }),
    "a limit beyond all bounds": async () => make("x", { permits: 1e9 + 1 }),
    "a negative limit": () => semaphore.setPermits(-1),
    "a weight of 0": () => semaphore.acquire({ weight: 0 }),
    "a weight of a half": () => semaphore.acquire({ weight: 0.5 }),
    "a weight beyond all bounds": () => semaphore.acquire({ weight: 1e9 + 1 }),
    "a priority beyond its bounds": () => semaphore.acquire({ priority: 1_001 }),
    "a tenant of 129 characters": () => inGroup.acquire({ tenant: "t".repeat(129) }),
    "a tenant of half a surrogate pair": () => inGroup.acquire({ tenant: "\ud800" }),
    "no tenant in a group": () => inGroup.acquire(),
    "a tenant without a group": () => semaphore.acquire({ tenant }),
    "a holder of 64 MB": () => semaphore.acquire({ holder: "h".repeat(64_000_000) }),
    "a lease of 0 ms": () => semaphore.acquire({ leaseMs: 0 }),
    "a negative wait": () => semaphore.acquire({ waitMs: -1 }),
  };
};

const hugeInput = async (): Promise<Findings> => {
  const found: Findings = { effects: 0, checked: 0, broken: [] };
  await withSemaphores(async (server, make) => {
    // The first acquire comes before the count, since the client sends commands of its own with it.
    await (await make("first").acquire()).release();
    await refusedUnsent(server, refusals(make), found);
    for (const name of oddNames) {
      found.checked++;
      const semaphore = make(name, { permits: 1, permitsPerTenant: 1 });
      const odd = name.slice(0, 128);
      const permit = await semaphore.acquire({ tenant: odd, holder: odd, waitMs: 0 });
      if ((await semaphore.tryAcquire({ tenant: "other" })) !== null)
        found.broken.push(`${JSON.stringify(name)}: held twice`);
      const { holders } = await semaphore.inspect();
      if (holders[0]?.tenant !== odd || holders[0].holder !== odd)
        found.broken.push(`${JSON.stringify(name)}: inspect shows another tenant or holder`);
      if ((await permit.release()) !== "released") found.broken.push(`${JSON.stringify(name)}: was not released`);
    }
  });
  return found;
};

/** Edges of stored data and of input. */
export const semaphoreEdges: readonly Edge[] = [
  { kind: "huge input", run: hugeInput },
  { kind: "spoilt keys", run: spoilt },
  { kind: "newer layout", run: newer },
];
