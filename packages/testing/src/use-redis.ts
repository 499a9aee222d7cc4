import { randomBytes } from "node:crypto";
import type { Cluster, Redis } from "ioredis";

import { eventually } from "./eventually.js";
import {
  connectionLeaks,
  countListeners,
  findKeys,
  keyLeaks,
  listConnections,
  listenerLeaks,
  portOf,
  removeKeys,
  TimerWatch,
  type Connection,
  type ListenerCounts,
} from "./leaks.js";
import type { RedisNode } from "./node.js";
import { patience } from "./patience.js";
import { ADMIN_NAME } from "./resp.js";
import {
  launchRedis,
  type LocalRedis,
  type RedisClient,
  type RedisClientOptions,
  type RedisClusterOptions,
  type RedisMode,
  type RedisServer,
  type StartRedisOptions,
} from "./server.js";

/** Takes a function for a test runner to call, as `beforeEach` of Vitest, Jest and node:test do. */
export type TestHook = (run: () => Promise<void>) => unknown;

/** The hooks of a test runner: the `vitest` module itself, `@jest/globals`, or `node:test`. */
export type TestHooks = { readonly beforeEach: TestHook; readonly afterEach: TestHook } & (
  | { readonly beforeAll: TestHook; readonly afterAll: TestHook }
  | { readonly before: TestHook; readonly after: TestHook }
);

/** Options of `useRedis`: which server to start, and which keys may stay. */
export interface UseRedisOptions<M extends RedisMode = RedisMode> extends StartRedisOptions<M> {
  /**
   * Keys that may be without expiry after a test. A text is compared with the whole key, and with the part after `<prefix>:` in
   * it. In a text, `*` matches anything. A RegExp is tested on the whole key.
   *
   * @default []
   */
  readonly permanentKeys?: readonly (string | RegExp)[];
}

/** A server for a test file, and the members that a single test needs. */
export interface TestRedis<M extends RedisMode = RedisMode> {
  readonly server: RedisServer<M>;
  readonly url: string;
  /** A unique text for this test, such as `t-3f9a2c`. All its keys must start with it, or contain it. */
  readonly prefix: string;
  /** A client for all tests of the file. Don't close it. */
  readonly client: RedisClient<M>;
  /** A new ioredis client for this test, disconnected after it; see {@link RedisServer.client}. */
  connect(options?: RedisClientOptions, clusterOptions?: RedisClusterOptions): RedisClient<M>;
  /** All keys that contain this test's prefix, over all masters, sorted. */
  keys(): Promise<string[]>;
  /** Allows these keys to be without expiry after this test; see {@link UseRedisOptions.permanentKeys}. */
  permanent(...keys: readonly (string | RegExp)[]): void;
  /**
   * Runs `close` after this test, before the leak checks. Use it for objects that the test itself opens. The last one runs first.
   */
  defer(close: () => unknown): void;
}

// How long a closing connection, an expiring key and the like may take.
const SETTLE_MS = 1_000;
// ioredis keeps a timer of two seconds when it disconnects a socket that was cut already.
const TIMER_SETTLE_MS = 2_500;
// All others accept a killed Cluster node again within two seconds; this allows for a busy machine.
const READY_TIMEOUT_MS = 15_000;

/**
 * Starts one server for the tests of a file (or of a `describe`), and gives each test its own prefix and clients.
 *
 * After each test it fails that test if the test left one of these behind:
 *
 * - keys with its prefix that have no expiry and are not listed as permanent
 * - connections to the server
 * - listeners on the shared client or on clients of `connect()`
 * - timers that keep the process alive
 * - a server that is paused or killed
 *
 * It waits one second for things to settle (timers: 2.5 s), times `KIT_TESTING_PATIENCE`. Then it repairs what it can, so that
 * the next test starts clean. After a test with a failover, it replaces the server with a new one: read `server`, `url` and
 * `client` from the returned object in each test.
 *
 * Call it before the file's own hooks: Vitest runs `afterEach` hooks in reverse order, so its checks come last. Jest and
 * node:test run hooks in the given order, and Vitest runs `onTestFinished` after all of them: in these cases, close objects with
 * `defer`. Tests of one file that run at the same time would see each other's leaks. If a file calls `useRedis` several times,
 * only the call whose test ends last looks for timers.
 *
 * @example
 * import * as vitest from "vitest";
 * const redis = useRedis(vitest);
 *
 * vitest.test("counts", async () => {
 *   await redis.client.set(`${redis.prefix}:n`, 1, "EX", 60);
 *   vitest.expect(await redis.keys()).toEqual([`${redis.prefix}:n`]);
 * });
 */
export function useRedis<M extends RedisMode = "single">(
  runner: TestHooks,
  options: UseRedisOptions<M> = {},
): TestRedis<M> {
  const { permanentKeys = [], ...serverOptions } = options;
  const file = new TestFile(permanentKeys, serverOptions);
  const beforeAll = "beforeAll" in runner ? runner.beforeAll : runner.before;
  const afterAll = "afterAll" in runner ? runner.afterAll : runner.after;
  beforeAll(() => file.open());
  afterAll(() => file.close());
  runner.beforeEach(() => file.beginTest());
  runner.afterEach(() => file.endTest());
  return file;
}

class TestFile<M extends RedisMode> implements TestRedis<M> {
  readonly #permanentKeys: readonly (string | RegExp)[];
  readonly #options: StartRedisOptions<M>;
  readonly #usedPrefixes: Set<string> = new Set();
  readonly #timers = new TimerWatch();
  #server: LocalRedis<M> | undefined;
  #client: RedisClient<M> | undefined;
  #clientListeners: ListenerCounts = new Map();
  #test: TestState | undefined;

  constructor(permanentKeys: readonly (string | RegExp)[], options: StartRedisOptions<M>) {
    this.#permanentKeys = permanentKeys;
    this.#options = options;
  }

  get server(): RedisServer<M> {
    return this.#local;
  }

  get #local(): LocalRedis<M> {
    return this.#server ?? notYet("server", "hooks and tests");
  }

  get url(): string {
    return this.server.url;
  }

  get client(): RedisClient<M> {
    return this.#client ?? notYet("client", "hooks and tests");
  }

  get prefix(): string {
    return this.#current.prefix;
  }

  connect(options?: RedisClientOptions, clusterOptions?: RedisClusterOptions): RedisClient<M> {
    const test = this.#current;
    const client = this.server.client({ disconnectTimeout: 50, ...options }, clusterOptions);
    test.clients.push({ client, listeners: countListeners(client) });
    return client;
  }

  async keys(): Promise<string[]> {
    return findKeys(await this.#local.masters(), this.prefix);
  }

  permanent(...keys: readonly (string | RegExp)[]): void {
    this.#current.permanentKeys.push(...keys);
  }

  defer(close: () => unknown): void {
    this.#current.deferred.push(close);
  }

  async open(): Promise<void> {
    this.#server = await launchRedis(this.#options);
    await this.#openClient();
  }

  async close(): Promise<void> {
    await this.#server?.stop();
  }

  async beginTest(): Promise<void> {
    const startedAt = performance.now();
    if (this.client.status === "end") await this.#openClient();
    await this.#ready();
    let prefix: string;
    do prefix = `t-${randomBytes(3).toString("hex")}`;
    while (this.#usedPrefixes.has(prefix));
    this.#usedPrefixes.add(prefix);
    this.#clientListeners = countListeners(this.client);
    this.#test = {
      prefix,
      connections: await listConnections(this.#local.all, this.client),
      permanentKeys: [...this.#permanentKeys],
      clients: [],
      deferred: [],
    };
    await this.#timers.begin(startedAt);
  }

  async endTest(): Promise<void> {
    const test = this.#current;
    const problems: string[] = [];
    try {
      problems.push(...(await runDeferred(test.deferred)), ...(await reviveNodes(this.#local.all)));
      problems.push(...(await this.#leaks(test)));
      if (await this.#local.isAsBegun()) await removeKeys(this.server.nodes, test.prefix);
      else await this.#replaceServer();
    } finally {
      for (const { client } of test.clients) client.disconnect();
      this.#test = undefined;
      this.#timers.end();
    }
    if (problems.length === 0) return;
    const remedy = problems.some((problem) => problem.includes(" key without expiry: "))
      ? "\nIf a key needs no expiry, list it in `permanentKeys` of `useRedis`."
      : "";
    throw new Error(`This test left behind:\n${problems.map((problem) => `  - ${problem}`).join("\n")}${remedy}`);
  }

  async #leaks(test: TestState): Promise<string[]> {
    const leaks = (await this.#isClientClosed())
      ? ["a closed shared client: close only clients from `redis.connect()`"]
      : [];
    leaks.push(...(await settle(SETTLE_MS * patience(), () => this.#listenerLeaks(test))));
    // Not before: their listeners end with them.
    for (const { client } of test.clients) client.disconnect();
    const isPermanent = matcher(test.prefix, test.permanentKeys);
    const onServer = async () => [
      ...(await keyLeaks(await this.#local.masters(), test.prefix, isPermanent)),
      ...connectionLeaks(await listConnections(this.#local.all, this.client), test.connections),
    ];
    leaks.push(...(await settle(SETTLE_MS * patience(), onServer)));
    const timers = await settle(TIMER_SETTLE_MS * patience(), () => this.#timers.leaks());
    if (timers.length === 0) return leaks;
    this.#timers.forgive();
    return [...leaks, ...timers];
  }

  get #current(): TestState {
    return this.#test ?? notYet("prefix, clients and keys", "a test");
  }

  #listenerLeaks(test: TestState): string[] {
    const shared = listenerLeaks(this.client, this.#clientListeners, "the shared client");
    const own = test.clients.flatMap(({ client, listeners }, index) =>
      listenerLeaks(client, listeners, `the client of connect() number ${index + 1}`),
    );
    return [...shared, ...own];
  }

  async #isClientClosed(): Promise<boolean> {
    const client: Redis | Cluster = this.client;
    // A client that has just sent QUIT still looks ready, but accepts no more commands.
    await client.ping().catch(() => {});
    return client.status === "end";
  }

  /** Restores the first roles after a failover, so that each test starts with the first node as master. */
  async #replaceServer(): Promise<void> {
    await this.#local.stop();
    await this.open();
  }

  async #openClient(): Promise<void> {
    // Tests kill servers, and the next test waits for this client to be back.
    this.#client = this.server.client(
      { connectionName: ADMIN_NAME, retryStrategy: () => 20, maxRetriesPerRequest: null, disconnectTimeout: 50 },
      { clusterRetryStrategy: () => 50 },
    );
    await this.#ready();
  }

  /** Waits until the kit's own connections are all open, so that none of them is opened during the test. */
  async #ready(): Promise<void> {
    const client: Redis | Cluster = this.client;
    await eventually(
      async () => {
        await Promise.all(this.#local.all.map((node) => node.call("PING")));
        if (!("nodes" in client)) {
          await client.ping();
          if (portOf(client) !== this.server.nodes[0]?.port)
            throw new Error("The shared client is not connected to the master");
          return;
        }
        const known = client.nodes("master");
        if (known.length !== this.server.nodes.length) {
          // It dropped a node whose connection a test ended, and would look again only at the next redirection.
          client.refreshSlotsCache();
          throw new Error("The shared client does not know all masters");
        }
        await Promise.all(known.map((node) => node.ping()));
      },
      { timeoutMs: READY_TIMEOUT_MS },
    );
  }
}

interface TestState {
  readonly prefix: string;
  readonly connections: readonly Connection[];
  readonly permanentKeys: (string | RegExp)[];
  readonly clients: { readonly client: Redis | Cluster; readonly listeners: ListenerCounts }[];
  readonly deferred: (() => unknown)[];
}

function notYet(what: string, where: string): never {
  throw new Error(`You can use ${what} of useRedis only inside ${where}`);
}

async function runDeferred(deferred: (() => unknown)[]): Promise<string[]> {
  const problems: string[] = [];
  for (const close of deferred.reverse()) {
    try {
      await close();
    } catch (error) {
      problems.push(`an object that did not close: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return problems;
}

async function reviveNodes(nodes: readonly RedisNode[]): Promise<string[]> {
  const faulty = nodes.filter(({ state }) => state !== "running");
  const problems = faulty.map(({ host, port, state }) => `a ${state} server: ${host}:${port}`);
  for (const node of faulty) {
    if (node.state === "paused") node.resume();
    else await node.start();
  }
  return problems;
}

/** Checks until no leak is left, or the time is over; returns the leaks that are left then. */
async function settle(ms: number, look: () => string[] | Promise<string[]>): Promise<string[]> {
  const until = performance.now() + ms;
  for (;;) {
    let leaks: string[];
    try {
      leaks = await look();
    } catch (error) {
      // The first check after a test that cut all connections finds the kit's own one closed, too.
      leaks = [`a server that does not answer: ${error instanceof Error ? error.message : String(error)}`];
    }
    if (leaks.length === 0 || performance.now() > until) return leaks;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function matcher(prefix: string, patterns: readonly (string | RegExp)[]): (key: string) => boolean {
  const tests = patterns.map((pattern) => {
    if (typeof pattern !== "string") return (key: string) => key.search(pattern) >= 0;
    const text = pattern.split("*").map(escapeRegExp).join(".*");
    const whole = new RegExp(`^${text}$`, "s");
    return (key: string) =>
      whole.test(key) || (key.startsWith(`${prefix}:`) && whole.test(key.slice(prefix.length + 1)));
  });
  return (key) => tests.some((test) => test(key));
}

const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
