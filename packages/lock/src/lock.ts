import { Deadline, KitClosedError, KitError, newToken, type RedisLike, surely, traced, TypedEmitter } from "@kit/core";
import { firstTermMs, LockCommands } from "./commands.js";
import { LockLostError, LockQueueFullError, type LossReason } from "./errors.js";
import { Holding } from "./holding.js";
import type { Grant, Lease, SerialisedLease } from "./lease.js";
import {
  type AcquireOptions,
  type AcquireTerms,
  acquireTerms,
  closeTimeoutMs,
  type CloseOptions,
  type LockOptions,
  type LockSettings,
  lockSettings,
  tryTerms,
  type TryOptions,
} from "./options.js";
import { type NotGranted, Place, type Seen, timeoutOf, Waiters, type WaitingEvents } from "./waiting.js";

const inspectedWaiters = 10;
const noOptions: AcquireOptions = {};

/** What happens to a lock object's locks; for tracing use the diagnostics channels `kit:lock.*`. */
export interface LockEvents {
  /** A lease was granted, `waitedMs` after it was asked for. */
  readonly acquired: readonly [event: { name: string; fencingToken: string; waitedMs: number }];
  /** An acquire was queued behind `position` others and the holder. */
  readonly waiting: readonly [event: { name: string; position: number; holder: string | undefined }];
  /** The server had forgotten a waiter (lost data, or a grant that ran out unheard): it was queued again, at the end. */
  readonly requeued: readonly [event: { name: string }];
  /** A lease was given back. */
  readonly released: readonly [event: { name: string; fencingToken: string }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; fencingToken: string; reason: LossReason }];
  /** Something failed behind the scenes that no caller waits for; it is being tried again where that makes sense. */
  readonly error: readonly [error: KitError];
}

/** What is known of a lock at one instant. It may be another by the time it is read. */
export interface LockInspection {
  readonly state: "free" | "held";
  /** The label of the holder. */
  readonly holder: string | null;
  /** The newest fencing token ever granted; null when there was none for a week. */
  readonly fencingToken: string | null;
  /** What is left of the lease, in milliseconds; null when free, Infinity when somebody took its end away. */
  readonly msLeft: number | null;
  /** How many wait, dead ones not yet noticed among them. */
  readonly waiters: number;
  /** The first ten in line. */
  readonly queue: readonly { readonly holder: string }[];
}

/**
 * Locks by name, on one Redis: at most one holder of a name at any instant of the server's clock, as long as the server
 * keeps its data. Made by {@link createLock}.
 *
 * Whoever cannot have the lock waits in line, in the order in which the server saw them. A release hands the lock to the
 * first of the line and tells it, in one step; nobody polls.
 */
export class Lock extends TypedEmitter<LockEvents> implements AsyncDisposable {
  readonly #settings: LockSettings;
  /** Of an acquire without options. */
  readonly #terms: AcquireTerms;
  readonly #commands: LockCommands;
  readonly #holding: Holding;
  readonly #waiters = new Map<string, Waiters>();
  readonly #stopListening: readonly (() => void)[];
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(redis: RedisLike, options: LockOptions) {
    super();
    this.#settings = lockSettings(options);
    this.#terms = acquireTerms(noOptions, this.#settings);
    this.#commands = new LockCommands(redis, this.#settings, (error) => this.emit("error", error));
    this.#holding = new Holding(this.#commands, {
      released: ({ name, fencingToken }) => this.emit("released", { name, fencingToken }),
      lost: ({ name, fencingToken }, { reason }) => this.emit("lost", { name, fencingToken, reason }),
    });
    const { client, gate, inbox, leases } = this.#commands.runtime;
    const askAgain = (): void => {
      for (const waiters of this.#waiters.values()) waiters.beatNow();
    };
    this.#stopListening = [
      inbox.onResubscribed(askAgain),
      gate.onReady(askAgain),
      gate.onReady(() => leases.renewNow()),
      // A client that its owner ended: whoever waits on it hears of it now.
      gate.onDrop(() => client.status === "end" && askAgain()),
    ];
  }

  /**
   * Waits until this caller holds the lock, runs `routine` with the lease, and gives the lock back, whatever happens.
   *
   * Resolves with the routine's result. If the lease is lost while it runs, `lease.signal` aborts, and after the routine
   * has ended the call rejects; the routine's own error comes first. When the lock cannot be given back because of an
   * outage, the result stands, and an `error` event tells of it.
   *
   * @throws what the routine throws.
   * @throws {LockLostError} the routine ended well, but the lease had been lost before.
   * @throws all that {@link acquire} throws; then the routine was not run.
   *
   * @example
   * const left = await lock.using("item:42", async (lease) => {
   *   return await sell("item:42", { fencingToken: lease.fencingToken, signal: lease.signal });
   * });
   */
  async using<T>(
    name: string,
    routine: (lease: Lease) => Promise<T> | T,
    options: AcquireOptions = noOptions,
  ): Promise<T> {
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    const lease = await this.acquire(name, options);
    let result: T;
    try {
      result = await routine(lease);
    } catch (error) {
      await lease.release().catch(() => undefined);
      throw error;
    }
    const outcome = await lease.release().catch(() => undefined);
    if (outcome === "not-held") throw lease.loss ?? new LockLostError(name, "expired", lease.fencingToken);
    return result;
  }

  /**
   * Waits until this caller holds the lock, and returns the lease that proves it.
   *
   * Waiters are served in the order of their arrival at the server; nobody overtakes. Each acquire is a holder of its
   * own: asking for a name that this process holds already waits as well. A wait costs nothing but a sign of life every
   * five seconds. When the caller gives up (`waitMs`, `signal`), the promise rejects at once and the place in line is
   * given back behind the scenes; a lock that was granted in that very moment moves on to the next.
   *
   * @throws {LockTimeoutError} `waitMs` passed. Its `cause` says so if the server had not answered at all.
   * @throws {LockLostError} the server's answer came after the lease was over. It is being undone; call again.
   * @throws `signal.reason` if `signal` aborts first; one that has aborted already never touches Redis.
   * @throws {LockQueueFullError} `maxWaiters` wait already.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`. Once in line, outages are
   * waited out.
   * @throws {KitUnknownOutcomeError} the first command's reply was lost. It is being undone; call again.
   * @throws {KitError} the server's other errors, by their code; `KIT_NAME` for a name that cannot be a key.
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const lease = await lock.acquire("report", { waitMs: 5_000 });
   * try {
   *   await buildReport(lease.signal);
   * } finally {
   *   await lease.release();
   * }
   */
  async acquire(name: string, options: AcquireOptions = noOptions): Promise<Lease> {
    const terms = options === noOptions ? this.#terms : acquireTerms(options, this.#settings);
    return await traced(
      "lock.acquire",
      () => ({ name, waitMs: terms.waitMs }),
      () => this.#acquire(name, terms),
    );
  }

  /**
   * Tries once, and returns the lease, or null when another holds the lock or others wait for it.
   *
   * @throws all that {@link acquire} throws but LockTimeoutError and LockQueueFullError.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<Lease | null> {
    const terms = tryTerms(options, this.#settings);
    return await traced(
      "lock.acquire",
      () => ({ name, waitMs: 0 }),
      () => this.#try(name, terms),
    );
  }

  /**
   * Looks at a lock without touching it.
   *
   * @throws {KitUnavailableError} no server answered in time.
   */
  async inspect(name: string): Promise<LockInspection> {
    this.#assertOpen();
    const { owner, msLeft, fencingToken, waiting, holders } = await this.#commands.inspect(name, inspectedWaiters);
    return {
      state: owner ? "held" : "free",
      holder: owner?.holder ?? null,
      fencingToken,
      msLeft: owner ? (msLeft === -1 ? Infinity : msLeft) : null,
      waiters: waiting,
      queue: holders.map((holder) => ({ holder })),
    };
  }

  /**
   * Takes the lock away from whoever holds it, and hands it to the first who waits. The former holder learns of it at its
   * next renewal, and until then goes on: for operators, when a holder is known to be gone.
   *
   * Resolves with the label of the former holder; or null when nobody held it, or it changed hands at that moment.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command.
   */
  async forceRelease(name: string): Promise<string | null> {
    this.#assertOpen();
    const keys = this.#commands.keysOf(name);
    // Two steps, so that a lost reply cannot hit the next holder. A lock that changes hands in between is alive.
    const { owner } = await this.#commands.inspect(name, 0);
    if (!owner) return null;
    return (await this.#commands.forceRelease(keys, owner)) ? owner.holder : null;
  }

  /**
   * Goes on with a lease that another process (or object) handed over or serialised. It is renewed once, which proves that it is
   * still held, and from then on by itself.
   *
   * @throws {LockLostError} it is not held any more.
   * @throws {TypeError} `text` does not come from `lease.handOver()` or `lease.serialise()`.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async resume(text: string): Promise<Lease> {
    this.#assertOpen();
    const saved = parseLease(text);
    // What the text does not limit is not limited, whatever this object's own default is.
    const terms = acquireTerms(
      { leaseMs: saved.leaseMs, renew: saved.renew, maxHoldMs: saved.maxHoldMs, holder: saved.holder },
      { ...this.#settings, maxHoldMs: undefined },
    );
    const { name, token, fencingToken } = saved;
    const termMs = firstTermMs(terms);
    const deadlineAt = performance.now() + termMs;
    const lease = this.#holding.lease(terms, { name, token, fencingToken, grantedMs: termMs, deadlineAt });
    try {
      await lease.extend();
    } catch (error) {
      this.#holding.remove(lease);
      throw error;
    }
    return lease;
  }

  /**
   * Ends this object: no acquire begins any more, waiters are rejected with KitClosedError and leave the line, and held
   * leases are waited for, at most `timeoutMs`; what is still held then loses its signal and is released. The client is
   * not touched. Idempotent: the first call decides.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const timeoutMs = closeTimeoutMs(options);
    this.#closing ??= this.#close(Deadline.in(timeoutMs));
    await this.#closing;
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #try(name: string, terms: AcquireTerms): Promise<Lease | null> {
    const startedAt = performance.now();
    const reply = await this.#ask(name, newToken(), terms, "", new Deadline(startedAt));
    return "deadlineAt" in reply ? this.#granted(terms, startedAt, reply) : null;
  }

  async #acquire(name: string, terms: AcquireTerms): Promise<Lease> {
    const startedAt = performance.now();
    const deadline = new Deadline(startedAt + terms.waitMs);
    const { inbox } = this.#commands.runtime;
    // Nobody needs a second connection before the first wait. From then on each acquire is one command.
    let seen: Seen | undefined;
    if (terms.waitMs === 0 || !inbox.isOpen) {
      const reply = await this.#ask(name, newToken(), terms, "", deadline);
      if ("deadlineAt" in reply) return this.#granted(terms, startedAt, reply);
      seen = reply;
      const patience = new Deadline(Math.min(deadline.at, performance.now() + this.#settings.deadlineMs));
      if (terms.waitMs > 0) await inbox.open(patience, terms.signal);
      terms.signal?.throwIfAborted();
      if (deadline.remainingMs <= 0) throw timeoutOf(name, terms.waitMs, seen);
    }
    const place = new Place(inbox, newToken());
    try {
      const reply = await this.#ask(name, place.token, terms, place.channel, deadline, seen);
      if ("deadlineAt" in reply) return this.#granted(terms, startedAt, reply);
      if (reply.state === "full") throw new LockQueueFullError(name, this.#settings.maxWaiters);
      if (this.#closing) {
        // Whoever comes after close() has told the waiters would wait unseen.
        this.#commands.withdraw(this.#commands.keysOf(name), place.token, terms);
        throw new KitClosedError("The lock");
      }
      let waiters = this.#waiters.get(name);
      if (!waiters) this.#waiters.set(name, (waiters = new Waiters(this.#commands, this.#waitingEvents, name)));
      return this.#granted(terms, startedAt, await waiters.wait(place, terms, deadline, reply));
    } finally {
      place.leave();
    }
  }

  /** One command: a grant, or who has the lock and where we stand. If it fails, it is undone. */
  async #ask(
    name: string,
    token: string,
    terms: AcquireTerms,
    inbox: string,
    deadline: Deadline,
    seen?: Seen,
  ): Promise<Grant | NotGranted> {
    this.#assertOpen();
    const { signal, waitMs } = terms;
    signal?.throwIfAborted();
    const keys = this.#commands.keysOf(name);
    try {
      for (;;) {
        const sentAt = performance.now();
        // A single try takes what time a command takes.
        const patienceMs = waitMs === 0 ? Infinity : Math.max(1, deadline.at - sentAt);
        const deadlineMs = Math.min(this.#settings.deadlineMs, patienceMs);
        const reply = await this.#commands.acquire(keys, token, terms, inbox, { sentAt, deadlineMs, signal });
        // Our picture of the server's clock was wrong.
        if (reply.state === "late") continue;
        if (reply.state !== "granted") return reply;
        const { fencingToken, msLeft: grantedMs = firstTermMs(terms) } = reply;
        return { name, token, fencingToken, grantedMs, deadlineAt: sentAt + surely(grantedMs) };
      }
    } catch (error) {
      // It may have been granted, or stand in line, and nobody waits for it.
      if (!(KitError.is(error) && error.code === "KIT_UNAVAILABLE")) this.#commands.withdraw(keys, token, terms);
      // Timers of Node may fire a moment early.
      if (waitMs > 0 && deadline.remainingMs <= 2 && KitError.is(error) && error.retryable)
        throw timeoutOf(name, waitMs, seen, error);
      throw error;
    }
  }

  #granted(terms: AcquireTerms, startedAt: number, grant: Grant): Lease {
    const { name, token, fencingToken } = grant;
    const isOver = grant.deadlineAt <= performance.now();
    if (isOver || this.#closing) {
      // Its answer came after its end, or in the very moment of close(): nobody could use it, or would end it.
      this.#commands.withdraw(this.#commands.keysOf(name), token, terms);
      throw isOver ? new LockLostError(name, "deadline", fencingToken) : new KitClosedError("The lock");
    }
    if (this.hasListeners("acquired"))
      this.emit("acquired", { name, fencingToken, waitedMs: performance.now() - startedAt });
    return this.#holding.lease(terms, grant);
  }

  readonly #waitingEvents: WaitingEvents = {
    queued: (name, position, owner) => this.emit("waiting", { name, position, holder: owner?.holder }),
    requeued: (name) => this.emit("requeued", { name }),
    empty: (name) => this.#waiters.delete(name),
  };

  async #close(deadline: Deadline): Promise<void> {
    for (const waiters of [...this.#waiters.values()]) waiters.close();
    await this.#holding.close(deadline);
    // What was withdrawn just now gets one command's time, also when the deadline is over.
    await this.#commands.close(new Deadline(Math.max(deadline.at, performance.now() + this.#settings.deadlineMs)));
    for (const stop of this.#stopListening) stop();
  }

  #assertOpen(): void {
    if (this.#closing) throw new KitClosedError("The lock");
  }
}

const parseLease = (text: string): SerialisedLease => {
  let saved: Partial<SerialisedLease> | null;
  try {
    saved = JSON.parse(text) as Partial<SerialisedLease> | null;
  } catch {
    // Said below, without the text: it may hold a token.
    saved = null;
  }
  if (
    saved?.kit !== "lock" ||
    saved.layout !== 1 ||
    typeof saved.name !== "string" ||
    typeof saved.token !== "string" ||
    typeof saved.fencingToken !== "string" ||
    !/^\d+$/.test(saved.fencingToken)
  )
    throw new TypeError("Expected the text of `lease.serialise()`, of a lock of this version");
  // What the text does not have is not to be found on a prototype either.
  return Object.assign(Object.create(null) as SerialisedLease, saved);
};

/**
 * Makes a lock object. Locks have names; one object serves any number of them, and any number of callers.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed: never closed, never
 * blocked, never subscribed. The first wait opens one more connection, for what is pushed; `close()` ends it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 *
 * @example
 * const lock = createLock(redis);
 * await lock.using("item:42", async (lease) => {
 *   await sell("item:42", lease.fencingToken);
 * });
 */
export const createLock = (redis: RedisLike, options: LockOptions = {}): Lock => new Lock(redis, options);
