import { connect } from "@kit/core";
import { createLock, type Lease, type Lock } from "@kit/lock";
import { type RedisServer, startRedis } from "@kit/testing";
import {
  type Findings,
  hugeName,
  newerLayout,
  oddNames,
  refusedNames,
  refusedTexts,
  refusedUnsent,
  setTo,
  spoiltKeys,
  type Subject,
} from "../../edges.js";
import type { Edge } from "../../workload.js";

const leaseMs = 60_000;
const deadlineMs = 1_000;

/** A held lock whose keys can be spoilt. */
interface Scene {
  readonly keys: Readonly<Record<string, string>>;
  readonly lock: Lock;
  readonly name: string;
  readonly lease: Lease;
  readonly text: string;
}

const keysOf = (name: string): Record<string, string> =>
  Object.fromEntries(["lease", "fence", "queue", "waiters"].map((part) => [part, `kit:lock:{${name}}:${part}`]));

const withLock = async (work: (server: RedisServer, lock: Lock) => Promise<void>): Promise<void> => {
  await using server = await startRedis();
  await using client = await connect(server.url);
  const lock = createLock(client, { leaseMs, deadlineMs });
  try {
    await work(server, lock);
  } finally {
    await lock.close({ timeoutMs: 0 });
  }
};

const subject: Subject<Scene> = {
  calls: {
    tryAcquire: ({ lock, name }) => lock.tryAcquire(name, { renew: false }),
    acquire: ({ lock, name }) => lock.acquire(name, { waitMs: 30, renew: false }),
    using: ({ lock, name }) => lock.using(name, () => undefined, { waitMs: 30, renew: false }),
    inspect: ({ lock, name }) => lock.inspect(name),
    forceRelease: ({ lock, name }) => lock.forceRelease(name),
    extend: ({ lease }) => lease.extend(),
    release: ({ lease }) => lease.release(),
    resume: ({ lock, text }) => lock.resume(text),
  },
  answers: ["KIT_LOCK_TIMEOUT"],
  stage: (work) =>
    withLock((server, lock) =>
      work(server, async (name) => {
        const lease = await lock.acquire(name, { renew: false });
        return { keys: keysOf(name), lock, name, lease, text: lease.serialise() };
      }),
    ),
};

const spoilt = (): Promise<Findings> =>
  spoiltKeys(subject, {
    lease: {
      empty: setTo(""),
      "no bar": setTo("nobody"),
      "bars only": setTo("|||"),
      "not text": setTo("\u0000\u0001|\uffff"),
    },
    fence: {
      empty: setTo(""),
      "no number": setTo("1:x"),
      "no layout": setTo("x:1"),
      huge: setTo(`1:${"9".repeat(30)}`),
      bars: setTo("1:::"),
    },
    queue: { "no waiter behind it": (server, key) => server.call("ZADD", key, "-1", "nobody", "inf", "nobody-else") },
    waiters: {
      "a counter that is no number": (server, key) => server.call("HSET", key, "#", "x"),
      "malformed records": (server, key) => server.call("HSET", key, "a", "", "b", "1", "c", "x y z"),
    },
  });

// Calls on an own lease do not read the fence.
const newer = (): Promise<Findings> =>
  newerLayout(subject, "fence", setTo("2:1:what-ever:comes"), ["extend", "resume", "release"]);

const refusals = (lock: Lock): Readonly<Record<string, () => Promise<unknown>>> => ({
  ...Object.fromEntries(Object.entries(refusedNames).map(([what, name]) => [what, () => lock.acquire(name)])),
  ...Object.fromEntries(Object.entries(refusedTexts).map(([what, text]) => [what, () => lock.resume(text)])),
  "a huge name to try": () => lock.tryAcquire(hugeName),
  "a huge name to inspect": () => lock.inspect(hugeName),
  "a huge name to take": () => lock.forceRelease(hugeName),
  "a huge name to use": () => lock.using(hugeName, () => undefined),
  "a holder of 129 characters": () => lock.acquire("x", { holder: "h".repeat(129) }),
  "a holder of 64 MB": () => lock.acquire("x", { holder: "h".repeat(64_000_000) }),
  "a lease of 0 ms": () => lock.acquire("x", { leaseMs: 0 }),
  "a lease of two days": () => lock.acquire("x", { leaseMs: 172_800_000 }),
  "a lease of no number": () => lock.acquire("x", { leaseMs: Number.NaN }),
  "a negative wait": () => lock.acquire("x", { waitMs: -1 }),
});

const hugeInput = async (): Promise<Findings> => {
  const found: Findings = { effects: 0, checked: 0, broken: [] };
  await withLock(async (server, lock) => {
    // The first acquire comes before the count, since the client sends commands of its own with it.
    await (await lock.acquire("first")).release();
    await refusedUnsent(server, refusals(lock), found);
    for (const name of oddNames) {
      found.checked++;
      const lease = await lock.acquire(name, { waitMs: 0 });
      if ((await lock.tryAcquire(name)) !== null) found.broken.push(`${JSON.stringify(name)}: held twice`);
      await lease.release();
    }
  });
  return found;
};

/** Edges of stored data and of input. */
export const lockEdges: readonly Edge[] = [
  { kind: "huge input", run: hugeInput },
  { kind: "spoilt keys", run: spoilt },
  { kind: "newer layout", run: newer },
];
