import type { KitError, RedisLike } from "@kit/core";
import {
  attach,
  type ClientContext,
  type CloseOptions,
  Deadline,
  defaultsOf,
  expiryOf,
  isClusterClient,
  ObjectLife,
  onAbort,
  resolve,
  TypedEmitter,
  watchEviction,
} from "@kit/core/toolkit";
import { type Grant, HeldLeases, type LossReason, parseLease, type ResolvedAcquire } from "@kit/core/leasing";
import { quorumKey } from "../keys.js";
import { type AcquireOptions, acquireRules, type TryOptions, tryRules } from "../options.js";
import { acquireQuorum } from "./acquire.js";
import { QuorumLease } from "./lease.js";
import { checkLength, type QuorumLockOptions, quorumRules, type QuorumSettings } from "./options.js";
import { QuorumServer, type Servers } from "./server.js";
import { QuorumStore } from "./store.js";
import { failedVote, poll, type Vote } from "./votes.js";

const noOptions: AcquireOptions = {};

/** Events of a quorum lock object. To trace calls, use the diagnostics channels `kit:quorum-lock.*`. */
export interface QuorumLockEvents {
  /** A lease was granted, `waitedMs` milliseconds after the call. */
  readonly acquired: readonly [event: { name: string; waitedMs: number }];
  /** A lease was released. */
  readonly released: readonly [event: { name: string }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; reason: LossReason }];
  /**
   * kit cannot see when a server started, because the user may not run INFO. This server votes even right after a restart that lost its
   * data. Emitted once per server.
   */
  readonly unguarded: readonly [event: { server: string }];
  /** Same as the event of a lock: this server may drop keys when its memory is full. */
  readonly evictable: readonly [event: { server: string; policy: string }];
  /**
   * Background work failed. kit retries it if a retry can help. While too few servers answer, waiting acquires and renewals together emit
   * one error. When commands work again, they emit one with the code `KIT_RECOVERED`.
   */
  readonly error: readonly [error: KitError];
}

/** A lock's state on all servers. kit reads each server at a different instant. */
export interface QuorumInspection {
  /** `unknown`: too few servers answered to decide. */
  readonly state: "free" | "held" | "unknown";
  /** The holder's label. */
  readonly holder: string | null;
  /** How long a quorum of the servers still has the lease, in milliseconds; null unless it is held. */
  readonly msLeft: number | null;
  /** Each server, in the order of the clients: `held`, `free`, `no-answer` or `error`. */
  readonly votes: readonly Vote[];
}

/** Attaches to all clients or to none. The object's life belongs to the first client. */
const attachAll = (
  [first, ...others]: readonly RedisLike[],
  settings: QuorumSettings,
): { readonly life: ObjectLife; readonly contexts: readonly ClientContext[] } => {
  const life = new ObjectLife(first!, settings, "The quorum lock");
  const contexts = [life.context];
  try {
    for (const client of others) contexts.push(attach(client, settings));
  } catch (error) {
    for (const context of contexts) context.detach();
    throw error;
  }
  life.onClosed(...contexts.slice(1).map((context) => () => context.detach()));
  return { life, contexts };
};

/** @throws {TypeError | RangeError} `clients` is not a list of different clients, each of one server. */
const checkClients = (clients: readonly RedisLike[]): void => {
  if (!Array.isArray(clients))
    throw new TypeError(`Expected \`clients\` to be a list of clients, got ${typeof clients}`);
  if (clients.length === 0) throw new RangeError("Expected `clients` to have at least 1 client, got 0");
  const wrong = clients.findIndex(
    (client: { call?: unknown } | null | undefined) => typeof client?.call !== "function",
  );
  if (wrong >= 0) {
    const type = clients[wrong] === null ? "null" : typeof clients[wrong];
    throw new TypeError(
      `Expected \`clients[${String(wrong)}]\` to be an ioredis Redis, or fromNodeRedis(client), got ${type}`,
    );
  }
  if (new Set(clients).size < clients.length) throw new TypeError("Expected `clients` to be different clients");
  if (clients.some(isClusterClient))
    throw new TypeError("Expected each of `clients` to be a client of one server, got a Cluster client");
};

/**
 * Named locks on several independent Redis servers. The holder is the caller that has the lease on more than half of them. Create it with
 * {@link createQuorumLock}.
 *
 * There is no queue. A caller that can't have the lock tries again after a random pause, so the order of arrival does not count. There is
 * no fencing token.
 */
export class QuorumLock extends TypedEmitter<QuorumLockEvents> implements AsyncDisposable {
  /** The settings of an acquire without options. */
  readonly #defaults: ResolvedAcquire;
  readonly #life: ObjectLife;
  readonly #store: QuorumStore;
  readonly #held: HeldLeases<ResolvedAcquire, QuorumLease>;
  readonly #closing = new AbortController();
  readonly #checkLength: (leaseMs: number) => void;
  readonly #used: (name: string) => void;

  /** Created by this package only. */
  constructor(clients: readonly RedisLike[], options: QuorumLockOptions) {
    super();
    checkClients(clients);
    const settings = resolve("options", options, quorumRules);
    this.#checkLength = (leaseMs) => checkLength(settings, leaseMs);
    this.#checkLength(settings.leaseMs);
    this.#defaults = defaultsOf(acquireRules, settings);
    const { life, contexts } = attachAll(clients, settings);
    this.#life = life;
    const keyOf = quorumKey(settings.prefix);
    const shared: Servers = {
      guardMs: settings.restartGuardMs,
      keyOf,
      signal: life.signal,
      byRunId: new Map(),
      unguarded: (server) => this.emit("unguarded", { server }),
      onError: (error) => this.emit("error", error),
    };
    const servers = contexts.map((context, position) => new QuorumServer(context, position, shared));
    this.#store = new QuorumStore(life, servers, settings, keyOf, (error) => this.emit("error", error));
    const expiry = expiryOf(life.context);
    for (const server of servers)
      life.onClosed(
        server.context.executor.onReady(() => {
          server.connected();
          // The server may have lost its data: held leases are written there again.
          expiry.renewNow();
        }),
      );
    const uses = servers.map(({ address: server, context }) =>
      watchEviction(
        context,
        () => this.hasListeners("evictable"),
        (policy) => this.emit("evictable", { server, policy }),
      ),
    );
    // The signal keeps its listener between two acquires.
    onAbort(this.#closing.signal, () => undefined);
    this.#used = (name) => {
      for (const use of uses) use(keyOf(name));
    };
    this.#held = new HeldLeases(this.#store, expiry, (held) => new QuorumLease(held, this.#checkLength), {
      acquired: ({ request: { name } }, waitedMs) => this.emit("acquired", { name, waitedMs }),
      released: ({ request: { name } }) => this.emit("released", { name }),
      lost: ({ request: { name } }, reason) => this.emit("lost", { name, reason }),
    });
  }

  /**
   * Waits until you hold the lock, runs `routine` with the lease, and releases the lock. It also releases the lock if the routine throws,
   * but not if the routine hands the lease over.
   *
   * Resolves with the routine's result. If the lease is lost while the routine runs, `lease.signal` aborts, and the call rejects when the
   * routine has finished. An error of the routine takes precedence. If too few servers answer the release, the call still resolves, and an
   * `error` event is emitted.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but its lease had been lost.
   * @throws all errors of {@link acquire}; the routine did not run.
   */
  async using<T>(
    name: string,
    routine: (lease: QuorumLease) => Promise<T> | T,
    options: AcquireOptions = noOptions,
  ): Promise<T> {
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    return await this.#held.use(await this.acquire(name, options), routine);
  }

  /**
   * Waits until you hold the lock on more than half of the servers, and returns its lease.
   *
   * kit asks all servers at the same time. Without a majority it releases everything and tries again after a random pause of up to 200 ms,
   * until `waitMs` is over. It keeps trying even while too few servers answer. A grant with less than half of its lease left does not
   * count.
   *
   * @throws {QuorumError} `waitMs` passed, or permanent errors of servers make a quorum impossible. It has each server's vote.
   * @throws {SameServerError} two clients lead to the same server.
   * @throws `signal.reason` if `signal` aborts first. If it was aborted before the call, no command is sent.
   * @throws {KitClosedError} this object was closed.
   * @throws {KitError} `KIT_NAME` for a name that cannot be a key.
   * @throws {TypeError | RangeError} an option is invalid.
   *
   * @example
   * await using lease = await lock.acquire("report", { waitMs: 5_000 });
   * await buildReport(lease.signal);
   */
  async acquire(name: string, options: AcquireOptions = noOptions): Promise<QuorumLease> {
    const resolved = options === noOptions ? this.#defaults : resolve("options", options, acquireRules, this.#defaults);
    return await this.#acquire(name, resolved);
  }

  /**
   * Tries once. Returns the lease, or null if other callers hold the lock or try to get it at the same instant.
   *
   * @throws {QuorumError} too few servers answered.
   * @throws all other errors of {@link acquire}.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<QuorumLease | null> {
    const resolved = resolve("options", options, tryRules, { ...this.#defaults, waitMs: 0 });
    return await this.#acquire(name, resolved, () => null);
  }

  /**
   * Reads the state of a lock on each server and changes nothing. It resolves even if servers don't answer.
   *
   * @throws {KitClosedError} this object was closed.
   * @throws {KitError} `KIT_NAME` for a name that cannot be a key.
   */
  async inspect(name: string): Promise<QuorumInspection> {
    this.#life.assertOpen();
    this.#store.kind.keyOf(name);
    const { servers, quorum, settings } = this.#store;
    const byToken = new Map<string, { holder: string; left: number[] }>();
    const ask = async (one: QuorumServer): Promise<Vote> => {
      const server = one.address;
      try {
        const stored = await one.inspect(name, settings.deadlineMs);
        if (!stored) return { server, vote: "free" };
        const { token, holder, msLeft } = stored;
        const known = byToken.get(token) ?? { holder, left: [] };
        known.left.push(msLeft);
        byToken.set(token, known);
        return { server, vote: "held", holder, msLeft };
      } catch (error) {
        return failedVote(server, error);
      }
    };
    const votes = await this.#life.track(
      poll(servers, ask, (given, isOver) => (isOver ? this.#store.completed(given) : undefined)),
    );
    const [most] = [...byToken.values()].sort((one, other) => other.left.length - one.left.length);
    const having = most?.left.length ?? 0;
    const silent = votes.filter(({ vote }) => vote === "no-answer" || vote === "error").length;
    if (!most || having < quorum) {
      const state = having + silent < quorum ? "free" : "unknown";
      return { state, holder: null, msLeft: null, votes };
    }
    const msLeft = most.left.sort((one, other) => other - one)[quorum - 1] ?? null;
    return { state: "held", holder: most.holder, msLeft, votes };
  }

  /**
   * Continues a lease that another process (or object) handed over or serialized. kit renews the lease once, to check that a quorum still
   * has it. After that its own `renew` setting applies.
   *
   * @throws {LockLostError} the lease is no longer held.
   * @throws {QuorumError} too few servers answered in time.
   * @throws {TypeError | RangeError} `text` does not come from `lease.handOver()` or `lease.serialise()`, or the lease is longer than
   * `restartGuardMs`.
   */
  async resume(text: string): Promise<QuorumLease> {
    this.#life.assertOpen();
    const saved = parseLease<object>("quorum-lock", text, () => true);
    const { leaseMs, renew, maxHoldMs, holder } = saved;
    // A limit that is not in the text does not apply, even if this object has a default.
    const defaults = { ...this.#defaults, maxHoldMs: undefined };
    const resolved = resolve("options", { leaseMs, renew, maxHoldMs, holder }, acquireRules, defaults);
    this.#checkLength(resolved.leaseMs);
    return await this.#held.resume(saved, resolved, "");
  }

  /**
   * Closes this object. New and waiting acquires reject with KitClosedError. `close()` waits for held leases, up to `timeoutMs`. Then their
   * signals abort and kit releases them, within another `deadlineMs`. Your clients stay open. Idempotent: the options of the first call
   * apply.
   *
   * @throws {TypeError | RangeError} an option is invalid. It rejects for no other reason.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { deadlineMs } = this.#store.settings;
    await this.#life.close(options, async (deadline) => {
      this.#closing.abort(this.#life.closedError());
      await this.#held.end(deadline);
      await this.#life.untilIdle(new Deadline(Math.max(deadline.at, performance.now() + deadlineMs)));
    });
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #acquire<Refused = never>(
    name: string,
    resolved: ResolvedAcquire,
    refused?: () => Refused,
  ): Promise<QuorumLease | Refused> {
    const startedAt = performance.now();
    const { waitMs } = resolved;
    return this.#life.call(
      "quorum-lock.acquire",
      () => ({ name, waitMs }),
      () => {
        resolved.signal?.throwIfAborted();
        this.#checkLength(resolved.leaseMs);
        // Throws for a name that cannot be a key: nothing was sent.
        this.#used(name);
        const closing = this.#closing.signal;
        const granted = (grant: Grant<ResolvedAcquire>): QuorumLease => this.#held.granted(grant, startedAt);
        return acquireQuorum(this.#store, name, resolved, closing, granted, refused);
      },
    );
  }
}

/**
 * Creates a quorum lock object. One object serves any number of lock names and callers.
 *
 * Pass 3 or 5 clients, each for a separate server that never fails over to a replica. kit never closes the clients, blocks them or
 * subscribes on them. Four servers work, but tolerate no more failures than three. All processes must use the same servers.
 *
 * @throws {TypeError | RangeError} `clients` is not a list of different clients, each of one server, or is empty; or an option is invalid.
 *
 * @example
 * const lock = createQuorumLock([first, second, third]);
 * await lock.using("nightly-report", async (lease) => {
 *   await report(lease.signal);
 * });
 */
export const createQuorumLock = (clients: readonly RedisLike[], options: QuorumLockOptions = {}): QuorumLock =>
  new QuorumLock(clients, options);
