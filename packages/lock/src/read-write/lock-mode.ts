import { resolve } from "@kit/core/toolkit";
import type { Leaser } from "@kit/core/leasing";
import { type AcquireOptions, acquireRules, type TryOptions, tryRules } from "../options.js";
import type { ReadWriteLease } from "./lease.js";
import type { ResolvedReadWrite } from "./options.js";
import type { Held } from "./scripts/index.js";

const noOptions: AcquireOptions = {};

/** A read/write lock in one of its modes: for readers, or for writers. */
export class LockMode<L extends ReadWriteLease> {
  readonly #leaser: Leaser<ResolvedReadWrite, Held, L>;
  /** The settings of an acquire without options. */
  readonly #defaults: ResolvedReadWrite;

  /** @internal */
  constructor(leaser: Leaser<ResolvedReadWrite, Held, ReadWriteLease>, defaults: ResolvedReadWrite) {
    // A writer's lease has a fencing token from its grant on.
    this.#leaser = leaser as Leaser<ResolvedReadWrite, Held, L>;
    this.#defaults = defaults;
  }

  /**
   * Waits until this caller holds the lock, runs `routine` with the lease, and releases the lock, also after an error, unless
   * the routine hands the lease over. A lease that was downgraded or upgraded is released, too.
   *
   * Resolves with the routine's result. If the lease is lost while it runs, `lease.signal` aborts, and the call rejects once the
   * routine has ended; an error of the routine takes precedence. When an outage prevents the release, the result stands, and an
   * `error` event is emitted.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but the lease had been lost before.
   * @throws all that {@link acquire} throws; then the routine was not run.
   */
  async using<T>(name: string, routine: (lease: L) => Promise<T> | T, options: AcquireOptions = noOptions): Promise<T> {
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    return await this.#leaser.using(name, this.#termsOf(options), routine);
  }

  /**
   * Waits until this caller holds the lock, and returns its lease.
   *
   * Waiters are served first in, first out, in the order of their arrival at the server: readers in a row together, a writer alone. An
   * unreachable waiter is skipped and keeps its place. Each acquire is a holder of its own: a writer that acquires a name which this
   * process holds waits as well, and so does a reader behind a waiting writer.
   *
   * @throws as `acquire` of a lock: `LockTimeoutError`, `LockLostError`, `LockQueueFullError`, `KitUnavailableError`,
   * `KitUnknownOutcomeError`, `KitClosedError`, `KitError`; `signal.reason`.
   * @throws {TypeError | RangeError} an option is not what it should be.
   */
  async acquire(name: string, options: AcquireOptions = noOptions): Promise<L> {
    return await this.#leaser.acquire(name, this.#termsOf(options));
  }

  /**
   * Tries once, and returns the lease, or null when the holders exclude it or others wait before it.
   *
   * @throws all that {@link acquire} throws except LockTimeoutError and LockQueueFullError.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<L | null> {
    const resolved = resolve("options", options, tryRules, { ...this.#defaults, waitMs: 0 });
    return await this.#leaser.acquire(name, resolved, () => null);
  }

  #termsOf(options: AcquireOptions): ResolvedReadWrite {
    return options === noOptions ? this.#defaults : resolve("options", options, acquireRules, this.#defaults);
  }
}
