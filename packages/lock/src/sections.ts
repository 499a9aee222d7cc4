import { AsyncLocalStorage } from "node:async_hooks";
import { LockSelfDeadlockError } from "./errors.js";
import type { Lease } from "./lease.js";

/** A running routine of `using` or `usingAll`, and the names that it holds. */
interface Section {
  readonly names: readonly string[];
  /** Undefined if it holds a set of leases. */
  readonly lease: Lease | undefined;
  /** The section that started this one. */
  readonly outer: Section | undefined;
  /** The other routines that run in its lease. */
  readonly nested: Set<Promise<unknown>>;
  isOver: boolean;
}

/** The sections of a lock object. All code that a section calls can find it. */
export class Sections {
  readonly #storage = new AsyncLocalStorage<Section>();

  /** The section around this call that holds the name. Work that a section left running does not count after the section is over. */
  around(name: string): Section | undefined {
    let section = this.#storage.getStore();
    while (section && (section.isOver || !section.names.includes(name))) section = section.outer;
    return section;
  }

  /** @throws {LockSelfDeadlockError} the caller is inside a section that holds one of the names, and would wait for itself. */
  assertOutside(names: readonly string[]): void {
    // Invalid input has its own error.
    if (!Array.isArray(names)) return;
    for (const name of new Set<string>(names)) if (this.around(name)) throw new LockSelfDeadlockError(name);
  }

  /** Runs `routine` as a section. It is over when the routine and all nested ones have finished: then its lease may be released. */
  async run<T>(names: readonly string[], lease: Lease | undefined, routine: () => Promise<T> | T): Promise<T> {
    let outer = this.#storage.getStore();
    // So a chain of sections does not grow, if each starts the next one and leaves it running.
    while (outer?.isOver) outer = outer.outer;
    const section: Section = { names, lease, outer, nested: new Set(), isOver: false };
    try {
      return await this.#storage.run(section, routine);
    } finally {
      while (section.nested.size > 0) await Promise.allSettled(section.nested);
      section.isOver = true;
    }
  }

  /**
   * Runs `routine` in the lease of a section around it.
   *
   * @throws the routine's error.
   * @throws {LockSelfDeadlockError} the section holds a set of leases.
   * @throws {LockLostError} the lease is lost, or was lost meanwhile.
   */
  async nest<T>(name: string, { lease, nested }: Section, routine: (lease: Lease) => Promise<T> | T): Promise<T> {
    if (!lease) throw new LockSelfDeadlockError(name);
    lease.assertHeld();
    const running = (async () => await routine(lease))();
    nested.add(running);
    try {
      const result = await running;
      lease.signal.throwIfAborted();
      return result;
    } finally {
      nested.delete(running);
    }
  }
}
