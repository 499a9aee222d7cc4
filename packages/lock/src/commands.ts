import { Deadline, KitError, type RedisLike, retain, retry, type Runtime } from "@kit/core";
import { type LockKeys, lockKeys } from "./keys.js";
import type { LeaseTerms, LockSettings } from "./options.js";
import * as scripts from "./scripts/index.js";

/** A waiter counts as dead when it has been silent this long. */
export const aliveMs = 15_000;
/** The first life of a lease that is granted by push, when its holder renews by itself: a dead one costs this much. */
const pushedGrantMs = 2_000;

/** In place of a fencing token: whoever has it. */
const byForce = "*";

/** How one attempt behaves. */
interface AttemptOptions {
  /** Now, on our monotonic clock. */
  readonly sentAt: number;
  readonly deadlineMs: number;
  readonly isWanted?: () => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Whom a withdrawal concerns: an acquire's token and the terms under which it was sent. */
type Claim = Pick<LeaseTerms, "holder" | "leaseMs">;

/** No lease is asked for longer than it may be held. */
export const firstTermMs = ({ leaseMs, maxHoldMs = Infinity }: LeaseTerms): number => Math.min(leaseMs, maxHoldMs);

/** The scripts of one lock object, on its client: every command that the package sends goes through here. */
export class LockCommands {
  readonly settings: LockSettings;
  readonly runtime: Runtime;
  readonly keysOf: (name: string) => LockKeys;
  /** Reports what fails behind the scenes. */
  readonly onError: (error: unknown) => void;
  readonly #end = new AbortController();
  #hasAsked = false;
  #isShared: 0 | 1 | "" = "";
  #underWay = 0;
  #onIdle: (() => void) | undefined;

  constructor(redis: RedisLike, settings: LockSettings, onError: (error: KitError) => void) {
    this.settings = settings;
    this.runtime = retain(redis, settings);
    this.keysOf = lockKeys(this.runtime.prefix);
    this.onError = (error) =>
      onError(KitError.is(error) ? error : new KitError("KIT_SERVER", String(error), { cause: error }));
  }

  /**
   * Takes the lock, or queues for it when `inbox` is not empty. `isWanted` keeps a call that still waits for a connection
   * from being sent after its caller has given up.
   */
  async acquire(
    keys: LockKeys,
    token: string,
    terms: LeaseTerms,
    inbox: string,
    { sentAt, deadlineMs, isWanted, signal }: AttemptOptions,
  ): Promise<scripts.AcquireReply> {
    const clock = this.runtime.clockOf(keys.lease);
    const leaseMs = firstTermMs(terms);
    const grantMs = terms.renew ? Math.min(leaseMs, pushedGrantMs) : leaseMs;
    const notAfter = clock.serverMsAt(sentAt + deadlineMs) ?? 0;
    const args = {
      owner: `${token}|${terms.holder}`,
      terms: `${leaseMs} ${notAfter} ${this.#shared()} ${grantMs} ${aliveMs} ${this.settings.maxWaiters} ${inbox}`,
    };
    this.#underWay++;
    try {
      const reply = await scripts.acquire.run(this.runtime, keys, args, { deadlineMs, op: token, isWanted, signal });
      if (reply.state === "late") clock.reset();
      else clock.observe(sentAt, reply.now);
      return reply;
    } finally {
      this.#ended();
    }
  }

  /** Gives back what `token` holds, or leaves the queue, when `fencingToken` is empty. */
  async release(
    keys: LockKeys,
    token: string,
    holder: string,
    fencingToken: string,
    signal?: AbortSignal,
  ): Promise<scripts.ReleaseReply> {
    const { deadlineMs } = this.settings;
    const args = { owner: `${token}|${holder}`, terms: `${this.#shared()} ${fencingToken}` };
    this.#underWay++;
    try {
      return await scripts.release.run(this.runtime, keys, args, { deadlineMs, op: token, signal });
    } finally {
      this.#ended();
    }
  }

  /** Takes the lock from its owner, if that still has it. */
  async forceRelease(keys: LockKeys, { token, holder }: scripts.Owner): Promise<boolean> {
    return (await this.release(keys, token, holder, byForce)) === "released";
  }

  /** Undoes an acquire that nobody waits for any more; repeated until answered, or until the server forgot it anyhow. */
  withdraw(keys: LockKeys, token: string, claim: Claim): void {
    const waitMs = aliveMs + claim.leaseMs;
    const { signal } = this.#end;
    const again = (): Promise<unknown> => this.release(keys, token, claim.holder, "", signal);
    this.#tracked(retry(again, { waitMs, baseMs: 50, capMs: 1_000, signal })).catch((error: unknown) => {
      if (!signal.aborted) this.onError(error);
    });
  }

  /** Renews leases of one group: each with its owner's value and how long it shall last. */
  async renew(
    leases: readonly { readonly key: string; readonly owner: string; readonly termMs: number }[],
    deadlineMs: number,
  ): Promise<readonly scripts.RenewState[]> {
    const sentAt = performance.now();
    const reply = await scripts.renew.run(
      this.runtime,
      { leases: leases.map(({ key }) => key) },
      { terms: leases.flatMap(({ owner, termMs }) => [owner, termMs]) },
      { deadlineMs },
    );
    if (leases[0]) this.runtime.clockOf(leases[0].key).observe(sentAt, reply.now);
    return reply.states;
  }

  /** The waiters' sign of life, and what became of them. */
  async beat(keys: LockKeys, tokens: readonly string[]): Promise<scripts.BeatReply> {
    const { deadlineMs } = this.settings;
    const sentAt = performance.now();
    const reply = await scripts.beat.run(
      this.runtime,
      keys,
      { shared: this.#shared(), aliveMs, tokens },
      { deadlineMs },
    );
    this.runtime.clockOf(keys.lease).observe(sentAt, reply.now);
    return reply;
  }

  inspect(name: string, first: number): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.runtime, this.keysOf(name), { first }, this.settings);
  }

  /** Counts what `close()` has to wait for. Passes the work on. */
  async #tracked<T>(work: Promise<T>): Promise<T> {
    this.#underWay++;
    try {
      return await work;
    } finally {
      this.#ended();
    }
  }

  #ended(): void {
    if (--this.#underWay === 0) this.#onIdle?.();
  }

  /** Waits for what is under way, at most to the deadline; then nothing goes on. */
  async close(deadline: Deadline): Promise<void> {
    while (this.#underWay > 0 && deadline.remainingMs > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await within(idle, deadline);
      // What just ended may have to be undone: its caller has the next turn.
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#end.abort();
    this.runtime.release();
  }

  /** 1 on a Cluster, 0 on a single server; empty until the server has said which. No command waits for that. */
  #shared(): 0 | 1 | "" {
    if (!this.#hasAsked) {
      this.#hasAsked = true;
      this.#tracked(this.runtime.isCluster(this.settings.deadlineMs)).then(
        (isCluster) => {
          this.#isShared = isCluster ? 1 : 0;
        },
        () => {
          this.#hasAsked = false;
        },
      );
    }
    return this.#isShared;
  }
}

/** Resolves with `work`, or at the deadline. */
export const within = async (work: Promise<unknown>, deadline: Deadline): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise((resolve) => {
    timer = setTimeout(resolve, Math.max(0, Math.min(deadline.remainingMs, 2 ** 31 - 1)));
  });
  await Promise.race([work, over]);
  clearTimeout(timer);
};
