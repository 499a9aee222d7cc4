import { KitClosedError, type KitError } from "../index.js";
import type { Limit } from "../kernel/index.js";
import { Deadline, settled } from "../toolkit/index.js";
import type { ReadyOptions } from "./options.js";

/** The limit of a wait that starts now. */
export const limitOf = ({ waitMs, signal }: ReadyOptions): Limit => ({
  deadline: waitMs === undefined ? undefined : Deadline.in(waitMs),
  signal,
});

interface Waiter {
  readonly found: () => void;
  readonly failed: (error: KitError) => void;
}

/** Calls that wait for a first value, or a first connection. */
export class Waiters {
  readonly #waiting = new Set<Waiter>();

  /**
   * `outlasts`: whether the wait continues after an error; KitClosedError always ends it. `late` creates the error at the deadline.
   */
  async wait(limit: Limit, outlasts: (error: KitError) => boolean, late: () => KitError): Promise<void> {
    await settled<void>(
      limit,
      ({ reject }) => reject(late()),
      ({ resolve, reject }) => {
        const failed = (error: KitError): void => {
          if (error instanceof KitClosedError || !outlasts(error)) reject(error);
        };
        const waiter: Waiter = { found: resolve, failed };
        this.#waiting.add(waiter);
        return () => void this.#waiting.delete(waiter);
      },
    );
  }

  found(): void {
    for (const { found } of this.#waiting) found();
  }

  failed(error: KitError): void {
    for (const { failed } of this.#waiting) failed(error);
  }
}
