import type { Redis } from "ioredis";

/** The key of the flag. */
export const maintenanceKey = (prefix = ""): string => `${prefix}is-under-maintenance`;

/**
 * "Redis in Action", chapter 5: whether the service is under maintenance, cached by one process. It sends a GET at most
 * once a second.
 *
 * Known faults:
 *
 * - any non-empty text, even `no`, means on
 * - the instant is recorded before the GET, so that after a failed GET the old value silently holds for a second
 * - each process polls every second
 * - the flag has neither reason nor end
 */
export class ClassicMaintenance {
  readonly #redis: Redis;
  readonly #prefix: string;
  #checkedAt = 0;
  #isOn = false;

  constructor(redis: Redis, prefix = "") {
    this.#redis = redis;
    this.#prefix = prefix;
  }

  async isUnderMaintenance(): Promise<boolean> {
    const now = Date.now();
    if (this.#checkedAt < now - 1_000) {
      this.#checkedAt = now;
      this.#isOn = Boolean(await this.#redis.get(maintenanceKey(this.#prefix)));
    }
    return this.#isOn;
  }
}
