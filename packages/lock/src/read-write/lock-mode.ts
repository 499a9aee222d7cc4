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
   * Waits until you hold the lock, runs `routine` with the lease, and releases the lock. It also releases the lock if the routine throws,
   * but not if the routine hands the lease over. A downgraded or upgraded lease is released as well.
   *
   * Resolves with the routine's result. If the lease is lost while the routine runs, `lease.signal` aborts, and the call rejects when the
   * routine has finished. An error of the routine takes precedence. If an outage prevents the release, the call still resolves, and an
   * `error` event is emitted.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but its lease had been lost.
   * @throws all errors of {@link acquire}; the routine did not run.
   */
  async using<T>(name: string, routine: (lease: L) => Promise<T> | T, options: AcquireOptions = noOptions): Promise<T> {
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    return await this.#leaser.using(name, this.#termsOf(options), routine);
  }

  /**
   * Waits until you hold the lock, and returns its lease.
   *
   * Waiters are served first in, first out, ordered by arrival at the server: consecutive readers together, a writer alone. An unreachable
   * waiter is skipped and keeps its place. Each acquire is a separate holder: even if this process already holds the name, a writer waits,
   * and a reader waits after a waiting writer.
   *
   * @throws the errors of a lock's `acquire`: `LockTimeoutError`, `LockLostError`, `LockQueueFullError`, `KitUnavailableError`,
   * `KitUnknownOutcomeError`, `KitClosedError`, `KitError`; `signal.reason`.
   * @throws {TypeError | RangeError} an option is invalid.
   */
  async acquire(name: string, options: AcquireOptions = noOptions): Promise<L> {
    return await this.#leaser.acquire(name, this.#termsOf(options));
  }

  /**
   * Tries once. Returns the lease, or null if the current holders exclude it or others wait ahead of it.
   *
   * @throws all errors of {@link acquire} except LockTimeoutError and LockQueueFullError.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<L | null> {
    const resolved = resolve("options", options, tryRules, { ...this.#defaults, waitMs: 0 });
    return await this.#leaser.acquire(name, resolved, () => null);
  }

  #termsOf(options: AcquireOptions): ResolvedReadWrite {
    return options === noOptions ? this.#defaults : resolve("options", options, acquireRules, this.#defaults);
  }
}
