import type { KitError, RedisLike } from "@kit/core";
import {
  type CloseOptions,
  defaultsOf,
  inTime,
  integerOption,
  type MetricSample,
  type MetricSource,
  ObjectLife,
  pause,
  resolve,
  TypedEmitter,
  watchEviction,
} from "@kit/core/toolkit";
import { type Call, LimiterCommands } from "./commands.js";
import { LimiterTimeoutError, LimiterTokensError, LimiterWaitError } from "./errors.js";
import { type LimiterKeys, limiterKeys } from "./keys.js";
import {
  checkedLimits,
  type ConsumeOptions,
  consumeRules,
  type LimiterOptions,
  limiterRules,
  type LimiterSettings,
  type Limits,
  longestMs,
  most,
  type WaitOptions,
  waitRules,
  yearMs,
} from "./options.js";
import { Outage } from "./outage.js";
import { Refusals } from "./refusals.js";
import type { Row } from "./scripts/index.js";

const oneToken = defaultsOf(consumeRules);
const noOptions: ConsumeOptions = {};

/** The answer to a call. All times count from the answer. */
export interface Decision {
  /** Whether the call may go on. */
  readonly allowed: boolean;
  /** How many tokens are left now, in the limit that has the fewest. */
  readonly remaining: number;
  /** Milliseconds until no tokens are in use, if no other call comes. */
  readonly resetMs: number;
  /** Milliseconds until the same call would be allowed, if no other call comes. 0 if it is allowed. */
  readonly retryAfterMs: number;
  /** The name of the limit that refused, `"block"` for `block()`, or null. */
  readonly refusedBy: string | null;
  /** `"memory"`: refused without a command (`rememberMs`). `"outage"`: no server answered (`onUnavailable`). */
  readonly decidedBy: "server" | "memory" | "outage";
}

/** Events of a limiter. For tracing, use the diagnostics channels `kit:limiter.*`. */
export interface LimiterEvents {
  /**
   * The server's eviction policy may drop keys when memory is full. A dropped key starts with all of its tokens. Emitted once per policy.
   * If the event has a listener, kit reads the policy in the background, and again after a lost connection. Nothing is emitted if INFO is
   * forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * No server decided, and `onUnavailable` decides instead. Emitted once per outage, and once with the code `KIT_RECOVERED` when the server
   * answers again. Other errors come from background work.
   */
  readonly error: readonly [error: KitError];
}

/**
 * A named set of rate limits on one Redis, for any number of keys: users, addresses, API tokens. Create it with {@link createLimiter}.
 *
 * All objects of a name share their keys, in all processes. Each call is one atomic step on the server, by the server's clock. Calls that
 * are made while a command is under way share the next command. kit never sends a call twice, so it counts at most once.
 */
export class Limiter extends TypedEmitter<LimiterEvents> implements AsyncDisposable, MetricSource {
  readonly name: string;
  readonly #settings: LimiterSettings;
  readonly #keys: LimiterKeys;
  readonly #life: ObjectLife;
  readonly #commands: LimiterCommands;
  readonly #outage: Outage;
  readonly #refusals: Refusals;
  readonly #used: (key: string) => void;

  /** Created by this package only. */
  constructor(redis: RedisLike, name: string, options: LimiterOptions) {
    super();
    this.name = name;
    this.#settings = resolve("options", options, limiterRules);
    const { prefix, onUnavailable, processes, rememberMs } = this.#settings;
    if ((onUnavailable === "local") !== (processes !== undefined))
      throw new TypeError('Expected `processes` with `onUnavailable: "local"`, and only there');
    this.#keys = limiterKeys(prefix, name);
    this.#life = new ObjectLife(redis, this.#settings, "The limiter");
    const { context } = this.#life;
    this.#commands = new LimiterCommands(context, name, this.#keys, this.#settings);
    this.#outage = new Outage(this.#settings, (error) => this.emit("error", error));
    this.#refusals = new Refusals(rememberMs);
    this.#used = watchEviction(
      context,
      () => this.hasListeners("evictable"),
      (policy) => this.emit("evictable", { policy }),
    );
  }

  /**
   * Uses a token of each limit, or `tokens`, if all limits have room. Otherwise it uses none, and resolves with `allowed: false`.
   *
   * Calls of one object are decided in the order in which they are made. A refused call changes nothing, so retrying early costs the key
   * nothing. A key that was refused is refused without a command for up to `rememberMs`.
   *
   * If the reply is lost, the call may have been counted. Calling again counts again, so a key never gets more than its limits.
   *
   * @throws {LimiterTokensError} `tokens` is more than a limit ever has.
   * @throws {KitUnavailableError} no server answered in time; nothing was counted. Only with `onUnavailable: "refuse"`.
   * @throws {KitUnknownOutcomeError} the reply was lost; it may have been counted. Only with `onUnavailable: "refuse"`.
   * @throws {LimiterBusyError} 10,000 calls already wait for the server. Only with `onUnavailable: "refuse"`.
   * @throws {KitError} `KIT_NAME`: the key is empty, over 512 bytes, or not well-formed Unicode. Other codes: an error of the server.
   * @throws {TypeError | RangeError} an option is invalid.
   *
   * @example
   * const { allowed, retryAfterMs } = await logins.consume(address);
   */
  async consume(key: string, options: ConsumeOptions = noOptions): Promise<Decision> {
    const { tokens } = options === noOptions ? oneToken : resolve("options", options, consumeRules);
    const rate = this.#keys.rate(key);
    return await this.#call("consume", async () => {
      const known = this.#refusals.of(rate, tokens);
      if (known) return this.#decisionOf(known, "memory", tokens);
      const askedAt = performance.now();
      const row = await this.#outage.ask(() => this.#take(rate, "c", tokens));
      if (row?.state === "full") this.#refusals.add(rate, tokens, row, askedAt);
      return this.#decided(row, rate, tokens);
    });
  }

  /**
   * Returns what `consume()` would return now, and changes nothing. `remaining` does not include the tokens of this call.
   *
   * @throws all errors of {@link consume}, except KitUnknownOutcomeError and LimiterBusyError.
   */
  async check(key: string, options: ConsumeOptions = noOptions): Promise<Decision> {
    const { tokens } = resolve("options", options, consumeRules);
    const rate = this.#keys.rate(key);
    return await this.#call("check", async () => {
      const row = await this.#outage.ask(() => this.#commands.check(rate, tokens));
      return this.#decided(row, rate, tokens, true);
    });
  }

  /**
   * Waits until all limits have room, and uses the tokens. If there is no room now, all limits must be `"gcra"`, and all or none of them
   * shared.
   *
   * The call reserves the next free instant with one command and sleeps until then. Waits of a key start in order of arrival at the server,
   * in all processes. A blocked event loop or a late reply delays a start, and the next call can then start first. While waits are
   * reserved, `consume()` of the key is refused. No command is sent during the sleep, so the wait survives an outage.
   *
   * When you give up (`signal`), the promise rejects immediately. The reserved instant is released in the background, if no other call of
   * the key came after it. Otherwise it stays unused. If the process dies, the instant stays unused as well.
   *
   * @throws {LimiterTimeoutError} the wait would be longer than `waitMs`. Nothing was used.
   * @throws {LimiterWaitError} there is no room now, and these limits cannot reserve a later instant. Nothing was used.
   * @throws `signal.reason` if `signal` aborts first. If it was aborted before the call, no command is sent.
   * @throws {KitClosedError} this object was closed. The reserved instant is released as above.
   * @throws all errors of {@link consume}. After a lost reply, an instant may be reserved and stay unused.
   *
   * @example
   * await crm.wait("account-7", { waitMs: 30_000 });
   * await update(contact);
   */
  async wait(key: string, options: WaitOptions = {}): Promise<void> {
    const { tokens, waitMs, signal } = resolve("options", options, waitRules);
    const rate = this.#keys.rate(key);
    await this.#call("wait", async () => {
      signal?.throwIfAborted();
      const cancelled = [signal, this.#life.signal];
      const asking = this.#outage.ask(() => this.#take(rate, "c", tokens, waitMs));
      try {
        const row = await inTime(asking, { signal: cancelled });
        const { state, delayMs, limit } = row ?? this.#instead(rate, tokens, waitMs);
        this.#assertAnswered(state, tokens);
        if (state === "full") throw new LimiterTimeoutError(this.name, waitMs, delayMs, this.#limitName(limit));
        // The server read its clock before its reply arrived. One more millisecond, because timers can fire early.
        if (delayMs > 0) await pause(Math.min(delayMs + 1, longestMs), cancelled);
      } catch (error) {
        if (cancelled.some((one) => one?.aborted)) this.#release(rate, asking);
        throw error;
      }
    });
  }

  /**
   * Uses tokens of a key, whether there is room or not. So the key can be refused for longer than after its own calls.
   *
   * @returns what `check()` returns after that.
   * @throws {KitUnavailableError} no server answered in time; nothing was counted.
   * @throws {KitUnknownOutcomeError} the reply was lost; it may have been counted. Calling again counts again.
   * @throws {KitError} an error of the server, by its code. {TypeError | RangeError}: `tokens` is not an integer from 1 to 1,000,000,000.
   *
   * @example
   * if (!passwordIsRight) await logins.penalize(address, 5);
   */
  async penalize(key: string, tokens = 1): Promise<Decision> {
    return await this.#change("penalize", key, "p", integerOption("tokens", tokens, 1, most));
  }

  /**
   * Returns used tokens to a key, up to all that are in use. In a sliding window the newest calls are forgotten first.
   *
   * @returns what `check()` returns after that.
   * @throws the errors of {@link penalize}.
   */
  async reward(key: string, tokens = 1): Promise<Decision> {
    return await this.#change("reward", key, "r", integerOption("tokens", tokens, 1, most));
  }

  /**
   * Refuses all calls of a key for `blockMs` milliseconds: 0 to 31,536,000,000 (a year). Replaces an earlier block; 0 ends it. Idempotent.
   *
   * @throws the errors of {@link penalize}. You can safely call it again.
   */
  async block(key: string, blockMs: number): Promise<void> {
    await this.#change("block", key, "b", integerOption("blockMs", blockMs, 0, yearMs));
  }

  /**
   * Forgets a key: its block ends, and nothing of its limits is in use. Shared limits stay as they are. Idempotent.
   *
   * @throws the errors of {@link penalize}. You can safely call it again.
   */
  async reset(key: string): Promise<void> {
    await this.#change("reset", key, "x", 0);
  }

  /**
   * Replaces the limits of all objects of this name, in all processes, from the next call on. They stay until the next `setLimits()`; null
   * returns to the limits that each object was created with. Limits are matched by position. What a key has used of a limit stays, unless
   * the limit's `algorithm` or `shared` changes.
   *
   * A repeated command that arrives after a newer change has no effect.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError} like every command. You can safely call it again.
   * @throws {TypeError | RangeError} a limit is invalid.
   *
   * @example
   * await logins.setLimits({ perMinute: { count: 2, perMs: 60_000 } });
   */
  async setLimits(limits: Limits | null): Promise<void> {
    const settings = limits === null ? "" : checkedLimits("limits", limits).text;
    await this.#call("setLimits", () => this.#commands.change(settings));
    this.#refusals.forget();
  }

  /**
   * Returns this object's numbers for `expose()` of `@kit/stats` or another exporter: whether the server answers, and how many calls were
   * allowed, refused, or rejected because the server did not answer.
   */
  metrics(): MetricSample[] {
    return this.#outage.samples(this.name);
  }

  /**
   * Closes this object. Waits reject with KitClosedError, and their instants are released. `close` waits up to `timeoutMs` for sent calls.
   * Your client stays open. Idempotent: the first call's options count.
   *
   * @throws {TypeError | RangeError} an option is invalid. It rejects for no other reason.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, async (deadline) => {
      this.#life.cancel();
      await this.#life.untilIdle(deadline);
      await this.#commands.close(deadline);
    });
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #call<T>(operation: string, run: () => Promise<T>): Promise<T> {
    return this.#life.call(`limiter.${operation}`, () => ({ limiter: this.name }), run);
  }

  #take(rate: string, op: Call["op"], amount: number, waitMs = 0): Promise<Row> {
    this.#used(this.#keys.all);
    return this.#commands.take({ rate, op, amount, waitMs });
  }

  async #change(operation: string, key: string, op: Call["op"], amount: number): Promise<Decision> {
    const rate = this.#keys.rate(key);
    return await this.#call(operation, async () => {
      const row = await this.#take(rate, op, amount).finally(() => this.#refusals.forget(rate));
      return this.#decisionOf(row, "server", 1);
    });
  }

  #instead(rate: string, tokens: number, waitMs: number, isDry = false): Row {
    return this.#outage.decide(rate, tokens, waitMs, this.#commands.limits, isDry);
  }

  #decided(row: Row | undefined, rate: string, tokens: number, isDry = false): Decision {
    if (row) return this.#decisionOf(row, "server", tokens);
    return this.#decisionOf(this.#instead(rate, tokens, 0, isDry), "outage", tokens);
  }

  #decisionOf(row: Row, decidedBy: Decision["decidedBy"], tokens: number): Decision {
    this.#assertAnswered(row.state, tokens);
    const allowed = row.state === "free";
    return {
      allowed,
      remaining: row.left,
      resetMs: row.resetMs,
      retryAfterMs: allowed ? 0 : row.delayMs,
      refusedBy: allowed ? null : this.#limitName(row.limit),
      decidedBy,
    };
  }

  #assertAnswered(state: Row["state"], tokens: number): void {
    if (state === "too-many") throw new LimiterTokensError(this.name, tokens);
    if (state === "cannot-wait") throw new LimiterWaitError(this.name);
  }

  #limitName(limit: number): string | null {
    return limit === -1 ? "block" : (this.#commands.limits.list[limit - 1]?.name ?? null);
  }

  /** Releases the place of a wait, if the server reserves one. */
  #release(rate: string, asking: Promise<Row | undefined>): void {
    const undo = async ({ states }: Row): Promise<unknown> =>
      states.length > 0 && (await this.#commands.undo(rate, states).finally(() => this.#refusals.forget(rate)));
    // The caller receives an error of the wait. A place that is not released expires by itself.
    void this.#life.track(asking.then((row) => row && undo(row)).catch(() => undefined));
  }
}

/**
 * Creates a limiter object: one name, any number of keys and callers. All objects of the same name share what their keys have used.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it or subscribes on it.
 * No other connection is opened.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const logins = createLimiter(redis, "logins", { limits: { perMinute: { count: 5, perMs: 60_000 } } });
 * if (!(await logins.consume(address)).allowed) return response.status(429).end();
 */
export const createLimiter = (redis: RedisLike, name: string, options: LimiterOptions): Limiter =>
  new Limiter(redis, name, options);
